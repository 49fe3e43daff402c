//! Breaks on their way: a client whose TCP acknowledges nothing while one is out gets it by its next connection, and
//! this one ends.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use lane::time::{now, sleep};

use super::breaks::Break;
use crate::connection::Connection;

/// Messages of one connection that its client has not acknowledged.
#[derive(Default)]
pub(crate) struct Undelivered {
    /// Breaks, each with the byte of the connection that its message ends at.
    waiting: RefCell<Vec<(u64, Break)>>,
    is_watched: Cell<bool>,
}

impl Undelivered {
    /// Returns what another connection has to tell.
    pub(crate) fn take(&self) -> Vec<Break> {
        self.waiting.take().into_iter().map(|(_, broken)| broken).collect()
    }
}

/// Sees to it that what was just queued arrives.
pub(super) fn watch(connection: &Rc<Connection>, broken: Break) {
    let undelivered = &connection.undelivered;
    undelivered.waiting.borrow_mut().push((connection.queued(), broken));
    if !undelivered.is_watched.replace(true) {
        let connection = Rc::clone(connection);
        // As it is before anything is sent again, which makes it longer.
        let patience = silent_max(connection.stream.retransmission_timeout().unwrap_or(RTO_MAX));
        lane::spawn(async move { until_delivered(&connection, patience).await }).detach();
    }
}

async fn until_delivered(connection: &Connection, patience: Duration) {
    let undelivered = &connection.undelivered;
    let (mut acknowledged, mut since) = (connection.acknowledged(), now());
    loop {
        sleep(LOOKS_EVERY).await;
        // What is left then is sent by others as the connection is dropped.
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
        // Connections come and go meanwhile.
        let has_others = waiting.iter().any(|(_, broken)| connection.lane.has_another_route(broken));
        drop(waiting);
        let patience = if has_others { patience } else { SILENT_ALONE_MAX };
        if all > acknowledged {
            (acknowledged, since) = (all, now());
        } else if now().saturating_duration_since(since) >= patience {
            connection.lane.counters.ended_unacknowledged.increment();
            connection.end();
            return;
        }
    }
}

/// Returns how long a client that has another connection may acknowledge nothing. That is six times the `timeout` after
/// which a lost byte is sent again, as with Samba, but not less than on a fast way. It is not more than is left to hear
/// the client's answer in.
fn silent_max(timeout: Duration) -> Duration {
    TIMES * timeout.clamp(RTO_MIN, RTO_MAX)
}

/// One system call each time.
const LOOKS_EVERY: Duration = Duration::from_millis(200);
const TIMES: u32 = 6;
/// TCP's least patience.
const RTO_MIN: Duration = Duration::from_millis(200);
/// The most that counts of it.
const RTO_MAX: Duration = Duration::from_secs(1);
//@ limit: time in which a client acknowledges the segment with a break
//@ section: SMB
//@ unit: time
//@ connection: six retransmissions of TCP, 1.2 to 6 s, where the client has another connection; else {}
//@ empty: the connection ends, and the break goes to the next
//@ counter: smb_ended_unacknowledged, smb_breaks_sent_again
//@ attack: smb-killed
/// Time that a client without another connection is waited for: there is nothing to be won by haste.
const SILENT_ALONE_MAX: Duration = Duration::from_secs(6);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_waited_for_as_its_way_is_long_within_bounds() {
        let of = |millis| silent_max(Duration::from_millis(millis)).as_millis();
        assert_eq!([1, 200, 201, 450, 1000, 120_000].map(of), [1200, 1200, 1206, 2700, 6000, 6000]);
    }
}
