//! Cohort handoff: a released change lock stays on its lane for a moment though no change waits there, and others
//! wait on other lanes.
//!
//! Where several lanes change one object all the time, each would else make one change and wake the next,
//! which costs more than the change. A lane that asks again and again, as where clients make names in one
//! directory, asks again before another lane would have woken. So what would go to another lane is kept for
//! [`HANDOFF_FOR`], for as long as the first in line has [patience](super::OVERTAKEN_FOR). Where no change
//! comes it is not tried again for a while.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lane::LaneId;

use super::{ChangeLock, Waiters};
use crate::object::Object;

/// The lane on which the next change may take the lock.
pub(super) struct CohortHandoff {
    lane: LaneId,
    number: u32,
}

/// Hands the lock on to another lane as it is dropped: when no change came on this lane in time, or the lane ends.
pub(super) struct HandoffTimer {
    object: Arc<Object>,
    me: Arc<()>,
}

impl CohortHandoff {
    pub(super) fn is_for(&self, here: Option<LaneId>) -> bool {
        here == Some(self.lane)
    }
}

impl ChangeLock {
    /// Returns whether the lock may stay on a lane where no change waits: mostly one comes soon.
    pub(super) fn may_hand_off(&self) -> bool {
        let failed_handoffs = self.failed_handoffs.load(Ordering::Relaxed);
        // Under the lock of the line.
        self.failed_handoffs.store(failed_handoffs.saturating_sub(1), Ordering::Relaxed);
        failed_handoffs == 0
    }
}

impl Waiters {
    /// Gives the number of the stay.
    pub(super) fn begin_handoff(&mut self, lane: LaneId) -> u32 {
        let number = self.handoffs;
        self.handoffs = number.wrapping_add(1);
        self.handoff = Some(CohortHandoff { lane, number });
        number
    }
}

impl HandoffTimer {
    pub(super) fn new(object: &Arc<Object>, known: &mut Weak<()>) -> Self {
        let me = Arc::new(());
        *known = Arc::downgrade(&me);
        Self { object: Arc::clone(object), me }
    }

    /// Looks every so often; `seen` is the stay that has just begun.
    pub(super) async fn run(self, seen: u32) {
        let mut seen = Some(seen);
        loop {
            lane::time::sleep(HANDOFF_FOR).await;
            match self.look(seen) {
                Ok(now) => seen = now,
                Err(HandoffOver) => return,
            }
        }
    }

    /// The stay that there is now.
    fn look(&self, seen: Option<u32>) -> Result<Option<u32>, HandoffOver> {
        let change_lock = self.object.change_lock();
        let state = change_lock.lock();
        let waiting = state.waiting.as_ref().filter(|waiting| self.watches(waiting)).ok_or(HandoffOver)?;
        let now = waiting.handoff.as_ref().map(|handoff| handoff.number);
        if now.is_some() && now == seen {
            change_lock.failed_handoffs.store(FAILED_HANDOFFS, Ordering::Relaxed);
            return Err(HandoffOver);
        }
        Ok(now)
    }

    fn watches(&self, waiting: &Waiters) -> bool {
        std::ptr::eq(waiting.watch.as_ptr(), Arc::as_ptr(&self.me))
    }
}

impl Drop for HandoffTimer {
    fn drop(&mut self) {
        let change_lock = self.object.change_lock();
        let mut state = change_lock.lock();
        if let Some(waiting) = state.waiting.as_mut().filter(|waiting| self.watches(waiting))
            && waiting.handoff.is_some()
        {
            let next = waiting.first();
            change_lock.hand_over(state, next);
        }
    }
}

/// There is no handoff to watch any more.
struct HandoffOver;

/// Time for which a handoff waits for the next change on the lane.
pub(in crate::object) const HANDOFF_FOR: Duration = Duration::from_micros(100);
/// After a stay in vain, turns that go on at once where they could stay.
pub(in crate::object) const FAILED_HANDOFFS: u8 = 32;
