//! The two clocks: events carry CLOCK_MONOTONIC, people read UTC.

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC now, nanoseconds.
pub(super) fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// What to add to CLOCK_MONOTONIC to get nanoseconds since 1970, UTC.
pub(super) fn realtime_offset_ns() -> i64 {
    nanoseconds(ClockId::Realtime) as i64 - monotonic_ns() as i64
}

/// Now, RFC 3339 UTC, whole seconds.
pub(super) fn utc_now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
