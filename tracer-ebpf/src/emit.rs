//! The one way into the ring buffer.

use crate::state::{EVENTS, Work, count};
use tracer_common::{RawEvent, counter};

/// `BPF_RB_NO_WAKEUP`: the reader polls, so that no packet pays for waking it.
const NO_WAKEUP: u64 = 1;
/// `BPF_RB_FORCE_WAKEUP`.
const FORCE_WAKEUP: u64 = 2;
/// `BPF_RB_AVAIL_DATA`.
const AVAILABLE: u64 = 0;
/// `BPF_RB_RING_SIZE`.
const SIZE: u64 = 1;

/// Puts the event into the ring, or counts it as lost.
#[inline(always)]
pub(crate) fn emit(work: &Work) {
    let behind = EVENTS.query(AVAILABLE) > EVENTS.query(SIZE) / 4;
    let flags = if behind { FORCE_WAKEUP } else { NO_WAKEUP };
    match EVENTS.output::<RawEvent>(&work.event, flags) {
        Ok(()) => count(counter::TOLD),
        Err(_) => count(counter::LOST),
    }
}
