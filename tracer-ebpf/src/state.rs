//! Everything the programs share: constants from user space, maps, per-CPU scratch space.

use crate::buffer::Packet;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, LpmTrie, LruHashMap, PerCpuArray, RingBuf};
use core::cell::UnsafeCell;
use tracer_common::{
    ABI_VERSION, BULK_SLOTS, BulkSlot, Config, FlowKey, FlowState, FollowKey, Offsets, PrefixKey,
    RawEvent, RawOpening, RawProcess, SkbNote, counter,
};
use tracer_ebpf::parse::{Bytes, Cursors};

/// Compared by user space before loading.
#[unsafe(no_mangle)]
static ABI: u32 = ABI_VERSION;
/// Filled in by user space, frozen: the verifier sees constants.
#[unsafe(no_mangle)]
static OFFSETS: Offsets = Offsets::UNKNOWN;
/// Filled in by user space, frozen.
#[unsafe(no_mangle)]
static CONFIG: Config = Config::EVERYTHING;

/// Reads one field of [`OFFSETS`]. Volatile, so that the compiler does not use the value it sees.
macro_rules! offset {
    ($field:ident) => {
        // SAFETY: a static is always readable.
        unsafe { core::ptr::read_volatile(&raw const $crate::state::all_offsets().$field) }
    };
}
/// Reads one field of [`CONFIG`], likewise: a word at a time, since more goes by the stack.
macro_rules! config {
    ($field:ident $([$index:expr])? $(.$part:ident $([$word:expr])?)?) => {
        // SAFETY: a static is always readable.
        unsafe { core::ptr::read_volatile(&raw const $crate::state::whole_config().$field$([$index])?$(.$part$([$word])?)?) }
    };
}
pub(crate) use {config, offset};

#[inline(always)]
pub(crate) fn all_offsets() -> &'static Offsets {
    &OFFSETS
}

#[inline(always)]
pub(crate) fn whole_config() -> &'static Config {
    &CONFIG
}

/// Keeps the version in the object although no program reads it.
#[inline(always)]
pub(crate) fn abi() -> u32 {
    // SAFETY: a static is always readable.
    unsafe { core::ptr::read_volatile(&raw const ABI) }
}

/// Whether anything was ever put into [`LEARNED`]: with `--dest` alone it never is, and packets that
/// are not ours need not be looked up there.
static LEARNED_ANY: Flag = Flag(UnsafeCell::new(0));

/// A word that is only ever set.
struct Flag(UnsafeCell<u64>);

// SAFETY: aligned words are read and written whole, and it does not matter which CPU is first.
unsafe impl Sync for Flag {}

/// Whether [`LEARNED`] is worth a look.
#[inline(always)]
pub(crate) fn learned_any() -> bool {
    // SAFETY: a static is always readable.
    unsafe { LEARNED_ANY.0.get().read_volatile() != 0 }
}

/// [`LEARNED`] is no longer empty.
#[inline(always)]
pub(crate) fn learned_some() {
    // SAFETY: the flag lies in writable memory; see `Flag`.
    unsafe { LEARNED_ANY.0.get().write_volatile(1) };
}

/// Events for user space.
#[map]
pub(crate) static EVENTS: RingBuf = RingBuf::with_byte_size(2 << 20, 0);
/// [`counter`]s.
#[map]
pub(crate) static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(counter::COUNT, 0);
/// `--dest` prefixes; the value is a mask of port ranges, zero: every port.
#[map]
pub(crate) static DESTS: LpmTrie<PrefixKey, u32> = LpmTrie::with_max_entries(1024, 0);
/// `--src` prefixes.
#[map]
pub(crate) static SOURCES: LpmTrie<PrefixKey, u32> = LpmTrie::with_max_entries(1024, 0);
/// Namespaces to look at, with `--scope`.
#[map]
pub(crate) static SCOPE: HashMap<u32, u32> = HashMap::with_max_entries(4096, 0);
/// What each tap knows of each tuple.
#[map]
pub(crate) static FLOWS: LruHashMap<FlowKey, FlowState> = LruHashMap::with_max_entries(131_072, 0);
/// Where bulk traffic is counted; see `bulk.rs`.
#[map]
pub(crate) static BULK: Array<BulkSlot> = Array::with_max_entries(BULK_SLOTS, 0);
/// Tuples of followed flows that the filter alone would not take.
#[map]
pub(crate) static LEARNED: LruHashMap<FollowKey, u32> = LruHashMap::with_max_entries(65_536, 0);
/// Buffers told lately.
#[map]
pub(crate) static SKBS: LruHashMap<u64, SkbNote> = LruHashMap::with_max_entries(8192, 0);
/// Who connects: sockets in the SYN-SENT state and the task that called `connect`.
#[map]
pub(crate) static CONNECTORS: LruHashMap<u64, RawProcess> = LruHashMap::with_max_entries(16_384, 0);

/// The namespace that the packet is in, where the programs cannot read it: a door says it. User
/// space makes these, a few instructions for each namespace (`tracer/src/kernel/doors.rs`).
#[map]
pub(crate) static HERE: PerCpuArray<u32> = PerCpuArray::with_max_entries(1, 0);

/// How many bytes of `struct sk_buff` are read at once: more than any kernel's has before its
/// data-dependent part, within its slab object.
pub(crate) const SKB: usize = 256;
/// How many bytes of `struct nf_conn` are read at once.
pub(crate) const NF_CONN: usize = 256;

/// Working space of one program run: it does not fit on the stack.
#[repr(C)]
pub(crate) struct Work {
    pub(crate) skb: [u8; SKB],
    pub(crate) head: Bytes,
    pub(crate) nf_conn: [u8; NF_CONN],
    pub(crate) event: RawEvent,
    pub(crate) cursors: Cursors,
    /// Where the packet is that `head` holds the beginning of.
    pub(crate) packet: Packet,
    /// Address of the `struct sk_buff`.
    pub(crate) at: u64,
    /// `skb->_nfct`, if this kernel has it.
    pub(crate) nfct: u64,
    /// How many bytes of `head` were read.
    pub(crate) valid: u64,
    /// One of [`tracer_common::wrap`], where `head` holds a packet that is inside another one; else zero.
    pub(crate) wrap: u64,
    /// How far behind the network header a packet inside begins.
    pub(crate) inside: u32,
    pad: u32,
    /// What the packet has in common with others like it: see `settled` and `bulk`.
    pub(crate) sum: u64,
    /// A VLAN tag that stood in the frame; see `buffer::tag`.
    pub(crate) vlan: u32,
    /// One of [`tracer_common::tap`].
    pub(crate) tap: u32,
    pub(crate) busy: u64,
    /// 1: the packet is one of the first with payload of its side, and a traffic-control tap's.
    pub(crate) opens: u64,
    /// What is told of those.
    pub(crate) opening: RawOpening,
}

/// One [`Work`] per tap (index: the tap's number) and one for drops, so that those that nest do not
/// share.
#[map]
pub(crate) static WORK: PerCpuArray<Work> = PerCpuArray::with_max_entries(6, 0);

/// Adds to a per-CPU counter.
#[inline(always)]
pub(crate) fn count(index: u32) {
    if let Some(value) = COUNTERS.get_ptr_mut(index) {
        // SAFETY: the slot belongs to this CPU; programs of one CPU do not preempt each other
        // between these two instructions in a way that could do more than lose one count.
        unsafe { *value += 1 };
    }
}
