//! Durable opens whose session has ended (MS-SMB2 3.3.7.1): their clients may have them again for a while.
//! They give way to conflicting requests, since no client is there to give anything back. When there are too
//! many the oldest of the user with most gives way.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use budget::{Books, Shares};
use futures_util::future::LocalBoxFuture;
use grants::{Caching, Holder};
use smb_wire::create::options;

use crate::open::Open;
use crate::request_context::RequestContext;
use crate::tree::{OpenCloser, Tree};

/// Durability: state by which an open outlives its session (MS-SMB2 3.3.1.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Durability {
    /// `Open.DurableOpenTimeout`.
    pub(crate) timeout: Duration,
}

/// Opens without a session, of the whole process.
#[derive(Default)]
pub(crate) struct Disconnected {
    tables: Mutex<DisconnectedTables>,
    len: AtomicUsize,
}

struct DisconnectedTables {
    /// Disconnected opens by FileId.Volatile.
    disconnected: HashMap<u64, DisconnectedEntry>,
    holders: HashMap<Holder, Vec<Arc<Open>>>,
    /// Opens of an address, in the order in which they came.
    addresses: HashMap<IpAddr, BTreeMap<u64, Arc<Open>>>,
    /// Number of opens of each address, network and user.
    books: Books,
    ends: BTreeMap<(Instant, u64), Arc<Open>>,
    next: u64,
    /// Waiters for the next disconnected open, by number.
    waiting: HashMap<u64, Waker>,
}

/// Registers a CREATE that waits for an open to lose its session, until this is dropped.
struct DisconnectWaiter<'a> {
    disconnected: &'a Disconnected,
    number: u64,
}

impl Drop for DisconnectWaiter<'_> {
    fn drop(&mut self) {
        self.disconnected.lock().waiting.remove(&self.number);
    }
}

#[derive(Clone, Copy)]
struct DisconnectedEntry {
    number: u64,
    until: Instant,
}

impl Disconnected {
    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Keeps an open until then. Gives one that has to go for it: there are at most `max` of all, `per_address_max` of an address.
    pub(crate) fn keep(
        &self,
        open: &Arc<Open>,
        until: Instant,
        max: usize,
        per_address_max: usize,
    ) -> Option<Arc<Open>> {
        let mut tables = self.lock();
        let goes = tables.to_evict(open.address(), max, per_address_max);
        if let Some(goes) = &goes {
            tables.take(goes);
        }
        tables.put(open, until);
        self.len.store(tables.disconnected.len(), Ordering::Release);
        let waiting = std::mem::take(&mut tables.waiting);
        drop(tables);
        waiting.into_values().for_each(Waker::wake);
        goes
    }

    /// Waits until an open has no session, at most for `patience`. A client that has lost its connection may be back
    /// before the server knows.
    pub(crate) async fn until_disconnected(&self, open: &Open, patience: Duration) {
        let waits = DisconnectWaiter { disconnected: self, number: self.lock().number() };
        let lost = std::future::poll_fn(|cx| {
            let mut tables = self.lock();
            if open.session() == 0 {
                return Poll::Ready(());
            }
            tables.waiting.insert(waits.number, cx.waker().clone());
            Poll::Pending
        });
        // A request that has waited in vain finds the session still there.
        let _ = lane::time::timeout(patience, lost).await;
    }

    /// Takes an open out; `false` where another has.
    pub(crate) fn claim(&self, open: &Open) -> bool {
        if self.len() == 0 {
            return false;
        }
        let mut tables = self.lock();
        let was_in = tables.take(open);
        self.len.store(tables.disconnected.len(), Ordering::Release);
        was_in
    }

    /// Returns how long an open still waits for its client; `None` where it has one.
    pub(crate) fn left(&self, open: &Open, now: Instant) -> Option<Duration> {
        let tables = self.lock();
        let rest = tables.disconnected.get(&open.id().volatile.get())?;
        Some(rest.until.saturating_duration_since(now))
    }

    /// Returns the disconnected opens of a holder.
    fn of_holder(&self, holder: Holder) -> Vec<Arc<Open>> {
        if self.len() == 0 {
            return Vec::new();
        }
        self.lock().holders.get(&holder).cloned().unwrap_or_default()
    }

