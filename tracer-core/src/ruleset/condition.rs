//! What rules test.

use super::SetId;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A condition, perhaps turned round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Test {
    /// `!` or `!=`: holds where the condition does not.
    pub negated: bool,
    /// The condition.
    pub condition: Condition,
}

/// A condition on a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// The field compares so with one of the values.
    Compare {
        /// What of the packet.
        field: Field,
        /// How.
        op: Op,
        /// With what; one that holds is enough.
        values: Vec<Value>,
    },
    /// The fields together are in the set.
    Member {
        /// What of the packet, in the order of the set's key.
        fields: Vec<Field>,
        /// Which set.
        set: SetId,
    },
    /// One of these holds (`--ctstate NEW,DNAT`, `multiport --ports`, a set of sets). Negated: none does,
    /// also where a part looks at something that the packet lacks.
    AnyOf(Vec<Test>),
    /// True now and then (`statistic`, `numgen`, `limit`, …): a branch that is not predicted. The
    /// text is the match as printed.
    Chance(String),
    /// Not understood, with its text: neither true nor false may be assumed.
    Unknown(String),
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Op {
    /// Is the value, or inside the range or prefix.
    Equal,
    /// Is less.
    Less,
    /// Is less or equal.
    AtMost,
    /// Is greater.
    Greater,
    /// Is greater or equal.
    AtLeast,
    /// Has one of the value's bits (ct state, ct status, TCP flags).
    HasAny,
}

/// What rules look at. Numbers are in host byte order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Field {
    /// Source address.
    Saddr,
    /// Destination address.
    Daddr,
    /// Source port.
    Sport,
    /// Destination port.
    Dport,
    /// Transport protocol's number.
    Proto,
    /// IP version: 4 or 6.
    Version,
    /// Name of the device by which the packet came in; empty where it was made here.
    Iif,
    /// Name of the device by which it goes out; empty before the route is chosen.
    Oif,
    /// Name of the bridge's port by which it came in, where a bridge shows it to the rules; else empty.
    PhysIn,
    /// Name of the port by which the bridge sends it out.
    PhysOut,
    /// Which of the two there are: 1 in, 2 out.
    Phys,
    /// The packet's mark, `(mark & and) ^ xor`.
    Mark {
        /// Bits that count.
        and: u32,
        /// Flipped after that.
        xor: u32,
    },
    /// The conntrack entry's mark, `(mark & and) ^ xor`.
    CtMark {
        /// Bits that count.
        and: u32,
        /// Flipped after that.
        xor: u32,
    },
    /// Conntrack state: bits invalid 1, established 2, related 4, new 8, untracked 64 (uapi
    /// linux/netfilter/nf_conntrack_common.h, `NF_CT_STATE_BIT`).
    CtState,
    /// Conntrack status, `enum ip_conntrack_status`.
    CtStatus,
    /// 0: original, 1: reply.
    CtDirection,
    /// Conntrack zone.
    CtZone,
    /// Source of the entry's original tuple.
    CtOrigSaddr,
    /// Destination of the entry's original tuple.
    CtOrigDaddr,
    /// Source port of the entry's original tuple.
    CtOrigSport,
    /// Destination port of the entry's original tuple.
    CtOrigDport,
    /// What the source address is to this namespace ([`AddrType`]), perhaps asked of one device.
    SrcType(AddrTypeOf),
    /// What the destination address is.
    DstType(AddrTypeOf),
    /// TCP flags under a mask.
    TcpFlags {
        /// Flags that count.
        mask: u8,
    },
    /// ICMP or ICMPv6 type.
    IcmpType,
    /// ICMP or ICMPv6 code.
    IcmpCode,
    /// 1 for a fragment that is not the first, else 0.
    LaterFragment,
    /// Length of the packet from the network header.
    Length,
    /// TTL or hop limit.
    Ttl,
    /// User id of the socket that made the packet.
    SocketUid,
    /// Group id of the socket that made the packet.
    SocketGid,
}

/// Of which devices an address type is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AddrTypeOf {
    /// Any.
    Any,
    /// Only the one by which the packet came in.
    Iif,
    /// Only the one by which it goes out.
    Oif,
}

/// What an address is to a namespace (uapi linux/rtnetlink.h, `RTN_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AddrType {
    /// One of its own.
    Local,
    /// Somewhere else, by a route.
    Unicast,
    /// Broadcast of one of its networks.
    Broadcast,
    /// Multicast.
    Multicast,
    /// A blackhole route.
    Blackhole,
    /// An unreachable route.
    Unreachable,
    /// A prohibit route.
    Prohibit,
    /// No route, or unspecified.
    Unspec,
    /// Anycast.
    Anycast,
}

/// What a field is compared with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Value {
    /// A number: port, protocol, mark, state bits, …
    Number(u64),
    /// Numbers, both ends included.
    Numbers(u64, u64),
    /// Addresses whose bits under the mask are these (masks need not be contiguous).
    Masked {
        /// The bits.
        addr: IpAddr,
        /// Which of them count.
        mask: IpAddr,
    },
    /// Addresses, both ends included.
    Addrs(IpAddr, IpAddr),
    /// A device's name.
    Name(String),
    /// Device names that begin so (`eth+`, `eth*`).
    NamePrefix(String),
    /// An address type.
    Type(AddrType),
}
