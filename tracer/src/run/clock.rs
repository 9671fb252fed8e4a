//! The two clocks: events carry CLOCK_MONOTONIC, people read UTC.

use crate::system::host;
pub(super) use crate::system::host::monotonic_ns;
use jiff::Timestamp;
use rustix::time::ClockId;
use tracer_core::recording::Clock;

/// Both clocks now. `SRCTRACE_CLOCK_SHIFT_MS` shifts the one that people read: two hosts on one machine,
/// whose clocks differ.
pub(super) fn now() -> Clock {
    let shift = std::env::var("SRCTRACE_CLOCK_SHIFT_MS").ok();
    let shift = shift.and_then(|text| text.parse::<i32>().ok()).unwrap_or(0);
    Clock {
        realtime_ns: host::nanoseconds(ClockId::Realtime) as i64 + i64::from(shift) * 1_000_000,
        monotonic_ns: monotonic_ns(),
    }
}

/// Now, RFC 3339 UTC, whole seconds.
pub(super) fn utc_now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time in seconds since 1970, RFC 3339 UTC.
pub(super) fn utc(seconds: i64) -> String {
    let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
