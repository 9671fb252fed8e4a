//! The two clocks: events carry CLOCK_MONOTONIC, people read UTC.

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use tracer_core::recording::Clock;

/// CLOCK_MONOTONIC now, nanoseconds.
pub(super) fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Both clocks now. `SRCTRACE_CLOCK_SHIFT_MS` shifts the one that people read: two hosts on one machine,
/// whose clocks differ.
pub(super) fn now() -> Clock {
    let shift = std::env::var("SRCTRACE_CLOCK_SHIFT_MS").ok();
    let shift = shift.and_then(|text| text.parse::<i32>().ok()).unwrap_or(0);
    Clock {
        realtime_ns: nanoseconds(ClockId::Realtime) as i64 + i64::from(shift) * 1_000_000,
        monotonic_ns: monotonic_ns(),
    }
}

/// Now, RFC 3339 UTC, whole seconds.
pub(super) fn utc_now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
