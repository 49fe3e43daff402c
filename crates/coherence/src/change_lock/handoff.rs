//! Cohort handoff: a released change lock stays on its lane for a moment though no change waits there, and others
//! wait on other lanes.
//!
//! Where several lanes change one object all the time, each would else make one change and wake the next,
//! which costs more than the change. A lane that asks again and again, as where clients make names in one
//! directory, asks again before another lane would have woken. So what would go to another lane is kept for
//! [`HANDOFF_FOR`], for as long as the first in the queue has patience. Where no change comes in that time the
//! handoff has failed, and the next releases pass the lock on at once.

use std::time::Duration;

use lane::LaneId;

/// The lane on which the next change may take the lock.
pub(super) struct CohortHandoff {
    lane: LaneId,
    number: u32,
}

/// A change lock whose handoffs a timer ends.
pub(super) trait HandoffWatch {
    /// Returns the present handoff. That it is the one that was `seen` means that it has failed.
    fn look(&self, seen: Option<u32>) -> HandedOff;

    /// Hands the lock on to another lane, if it is still kept on this one.
    fn end(&self);
}

/// State of a lock that a timer looks at.
pub(super) enum HandedOff {
    /// The number of the present handoff, if there is one.
    Number(Option<u32>),
    /// No handoff is left to be watched.
    Over,
}

/// Hands the lock on to another lane as it is dropped: when no change came on this lane in time, or the lane ends.
pub(super) struct HandoffTimer<W: HandoffWatch>(pub(super) W);

impl CohortHandoff {
    pub(super) fn new(lane: LaneId, number: u32) -> Self {
        Self { lane, number }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn is_for(&self, here: Option<LaneId>) -> bool {
        here == Some(self.lane)
    }
}

impl<W: HandoffWatch> HandoffTimer<W> {
    /// Looks at the lock every so often; `seen` is the handoff that has just begun.
    pub(super) async fn run(self, seen: u32) {
        let mut seen = Some(seen);
        loop {
            lane::time::sleep(HANDOFF_FOR).await;
            match self.0.look(seen) {
                HandedOff::Number(now) => seen = now,
                HandedOff::Over => return,
            }
        }
    }
}

impl<W: HandoffWatch> Drop for HandoffTimer<W> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Time for which a handoff waits for the next change on the lane.
pub(crate) const HANDOFF_FOR: Duration = Duration::from_micros(100);
