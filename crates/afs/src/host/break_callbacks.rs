//! Callback breaks to hosts: RXAFSCB_CallBack and InitCallBackState3, a batch of `vfs` in as few calls as may be.

use std::sync::Arc;
use std::time::Duration;

use afs_wire::{FIDS_MAX, Fid};
use futures_util::future::join_all;
use vfs::{CallbackNotifier, Client, GoneFuture, Holder, Notice, NotifyFuture, NotifyOutcome, Number};

use super::host_identity::HostAddress;
use super::hosts::is_host;
use super::lane_hosts::LaneHosts;
use super::{Host, Hosts};

impl CallbackNotifier for LaneHosts {
    fn knows(&self, holder: Holder) -> bool {
        is_host(holder)
    }

    fn notify(&self, client: &Arc<Client>, notices: Vec<Notice>) -> NotifyFuture {
        let (me, host) = (self.me.upgrade(), self.hosts.by_holder(client.holder()));
        Box::pin(async move {
            let (Some(me), Some(host)) = (me, host) else { return NotifyOutcome::NoReply };
            let attempt = BreakAttempt(&me.hosts, &host);
            let outcome = me.deliver_breaks(&host, &notices).await;
            match outcome {
                NotifyOutcome::Acknowledged => {
                    std::mem::forget(attempt);
                    host.has_answered();
                }
                // A host that is gone holds no change up, so it takes no place among the silent.
                NotifyOutcome::Gone => std::mem::forget(attempt),
                NotifyOutcome::NoReply => {}
            }
            outcome
        })
    }

    fn is_gone(&self, client: &Arc<Client>) -> GoneFuture {
        let (me, host) = (self.me.upgrade(), self.hosts.by_holder(client.holder()));
        Box::pin(async move {
            let (Some(me), Some(host)) = (me, host) else { return false };
            let places = me.hosts.places(&host);
            !places.is_empty() && me.find_answering(&host, places).await == Err(NotifyOutcome::Gone)
        })
    }

    fn batch_max(&self) -> usize {
        FIDS_MAX as usize
    }
}

/// A break that was not delivered yet; dropped before its end, the host counts as silent.
struct BreakAttempt<'a>(&'a Hosts, &'a Host);

impl Drop for BreakAttempt<'_> {
    fn drop(&mut self) {
        self.1.is_silent_at(self.0.seconds());
    }
}

impl LaneHosts {
    /// Delivers breaks to a host, at another of its addresses where it does not answer at the first.
    async fn deliver_breaks(&self, host: &Arc<Host>, notices: &[Notice]) -> NotifyOutcome {
        let places = self.hosts.places(host);
        let Some(&first) = places.first() else { return NotifyOutcome::NoReply };
        let options = self.hosts.options();
        if places.len() == 1 {
            return self.send_breaks(host, first, notices, options.patience).await;
        }
        // Where it may be elsewhere, half of the time is for finding it.
        if !host.did_not_answer()
            && self.send_breaks(host, first, notices, options.probe).await == NotifyOutcome::Acknowledged
        {
            return NotifyOutcome::Acknowledged;
        }
        let at = match self.find_answering(host, places).await {
            Ok(at) => at,
            Err(outcome) => return outcome,
        };
        if at.address != first.address {
            self.counters.found_elsewhere.increment();
            self.hosts.lock().table.prefer(host.number, at.address);
        }
        self.send_breaks(host, at, notices, options.probe).await
    }

    /// Finds the first of these addresses where the host's client answers; it is gone only if it is at all of them.
    async fn find_answering(
        &self,
        host: &Arc<Host>,
        places: Vec<HostAddress>,
    ) -> Result<HostAddress, NotifyOutcome> {
        self.counters.probes.add(places.len() as u64);
        let probe = self.hosts.options().probe;
        let probes = places.iter().map(|&place| self.calls.probe(place, host.uuid, probe));
        let answers = join_all(probes).await;
        let failed = answers.iter().filter(|answer| **answer != NotifyOutcome::Acknowledged);
        self.counters.probes_failed.add(failed.count() as u64);
        let is_gone = answers.iter().all(|answer| *answer == NotifyOutcome::Gone);
        let answering =
            places.into_iter().zip(answers).find(|(_, answer)| *answer == NotifyOutcome::Acknowledged);
        let attempt = if is_gone { NotifyOutcome::Gone } else { NotifyOutcome::NoReply };
        answering.map(|(place, _)| place).ok_or(attempt)
    }

    /// Sends breaks to a host at one address.
    async fn send_breaks(
        &self,
        host: &Host,
        at: HostAddress,
        notices: &[Notice],
        patience: Duration,
    ) -> NotifyOutcome {
        let mut files = Vec::new();
        for notice in notices {
            match notice {
                Notice::All => {
                    self.counters.resets.increment();
                    host.void_promises();
                    return self.calls.reset(at, self.hosts.server(), patience).await;
                }
                Notice::Volume(volume) => {
                    self.counters.callbacks_broken_volumes.increment();
                    files.extend(host.fids(volume.id(), Number { vnode: 0, uniquifier: 0 }));
                }
                Notice::Object(object) => {
                    self.counters.callbacks_broken_files.increment();
                    files.extend(host.fids(object.volume().id(), object.number()));
                }
            }
        }
        self.break_all(at, &files, patience).await
    }

    async fn break_all(&self, at: HostAddress, files: &[Fid], patience: Duration) -> NotifyOutcome {
        for files in files.chunks(FIDS_MAX as usize) {
            self.counters.breaks.increment();
            let outcome = self.calls.break_callbacks(at, files.to_vec(), patience).await;
            if outcome != NotifyOutcome::Acknowledged {
                self.counters.breaks_failed.increment();
                return outcome;
            }
        }
        NotifyOutcome::Acknowledged
    }
}
