//! What a traffic-control tap need not look at. It is there for what the tracepoint beside it cannot
//! see, and that shows in a flow's first packets and whenever its mark or conntrack entry changes:
//! of those that are like one before it nothing is learned, nor are they counted there.

use crate::plain;
use crate::state::Work;
use crate::words::{Words, add};

/// Packets that were looked at, by what would make the next one different.
static SETTLED: Words<u64, 4096> = Words::new(0);

/// The sum of what makes a packet different; zero: it is to be looked at in any case. `tap` is known to the
/// compiler.
#[inline(always)]
pub(crate) fn sum(work: &Work, tap: u8, ifindex: u32) -> u64 {
    let Some(plain) = plain::read(work) else {
        return 0;
    };
    // The first that has payload is another packet than the acknowledgement before it.
    let has_payload = u64::from(plain.payload != 0) << 40;
    add(
        plain.sum,
        has_payload | u64::from(ifindex) << 8 | u64::from(tap),
    ) | 1
}

/// Whether a packet with this sum was looked at.
#[inline(always)]
pub(crate) fn is_known(sum: u64) -> bool {
    sum != 0 && SETTLED.get(sum) == sum
}

/// A packet with this sum was looked at.
#[inline(always)]
pub(crate) fn learn(sum: u64) {
    if sum != 0 {
        SETTLED.put(sum, sum);
    }
}
