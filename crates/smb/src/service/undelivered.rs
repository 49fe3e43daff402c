//! Breaks on their way: a client whose TCP acknowledges nothing while one is out is told by its next connection, and this one ends.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use lane::time::{now, sleep};

use super::breaks::Break;
use crate::connection::Connection;

/// Those of one connection.
#[derive(Default)]
pub(crate) struct Undelivered {
    /// With the byte of the connection that each ends at.
    waiting: RefCell<Vec<(u64, Break)>>,
    is_watched: Cell<bool>,
}

impl Undelivered {
    /// What another connection has to tell.
    pub(crate) fn take(&self) -> Vec<Break> {
        self.waiting.take().into_iter().map(|(_, broken)| broken).collect()
    }
}

/// Sees to it that what was just queued arrives.
pub(super) fn watch(connection: &Rc<Connection>, broken: Break, has_others: bool) {
    let undelivered = &connection.undelivered;
    undelivered.waiting.borrow_mut().push((connection.queued(), broken));
    if !undelivered.is_watched.replace(true) {
        let connection = Rc::clone(connection);
        let silent_max = if has_others { SILENT_MAX } else { SILENT_ALONE_MAX };
        lane::spawn(async move { until_delivered(&connection, silent_max).await }).detach();
    }
}

async fn until_delivered(connection: &Connection, silent_max: Duration) {
    let undelivered = &connection.undelivered;
    let (mut acknowledged, mut since) = (0, now());
    loop {
        sleep(LOOKS_EVERY).await;
        // What is left then is told as the connection is let go.
        if connection.has_ended() {
            return;
        }
        let all = connection.acknowledged();
        let mut waiting = undelivered.waiting.borrow_mut();
        waiting.retain(|(end, _)| *end > all);
        if waiting.is_empty() {
            undelivered.is_watched.set(false);
            return;
        }
        drop(waiting);
        if all > acknowledged {
            (acknowledged, since) = (all, now());
        } else if now().saturating_duration_since(since) >= silent_max {
            connection.lane.counters.ended_unacknowledged.increment();
            connection.end();
            return;
        }
    }
}

/// One system call each time.
const LOOKS_EVERY: Duration = Duration::from_millis(200);
/// A client that acknowledges nothing for so long is told by another connection: six times TCP's least patience, as with Samba.
const SILENT_MAX: Duration = Duration::from_millis(1200);
/// So is one that has no other, but there is nothing to be won by haste.
const SILENT_ALONE_MAX: Duration = Duration::from_secs(6);
