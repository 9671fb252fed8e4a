//! Time, which costs something to ask for.

use aya_ebpf::helpers::{bpf_jiffies64, bpf_ktime_get_ns};
use tracer_common::RawEvent;

/// Gives the event its time, once: a packet that is not told needs none.
#[inline(always)]
pub(crate) fn stamp(event: &mut RawEvent) {
    if event.time_ns == 0 {
        // SAFETY: the helper takes no arguments.
        event.time_ns = unsafe { bpf_ktime_get_ns() };
    }
}

/// A second or more in ticks: what it is at the most ticks per second that a kernel has.
pub(crate) const SECOND: u32 = 1024;

/// The kernel's ticks, 100 to 1000 a second: a load from memory.
#[inline(always)]
pub(crate) fn ticks() -> u32 {
    // SAFETY: the helper takes no arguments.
    unsafe { bpf_jiffies64() as u32 }
}
