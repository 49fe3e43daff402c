//! Times of the logs' threads, and numbers in their lines.

use std::time::Duration;

/// Formats a count with its noun, singular or plural.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Time for which the end of the process waits for each log.
pub(super) const FAREWELL_MAX: Duration = Duration::from_secs(1);
/// Longest time for which a log's thread waits for a reader or a disk before it checks for other work.
pub(super) const STEP: Duration = Duration::from_millis(100);
