//! Time of the machine's boot.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time of the machine's boot by its two clocks, in milliseconds since 1970.
pub(crate) fn booted_ms_now() -> Option<i64> {
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(now.as_millis()).ok()?.checked_sub(up.tv_sec * 1_000 + up.tv_nsec / 1_000_000)
}
