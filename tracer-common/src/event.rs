//! What the programs put into the ring buffer: one [`RawEvent`] per transition, cut to what it holds.

use crate::RawTuple;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Values of [`RawEvent::kind`].
pub mod event_kind {
    /// A packet was sighted at a tap.
    pub const PACKET: u8 = 1;
    /// A packet was thrown away: the record is a [`crate::RawDrop`].
    pub const DROP: u8 = 2;
    /// A NAT target ran: [`RawRuleHit`](crate::RawRuleHit).
    pub const RULE_HIT: u8 = 3;
}

/// Values of [`RawEvent::tap`]: where a packet was sighted.
pub mod tap {
    /// Raw tracepoint `netif_receive_skb`: the packet came in by the device, before tc ingress.
    pub const RECEIVE: u8 = 1;
    /// Raw tracepoint `net_dev_start_xmit`: the packet goes out by the device, after tc egress.
    pub const TRANSMIT: u8 = 2;
    /// Our traffic-control program at the device's ingress.
    pub const TC_INGRESS: u8 = 3;
    /// Our traffic-control program at the device's egress.
    pub const TC_EGRESS: u8 = 4;
}

/// Bits of [`RawEvent::reasons`]: why this packet was told and not only counted.
pub mod reason {
    /// First packet with this tuple at this tap.
    pub const FIRST: u16 = 1 << 0;
    /// A TCP flag (SYN, FIN, RST) that this tap had not seen on this tuple.
    pub const FLAGS: u16 = 1 << 1;
    /// First payload on this tuple at this tap.
    pub const DATA: u16 = 1 << 2;
    /// The packet's mark differs from the one before.
    pub const MARK: u16 = 1 << 3;
    /// The packet's conntrack entry or its state differs from the one before.
    pub const CONNTRACK: u16 = 1 << 4;
    /// A TCP segment whose sequence range was sighted here before.
    pub const RETRANSMISSION: u16 = 1 << 5;
    /// Nothing new: the flow is alive.
    pub const KEEPALIVE: u16 = 1 << 6;
    /// Every packet was asked for.
    pub const EACH: u16 = 1 << 7;
    /// An ICMP error that quotes a followed packet.
    pub const QUOTES: u16 = 1 << 8;
}

/// Values of [`RawEvent::matched`]: what made this packet one of ours.
pub mod matched {
    /// Its tuple matches the filter, as a request.
    pub const FORWARD: u8 = 1;
    /// Its tuple matches the filter, as a reply.
    pub const REVERSE: u8 = 2;
    /// Its conntrack entry's original tuple matches the filter.
    pub const CONNTRACK: u8 = 3;
    /// Its tuple was learned from an earlier packet of the flow in this namespace.
    pub const LEARNED: u8 = 4;
    /// The same buffer (skb) was sighted before as one of ours.
    pub const SKB: u8 = 5;
    /// It is an ICMP error that quotes a packet of ours.
    pub const QUOTED: u8 = 6;
}

/// Bits of [`RawEvent::present`]: which optional parts are filled in.
pub mod present {
    /// `netns` is the device's namespace (inode number).
    pub const NETNS: u32 = 1 << 0;
    /// `mark` is the packet's mark.
    pub const MARK: u32 = 1 << 1;
    /// The packet carries a conntrack entry and `conntrack` holds it.
    pub const CONNTRACK: u32 = 1 << 2;
    /// `_nfct` could be read (so without [`CONNTRACK`] there is no entry).
    pub const CONNTRACK_KNOWN: u32 = 1 << 3;
    /// `process.pid` and `process.comm` name the task that owns the packet's socket.
    pub const PROCESS: u32 = 1 << 4;
    /// `process.cgroup` is the cgroup (v2) id of the packet's socket or task.
    pub const CGROUP: u32 = 1 << 5;
    /// `quoted` is the tuple of the packet that an ICMP error quotes.
    pub const QUOTED: u32 = 1 << 6;
    /// `print.payload_hash` was computed.
    pub const PAYLOAD_HASH: u32 = 1 << 7;
    /// `print.ip_id` is an IPv4 identification or IPv6 fragment identification.
    pub const IP_ID: u32 = 1 << 8;
    /// The packet is a fragment that is not the first: the tuple has no ports.
    pub const LATER_FRAGMENT: u32 = 1 << 9;
    /// The packet is a first fragment (more follow).
    pub const FIRST_FRAGMENT: u32 = 1 << 10;
    /// The packet was made on this host: it never came in by a device (`skb_iif` is zero).
    pub const LOCAL: u32 = 1 << 11;
    /// `print` holds TCP numbers.
    pub const TCP: u32 = 1 << 12;
    /// `vlan` is the packet's VLAN tag.
    pub const VLAN: u32 = 1 << 13;
    /// The packet is marked as not tracked by conntrack (`IP_CT_UNTRACKED`).
    pub const UNTRACKED: u32 = 1 << 14;
}

