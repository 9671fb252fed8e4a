//! The two clocks: events carry CLOCK_MONOTONIC, people read UTC.

use crate::system::host;
pub(super) use crate::system::host::monotonic_ns;
use jiff::Timestamp;
use rustix::time::ClockId;

/// What to add to CLOCK_MONOTONIC to get nanoseconds since 1970, UTC.
pub(super) fn realtime_offset_ns() -> i64 {
    host::nanoseconds(ClockId::Realtime) as i64 - monotonic_ns() as i64
}

/// Now, RFC 3339 UTC, whole seconds.
pub(super) fn utc_now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
