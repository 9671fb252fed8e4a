//! Sockets that were in use a moment ago.

use crate::clock;
use core::cell::UnsafeCell;

/// One socket for each of so many groups, with the moment. Where two share a place they drive each other out, and
/// are looked at again.
static IN_USE: Table = Table([const { UnsafeCell::new(0) }; PLACES]);
const PLACES: usize = 1024;
/// A moment is this many ticks, as a power of two: 32 to 320 ms.
const MOMENT: u32 = 5;

struct Table([UnsafeCell<u64>; PLACES]);

// SAFETY: aligned words are read and written whole, and one that another CPU replaced is a miss.
unsafe impl Sync for Table {}

/// Whether a use of this socket was noted in this moment.
#[inline(always)]
pub(crate) fn lately(sk: u64) -> bool {
    // SAFETY: a static is always readable.
    unsafe { place(sk).read_volatile() == word(sk) }
}

/// Notes it.
#[inline(always)]
pub(crate) fn note(sk: u64) {
    // SAFETY: the table lies in writable memory; see `Table`.
    unsafe { place(sk).write_volatile(word(sk)) };
}

/// The address is another socket's now.
#[inline(always)]
pub(crate) fn forget(sk: u64) {
    // SAFETY: likewise.
    unsafe { place(sk).write_volatile(0) };
}

/// The address, whose upper bits are the same for all, and the moment.
#[inline(always)]
fn word(sk: u64) -> u64 {
    sk << 16 | u64::from(clock::ticks() >> MOMENT & 0xffff)
}

#[inline(always)]
fn place(sk: u64) -> *mut u64 {
    let hash = (sk >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    IN_USE.0[(hash >> 54) as usize % PLACES].get()
}
