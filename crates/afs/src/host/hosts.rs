//! The hosts of a process: the table, what the index keeps of it, and the hosts that are leaving.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant, UNIX_EPOCH};

use index::{HostRecord, HostState, Index};
use lane::time;
use vfs::{Client, Holder};
use xdr::afs::AfsUuid;

use super::host_identity::HostAddress;
use super::table::{HostIdentification, HostTable, IdentificationStep, RemovedHost, TableLimits};
use super::{Host, HostOptions};

/// All hosts of a process. Make one before its lanes; clones are handles to the same. Its lock is taken when
/// a connection is new, when a client has moved, and to look up where a host is called; never on the way of a
/// client that is known.
#[derive(Clone)]
pub struct Hosts {
    shared: Arc<HostsShared>,
}

struct HostsShared {
    options: HostOptions,
    server: AfsUuid,
    index: Option<Arc<Index>>,
    began: OnceLock<Instant>,
    /// Time when the first key was drawn, in nanoseconds since 1970.
    drawn: OnceLock<u64>,
    state: Mutex<HostsState>,
}

/// Next step, and the host that was made.
pub(super) type Stepped = (IdentificationStep<Arc<Host>>, Option<Arc<Host>>);

pub(super) struct HostsState {
    pub(super) table: HostTable<Arc<Host>>,
    /// Hosts by number, also those that have left and are being notified.
    by_number: HashMap<u64, Weak<Host>>,
    /// Addresses of hosts that are notified though they are no longer in the table.
    leaving: HashMap<u64, Vec<HostAddress>>,
    /// Keys of hosts in the index.
    keys: HashSet<[u8; 16]>,
    next: u64,
    swept: u32,
}

impl Hosts {
    /// Makes an empty table, of the file server of this identity. They are kept in `index`, where there is
    /// one: a server that may be killed while its clients rely on something has to tell them when it is there
    /// again.
    pub fn new(options: HostOptions, server: AfsUuid, index: Option<Arc<Index>>) -> Self {
        let limits = TableLimits {
            hosts_max: options.hosts_max,
            per_source_max: options.per_address_max,
            silent_per_source_max: options.silent_per_address_max,
            silent_s_min: u32::try_from(options.silence.as_secs()).unwrap_or(u32::MAX),
        };
        let state = HostsState {
            table: HostTable::new(limits),
            by_number: HashMap::new(),
            leaving: HashMap::new(),
            keys: HashSet::new(),
            next: 0,
            swept: 0,
        };
        let (began, drawn, state) = (OnceLock::new(), OnceLock::new(), Mutex::new(state));
        Self { shared: Arc::new(HostsShared { options, server, index, began, drawn, state }) }
    }

