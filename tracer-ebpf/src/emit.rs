//! The one way into the ring buffer.

use crate::state::{EVENTS, Work, count};
use tracer_common::{RawEvent, counter};
use tracer_ebpf::parse::forget;

/// `BPF_RB_NO_WAKEUP`: the reader polls, so that no packet pays for waking it.
const NO_WAKEUP: u64 = 1;
/// `BPF_RB_FORCE_WAKEUP`.
const FORCE_WAKEUP: u64 = 2;
/// `BPF_RB_AVAIL_DATA`.
const AVAILABLE: u64 = 0;
/// `BPF_RB_RING_SIZE`.
const SIZE: u64 = 1;

/// Puts the event into the ring without the parts that it does not have, or counts it as lost.
#[inline(always)]
pub(crate) fn emit(work: &Work) {
    let len = RawEvent::record_len(forget(&work.event.present));
    // SAFETY: a record is at most the whole event.
    let record = unsafe { core::slice::from_raw_parts((&raw const work.event).cast::<u8>(), len) };
    match EVENTS.output::<[u8]>(record, flags()) {
        Ok(()) => count(counter::TOLD),
        Err(_) => count(counter::LOST),
    }
}

/// Wakes the reader when it is behind.
#[inline(always)]
pub(crate) fn flags() -> u64 {
    let behind = EVENTS.query(AVAILABLE) > EVENTS.query(SIZE) / 4;
    if behind { FORCE_WAKEUP } else { NO_WAKEUP }
}
