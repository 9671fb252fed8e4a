//! Sockets that were in use a moment ago.

use crate::clock;
use crate::words::{Words, of_address};

/// A socket and the moment.
static IN_USE: Words<u64, 1024> = Words::new(0);
/// A moment is this many ticks, as a power of two: 32 to 320 ms.
const MOMENT: u32 = 5;

/// Whether a use of this socket was noted in this moment.
#[inline(always)]
pub(crate) fn lately(sk: u64) -> bool {
    IN_USE.get(of_address(sk)) == word(sk)
}

/// Notes it.
#[inline(always)]
pub(crate) fn note(sk: u64) {
    IN_USE.put(of_address(sk), word(sk));
}

/// The address is another socket's now.
#[inline(always)]
pub(crate) fn forget(sk: u64) {
    IN_USE.put(of_address(sk), 0);
}

/// The address, whose upper bits are the same for all, and the moment.
#[inline(always)]
fn word(sk: u64) -> u64 {
    sk << 16 | u64::from(clock::ticks() >> MOMENT & 0xffff)
}
