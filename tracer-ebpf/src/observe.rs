//! One packet at one tap: read it, decide whether it is ours, tell what is new about it.

use crate::buffer;
use crate::direct::shown;
use crate::memory;
use crate::state::{SCOPE, WORK, Work, config, count, learned_any, offset};
use crate::{
    bulk, conntrack, direct, emit, filter, follow, glance, origin, policy, settled, shown, sockets,
    unwrap,
};
use aya_ebpf::bindings::__sk_buff;
use tracer_common::{RawEvent, config_flags, counter, event_kind, matched, present, reason, tap};
use tracer_ebpf::parse::{self, Head, forget};

/// Where a packet is seen.
pub(crate) struct Sighting {
    /// One of [`tap`].
    pub(crate) tap: u8,
    /// Address of its `struct sk_buff`.
    pub(crate) skb: u64,
    /// Address of the device, or zero to take the buffer's own.
    pub(crate) dev: u64,
    /// The device's index where it is at hand, else zero.
    pub(crate) ifindex: u32,
}

/// Looks at a packet at `TAP`, as in [`Sighting`]. The compiler knows the tap: not every program may ask for
/// everything.
#[inline(always)]
pub(crate) fn observe<const TAP: u8>(skb: u64, dev: u64, ifindex: u32) {
    let seen = Sighting {
        tap: TAP,
        skb,
        dev,
        ifindex,
    };
    let Some(work) = enter(&seen) else { return };
    let _ = read(work, skb).and_then(|()| look::<TAP>(work, &seen));
    work.busy = 0;
}

/// As [`observe`], for a traffic-control program; gives whether the packet had to be looked at.
#[inline(always)]
pub(crate) fn observe_shown<const TAP: u8>(skb: *mut __sk_buff) -> bool {
    let seen = Sighting {
        tap: TAP,
        skb: skb as u64,
        dev: 0,
        ifindex: shown!(skb, ifindex),
    };
    let Some(work) = enter(&seen) else {
        return false;
    };
    let looks = !shown::is_nothing_new(work, skb, TAP, seen.ifindex);
    if looks {
        let _ = read(work, seen.skb).and_then(|()| look::<TAP>(work, &seen));
    }
    work.busy = 0;
    looks
}

/// As [`observe`], without reading kernel memory: by what a traffic-control program is shown.
#[inline(always)]
pub(crate) fn observe_direct<const TAP: u8>(skb: *mut __sk_buff) {
    let seen = Sighting {
        tap: TAP,
        skb: skb as u64,
        dev: 0,
        ifindex: 0,
    };
    let Some(work) = enter(&seen) else { return };
    let _ = direct::read(work, skb).and_then(|()| look::<TAP>(work, &seen));
    work.busy = 0;
}

/// This tap's scratch space on this CPU, unless it is taken: a nested run gives up.
#[inline(always)]
fn enter(seen: &Sighting) -> Option<&'static mut Work> {
    let work = WORK.get_ptr_mut(u32::from(seen.tap))?;
    // SAFETY: the slot belongs to this CPU and this tap; `busy` keeps a nested run out.
    let work = unsafe { &mut *work };
    if work.busy != 0 {
        count(counter::NESTED);
        return None;
    }
    work.busy = 1;
    work.opens = 0;
    work.tap = u32::from(seen.tap);
    work.at = seen.skb;
    Some(work)
}

/// Reads the buffer and the beginning of its packet.
#[inline(always)]
fn read(work: &mut Work, skb: u64) -> Option<()> {
    memory::skb(work, skb)?;
    buffer::glance(work)
}

/// The way of nearly every packet on a node, and that of nearly every packet of ours: as short as can be, and apart
/// from all else, so that little code is run through.
#[inline(always)]
fn look<const TAP: u8>(work: &mut Work, seen: &Sighting) -> Option<()> {
    unwrap::innermost(work)?;
    if glance::is_nobodys(work) {
        return None;
    }
    if is_old_news(work, seen) {
        return None;
    }
    whole::<TAP>(work, seen)
}

/// Looks at all of a packet.
#[inline(never)]
fn whole<const TAP: u8>(work: &mut Work, seen: &Sighting) -> Option<()> {
    is_ours(work, seen)?;
    work.event.print.wire_packets = buffer::wire_packets(work, work.event.print.payload_len);
    policy::judge(work, policy::is_wire(TAP));
    if !policy::is_tracepoint(TAP) && forget(&work.opens) == 0 {
        settled::learn(forget(&work.sum));
    }
    if forget(&work.event.reasons) != 0 {
        tell(work, TAP);
    }
    None
}

/// Whether this packet is like one before it in all that is told of it. The tap is known to the compiler.
#[inline(always)]
fn is_old_news(work: &mut Work, seen: &Sighting) -> bool {
    if policy::is_tracepoint(seen.tap) {
        return bulk::counted(work, seen);
    }
    work.sum = settled::sum(work, seen.tap, seen.ifindex);
    settled::is_known(forget(&work.sum))
}

/// Fills the event in with what the next steps need; `None` when the packet is not ours.
#[inline(always)]
fn is_ours(work: &mut Work, seen: &Sighting) -> Option<()> {
    clear(&mut work.event);
    work.event.kind = event_kind::PACKET;
    work.event.tap = seen.tap;
    work.event.skb = seen.skb;
    buffer::whole_head(work)?;
    parse_packet(work, work.packet.len())?;
    buffer::note(work);
    if forget(&work.wrap) != 0 {
        work.event.wrap = work.wrap as u8;
        work.event.present |= present::OUTER;
    }
    match_filter(work);
    if forget(&work.event.matched) == 0 {
        follow_packet(work, seen)?;
    }
    device(work, seen)
}

