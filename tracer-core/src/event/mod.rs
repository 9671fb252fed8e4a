//! What was sighted: one [`Event`] per packet and tap that the kernel half told.

mod decode;
mod drop;
mod fingerprint;
mod outer;

pub use decode::{DecodeError, decode};
pub(crate) use decode::{packet as read, read_conntrack};
pub use drop::{DropEvent, decode_drop, is_drop};
pub use fingerprint::{Fingerprint, Fragment, Icmp, Tcp};
pub use outer::{Outer, Wrap};

use crate::packet::Tuple;
use serde::{Deserialize, Serialize};
use tracer_common::reason;

/// Inode number of a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NetnsId(pub u32);

/// Where on a device a packet was sighted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tap {
    /// Raw tracepoint at receive: before tc ingress.
    Receive,
    /// Our tc program at ingress.
    TcIngress,
    /// Our tc program at egress: before other tc programs and the wire.
    TcEgress,
    /// Raw tracepoint at transmit: after tc egress, the wire's truth.
    Transmit,
}

/// Which way a packet crossed a device, seen from the device's namespace.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Dir {
    /// Into the namespace.
    Ingress,
    /// Out of the namespace.
    Egress,
}

impl Dir {
    /// The other one: what leaves one end of a pair enters the other.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Ingress => Self::Egress,
            Self::Egress => Self::Ingress,
        }
    }
}

impl Tap {
    /// The direction this tap looks at.
    #[must_use]
    pub fn dir(self) -> Dir {
        match self {
            Self::Receive | Self::TcIngress => Dir::Ingress,
            Self::Transmit | Self::TcEgress => Dir::Egress,
        }
    }

    /// Whether it counts every packet: our tc programs pass over those that are like one before.
    #[must_use]
    pub fn counts_all(self) -> bool {
        matches!(self, Self::Receive | Self::Transmit)
    }
}

/// What made the kernel half take a packet for one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Matched {
    /// Its tuple matches the filter as a request.
    Forward,
    /// Its tuple matches the filter as a reply.
    Reverse,
    /// Its conntrack entry's original tuple matches the filter.
    Conntrack,
    /// Its tuple was learned in this namespace.
    Learned,
    /// Its buffer was sighted before.
    Skb,
    /// It is an ICMP error that quotes a packet of ours.
    Quoted,
    /// It opens a connection of a process that ends ours: that was not asked for.
    Opened,
}

/// Why a packet was told: the bits of [`tracer_common::reason`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Reasons(pub u16);

impl Reasons {
    /// Whether any of `bits` is set.
    #[must_use]
    pub fn any(self, bits: u16) -> bool {
        self.0 & bits != 0
    }

    /// A TCP segment that was sighted at this tap before.
    #[must_use]
    pub fn is_retransmission(self) -> bool {
        self.any(reason::RETRANSMISSION)
    }
}

/// A conntrack entry as the packet carried it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Conntrack {
    /// The request before translation.
    pub orig: Tuple,
    /// What an answer to the translated request looks like.
    pub reply: Tuple,
    /// Status bits, `enum ip_conntrack_status`.
    pub status: u32,
    /// Zone, if it was readable.
    pub zone: Option<u16>,
    /// The entry's mark, if the kernel has one.
    pub mark: Option<u32>,
    /// Whether this packet goes in the entry's reply direction.
    pub is_reply: bool,
}

impl Conntrack {
    /// `IPS_SRC_NAT`.
    pub const SRC_NAT: u32 = 1 << 4;
    /// `IPS_DST_NAT`.
    pub const DST_NAT: u32 = 1 << 5;
    /// `IPS_CONFIRMED`.
    pub const CONFIRMED: u32 = 1 << 3;
    /// `IPS_SEEN_REPLY`.
    pub const SEEN_REPLY: u32 = 1 << 1;
    /// `IPS_ASSURED`.
    pub const ASSURED: u32 = 1 << 2;
    /// `IPS_DYING`.
    pub const DYING: u32 = 1 << 9;
    /// `IPS_OFFLOAD`: its packets take nftables' fast path.
    pub const OFFLOAD: u32 = 1 << 14;
    /// `IPS_HW_OFFLOAD`: a device forwards its packets itself.
    pub const HW_OFFLOAD: u32 = 1 << 15;

    /// The request's source as it leaves, from the reply tuple.
    #[must_use]
    pub fn translated_source(&self) -> std::net::SocketAddr {
        let port = if self.orig.proto.is_icmp() {
            self.reply.sport
        } else {
            self.reply.dport
        };
        std::net::SocketAddr::new(self.reply.dst, port)
    }
}

/// The task that made a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    /// Process id in the initial pid namespace, where it was known.
    pub pid: Option<u32>,
    /// Task name; raw bytes made printable by the renderer, not here.
    pub comm: Option<String>,
    /// cgroup v2 id.
    pub cgroup: Option<u64>,
}

/// One sighting of one packet. Ordered by time, then by the rest of its content: a total order, so
/// that the order in which events were read does not matter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Event {
    /// CLOCK_MONOTONIC nanoseconds of the host that saw it.
    pub time_ns: u64,
    /// Address of the packet's buffer: its identity inside one host for a while.
    pub skb: u64,
    /// Where on the device.
    pub tap: Tap,
    /// The device's namespace, if it was readable.
    pub netns: Option<NetnsId>,
    /// The device, in its namespace.
    pub ifindex: u32,
    /// The packet's tuple here.
    pub tuple: Tuple,
    /// What no translator touches.
    pub print: Fingerprint,
    /// Why it was told.
    pub reasons: Reasons,
    /// What made it one of ours.
    pub matched: Matched,
    /// The packet's mark, if readable.
    pub mark: Option<u32>,
    /// The conntrack entry it carries.
    pub conntrack: Option<Conntrack>,
    /// Whether `conntrack: None` means that there is none (and not that it could not be read).
    pub conntrack_known: bool,
    /// The tuple of the packet that an ICMP error quotes.
    pub quoted: Option<Box<Tuple>>,
    /// The packet that it is inside of here.
    #[serde(default)]
    pub outer: Option<Box<Outer>>,
    /// VLAN id of its tag.
    pub vlan: Option<u16>,
    /// Made on this host: it came in by no device.
    pub local: bool,
    /// The task behind it, where it was made on this host.
    pub process: Option<Box<Process>>,
    /// Length from the network header, bytes.
    pub l3_len: u32,
    /// Wire packets with this tuple at this tap up to and with this one.
    pub packets: u64,
    /// Bytes of those, from the network header.
    pub bytes: u64,
}

/// Whose counters a tap is asked for: one tuple's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// The tuple.
    pub tuple: Tuple,
    /// The device's namespace; 0 where it was not readable.
    pub netns: NetnsId,
    /// The device.
    pub ifindex: u32,
    /// Where on the device.
    pub tap: Tap,
}

impl Counter {
    /// The key of the flow table that these counters stand under.
    #[must_use]
    pub fn to_raw(&self) -> Option<tracer_common::FlowKey> {
        Some(tracer_common::FlowKey {
            tuple: self.tuple.to_raw()?,
            netns: self.netns.0,
            ifindex: self.ifindex,
            tap: match self.tap {
                Tap::Receive => tracer_common::tap::RECEIVE,
                Tap::Transmit => tracer_common::tap::TRANSMIT,
                Tap::TcIngress => tracer_common::tap::TC_INGRESS,
                Tap::TcEgress => tracer_common::tap::TC_EGRESS,
            },
            pad: [0; 7],
        })
    }
}