/// What no translator touches, to recognise the same packet elsewhere. Host byte order.
#[repr(C)]
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
)]
pub struct RawFingerprint {
    /// TCP sequence number; ICMP echo sequence; SCTP verification tag.
    pub seq: u32,
    /// TCP acknowledgement number.
    pub ack: u32,
    /// Bytes of payload after the transport header (of a GSO packet: all segments together).
    pub payload_len: u32,
    /// Hash of the first payload bytes (at most 32), if [`present::PAYLOAD_HASH`].
    pub payload_hash: u32,
    /// IPv4 identification or IPv6 fragment identification, if [`present::IP_ID`].
    pub ip_id: u32,
    /// Fragment offset in bytes.
    pub frag_offset: u16,
    /// Packets on the wire that this buffer becomes (GSO segments), at least 1.
    pub wire_packets: u16,
    /// TCP flags, low eight bits of the header's 13th/14th byte.
    pub tcp_flags: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// ICMP type, for ICMP and ICMPv6.
    pub icmp_type: u8,
    /// ICMP code, for ICMP and ICMPv6.
    pub icmp_code: u8,
}

const _: () = assert!(size_of::<RawFingerprint>() == 28);

/// A conntrack entry as the packet carried it (`struct nf_conn`).
#[repr(C)]
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
)]
pub struct RawConntrack {
    /// Original direction's tuple: the request before translation.
    pub orig: RawTuple,
    /// Reply direction's tuple: what an answer to the translated request looks like.
    pub reply: RawTuple,
    /// Status bits, `enum ip_conntrack_status`.
    pub status: u32,
    /// The entry's mark (`CONNMARK`); valid where `mark_known` is 1.
    pub mark: u32,
    /// Zone id; valid where `zone_known` is 1.
    pub zone: u16,
    /// The low three bits of `skb->_nfct`, `enum ip_conntrack_info`.
    pub info: u8,
    /// 1 if `zone` was read.
    pub zone_known: u8,
    /// 1 if `mark` was read.
    pub mark_known: u8,
    /// Zero.
    pub pad: [u8; 3],
}

const _: () = assert!(size_of::<RawConntrack>() == 96);

/// The task that made a packet.
#[repr(C)]
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
)]
pub struct RawProcess {
    /// cgroup v2 id (the inode number of its folder), if [`present::CGROUP`].
    pub cgroup: u64,
    /// Process id (thread group id) in the initial pid namespace, if [`present::PROCESS`].
    pub pid: u32,
    /// Zero.
    pub pad: u32,
    /// Task name, NUL-padded.
    pub comm: [u8; 16],
}

const _: () = assert!(size_of::<RawProcess>() == 32);

/// One sighting of one packet.
///
/// What most sightings lack stands at the end, and a record in the ring leaves it off: see
/// [`RawEvent::record_len`].
#[repr(C)]
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
)]
pub struct RawEvent {
    /// One of [`event_kind`].
    pub kind: u8,
    /// One of [`tap`].
    pub tap: u8,
    /// Bits of [`reason`].
    pub reasons: u16,
    /// One of [`matched`].
    pub matched: u8,
    /// Zero.
    pub pad: u8,
    /// VLAN id of the packet's tag, if [`present::VLAN`].
    pub vlan: u16,
    /// `bpf_ktime_get_ns`, CLOCK_MONOTONIC nanoseconds.
    pub time_ns: u64,
    /// Address of the `struct sk_buff`: the packet's identity inside one host, for a while.
    pub skb: u64,
    /// Inode number of the device's network namespace, if [`present::NETNS`].
    pub netns: u32,
    /// Interface index of the device, in its own namespace.
    pub ifindex: u32,
    /// The packet's mark, if [`present::MARK`].
    pub mark: u32,
    /// Bits of [`present`].
    pub present: u32,
    /// The packet's 5-tuple at this tap.
    pub tuple: RawTuple,
    /// What no translator touches.
    pub print: RawFingerprint,
    /// Length of the packet from the network header, bytes.
    pub l3_len: u32,
    /// Wire packets with this tuple at this tap up to and with this one.
    pub packets: u64,
    /// Bytes (from the network header) of those.
    pub bytes: u64,
    /// The task behind a packet that was made on this host, if [`present::PROCESS`] or
    /// [`present::CGROUP`].
    pub process: RawProcess,
    /// The conntrack entry that the packet carries, if [`present::CONNTRACK`].
    pub conntrack: RawConntrack,
    /// The tuple of the packet that an ICMP error quotes, if [`present::QUOTED`].
    pub quoted: RawTuple,
}

const _: () = assert!(size_of::<RawEvent>() == 296);

impl RawEvent {
    /// Length of a record that holds what `present` names: all that stands before, and that.
    #[inline(always)]
    #[must_use]
    pub const fn record_len(present: u32) -> usize {
        if present & present::QUOTED != 0 {
            size_of::<Self>()
        } else if present & present::CONNTRACK != 0 {
            core::mem::offset_of!(Self, quoted)
        } else if present & (present::PROCESS | present::CGROUP) != 0 {
            core::mem::offset_of!(Self, conntrack)
        } else {
            core::mem::offset_of!(Self, process)
        }
    }

    /// The event as it stands in the ring.
    #[must_use]
    pub fn record(&self) -> &[u8] {
        let len = Self::record_len(self.present);
        self.as_bytes().get(..len).unwrap_or_default()
    }
}

const _: () = assert!(RawEvent::record_len(0) == 128);