/// Zeroes what every event has, in words; the rest is only read where `present` says that it was
/// filled in. Assigning an empty event would build it on the stack first, and what the compiler
/// makes of `write_bytes` is a loop over bytes, which costs a third of all that a packet costs that
/// is not ours.
#[inline(always)]
pub(crate) fn clear(event: &mut RawEvent) {
    let words = (&raw mut *event).cast::<u64>();
    let mut i = 0;
    while i < RawEvent::record_len(0) / size_of::<u64>() {
        // SAFETY: inside the event, which is as aligned as a word and for which any bytes are
        // valid; volatile, so that it does not become that loop again.
        unsafe { words.add(i).write_volatile(0) };
        i += 1;
    }
}

/// Fills in what only a told packet needs, and tells it.
#[inline(always)]
fn tell(work: &mut Work, tap: u8) {
    conntrack::read(work);
    // Only there, and known to the compiler: tc programs of older kernels may not ask for the
    // running task.
    if tap == tap::TRANSMIT && work.event.present & present::LOCAL != 0 {
        origin::read(work);
    }
    hash_payload(work);
    if forget(&work.event.reasons) & (reason::FIRST | reason::CONNTRACK | reason::FLAGS) != 0 {
        follow::learn(work);
    }
    follow::note(&work.event);
    emit::emit(work);
}

#[inline(never)]
fn hash_payload(work: &mut Work) {
    let head = Head {
        bytes: &work.head,
        valid: work.valid as usize,
    };
    let payload = work.cursors.outer.at();
    if let Some(hash) = parse::payload_hash(&head, payload, work.event.print.payload_len) {
        work.event.print.payload_hash = hash;
        work.event.present |= present::PAYLOAD_HASH;
    }
}

/// Parses what was read. A function of its own for its stack.
#[inline(never)]
pub(crate) fn parse_packet(work: &mut Work, len: u32) -> Option<()> {
    let head = Head {
        bytes: &work.head,
        valid: forget(&work.valid) as usize,
    };
    parse::parse(&head, len, &mut work.event, &mut work.cursors)
}

/// Notes in `work.event.matched` whether the filter alone takes this packet.
#[inline(never)]
pub(crate) fn match_filter(work: &mut Work) {
    let event = &mut work.event;
    let portless = event.present & present::LATER_FRAGMENT != 0;
    event.matched = if filter::forward(&event.tuple, portless) {
        matched::FORWARD
    } else if filter::reverse(&event.tuple, portless) {
        matched::REVERSE
    } else if event.present & present::QUOTED != 0
        && (filter::forward(&event.quoted, false) || filter::reverse(&event.quoted, false))
    {
        matched::QUOTED
    } else {
        0
    };
}

/// Notes in `work.event.matched` whether it is part of a flow that was ours before; `None` when it
/// is not.
#[inline(always)]
fn follow_packet(work: &mut Work, seen: &Sighting) -> Option<()> {
    if learned_any() {
        device(work, seen)?;
    }
    match_followed(work);
    (forget(&work.event.matched) != 0).then_some(())
}

#[inline(never)]
pub(crate) fn match_followed(work: &mut Work) {
    let quotes = work.event.present & present::QUOTED != 0;
    let netns = work.event.netns;
    work.event.matched = if learned_any() && follow::learned(&work.event.tuple, netns) {
        matched::LEARNED
    } else if quotes && learned_any() && follow::learned(&work.event.quoted, netns) {
        matched::QUOTED
    } else if follow::noted(&mut work.event) {
        matched::SKB
    } else if sent_to_ours(work) {
        matched::CONNTRACK
    } else if opens_for_ours(work) {
        matched::OPENED
    } else {
        0
    };
}

/// A packet that came in by a device was seen there before any translation. One made here is first
/// seen after the output hook: only its conntrack entry still knows where it was sent to.
#[inline(always)]
fn sent_to_ours(work: &mut Work) -> bool {
    work.event.present & present::LOCAL != 0
        && conntrack::is_translated(work.nfct)
        && conntrack::read(work)
        && filter::forward(&work.event.conntrack.orig, false)
}

/// A connection that a proxy opens: see [`sockets`].
#[inline(always)]
fn opens_for_ours(work: &mut Work) -> bool {
    const SYN_ACK: u8 = 0x12;
    work.event.present & (present::LOCAL | present::TCP) == present::LOCAL | present::TCP
        && work.event.print.tcp_flags & SYN_ACK == 0x02
        && learned_any()
        && sockets::leads(work.at)
}

/// Device and namespace, once; `None` outside the scope.
#[inline(always)]
pub(crate) fn device(work: &mut Work, seen: &Sighting) -> Option<()> {
    if forget(&work.event.ifindex) != 0 {
        return Some(());
    }
    if direct::only() {
        direct::device(work);
    } else {
        read_device(work, seen)?;
    }
    if config!(flags) & config_flags::SCOPE != 0 && SCOPE.get_ptr(work.event.netns).is_none() {
        return None;
    }
    Some(())
}

/// Device and namespace, from the kernel's memory.
#[inline(always)]
fn read_device(work: &mut Work, seen: &Sighting) -> Option<()> {
    let dev = if seen.dev == 0 {
        memory::at(seen.skb, offset!(skb_dev))?
    } else {
        seen.dev
    };
    work.event.ifindex = if seen.ifindex == 0 {
        memory::at(dev, offset!(dev_ifindex))?
    } else {
        seen.ifindex
    };
    let net = memory::at::<u64>(dev, offset!(dev_net)).unwrap_or(0);
    if let Some(inum) = memory::at::<u32>(net, offset!(net_inum)) {
        work.event.netns = inum;
        work.event.present |= present::NETNS;
    }
    Some(())
}
