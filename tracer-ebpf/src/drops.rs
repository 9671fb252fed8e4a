//! One packet that is thrown away: is it ours, and was that told before?
//!
//! Unlike at a tap the packet may be anywhere on its way: headers may have been taken off, the
//! buffer may name no device, and what names its namespace is then its socket or its route.

use crate::memory::{self, field};
use crate::observe::{Sighting, clear, device, match_filter, match_followed, parse_packet};
use crate::state::{EVENTS, SCOPE, WORK, Work, config, learned_any, offset};
use crate::{buffer, clock, conntrack, emit, filter, follow, glance, origin};
use aya_ebpf::macros::map;
use aya_ebpf::maps::LruHashMap;
use tracer_common::{
    ABSENT, DropKey, MAX_IGNORED_REASONS, NO_REASON, RawDrop, config_flags, counter, event_kind,
    matched, present, tap,
};
use tracer_ebpf::parse::{HEAD, forget};

/// The slot of [`WORK`]: one more than the taps'.
const SLOT: u32 = tap::TC_EGRESS as u32 + 1;
/// `SKB_DST_NOREF` of include/linux/skbuff.h.
const NO_REFERENCE: u64 = 1;
/// So many drops of one kind are told one by one; then the 16th, the 32nd, …
const EACH: u64 = 8;

/// Numbers of the reasons that are none: consumed packets and purged queues. Filled in by user
/// space from the kernel's BTF, frozen.
#[unsafe(no_mangle)]
static IGNORED: [u32; MAX_IGNORED_REASONS] = [NO_REASON; MAX_IGNORED_REASONS];

/// How often each kind of drop was seen.
#[map]
static DROPS: LruHashMap<DropKey, u64> = LruHashMap::with_max_entries(8192, 0);

/// Looks at a packet that is being freed as dropped. Most are nobody's business and leave first.
#[inline(always)]
pub(crate) fn look_at(skb: u64, location: u64, reason: u32) {
    if is_ignored(reason) {
        return;
    }
    let Some(work) = WORK.get_ptr_mut(SLOT) else {
        return;
    };
    // SAFETY: the slot belongs to this CPU and this program; `busy` keeps a nested run out.
    let work = unsafe { &mut *work };
    if work.busy != 0 {
        return;
    }
    work.busy = 1;
    work.tap = SLOT;
    work.at = skb;
    let _ = look(work, skb, location, reason);
    work.busy = 0;
}

#[inline(always)]
fn is_ignored(reason: u32) -> bool {
    if reason == NO_REASON {
        return false;
    }
    let mut i = 0;
    while i < MAX_IGNORED_REASONS {
        // SAFETY: a static is always readable.
        if unsafe { core::ptr::read_volatile(&raw const IGNORED[i]) } == reason {
            return true;
        }
        i += 1;
    }
    false
}

#[inline(always)]
fn look(work: &mut Work, skb: u64, location: u64, reason: u32) -> Option<()> {
    memory::skb(work, skb)?;
    let len = read_headers(work)?;
    work.nfct = field!(work.skb, offset!(skb_nfct), u64).unwrap_or(0);
    if !glance::may_be_ours(work) && !may_be_followed(work, skb) {
        return None;
    }
    clear(&mut work.event);
    work.event.skb = skb;
    parse_packet(work, len)?;
    place(work);
    match_filter(work);
    if forget(&work.event.matched) == 0 {
        match_followed(work);
    }
    if forget(&work.event.matched) == 0 && sent_to_ours(work) {
        work.event.matched = matched::CONNTRACK;
    }
    if forget(&work.event.matched) == 0 || !in_scope(work) {
        return None;
    }
    clock::stamp(&mut work.event);
    work.event.print.wire_packets = buffer::wire_packets(work, work.event.print.payload_len);
    conntrack::read(work);
    let count = count(work, location, reason)?;
    if count <= EACH || count.is_power_of_two() {
        tell(work, location, reason, count);
    }
    None
}

#[inline(always)]
fn may_be_followed(work: &Work, skb: u64) -> bool {
    learned_any() || follow::may_be_noted(skb) || conntrack::is_translated(work.nfct)
}

/// A packet whose entry's original tuple is a request of ours.
#[inline(always)]
fn sent_to_ours(work: &mut Work) -> bool {
    conntrack::is_entry(work.nfct)
        && conntrack::read(work)
        && filter::forward(&work.event.conntrack.orig, false)
}