    /// Takes out the open whose time is over; else says when that is.
    fn expired(&self, now: Instant) -> Result<Arc<Open>, Option<Instant>> {
        let mut tables = self.lock();
        match tables.ends.first_key_value() {
            Some(((until, _), open)) if *until <= now => {
                let open = Arc::clone(open);
                tables.take(&open);
                self.len.store(tables.disconnected.len(), Ordering::Release);
                Ok(open)
            }
            first => Err(first.map(|((until, _), _)| *until)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, DisconnectedTables> {
        self.tables.lock().expect("nobody panics while holding it")
    }
}

impl Default for DisconnectedTables {
    fn default() -> Self {
        let (disconnected, holders, addresses, ends, next, waiting) = Default::default();
        // Each call passes the limit.
        let books = Books::new(usize::MAX, Shares::THRICE);
        Self { disconnected, holders, addresses, books, ends, next, waiting }
    }
}

impl DisconnectedTables {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn put(&mut self, open: &Arc<Open>, until: Instant) {
        let number = self.number();
        self.disconnected.insert(open.id().volatile.get(), DisconnectedEntry { number, until });
        self.holders.entry(open.grants().holder()).or_default().push(Arc::clone(open));
        self.addresses.entry(open.address()).or_default().insert(number, Arc::clone(open));
        self.books.charge(open.room.consumer(), 1);
        self.ends.insert((until, number), Arc::clone(open));
    }

    fn take(&mut self, open: &Open) -> bool {
        let Some(DisconnectedEntry { number, until }) = self.disconnected.remove(&open.id().volatile.get())
        else {
            return false;
        };
        self.ends.remove(&(until, number));
        self.books.give_back(open.room.consumer(), 1);
        let holder = open.grants().holder();
        let of_holder = self.holders.get_mut(&holder).expect("each is in every table");
        of_holder.retain(|other| other.id() != open.id());
        if of_holder.is_empty() {
            self.holders.remove(&holder);
        }
        let of_address = self.addresses.get_mut(&open.address()).expect("each is in every table");
        of_address.remove(&number);
        if of_address.is_empty() {
            self.addresses.remove(&open.address());
        }
        true
    }

    /// Returns the open to evict: the oldest of an address at its limit, or, where the table is full, of the heaviest
    /// address, network or user.
    fn to_evict(&self, address: IpAddr, max: usize, per_address_max: usize) -> Option<Arc<Open>> {
        let own = self.addresses.get(&address).filter(|own| own.len() >= per_address_max);
        if let Some(own) = own {
            return own.values().next().cloned();
        }
        if self.disconnected.len() < max {
            return None;
        }
        let (heaviest, _) = self.books.heaviest()?;
        let disconnected = self.addresses.values().flatten();
        let theirs = disconnected.filter(|(_, open)| open.room.consumer().is_of(heaviest));
        theirs.min_by_key(|(number, _)| **number).map(|(_, open)| Arc::clone(open))
    }
}

impl Open {
    /// Returns whether it stays when its session ends.
    ///
    /// A file that goes with its open is not kept waiting for a client that may not come back.
    pub(crate) fn outlives_session(&self) -> bool {
        //= MS-SMB2 3.3.7.1
        //# A durable open stays that has a batch oplock, or a lease with SMB2_LEASE_HANDLE_CACHING, which is not breaking.
        self.durability.is_some()
            && !self.has_options(options::DELETE_ON_CLOSE)
            && !self.named().is_deleting()
            && self.keeps_handle()
            // As Samba and Windows have it: others could not know of the locks of a client that may not come
            // back.
            && (!self.grants().has_locked() || self.grants().standing().caching.contains(Caching::W))
    }

    /// Returns whether it has what a durable open rests on.
    pub(crate) fn keeps_handle(&self) -> bool {
        let standing = self.grants().standing();
        self.held.keeps_handle(standing.caching) && !standing.is_breaking
    }
}

impl Tree {
    /// Takes opens whose session has ended: durable ones stay without one, until their clients come back or their time
    /// is over. The others are closed, with the deletions that come of it.
    pub fn leave_session<'a>(
        &'a self,
        ctx: &'a RequestContext,
        opens: Vec<Arc<Open>>,
    ) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let (durable, others): (Vec<_>, Vec<_>) =
                opens.into_iter().partition(|open| open.outlives_session());
            let mut go = Vec::new();
            for open in durable {
                go.extend(self.lane_state().disconnect(&open));
            }
            for open in go {
                self.lane_state().closer().close(open).await;
            }
            self.close_all(ctx, others).await;
        })
    }
}

