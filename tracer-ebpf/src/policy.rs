//! What is told: the first packet, every transition, and a sign of life. The rest is counted.

use crate::state::{FLOWS, Work, config};
use crate::{bulk, clock, direct};
use core::intrinsics::{AtomicOrdering, atomic_xadd};
use tracer_common::{
    FlowKey, FlowState, MAX_OPENINGS, RawEvent, config_flags, present, reason, tap,
};
use tracer_ebpf::parse::forget;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const TRANSITIONS: u8 = FIN | SYN | RST;

/// Counts the packet and notes in `work.event.reasons` why it is to be told; zero: it is not. `wire`: the
/// packet's tap tells of the flow's progress; see [`is_wire`].
#[inline(never)]
pub(crate) fn judge(work: &mut Work, wire: bool) {
    let nfct = work.nfct;
    let sum = if wire { forget(&work.sum) } else { 0 };
    let event = &mut work.event;
    let key = FlowKey {
        tuple: event.tuple,
        netns: event.netns,
        ifindex: event.ifindex,
        tap: event.tap,
        pad: [0; 7],
    };
    // Payload that a tap beside a tracepoint may be the only one to read.
    let mut opens = !wire && event.present & present::TCP != 0 && event.print.payload_len != 0;
    match FLOWS.get_ptr_mut(key) {
        None => first(event, &key, nfct),
        Some(state) => {
            // SAFETY: the map's value stays in place during the program run; counters are atomic, the
            // rest may be overwritten by another CPU, which costs at worst one event more or less.
            let state = unsafe { &mut *state };
            opens &= state.data < MAX_OPENINGS;
            state.data += u8::from(opens);
            bulk::gather(state, sum);
            next(event, state, nfct, wire);
            bulk::keep(state, &key, sum);
        }
    }
    if opens {
        clock::stamp(event);
    }
    work.opens = u64::from(opens);
}

/// The first packet with this tuple at this tap.
#[inline(always)]
fn first(event: &mut RawEvent, key: &FlowKey, nfct: u64) {
    clock::stamp(event);
    event.packets = u64::from(event.print.wire_packets);
    event.bytes = u64::from(event.l3_len);
    let state = FlowState {
        packets: event.packets,
        bytes: event.bytes,
        told_ns: event.time_ns,
        nfct,
        sum: 0,
        next_seq: end_of_range(event),
        mark: event.mark,
        flags: event.print.tcp_flags & TRANSITIONS,
        data: u8::from(event.print.payload_len != 0),
        pad: [0; 2],
        tick: clock::ticks(),
    };
    let _ = FLOWS.insert(key, state, 0);
    because(event, reason::FIRST);
    if event.present & present::TCP != 0 && event.print.tcp_flags & TRANSITIONS != 0 {
        because(event, reason::FLAGS);
    }
    if event.print.payload_len != 0 {
        because(event, reason::DATA);
    }
}

/// Notes a reason. By memory, and read anew when all are collected: the verifier would else follow every
/// combination of them by itself.
#[inline(always)]
fn because(event: &mut RawEvent, why: u16) {
    let all = forget(&event.reasons) | why;
    // SAFETY: an exclusive reference is valid for writes.
    unsafe { (&raw mut event.reasons).write_volatile(all) };
}

/// A later packet.
#[inline(always)]
fn next(event: &mut RawEvent, state: &mut FlowState, nfct: u64, wire: bool) {
    add(&raw mut state.packets, u64::from(event.print.wire_packets));
    add(&raw mut state.bytes, u64::from(event.l3_len));
    event.packets = state.packets;
    event.bytes = state.bytes;
    changes(event, state, nfct, wire);
    if forget(&event.reasons) != 0 {
        clock::stamp(event);
        state.told_ns = event.time_ns;
    }
}

/// Compares with the packet before and remembers this one.
#[inline(always)]
fn changes(event: &mut RawEvent, state: &mut FlowState, nfct: u64, wire: bool) {
    if state.nfct != nfct {
        state.nfct = nfct;
        because(event, reason::CONNTRACK);
    }
    if state.mark != event.mark {
        state.mark = event.mark;
        because(event, reason::MARK);
    }
    if wire {
        progress(event, state);
        sign_of_life(event, state);
    }
    if event.present & present::QUOTED != 0 {
        because(event, reason::QUOTES);
    }
    if config!(flags) & config_flags::EACH_PACKET != 0 {
        because(event, reason::EACH);
    }
}

/// Whether nothing was told for long; looked at once a tick.
#[inline(always)]
fn sign_of_life(event: &mut RawEvent, state: &mut FlowState) {
    let tick = clock::ticks();
    if state.tick == tick {
        return;
    }
    state.tick = tick;
    clock::stamp(event);
    if event.time_ns.wrapping_sub(state.told_ns) > config!(keepalive_ns) {
        because(event, reason::KEEPALIVE);
    }
}

/// A tc tap tells only what the tracepoint beside it cannot: it leaves the flow's progress to it,
/// where there is one.
#[inline(always)]
pub(crate) fn is_wire(tap: u8) -> bool {
    is_tracepoint(tap) || direct::only()
}

/// Whether the tap is a tracepoint, which sees and counts every packet.
#[inline(always)]
pub(crate) fn is_tracepoint(tap: u8) -> bool {
    tap == tap::RECEIVE || tap == tap::TRANSMIT
}

/// Flags, first data and retransmissions.
#[inline(always)]
fn progress(event: &mut RawEvent, state: &mut FlowState) {
    if event.print.payload_len != 0 && state.data == 0 {
        state.data = 1;
        because(event, reason::DATA);
    }
    if event.present & present::TCP == 0 {
        return;
    }
    let flags = event.print.tcp_flags & TRANSITIONS;
    if flags & !state.flags != 0 {
        because(event, reason::FLAGS);
    }
    let end = end_of_range(event);
    let advance = end.wrapping_sub(state.next_seq) as i32;
    let occupies = event.print.payload_len != 0 || flags & (SYN | FIN) != 0;
    if flags & SYN != 0 && advance != 0 {
        because(event, reason::FLAGS); // a new connection on an old tuple
        state.next_seq = end;
        state.flags = flags;
        state.data = u8::from(event.print.payload_len != 0);
        return;
    }
    if occupies && advance <= 0 {
        because(event, reason::RETRANSMISSION);
    } else if advance > 0 {
        state.next_seq = end;
    }
    state.flags |= flags;
}

/// The sequence number after this segment; SYN and FIN count one each.
#[inline(always)]
fn end_of_range(event: &RawEvent) -> u32 {
    let flags = u32::from(event.print.tcp_flags);
    let ghosts = (flags & 1) + (flags >> 1 & 1);
    event
        .print
        .seq
        .wrapping_add(event.print.payload_len)
        .wrapping_add(ghosts)
}

/// Adds to a counter that other CPUs add to as well.
#[inline(always)]
pub(crate) fn add(counter: *mut u64, n: u64) {
    // SAFETY: the counter is an aligned u64 of a live map value.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(counter, n) };
}