    /// Returns the bounds of hosts.
    pub fn options(&self) -> &HostOptions {
        &self.shared.options
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.lock().table.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the file server's identity, by which clients know it.
    pub fn server(&self) -> AfsUuid {
        self.shared.server
    }

    pub(super) fn index(&self) -> Option<&Arc<Index>> {
        self.shared.index.as_ref()
    }

    /// Seconds since the first lane asked.
    pub(super) fn seconds(&self) -> u32 {
        let now = time::clock();
        let began = *self.shared.began.get_or_init(|| now);
        u32::try_from(now.saturating_duration_since(began).as_secs()).unwrap_or(u32::MAX)
    }

    pub(super) fn find(&self, address: SocketAddr, epoch: u32) -> Option<Arc<Host>> {
        self.lock().table.find(address, epoch).cloned()
    }

    /// Returns the host with this number, also if it is leaving.
    pub(super) fn by_holder(&self, holder: Holder) -> Option<Arc<Host>> {
        self.lock().by_number.get(&holder.0)?.upgrade()
    }

    /// Returns the addresses where a host is called, the first one first.
    pub(super) fn places(&self, host: &Host) -> Vec<HostAddress> {
        let state = self.lock();
        match state.leaving.get(&host.number) {
            Some(places) => places.clone(),
            None => state.table.places(host.number).to_vec(),
        }
    }

    /// Returns what is to be done next about a client that was met; where it is to be made a host, it is one
    /// afterwards. `client` gives `vfs`'s record of a holder.
    pub(super) fn step<E>(
        &self,
        identification: &HostIdentification,
        removed: &mut Vec<RemovedHost<Arc<Host>>>,
        client: impl FnOnce(Holder) -> Result<Arc<Client>, E>,
    ) -> Result<Stepped, E> {
        let now = self.seconds();
        let mut state = self.lock();
        let step = state.table.step(identification, now, removed);
        if !matches!(step, IdentificationStep::Make) {
            return Ok((step, None));
        }
        state.next += 1;
        let number = HOLDERS | state.next;
        // A copy of a client has a key of its own.
        let own = identification.identity().uuid.map(|uuid| uuid.0).filter(|key| !state.keys.contains(key));
        let key = own.unwrap_or_else(|| self.drawn_key(number));
        let host = Arc::new(Host::new(number, identification.identity(), key, client(Holder(number))?, now));
        state.table.insert(number, Arc::clone(&host), identification, removed);
        state.by_number.insert(number, Arc::downgrade(&host));
        state.keys.insert(key);
        Ok((IdentificationStep::Make, Some(host)))
    }

    /// Has the index keep a host, with where it is now. Not yet safe: [`Index::flush`].
    pub(super) fn record(&self, host: &Host, now: u32) {
        let Some(index) = self.index() else { return };
        // Under the lock: another lane forgets a host of the same key before or after.
        let state = self.lock();
        let addresses: Vec<_> = state.table.places(host.number).iter().map(|place| place.address).collect();
        if addresses.is_empty() {
            return;
        }
        let host_state = if host.did_not_answer() { HostState::Down } else { HostState::Up };
        let seen = time::wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let seen = i64::try_from(seen).unwrap_or(i64::MAX);
        let record = HostRecord { epoch: 0, state: host_state, seen, addresses };
        host.recorded.store(now, Ordering::Relaxed);
        index.record_host(host.key, record).expect("a host has as many addresses as the index takes");
    }

    /// Begins the eviction of a host that has left the table, and is notified at these addresses.
    pub(super) fn begin_eviction(&self, removed: &RemovedHost<Arc<Host>>) {
        self.lock().leaving.insert(removed.what.number, removed.places.clone());
    }

    /// Ends an eviction, as the host has been notified, or cannot be: nothing is kept of it.
    pub(super) fn end_eviction(&self, host: &Host) {
        let mut state = self.lock();
        state.leaving.remove(&host.number);
        state.by_number.remove(&host.number);
        state.keys.remove(&host.key);
        if let Some(index) = self.index() {
            index.forget_host(host.key);
        }
    }

    /// Releases a host whose callbacks are void and that has been notified, as the server stops.
    pub(super) fn release(&self, host: &Host) {
        self.lock().table.remove(host.number);
        host.leave();
        self.end_eviction(host);
    }

    /// Deletes the index's record of a host of an earlier run, unless a host of this run has its key by now.
    pub(super) fn forget_recorded(&self, key: [u8; 16]) {
        let state = self.lock();
        if let Some(index) = self.index().filter(|_| !state.keys.contains(&key)) {
            index.forget_host(key);
        }
    }

    /// Returns whether it is time to look for hosts that ask for nothing any more; for one lane at a time.
    pub(super) fn begin_sweep(&self, now: u32, every: Duration) -> bool {
        let mut state = self.lock();
        let is_due = u64::from(now.saturating_sub(state.swept)) >= every.as_secs();
        if is_due {
            state.swept = now;
        }
        is_due
    }

    /// Returns what no client tells, and no host of an earlier run was kept by.
    fn drawn_key(&self, number: u64) -> [u8; 16] {
        let began = *self.shared.drawn.get_or_init(|| {
            let since = time::wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        });
        (u128::from(began) << 64 | u128::from(number)).to_be_bytes()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HostsState> {
        self.shared.state.lock().expect("nobody panics while holding it")
    }
}

/// Returns whether a holder is a host.
pub(super) fn is_host(holder: Holder) -> bool {
    holder.0 & HOLDERS_MASK == HOLDERS
}

impl std::fmt::Debug for Hosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosts")
            .field("server", &self.shared.server)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Numbers of hosts among those of all that hold something.
const HOLDERS: u64 = 0xaf50 << 48;
const HOLDERS_MASK: u64 = 0xffff << 48;
