//! Following: a flow that matched once is ours at every later point, whatever its tuple is there.

use crate::state::{LEARNED, SKBS, learned_some};
use crate::{filter, state::Work};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use tracer_common::{FollowKey, RawEvent, RawTuple, SkbNote, present};

/// A buffer's note is believed this long: addresses are reused within microseconds, but a packet
/// may wait in a queue.
const NOTE_NS: u64 = 1_000_000_000;

/// Whether this tuple was learned in this namespace.
#[inline(never)]
pub(crate) fn learned(tuple: &RawTuple, netns: u32) -> bool {
    LEARNED
        .get_ptr(FollowKey {
            tuple: *tuple,
            netns,
            pad: 0,
        })
        .is_some()
}

/// Whether this very buffer was told before, with the same untouchable parts.
#[inline(always)]
pub(crate) fn noted(event: &mut RawEvent) -> bool {
    let Some(note) = SKBS.get_ptr(event.skb) else {
        return false;
    };
    // SAFETY: the map's value stays readable during the program run.
    let note = unsafe { &*note };
    stamp(event);
    note.proto == event.tuple.proto
        && note.seq == event.print.seq
        && note.payload_len == event.print.payload_len
        && note.ip_id == event.print.ip_id
        && note.tcp_flags == event.print.tcp_flags
        && event.time_ns.wrapping_sub(note.time_ns) < NOTE_NS
}

/// Gives the event its time, once: most packets are not ours and need none.
#[inline(always)]
pub(crate) fn stamp(event: &mut RawEvent) {
    if event.time_ns == 0 {
        // SAFETY: the helper takes no arguments.
        event.time_ns = unsafe { bpf_ktime_get_ns() };
    }
}

/// Remembers the buffer of a packet that is told.
#[inline(never)]
pub(crate) fn note(event: &RawEvent) {
    let note = SkbNote {
        time_ns: event.time_ns,
        seq: event.print.seq,
        payload_len: event.print.payload_len,
        ip_id: event.print.ip_id,
        proto: event.tuple.proto,
        tcp_flags: event.print.tcp_flags,
        pad: [0; 2],
    };
    let _ = SKBS.insert(event.skb, note, 0);
}

/// Learns the tuples that this flow has in this namespace, where the filter would not know them.
#[inline(always)]
pub(crate) fn learn(work: &Work) {
    let event = &work.event;
    learn_both(&event.tuple, event.netns);
    if event.present & present::CONNTRACK != 0 {
        learn_both(&event.conntrack.orig, event.netns);
        learn_both(&event.conntrack.reply, event.netns);
    }
}

/// A tuple and its reverse.
#[inline(never)]
fn learn_both(tuple: &RawTuple, netns: u32) {
    if filter::forward(tuple, false) || filter::reverse(tuple, false) {
        return;
    }
    learned_some();
    let _ = LEARNED.insert(
        FollowKey {
            tuple: *tuple,
            netns,
            pad: 0,
        },
        1,
        0,
    );
    let _ = LEARNED.insert(
        FollowKey {
            tuple: tuple.reversed(),
            netns,
            pad: 0,
        },
        1,
        0,
    );
}
