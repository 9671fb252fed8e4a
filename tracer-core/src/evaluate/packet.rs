//! What is known of the packet that rules are asked about.

use super::Bits;
use crate::packet::Tuple;
use crate::ruleset::Hook;
use std::net::SocketAddr;

/// A packet as the first of its hooks sees it. What is not known stays unknown: rules that ask for
/// it are walked both ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Addresses, ports and protocol, before any translation of this namespace.
    pub tuple: Tuple,
    /// Which parts of `tuple` are known.
    pub known: Known,
    /// Name of the device by which it came in, empty where it was made here; `None`: unknown.
    pub iif: Option<String>,
    /// Name of the device by which it leaves, empty where it goes to a local socket; `None`: unknown.
    pub oif: Option<String>,
    /// The ports of a bridge that shows it to the rules.
    pub ports: Ports,
    /// Where IPVS sends what would be delivered to a Service's address. Such a packet is delivered as far as IPVS, then
    /// sent (net/netfilter/ipvs/ip_vs_xmit.c, `ip_vs_nat_send_or_cont`).
    pub balanced: Option<SocketAddr>,
    /// Its mark on entry.
    pub mark: Bits,
    /// What conntrack knows of its flow.
    pub flow: Flow,
    /// TCP flags.
    pub tcp_flags: Option<u8>,
    /// ICMP or ICMPv6 type and code.
    pub icmp: Option<(u8, u8)>,
    /// Whether it is a fragment other than the first (it then has no ports).
    pub later_fragment: Option<bool>,
    /// Length from the network header, bytes.
    pub length: Option<u32>,
    /// TTL or hop limit.
    pub ttl: Option<u8>,
    /// User of the socket that made it.
    pub uid: Owner,
    /// Group of the socket that made it.
    pub gid: Owner,
}

impl Packet {
    /// The first packet of a new flow, of which only tuple and devices are known.
    #[must_use]
    pub fn first(tuple: Tuple, iif: Option<&str>, oif: Option<&str>) -> Self {
        let owner = match iif {
            Some("") | None => Owner::Unknown,
            Some(_) => Owner::None,
        };
        Self {
            tuple,
            known: Known::ALL,
            iif: iif.map(str::to_owned),
            oif: oif.map(str::to_owned),
            ports: Ports::Unknown,
            balanced: None,
            mark: Bits::UNKNOWN,
            flow: Flow::new(),
            tcp_flags: None,
            icmp: None,
            later_fragment: Some(false),
            length: None,
            ttl: None,
            uid: owner,
            gid: owner,
        }
    }

    /// Makes it one that a bridge sends from port to port: to the rules the bridge is the device in and out.
    pub fn cross(&mut self, bridge: Option<&str>, [from, to]: [&str; 2]) {
        self.iif = bridge.map(str::to_owned);
        self.oif.clone_from(&self.iif);
        self.ports = Ports::Through {
            from: from.to_owned(),
            to: to.to_owned(),
        };
    }

    /// The hooks that it passes on its way, in order.
    pub(super) fn hooks(&self, way: Way) -> impl Iterator<Item = Hook> {
        let (first, then) = match (way, self.balanced) {
            (Way::Forwarded, Some(_)) => (Way::Delivered.hooks(), Way::Sent.hooks()),
            _ => (way.hooks(), &[][..]),
        };
        first.iter().chain(then).copied()
    }

    /// The IP version, 4 or 6.
    #[must_use]
    pub fn version(&self) -> u8 {
        if self.tuple.src.is_ipv4() { 4 } else { 6 }
    }
}

/// The ports by which a packet goes through a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// Not known whether through any.
    Unknown,
    /// No bridge shows it to the rules.
    None,
    /// In by one and out by another, both by name.
    Through {
        /// In.
        from: String,
        /// Out.
        to: String,
    },
}

/// Which parts of a packet's tuple are known; the others hold nothing that counts (of an address:
/// its family).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The source address.
    pub src: bool,
    /// The source port.
    pub sport: bool,
    /// The destination port.
    pub dport: bool,
}

impl Known {
    /// All of it.
    pub const ALL: Self = Self {
        src: true,
        sport: true,
        dport: true,
    };
}

/// The user or group behind a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Not known.
    Unknown,
    /// No socket of this namespace made it.
    None,
    /// This one.
    Is(u32),
}

/// What conntrack knows of a packet's flow when it enters the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its state.
    pub state: FlowState,
    /// Status bits, `enum ip_conntrack_status`.
    pub status: Bits,
    /// The entry's mark.
    pub mark: Bits,
    /// Its zone.
    pub zone: Option<u16>,
    /// The entry's original tuple; `None` for a new flow (it is the packet's own) or unknown.
    pub orig: Option<Tuple>,
    /// Whether the packet goes in the entry's reply direction.
    pub reply: Option<bool>,
    /// For a flow that is not new: into what its binding turns the packet (the tuple as it leaves).
    pub becomes: Option<Tuple>,
}

impl Flow {
    /// A flow that begins with this packet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: FlowState::New,
            status: Bits::some(!NAT_DONE, 0),
            mark: Bits::all(0),
            zone: Some(0),
            orig: None,
            reply: Some(false),
            becomes: None,
        }
    }

    /// A flow of which nothing is known.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            state: FlowState::Unknown,
            status: Bits::UNKNOWN,
            mark: Bits::UNKNOWN,
            zone: None,
            orig: None,
            reply: None,
            becomes: None,
        }
    }
}

impl Default for Flow {
    fn default() -> Self {
        Self::new()
    }
}

/// `IPS_SRC_NAT_DONE | IPS_DST_NAT_DONE`: set by the NAT hooks, which exist only where some chain
/// asked for them.
const NAT_DONE: u32 = 0x180;

/// A flow's state, as rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowState {
    /// No entry yet: this packet makes one. Only such packets consult NAT chains.
    New,
    /// Seen before.
    Established,
    /// An ICMP error about another flow, or a flow that was expected.
    Related,
    /// Not a packet that could begin or continue a flow.
    Invalid,
    /// One of these.
    Unknown,
}

impl FlowState {
    /// The bit of [`crate::ruleset::Field::CtState`].
    pub(super) fn bits(self) -> Bits {
        match self {
            Self::Invalid => Bits::all(1),
            Self::Established => Bits::all(2),
            Self::Related => Bits::all(4),
            Self::New => Bits::all(8),
            Self::Unknown => Bits::some(!0xf, 0),
        }
    }
}

/// The hooks that a packet passes, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In by a device and out by another.
    Forwarded,
    /// In by a device and to a local socket.
    Delivered,
    /// From a local socket and out by a device.
    Sent,
    /// From one port of a bridge to another, past the rules of IP or, where br_netfilter is at work, shown to them as if it
    /// were forwarded.
    Bridged {
        /// Whether it is shown.
        shown: bool,
    },
}

impl Way {
    /// Its hooks.
    #[must_use]
    pub fn hooks(self) -> &'static [Hook] {
        match self {
            Self::Bridged { shown: false } => &[Hook::Ingress, Hook::Egress],
            Self::Forwarded | Self::Bridged { shown: true } => &[
                Hook::Ingress,
                Hook::Prerouting,
                Hook::Forward,
                Hook::Postrouting,
                Hook::Egress,
            ],
            Self::Delivered => &[Hook::Ingress, Hook::Prerouting, Hook::Input],
            Self::Sent => &[Hook::Output, Hook::Postrouting, Hook::Egress],
        }
    }
}
