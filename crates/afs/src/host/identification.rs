//! Identification of clients: one that calls from an unknown address is asked WhoAreYou, probed where it was, notified
//! that it has no callbacks, and recorded in the index.

use std::net::SocketAddr;
use std::sync::Arc;

use lane::offload::offload;
use lane::time;
use rx_lane::AbortCode;
use vfs::NotifyOutcome;

use super::Host;
use super::contact::Contact;
use super::host_identity::HostAddress;
use super::lane_hosts::LaneHosts;
use super::refusals::{BUSY, UNREACHABLE};
use super::table::{AddressMatch, HostIdentification, IdentificationStep, RemovedHost};
use super::whoareyou::QueryTurn;

impl LaneHosts {
    /// Identifies the host that calls from `address`, by a connection where none is known.
    pub(super) async fn identify(
        &self,
        contact: &Contact,
        address: SocketAddr,
    ) -> Result<Arc<Host>, AbortCode> {
        let (epoch, _) = contact.connection().id().ok_or(UNREACHABLE)?;
        if let Some(host) = self.hosts.find(address, epoch).filter(|host| host.is_settled()) {
            return Ok(host);
        }
        let now = time::now();
        if self.silent.borrow().get(&address).is_some_and(|until| now < *until) {
            self.counters.refused_silent.increment();
            return Err(UNREACHABLE);
        }
        let options = self.hosts.options();
        let turn = self.whoareyou.turn((address, epoch), options.asking_max, options.asking_per_address_max);
        let query = match turn {
            QueryTurn::Wait(query) => query,
            QueryTurn::Ask(owner, query) => {
                let place = HostAddress { address, epoch, local: contact.connection().local_ip() };
                let me = self.me.upgrade().ok_or(BUSY)?;
                // A call that is given up does not take the others' answer with it.
                lane::spawn(async move { owner.answer(me.query_identity(place).await) }).detach();
                query
            }
            QueryTurn::Full => {
                self.counters.refused_asking.increment();
                return Err(BUSY);
            }
        };
        query.answered().await
    }

    /// Asks the client at this address by RXAFSCB_WhoAreYou, and takes the steps that its identity leads to.
    async fn query_identity(&self, place: HostAddress) -> Result<Arc<Host>, AbortCode> {
        if let Some(host) = self.hosts.find(place.address, place.epoch) {
            return self.make_safe(host).await;
        }
        self.counters.clients_asked.increment();
        let patience = self.hosts.options().patience;
        let Some(identity) = self.calls.who_are_you(place, patience).await else {
            return self.note_silent(place);
        };
        if identity.uuid.is_none() {
            self.counters.clients_nameless.increment();
        }
        let mut identification = HostIdentification::new(place, identity);
        for _ in 0..STEPS_MAX {
            let mut removed = Vec::new();
            let stepped = self.hosts.step(&identification, &mut removed, |holder| self.cache.client(holder));
            self.evict(removed);
            let Ok((step, made)) = stepped else {
                self.counters.refused_clients.increment();
                return Err(BUSY);
            };
            match step {
                IdentificationStep::Known { host, how } => return self.accept_host(host, how).await,
                IdentificationStep::Make => {
                    self.counters.hosts_made.increment();
                    let host = made.expect("it was made in this step");
                    self.hosts.record(&host, self.hosts.seconds());
                    return self.make_safe(host).await;
                }
                IdentificationStep::Probe { host, at, uuid } => {
                    self.counters.probes.increment();
                    let probe = self.hosts.options().probe;
                    let answers =
                        self.calls.probe(at, Some(uuid), probe).await == NotifyOutcome::Acknowledged;
                    if !answers {
                        self.counters.probes_failed.increment();
                    }
                    identification.probed(host, at.address, answers);
                }
                IdentificationStep::Reset => {
                    self.counters.resets.increment();
                    if self.calls.reset(place, self.hosts.server(), patience).await
                        != NotifyOutcome::Acknowledged
                    {
                        return self.note_silent(place);
                    }
                    identification.reset();
                }
                IdentificationStep::Refused => {
                    self.counters.refused_share.increment();
                    return Err(BUSY);
                }
            }
        }
        self.counters.refused_share.increment();
        Err(BUSY)
    }

    /// Accepts a client that is a host already.
    async fn accept_host(&self, host: Arc<Host>, how: AddressMatch) -> Result<Arc<Host>, AbortCode> {
        match how {
            AddressMatch::Same => {
                self.counters.hosts_again.increment();
                host.void_promises();
            }
            AddressMatch::Additional | AddressMatch::Moved => {
                self.counters.hosts_moved.increment();
                self.cache.set_home_of(host.client());
                host.set_safe(false);
                self.hosts.record(&host, self.hosts.seconds());
            }
        }
        if how == AddressMatch::Moved {
            // Where it was another client may have answered for it.
            self.cache.void_all(host.client()).await;
        }
        self.make_safe(host).await
    }

    /// Waits until the index has stored a host: after a crash it is notified that its callbacks are void.
    async fn make_safe(&self, host: Arc<Host>) -> Result<Arc<Host>, AbortCode> {
        if host.is_safe() {
            return Ok(host);
        }
        if let Some(index) = self.hosts.index() {
            let index = Arc::clone(index);
            let flushed = offload(None, move || index.flush()).await;
            if !matches!(flushed, Ok(Ok(()))) {
                self.counters.refused_index.increment();
                return Err(BUSY);
            }
        }
        host.set_safe(true);
        Ok(host)
    }

    fn note_silent(&self, place: HostAddress) -> Result<Arc<Host>, AbortCode> {
        self.counters.refused_silent.increment();
        let (now, mut silent) = (time::now(), self.silent.borrow_mut());
        if silent.len() >= SILENT_MAX {
            silent.retain(|_, until| *until > now);
        }
        if silent.len() < SILENT_MAX {
            silent.insert(place.address, now + self.hosts.options().patience);
        }
        Err(UNREACHABLE)
    }

    /// Evicts hosts that the table has removed: tells their clients that nothing counts any more, and forgets them.
    pub(super) fn evict(&self, removed: Vec<RemovedHost<Arc<Host>>>) {
        for removed in removed {
            self.counters.hosts_evicted.increment();
            self.hosts.begin_eviction(&removed);
            removed.what.leave();
            let (hosts, cache) = (self.hosts.clone(), self.cache.clone());
            lane::spawn(async move {
                let farewell = HostEviction { hosts, host: removed.what };
                if !removed.places.is_empty() {
                    cache.void_all(farewell.host.client()).await;
                }
            })
            .detach();
        }
    }
}

/// The eviction of one host; when it is dropped, also with its lane, the host is gone.
struct HostEviction {
    hosts: super::Hosts,
    host: Arc<Host>,
}

impl Drop for HostEviction {
    fn drop(&mut self) {
        self.hosts.end_eviction(&self.host);
    }
}

/// Largest number of steps: findings about a client change only where another one comes in between.
const STEPS_MAX: u32 = 16;
//@ limit: addresses that did not identify themselves
//@ section: AFS hosts
//@ unit: address and port, for 4 s
//@ address: one for each port
//@ all: lane: {}
//@ empty: asked again; others feel nothing
//@ counter: afs_hosts_refused{why="silent"}
//@ attack: afs-pools
/// Addresses that are not asked again for a while, of one lane.
const SILENT_MAX: usize = 4096;
