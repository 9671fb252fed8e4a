//! Following: a flow that matched once is ours at every later point, whatever its tuple is there.

use crate::state::{LEARNED, SKBS, learned_some};
use crate::words::{Words, of_address};
use crate::{clock, filter, state::Work};
use tracer_common::{FollowKey, RawEvent, RawTuple, SkbNote, present};

/// A buffer's note is believed this long (at most [`clock::SECOND`]): addresses are reused within microseconds, but a packet
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

/// When a buffer of each of so many groups was told last, in ticks. Most buffers were not, and this
/// is cheaper to ask than [`SKBS`].
static NOTED: Words<u32, 4096> = Words::new(0);

/// Whether this buffer could have been told lately; never no to one that was.
#[inline(always)]
pub(crate) fn may_be_noted(skb: u64) -> bool {
    let noted = NOTED.get(of_address(skb));
    clock::ticks().wrapping_sub(noted) <= clock::SECOND
}

/// Whether this very buffer was told before, with the same untouchable parts.
#[inline(always)]
pub(crate) fn noted(event: &mut RawEvent) -> bool {
    let Some(note) = SKBS.get_ptr(event.skb) else {
        return false;
    };
    // SAFETY: the map's value stays readable during the program run.
    let note = unsafe { &*note };
    clock::stamp(event);
    note.proto == event.tuple.proto
        && note.seq == event.print.seq
        && note.payload_len == event.print.payload_len
        && note.ip_id == event.print.ip_id
        && note.tcp_flags == event.print.tcp_flags
        && event.time_ns.wrapping_sub(note.time_ns) < NOTE_NS
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
    NOTED.put(of_address(event.skb), clock::ticks());
}

/// Learns the tuples that this flow has in this namespace, where the filter would not know them.
#[inline(always)]
pub(crate) fn learn(work: &Work) {
    let event = &work.event;
    learn_both(&event.tuple, event.netns);
    // Of a packet inside another one, the entry is that one's: which carries others' as well.
    if event.present & (present::CONNTRACK | present::OUTER) == present::CONNTRACK {
        learn_both(&event.conntrack.orig, event.netns);
        learn_both(&event.conntrack.reply, event.netns);
    }
}

/// A tuple and its reverse.
#[inline(never)]
pub(crate) fn learn_both(tuple: &RawTuple, netns: u32) {
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
