//! Upkeep from time to time: hosts that ask for nothing any more are forgotten, those that do are
//! kept in the index, and connections that no host is called by are closed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lane::time;

use super::Host;
use super::lane_hosts::LaneHosts;
use super::table::Resident;

impl LaneHosts {
    /// Does what is due from time to time; of all lanes one looks after the table in each `period`.
    pub(super) fn upkeep(&self, period: Duration) {
        if let Some(before) = time::now().checked_sub(CONNECTIONS_KEPT) {
            self.calls.close_idle(before);
        }
        let now = self.hosts.seconds();
        if self.hosts.begin_sweep(now, period) {
            self.forget_idle(now);
            self.record_busy(now);
        }
    }

    /// Removes hosts whose callbacks have all expired.
    fn forget_idle(&self, now: u32) {
        let options = self.hosts.options();
        let longest = (options.promise + options.bias() + SPARE).as_secs();
        let Some(before) = now.checked_sub(u32::try_from(longest).unwrap_or(u32::MAX)) else { return };
        let mut removed = Vec::new();
        self.hosts.lock().table.remove_idle(before, &mut removed);
        for removed in removed {
            self.counters.hosts_idle.increment();
            removed.what.leave();
            self.hosts.end_eviction(&removed.what);
        }
    }

    /// Records again each host that was seen a quarter of a callback's lifetime after its last record. After a crash
    /// only hosts that were seen so lately that they may hold callbacks are notified.
    fn record_busy(&self, now: u32) {
        let every = u32::try_from(self.hosts.options().promise.as_secs() / 4).unwrap_or(u32::MAX);
        let is_due =
            |host: &&Arc<Host>| host.seen().saturating_sub(host.recorded.load(Ordering::Relaxed)) >= every;
        let due: Vec<_> = self.hosts.lock().table.all().filter(is_due).cloned().collect();
        due.iter().for_each(|host| self.hosts.record(host, now));
    }
}

//@ limit: connections to hosts
//@ section: AFS hosts
//@ unit: connection
//@ address: one for each host
//@ all: lane: as the connections of Rx; closed after {} without a call
//@ empty: the call counts as not heard; others feel nothing
//@ counter: afs_breaks_failed
//@ attack: afs-pools
/// Connections to clients that are not called are closed after this long, as stock peers close theirs.
const CONNECTIONS_KEPT: Duration = Duration::from_secs(600);
/// Time that a call may take from finding its host until the host is given a callback.
const SPARE: Duration = Duration::from_secs(300);
