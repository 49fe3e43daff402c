//! Sums over lanes.

use server::stats::{LaneSnapshot, Snapshot};

/// Adds up a counter of all lanes.
pub(super) fn sum(now: &Snapshot, of: impl Fn(&LaneSnapshot) -> u64) -> u64 {
    now.lanes.iter().map(of).sum()
}
