//! Whether a run of the index has ended, and the marker that it leaves.

use crate::CleanShutdownMarker;

/// State of a run, as committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunState {
    /// Set if the index has ended in order.
    pub(crate) is_over: bool,
    /// Marker of the run's journal or clean end; `None` where versions do not count on from there.
    pub(crate) marker: Option<CleanShutdownMarker>,
}
