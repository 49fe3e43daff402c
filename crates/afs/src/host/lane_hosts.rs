//! Hosts as one lane sees them: the client of a connection, and the hosts that are called from here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lane::time;
use rx_lane::{AbortCode, Driver};
use vfs::{Cache, CallbackNotifier, VfsCounters};

use super::calling::Calls;
use super::contact::Contact;
use super::refusals::{BUSY, UNREACHABLE};
use super::whoareyou::WhoAreYouQueries;
use super::{CallbackPromise, Host, HostCounters, Hosts};

/// The hosts of one lane. It tells those whose home this lane is (`vfs::CallbackNotifier`) by its driver, so from the port that its clients
/// know the server by.
pub struct LaneHosts {
    pub(super) hosts: Hosts,
    pub(super) cache: Cache,
    pub(super) calls: Calls,
    pub(super) whoareyou: WhoAreYouQueries,
    /// Clients that did not identify themselves, and until when they are not asked again.
    pub(super) silent: RefCell<HashMap<SocketAddr, Instant>>,
    pub(super) counters: Arc<HostCounters>,
    pub(super) me: Weak<Self>,
}

impl LaneHosts {
    /// Creates the hosts of the current lane, whose objects are in `cache`, and whose driver serves port 7000.
    ///
    /// # Panics
    /// For a cache that does not share ([`Cache::sharing`]).
    pub fn new(hosts: &Hosts, cache: &Cache, driver: &Driver) -> Rc<Self> {
        let made = Rc::new_cyclic(|me: &Weak<Self>| Self {
            hosts: hosts.clone(),
            cache: cache.clone(),
            calls: Calls::new(driver.clone()),
            whoareyou: WhoAreYouQueries::default(),
            silent: RefCell::default(),
            counters: Arc::default(),
            me: me.clone(),
        });
        let teller: Rc<dyn CallbackNotifier> = Rc::clone(&made) as Rc<dyn CallbackNotifier>;
        cache.add_callback_notifier(&teller);
        lane::spawn(keep_up(Rc::downgrade(&made))).detach();
        made
    }

    /// Returns the host behind a connection, which has been notified of all that it must know before it is served.
    /// Where it is known and has moved nowhere, that is a look at the connection and at the host. Else its client is
    /// asked for its identity, notified that it has no callbacks yet, and recorded in the index, before this returns.
    ///
    /// # Errors
    /// The code to abort its call with: that of a dead call (-1) where the client does not answer, so that its
    /// callbacks could not be broken. VBUSY where there is no room for it now.
    pub async fn of(&self, contact: &Contact) -> Result<Arc<Host>, AbortCode> {
        for _ in 0..ATTEMPTS_MAX {
            let address = contact.connection().remote().ok_or(UNREACHABLE)?;
            let host = match contact.known(address) {
                Some(host) => host,
                None => {
                    let host = self.identify(contact, address).await?;
                    contact.set(address, &host);
                    host
                }
            };
            host.touch(self.hosts.seconds());
            if host.client().has_pending_breaks()
                && self.cache.flush_pending_breaks(host.client()).await.is_err()
                && !host.has_left()
            {
                self.counters.refused_owes.increment();
                return Err(UNREACHABLE);
            }
            if host.is_settled() {
                return Ok(host);
            }
        }
        self.counters.refused_share.increment();
        Err(BUSY)
    }

    /// Returns the expiry of a callback that is given now, if `vfs` has room for it.
    pub fn promise(&self) -> CallbackPromise {
        let options = self.hosts.options();
        CallbackPromise::new(time::now(), options.promise, options.bias())
    }

    /// Takes all callbacks of the client back (GiveUpAllCallBacks), on every lane. A client that asks for that from
    /// another address than where it is called is notified of it, as it may not be the same one.
    pub async fn give_up_all_callbacks(&self, contact: &Contact, host: &Arc<Host>) {
        self.counters.callbacks_given_up_all.increment();
        let first = self.hosts.places(host).first().map(|place| place.address);
        match contact.connection().remote() {
            Some(from) if first == Some(from) => host.client().give_up_all_callbacks(),
            _ => self.cache.void_all(host.client()).await,
        }
    }

    /// Counts the callbacks that a client gives up (GiveUpCallBacks). That is a hint, and only counted: it may have
    /// asked for one of them again since, by a call that came before this one, and would not hear of its next change.
    /// What it does not need runs out, or leaves when places are short.
    pub fn give_up_callbacks(&self, files: usize) {
        self.counters.callbacks_given_up.add(files as u64);
    }

    /// Returns what is counted on this lane.
    pub fn counters(&self) -> &Arc<HostCounters> {
        &self.counters
    }

    /// Returns what is counted of the tree that they rely on.
    pub(crate) fn tree(&self) -> &Arc<VfsCounters> {
        self.cache.counters()
    }

    /// Returns all lanes' hosts.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }
}

impl std::fmt::Debug for LaneHosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneHosts").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// Runs the [upkeep](LaneHosts::upkeep) of a lane's hosts for as long as they live.
async fn keep_up(lane: Weak<LaneHosts>) {
    loop {
        time::sleep(UPKEEP_PERIOD).await;
        let Some(lane) = lane.upgrade() else { return };
        lane.upkeep(UPKEEP_PERIOD);
    }
}

/// Interval of upkeep.
const UPKEEP_PERIOD: Duration = Duration::from_secs(60);
/// A client that has left by the time it was found is looked for anew.
const ATTEMPTS_MAX: u32 = 4;
