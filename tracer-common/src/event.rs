//! What the programs put into the ring buffer: one [`RawEvent`] per transition, cut to what it holds.

use crate::{RawTuple, present};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

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
    /// Hash of the first payload bytes (at most 32), if [`crate::present::PAYLOAD_HASH`].
    pub payload_hash: u32,
    /// IPv4 identification or IPv6 fragment identification, if [`crate::present::IP_ID`].
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
    /// cgroup v2 id (the inode number of its folder), if [`crate::present::CGROUP`].
    pub cgroup: u64,
    /// Process id (thread group id) in the initial pid namespace, if [`crate::present::PROCESS`].
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
    /// One of [`crate::event_kind`].
    pub kind: u8,
    /// One of [`crate::tap`].
    pub tap: u8,
    /// Bits of [`crate::reason`].
    pub reasons: u16,
    /// One of [`crate::matched`].
    pub matched: u8,
    /// One of [`crate::wrap`]: how the packet is wrapped in `outer`, if [`crate::present::OUTER`].
    pub wrap: u8,
    /// VLAN id of the packet's tag, if [`crate::present::VLAN`].
    pub vlan: u16,
    /// `bpf_ktime_get_ns`, CLOCK_MONOTONIC nanoseconds.
    pub time_ns: u64,
    /// Address of the `struct sk_buff`: the packet's identity inside one host, for a while.
    pub skb: u64,
    /// Inode number of the device's network namespace, if [`crate::present::NETNS`].
    pub netns: u32,
    /// Interface index of the device, in its own namespace.
    pub ifindex: u32,
    /// The packet's mark, if [`crate::present::MARK`].
    pub mark: u32,
    /// Bits of [`crate::present`].
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
    /// The task behind a packet that was made on this host, if [`crate::present::PROCESS`] or
    /// [`crate::present::CGROUP`].
    pub process: RawProcess,
    /// The conntrack entry that the packet carries, if [`crate::present::CONNTRACK`]; with
    /// [`crate::present::OUTER`] it is the outer packet's.
    pub conntrack: RawConntrack,
    /// The tuple of the packet that an ICMP error quotes, if [`crate::present::QUOTED`].
    pub quoted: RawTuple,
    /// The tuple of the packet that this one is inside of, if [`crate::present::OUTER`].
    pub outer: RawTuple,
}

const _: () = assert!(size_of::<RawEvent>() == 336);

impl RawEvent {
    /// Length of a record that holds what `present` names: all that stands before, and that.
    #[inline(always)]
    #[must_use]
    pub const fn record_len(present: u32) -> usize {
        if present & present::OUTER != 0 {
            size_of::<Self>()
        } else if present & present::QUOTED != 0 {
            core::mem::offset_of!(Self, outer)
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
