//! What a traffic-control tap need not look at. It is there for what the tracepoint beside it cannot
//! see, and that shows in a flow's first packets and whenever its mark or conntrack entry changes:
//! of those that are like one before it nothing is learned, nor are they counted there.

use crate::state::{Work, config};
use crate::{buffer, conntrack, direct, plain};
use core::cell::UnsafeCell;
use tracer_common::config_flags;

/// Packets that were looked at, by what would make the next one different. Where two share a place
/// they drive each other out, and are looked at again.
static SETTLED: Table = Table([const { UnsafeCell::new(0) }; PLACES]);
const PLACES: usize = 4096;

struct Table([UnsafeCell<u64>; PLACES]);

// SAFETY: aligned words are read and written whole, and one that another CPU replaced is a miss.
unsafe impl Sync for Table {}

/// The sum of what makes a packet different; zero: it is to be looked at in any case. `tap` is known to the
/// compiler.
#[inline(always)]
pub(crate) fn sum(work: &Work, tap: u8, ifindex: u32) -> u64 {
    let nfct = buffer::nfct(work);
    if direct::only() || config!(flags) & config_flags::EACH_PACKET != 0 || conntrack::is_new(nfct)
    {
        return 0;
    }
    let Some(plain) = plain::read(work) else {
        return 0;
    };
    // The first that has payload is another packet than the acknowledgement before it.
    let has_payload = u64::from(plain.payload != 0) << 40;
    let mark = u64::from(buffer::mark(work).unwrap_or(0));
    let place = u64::from(ifindex) << 8 | u64::from(tap);
    let sum = plain::add(plain::add(plain.sum, nfct), mark | has_payload);
    plain::add(sum, place) | 1
}

/// Whether a packet with this sum was looked at.
#[inline(always)]
pub(crate) fn is_known(sum: u64) -> bool {
    // SAFETY: a static is always readable.
    sum != 0 && unsafe { place(sum).read_volatile() } == sum
}

/// A packet with this sum was looked at.
#[inline(always)]
pub(crate) fn learn(sum: u64) {
    if sum != 0 {
        // SAFETY: the table lies in writable memory; see `Table`.
        unsafe { place(sum).write_volatile(sum) };
    }
}

#[inline(always)]
fn place(sum: u64) -> *mut u64 {
    SETTLED.0[(sum >> 52) as usize % PLACES].get()
}
