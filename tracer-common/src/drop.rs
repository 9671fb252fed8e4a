//! What the programs say of a packet that the kernel threw away: one [`RawDrop`] each.

use crate::{RawConntrack, RawFingerprint, RawTuple};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Value of [`RawDrop::reason`] on kernels that give none (before 5.17). No kernel's reason has
/// this number: its upper half would be a subsystem's that does not exist.
pub const NO_REASON: u32 = u32::MAX;

/// How many reasons can be named that are not told.
pub const MAX_IGNORED_REASONS: usize = 4;

/// One packet of ours that was freed as dropped.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct RawDrop {
    /// [`crate::event_kind::DROP`].
    pub kind: u8,
    /// One of [`crate::matched`].
    pub matched: u8,
    /// Zero.
    pub pad: [u8; 2],
    /// `enum skb_drop_reason`, or [`NO_REASON`].
    pub reason: u32,
    /// `bpf_ktime_get_ns`, CLOCK_MONOTONIC nanoseconds.
    pub time_ns: u64,
    /// Address of the `struct sk_buff`.
    pub skb: u64,
    /// Address of the kernel's code that freed it.
    pub location: u64,
    /// Packets dropped so with this tuple, this one included.
    pub count: u64,
    /// Inode number of the namespace, if [`crate::present::NETNS`].
    pub netns: u32,
    /// The device that the buffer names, in its namespace; zero: none.
    pub ifindex: u32,
    /// Bits of [`crate::present`].
    pub present: u32,
    /// Length of the packet from the network header, bytes.
    pub l3_len: u32,
    /// The packet's 5-tuple when it died.
    pub tuple: RawTuple,
    /// The tuple of the packet that an ICMP error quotes.
    pub quoted: RawTuple,
    /// The conntrack entry that it carried.
    pub conntrack: RawConntrack,
    /// What no translator touches.
    pub print: RawFingerprint,
    /// The packet's mark, if [`crate::present::MARK`].
    pub mark: u32,
    /// cgroup v2 id of the packet's socket, if [`crate::present::CGROUP`].
    pub cgroup: u64,
}

const _: () = assert!(size_of::<RawDrop>() == 272);

/// Key of the drop counters: what is told of one flow is told at the first packet of its kind,
/// and then ever more seldom.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct DropKey {
    /// The packets' tuple.
    pub tuple: RawTuple,
    /// Where.
    pub location: u64,
    /// Why.
    pub reason: u32,
    /// Namespace inode number, zero where it is not known.
    pub netns: u32,
}

const _: () = assert!(size_of::<DropKey>() == 56);
