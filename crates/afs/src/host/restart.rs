//! Resets of hosts before the first change and after the last. Hosts with callbacks of an earlier run are notified that
//! these are void. So are the hosts of a server that stops, before it does.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::StreamExt;
use futures_util::stream::iter;
use index::{Error, HostRecord};
use lane::offload::offload;
use lane::time;
use vfs::NotifyOutcome;

use super::Host;
use super::host_identity::HostAddress;
use super::lane_hosts::LaneHosts;

/// Outcome for the hosts that an earlier run has left in the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resets {
    /// Number of hosts that have heard.
    pub heard: usize,
    /// Number of hosts that did not answer: they may rely on their callbacks until these expire, or until they call.
    pub silent: usize,
    /// Number of hosts whose callbacks have all expired.
    pub over: usize,
}

impl LaneHosts {
    /// Notifies every host in the index that its callbacks of an earlier run are void: after any stop, as callbacks do
    /// not outlive the process. To be awaited on one lane, as the first thing of a start, while nothing may be changed
    /// in any volume ([`vfs::Objects::freeze`]). All are notified at once, each for as long as a client may take to
    /// answer.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub async fn reset_recorded(&self) -> Result<Resets, Error> {
        let Some(index) = self.hosts.index() else { return Ok(Resets::default()) };
        let reading = Arc::clone(index);
        let recorded = match offload(None, move || reading.hosts()).await {
            Ok(recorded) => recorded?,
            // Without helpers it takes the lane's time: there is nothing else to do yet.
            Err(_) => index.hosts()?,
        };
        let mut resets = Resets::default();
        let outcomes = iter(recorded).map(|(key, record)| async move {
            let outcome = match self.may_rely(&record) {
                true => Some(self.reset_at(&record).await),
                false => None,
            };
            self.hosts.forget_recorded(key);
            outcome
        });
        let mut outcomes = outcomes.buffer_unordered(AT_ONCE);
        while let Some(outcome) = outcomes.next().await {
            match outcome {
                Some(true) => resets.heard += 1,
                Some(false) => resets.silent += 1,
                None => resets.over += 1,
            }
        }
        Ok(resets)
    }

    /// Notifies every host that all of its callbacks are void, as the served trees have changed as a whole.
    pub async fn void_all(&self) {
        let hosts: Vec<Arc<Host>> = self.hosts.lock().table.all().cloned().collect();
        let told = iter(hosts).map(|host| async move { self.cache.void_all(host.client()).await });
        told.buffer_unordered(AT_ONCE).collect::<()>().await;
    }

    /// Notifies every host with callbacks that they are void, as the server stops in order; then it is no host any
    /// more. A host that gave up all callbacks is not called, and so not waited for. Returns how many did not answer;
    /// these stay in the index for the next start.
    pub async fn release_all(&self) -> usize {
        let hosts: Vec<Arc<Host>> = self.hosts.lock().table.all().cloned().collect();
        let told = iter(hosts).map(|host| async move {
            let client = host.client();
            client.retire();
            if client.has_callbacks() {
                self.cache.void_all(client).await;
            }
            let has_heard = !client.has_pending_breaks();
            if has_heard {
                self.hosts.release(&host);
            }
            has_heard
        });
        let mut told = told.buffer_unordered(AT_ONCE);
        let mut silent = 0;
        while let Some(has_heard) = told.next().await {
            silent += usize::from(!has_heard);
        }
        silent
    }

    /// Returns whether a callback of the host may still be valid. A clock that was set back proves nothing.
    fn may_rely(&self, record: &HostRecord) -> bool {
        let options = self.hosts.options();
        let now = time::wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seen = Duration::from_secs(u64::try_from(record.seen).unwrap_or(0));
        // The index hears of a host that is busy only now and then.
        now < seen + 2 * options.promise + options.bias()
    }

    async fn reset_at(&self, record: &HostRecord) -> bool {
        let options = self.hosts.options();
        let patience = if record.addresses.len() > 1 { options.probe } else { options.patience };
        for &address in record.addresses.iter().take(2) {
            self.counters.resets.increment();
            let place = HostAddress { address, epoch: 0, local: None };
            if self.calls.reset(place, self.hosts.server(), patience).await == NotifyOutcome::Acknowledged {
                return true;
            }
        }
        false
    }
}

//@ limit: recorded hosts that a start tells
//@ section: AFS hosts
//@ unit: host, 4 s each
//@ all: process: {} at once
//@ empty: the others follow; changes wait, 12 s at most
//@ counter: afs_resets, vfs_changes_held_back
//@ attack: none, only a start tells them
//@ reach: server
/// Hosts that are notified at once: each is a connection, and a packet or two.
const AT_ONCE: usize = 1024;
