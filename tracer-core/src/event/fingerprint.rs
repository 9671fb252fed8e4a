//! What no translator touches in a packet.

use serde::{Deserialize, Serialize};

/// Whether and which part of a fragmented datagram a packet is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum Fragment {
    /// Not a fragment.
    #[default]
    Whole,
    /// The first: it has the transport header.
    First,
    /// A later one: its tuple has no ports.
    Later,
}

/// TCP's numbers in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tcp {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags, low eight bits.
    pub flags: u8,
}

impl Icmp {
    /// The request of an echo, in the protocol that `v6` says.
    #[must_use]
    pub fn is_echo_request(self, v6: bool) -> bool {
        self.kind == if v6 { 128 } else { 8 }
    }

    /// The reply of an echo.
    #[must_use]
    pub fn is_echo_reply(self, v6: bool) -> bool {
        self.kind == if v6 { 129 } else { 0 }
    }
}

impl Tcp {
    /// FIN flag.
    pub const FIN: u8 = 0x01;
    /// SYN flag.
    pub const SYN: u8 = 0x02;
    /// RST flag.
    pub const RST: u8 = 0x04;
    /// ACK flag.
    pub const ACK: u8 = 0x10;

    /// Whether all of `flags` are set.
    #[must_use]
    pub fn has(self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// The first packet of a connection.
    #[must_use]
    pub fn is_syn(self) -> bool {
        self.flags & (Self::SYN | Self::ACK) == Self::SYN
    }

    /// The answer to the first packet.
    #[must_use]
    pub fn is_syn_ack(self) -> bool {
        self.has(Self::SYN | Self::ACK)
    }
}

/// ICMP's type, code and (for echo) sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Icmp {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// Echo sequence number.
    pub seq: u16,
}

/// What no translator touches, to recognise the same packet at another point.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Fingerprint {
    /// TCP numbers.
    pub tcp: Option<Tcp>,
    /// ICMP numbers.
    pub icmp: Option<Icmp>,
    /// SCTP verification tag.
    pub sctp_tag: Option<u32>,
    /// Payload bytes after the transport header; of a GSO packet, all segments together.
    pub payload_len: u32,
    /// Hash of the first payload bytes, where they were readable.
    pub payload_hash: Option<u32>,
    /// IP identification where the packet has one.
    pub ip_id: Option<u32>,
    /// Place in a fragmented datagram.
    pub fragment: Fragment,
    /// Fragment offset, bytes.
    pub frag_offset: u16,
    /// TTL or hop limit at this tap: it does change on the way, by one a router.
    pub ttl: u8,
    /// Packets on the wire that this buffer becomes (GSO segments), at least 1.
    pub wire_packets: u16,
}