impl crate::tree::LaneState {
    /// Puts an open away. Gives those that have to be closed now.
    fn disconnect(self: &Rc<Self>, open: &Arc<Open>) -> Vec<Arc<Open>> {
        let Some(durability) = open.durability else { return vec![Arc::clone(open)] };
        let (opens, counters) = (self.opens(), self.counters());
        if !opens.detach_session(open) {
            return Vec::new();
        }
        counters.durable_disconnected.increment();
        // No listing goes on until its client is back, and then the names are read again.
        if let Some(handle) = self.handle(open) {
            handle.forget_names();
        }
        let mut close = Vec::from_iter(self.keep_disconnected(open, durability.timeout));
        // A CREATE that is cut closes what it has made: the closing request has looked for it here before.
        if opens.find_any(open.id().volatile.get()).is_none() {
            opens.disconnected().claim(open);
            return close;
        }
        // A holder that was notified meanwhile is not heard any more.
        if !open.keeps_handle() && opens.disconnected().claim(open) {
            counters.durable_gave_way_conflict.increment();
            close.push(Arc::clone(open));
        }
        close
    }

    /// Keeps an open without a session for `patience`. Returns an open that has to be closed to make room.
    pub(crate) fn keep_disconnected(
        self: &Rc<Self>,
        open: &Arc<Open>,
        patience: Duration,
    ) -> Option<Arc<Open>> {
        let limits = self.opens().limits();
        let until = lane::time::now() + patience;
        let (max, per_address_max) = (limits.disconnected_max, limits.disconnected_per_address_max);
        let goes = self.opens().disconnected().keep(open, until, max, per_address_max);
        self.counters().durable_gave_way_limit.add(goes.is_some().into());
        self.reap();
        goes
    }

    /// Sees to it that what is not asked for again in time is closed.
    fn reap(self: &Rc<Self>) {
        if self.reaper.borrow().as_ref().is_some_and(|reaper| !reaper.is_finished()) {
            return;
        }
        let (lane_state, closer) = (Rc::downgrade(self), self.closer());
        let reaper = lane::spawn(async move {
            loop {
                let Some((opens, counters)) = lane_state
                    .upgrade()
                    .map(|lane_state| (Arc::clone(lane_state.opens()), Arc::clone(lane_state.counters())))
                else {
                    return;
                };
                let now = lane::time::now();
                match opens.disconnected().expired(now) {
                    Ok(open) => {
                        counters.durable_expired.increment();
                        closer.close(open).await;
                    }
                    Err(None) => return,
                    // One that ends before it may come meanwhile.
                    Err(Some(until)) => lane::time::sleep_until(until.min(now + REAP_INTERVAL)).await,
                }
            }
        });
        self.reaper.replace(Some(reaper));
    }

    /// Closes the disconnected opens of a holder whose grants are to be broken to `to`, and returns whether it has connected ones.
    pub(crate) fn close_conflicting(
        closer: &OpenCloser,
        opens: &crate::opens::Opens,
        holder: Holder,
        to: Caching,
    ) -> ClosedDisconnected {
        let disconnected = opens.disconnected().of_holder(holder);
        if disconnected.is_empty() {
            return ClosedDisconnected { closed: 0, has_connected: true };
        }
        let has_connected = opens.break_registrations(holder) > disconnected.len();
        let mut closed = 0;
        for open in disconnected {
            // A connected open that hears for the rest of them may keep their handles.
            let stays = has_connected && to.contains(Caching::H);
            if !stays && opens.disconnected().claim(&open) {
                closed += 1;
                let closer = closer.clone();
                lane::spawn(async move { closer.close(open).await }).detach();
            }
        }
        ClosedDisconnected { closed, has_connected }
    }
}

/// The number of a holder's disconnected opens that were closed, and whether it has connected ones.
pub(crate) struct ClosedDisconnected {
    pub(crate) closed: u64,
    /// Other opens of the holder have a connection.
    pub(crate) has_connected: bool,
}

/// An open stays so much longer than its time at most.
const REAP_INTERVAL: Duration = Duration::from_secs(1);