/// Reads what follows the network header, wherever the data begins by now; returns the packet's
/// length from there on.
#[inline(always)]
fn read_headers(work: &mut Work) -> Option<u32> {
    let head = field!(work.skb, offset!(skb_head), u64)?;
    let data = field!(work.skb, offset!(skb_data), u64)?;
    let len = field!(work.skb, offset!(skb_len), u32)?;
    let paged = field!(work.skb, offset!(skb_data_len), u32)?;
    let offset = field!(work.skb, offset!(skb_network_header), u16)?;
    work.vlan = 0;
    let start = head + u64::from(offset);
    let end = data + u64::from(len.wrapping_sub(paged));
    let linear = end.wrapping_sub(start);
    if offset == 0 || linear > 0xffff_ffff {
        return None; // never set, or nothing of the packet is left behind it
    }
    work.valid = memory::head::<HEAD>(work, start, linear as u32)?;
    Some(linear as u32 + paged)
}

/// Where the packet is: by its device, its socket, or its route.
#[inline(always)]
fn place(work: &mut Work) {
    let seen = Sighting {
        tap: SLOT as u8,
        skb: work.event.skb,
        dev: 0,
        ifindex: 0,
    };
    let _ = device(work, &seen);
    if forget(&work.event.ifindex) != 0 {
        return;
    }
    let skb = work.event.skb;
    let sk = memory::at::<u64>(skb, offset!(skb_sk)).unwrap_or(0);
    let mut net = memory::at::<u64>(sk, offset!(sk_net)).unwrap_or(0);
    if net == 0 {
        let dst = memory::at::<u64>(skb, offset!(skb_dst)).unwrap_or(0) & !NO_REFERENCE;
        let dev = memory::at::<u64>(dst, offset!(dst_dev)).unwrap_or(0);
        net = memory::at(dev, offset!(dev_net)).unwrap_or(0);
    }
    if let Some(inum) = memory::at::<u32>(net, offset!(net_inum)) {
        work.event.netns = inum;
        work.event.present |= present::NETNS;
    }
}

/// With a scope, a packet of nowhere counts only where its buffer was seen inside it.
#[inline(always)]
fn in_scope(work: &Work) -> bool {
    config!(flags) & config_flags::SCOPE == 0
        || SCOPE.get_ptr(work.event.netns).is_some()
        || (work.event.netns == 0 && work.event.matched == matched::SKB)
}

/// Counts it among its like.
#[inline(never)]
fn count(work: &Work, location: u64, reason: u32) -> Option<u64> {
    let key = DropKey {
        tuple: work.event.tuple,
        location,
        reason,
        netns: work.event.netns,
    };
    if let Some(seen) = DROPS.get_ptr_mut(key) {
        // SAFETY: the map's value stays in place during the program run; a count that another CPU
        // overwrites is one drop less.
        let seen = unsafe { &mut *seen };
        *seen += 1;
        return Some(*seen);
    }
    let _ = DROPS.insert(key, 1, 0);
    Some(1)
}

/// Puts the record into the ring.
#[inline(never)]
fn tell(work: &mut Work, location: u64, reason: u32, seen: u64) -> Option<()> {
    let Some(mut entry) = EVENTS.reserve::<RawDrop>(0) else {
        crate::state::count(counter::LOST);
        return None;
    };
    let event = &work.event;
    let mut bits = event.present;
    if offset!(skb_nfct) != ABSENT {
        bits |= present::CONNTRACK_KNOWN;
    }
    if work.nfct & 7 == conntrack::UNTRACKED {
        bits |= present::UNTRACKED;
    }
    if field!(work.skb, offset!(skb_iif), u32) == Some(0) {
        bits |= present::LOCAL;
    }
    let cgroup = origin::cgroup_of_packet(event.skb);
    if cgroup.is_some() {
        bits |= present::CGROUP;
    }
    let mark = field!(work.skb, offset!(skb_mark), u32);
    if mark.is_some() {
        bits |= present::MARK;
    }
    let to = entry.as_mut_ptr();
    // SAFETY: the record is ours until it is submitted; every field is written.
    unsafe {
        (&raw mut (*to).kind).write(event_kind::DROP);
        (&raw mut (*to).matched).write(event.matched);
        (&raw mut (*to).pad).write([0; 2]);
        (&raw mut (*to).reason).write(reason);
        (&raw mut (*to).time_ns).write(event.time_ns);
        (&raw mut (*to).skb).write(event.skb);
        (&raw mut (*to).location).write(location);
        (&raw mut (*to).count).write(seen);
        (&raw mut (*to).netns).write(event.netns);
        (&raw mut (*to).ifindex).write(event.ifindex);
        (&raw mut (*to).present).write(bits);
        (&raw mut (*to).l3_len).write(event.l3_len);
        (&raw mut (*to).tuple).write(event.tuple);
        (&raw mut (*to).quoted).write(event.quoted);
        (&raw mut (*to).conntrack).write(event.conntrack);
        (&raw mut (*to).print).write(event.print);
        (&raw mut (*to).mark).write(mark.unwrap_or(0));
        (&raw mut (*to).cgroup).write(cgroup.unwrap_or(0));
    }
    entry.submit(emit::flags());
    crate::state::count(counter::TOLD);
    Some(())
}
