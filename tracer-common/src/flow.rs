//! Keys and values of the maps that both halves read.

use crate::RawTuple;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Key of the per-tap flow table: one tuple at one side of one device.
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
pub struct FlowKey {
    /// The packets' tuple at this tap.
    pub tuple: RawTuple,
    /// Namespace inode number, zero where it is not known.
    pub netns: u32,
    /// Interface index.
    pub ifindex: u32,
    /// One of [`crate::tap`].
    pub tap: u8,
    /// Zero.
    pub pad: [u8; 7],
}

const _: () = assert!(size_of::<FlowKey>() == 56);

/// What a tap remembers of one tuple: counters, and what the next packet is compared with.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct FlowState {
    /// Wire packets seen.
    pub packets: u64,
    /// Bytes seen, from the network header.
    pub bytes: u64,
    /// Time of the last event told, nanoseconds.
    pub told_ns: u64,
    /// `skb->_nfct` of the last packet: entry and state in one word.
    pub nfct: u64,
    /// [`BulkSlot::sum`] of the place where more of its packets are counted; zero: there is none.
    pub sum: u64,
    /// End of the highest TCP sequence range seen.
    pub next_seq: u32,
    /// Mark of the last packet.
    pub mark: u32,
    /// TCP flags seen so far (SYN, FIN, RST).
    pub flags: u8,
    /// 1 once payload was seen.
    pub data: u8,
    /// Zero.
    pub pad: [u8; 2],
    /// The kernel's tick at the last packet.
    pub tick: u32,
}

const _: () = assert!(size_of::<FlowState>() == 56);

/// How many flows' bulk traffic is counted at a time without looking them up.
pub const BULK_SLOTS: u32 = 2048;

/// Where packets of a flow are counted that differ from the one before in nothing that is told: the programs find
/// it by what such a packet looks like, not by the flow. What it counted belongs to the flow's [`FlowState`], as
/// long as that has the same `sum`.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct BulkSlot {
    /// What such packets have in common, as one number; zero: the place is free.
    pub sum: u64,
    /// Wire packets counted here and not yet in the state.
    pub packets: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// As [`FlowState::next_seq`].
    pub next_seq: u32,
    /// The kernel's tick when the flow was last looked at whole.
    pub tick: u32,
    /// Not zero: payload was seen.
    pub data: u64,
    /// Zero.
    pub pad: [u64; 3],
    /// The flow.
    pub key: FlowKey,
    /// Zero.
    pub end: u64,
}

const _: () = assert!(size_of::<BulkSlot>() == 128);

impl BulkSlot {
    /// The place for packets with this sum.
    #[inline(always)]
    #[must_use]
    pub const fn index(sum: u64) -> u32 {
        (sum >> 32) as u32 % BULK_SLOTS
    }
}

/// Key of the learned tuples: what a followed flow looks like in one namespace.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct FollowKey {
    /// The tuple.
    pub tuple: RawTuple,
    /// Namespace inode number.
    pub netns: u32,
    /// Zero.
    pub pad: u32,
}

const _: () = assert!(size_of::<FollowKey>() == 48);

/// What is remembered of a buffer that was told: enough to notice that the address was reused.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct SkbNote {
    /// Time of the sighting, nanoseconds.
    pub time_ns: u64,
    /// `seq` of the fingerprint.
    pub seq: u32,
    /// `payload_len` of the fingerprint.
    pub payload_len: u32,
    /// `ip_id` of the fingerprint.
    pub ip_id: u32,
    /// IP protocol.
    pub proto: u8,
    /// TCP flags.
    pub tcp_flags: u8,
    /// Zero.
    pub pad: [u8; 2],
}

const _: () = assert!(size_of::<SkbNote>() == 24);

/// Indices of the per-CPU counter array.
pub mod counter {
    /// Events put into the ring.
    pub const TOLD: u32 = 0;
    /// Events that the ring had no room for.
    pub const LOST: u32 = 1;
    /// Program runs that found their scratch space taken (nested on one CPU) and gave up.
    pub const NESTED: u32 = 2;
    /// Rules that ran and could not be told: scratch space taken, or the ring full.
    pub const HITS_MISSED: u32 = 3;
    /// Runs of the probes that every packet passes, whosever it is.
    pub const PASSED: u32 = 4;
    /// How many counters there are.
    pub const COUNT: u32 = 5;
}
