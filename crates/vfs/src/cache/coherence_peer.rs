//! Part of a lane's cache that keeps it coherent with other lanes: shared objects, callback table, invalidation
//! queue.

use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use coherence::{Acks, ChangeKind, PresenceToken, SnoopFilter};
use lane::mesh::{Member, Sender};
use lane::{Ended, Task};

use super::Inner;
use crate::callback::{CallbackNotifier, CallbackTable, InvalidateRequest, Invalidation};
use crate::counters::VfsCounters;
use crate::grant::{BreaksToSend, LeaseBreak, home_of};
use crate::name::RESERVED;
use crate::object::{Object, Objects};

/// One lane as a peer in the coherence protocol of the process's [`Objects`].
pub(crate) struct CoherencePeer {
    pub(crate) objects: Objects,
    pub(crate) callbacks: Rc<CallbackTable>,
    pub(super) counters: Arc<VfsCounters>,
    me: Member,
    pub(super) ringer: Sender<()>,
    listeners: RefCell<Vec<Weak<dyn InvalidationListener>>>,
    pub(super) notifiers: RefCell<Vec<Weak<dyn CallbackNotifier>>>,
    /// Task that forgets expired callbacks.
    pub(super) sweeper: RefCell<Option<Task<()>>>,
    writers_made: Cell<u64>,
    /// Files made under a name of the server's own.
    staged_names_made: Cell<u64>,
}

/// Receives invalidations on one lane for a service that lets its clients cache.
pub trait InvalidationListener {
    /// Notifies clients of the service that cache the object, all but the spared holder. The change waits until the
    /// returned future has ended, so that has a bound of its own. `None` where no client caches it.
    fn invalidate(&self, invalidation: &Invalidation) -> Option<ClientNotification>;

    /// Returns whether the listener ever notifies clients ([`InvalidationListener::invalidate`]); it is asked
    /// once, as it is added. A lane that has such a listener receives every invalidation of what it shares,
    /// whatever its snoop filter says.
    fn has_clients(&self) -> bool {
        true
    }

    /// Sends a lease or oplock break to a holder whose connection is on this lane: it is queued before this returns.
    /// A service ignores holders that are not its clients. By default it has none.
    fn break_lease(&self, _asked: &LeaseBreak) {}
}

/// Future that ends when the clients of a service were notified.
pub type ClientNotification = Pin<Box<dyn Future<Output = ()>>>;

impl CoherencePeer {
    /// Makes the peer of the current lane.
    ///
    /// # Panics
    /// When the lane takes part already, or there is no room for it.
    pub(super) fn new(objects: &Objects, counters: &Arc<VfsCounters>) -> Self {
        let me = Member::from(lane::current().id());
        assert!(me.index() < objects.options().lanes_max, "there is room for the lanes that were announced");
        objects.queues().open(me).expect("a lane has one cache that shares");
        Self {
            objects: objects.clone(),
            callbacks: CallbackTable::new(me, lane::time::now()),
            counters: Arc::clone(counters),
            me,
            ringer: objects.queues().ringer(me),
            listeners: RefCell::default(),
            notifiers: RefCell::default(),
            sweeper: RefCell::default(),
            writers_made: Cell::new(0),
            staged_names_made: Cell::new(0),
        }
    }

    /// Returns which lane this is.
    pub(crate) fn member(&self) -> Member {
        self.me
    }

    /// Returns a new number for a writer; no other of the process has it.
    pub(super) fn number_writer(&self) -> u64 {
        let number = self.writers_made.get();
        self.writers_made.set(number + 1);
        (self.me.index() as u64) << 48 | number
    }

    pub(super) fn new_staged_name(&self) -> CString {
        let number = self.staged_names_made.get();
        self.staged_names_made.set(number + 1);
        let mut name = RESERVED.to_vec();
        name.extend_from_slice(format!("{:x}-{}-{number}", self.objects.mark(), self.me.index()).as_bytes());
        CString::new(name).expect("it holds no zero byte")
    }

    /// Returns whether a name is the staged name of a file of another process.
    pub(crate) fn is_foreign_staged_name(&self, name: &[u8]) -> bool {
        staging_process(name).is_some_and(|mark| mark != self.objects.mark())
    }

    pub(super) fn add_invalidation_listener(&self, listener: &Rc<dyn InvalidationListener>) {
        let mut listeners = self.listeners.borrow_mut();
        listeners.retain(|known| known.strong_count() > 0);
        listeners.push(Rc::downgrade(listener));
        drop(listeners);
        if listener.has_clients() {
            self.snoop_filter().match_all();
        }
    }

    fn snoop_filter(&self) -> &Arc<SnoopFilter> {
        self.objects.queues().snoop_filter(self.me)
    }

    /// Counts the lane in for a name that it is about to look at and to cache.
    pub(super) fn count_in(&self, directory: &Arc<Object>, name: &[u8]) -> PresenceToken {
        self.snoop_filter().count_in(self.objects.queues().slot(directory, name))
    }

    /// Breaks a lease of one of this lane's own clients.
    fn break_lease(&self, asked: &LeaseBreak) {
        let listeners: Vec<_> = self.listeners.borrow().iter().filter_map(Weak::upgrade).collect();
        listeners.iter().for_each(|listener| listener.break_lease(asked));
    }

    /// Returns the home of holders on this lane, from which they are notified.
    pub(super) fn home(&self) -> grants::Home {
        home_of(self.me)
    }

    /// Notifications to this lane's clients that an invalidation causes.
    fn notifications(&self, invalidation: &Invalidation) -> Vec<ClientNotification> {
        let listeners: Vec<_> = self.listeners.borrow().iter().filter_map(Weak::upgrade).collect();
        listeners.iter().filter_map(|listener| listener.invalidate(invalidation)).collect()
    }
}

impl Drop for CoherencePeer {
    fn drop(&mut self) {
        self.end();
    }
}

impl Inner {
    /// Invalidates these objects on every lane and breaks their clients' callbacks. The caller holds their change
    /// locks.
    pub(super) async fn invalidate_everywhere(self: &Rc<Self>, all: &[Invalidation]) {
        let peer = self.peer.get().expect("changes are made on volumes that share");
        let acks = Acks::default();
        let asked = peer.objects.queues().invalidate(&peer.ringer, all, &acks, lane::time::now());
        self.counters.invalidations_sent.add(asked.sent);
        self.counters.invalidations_filtered.add(asked.filtered);
        for invalidation in all {
            self.forget_invalidated(invalidation);
            for notification in peer.notifications(invalidation) {
                spawn_notification(notification, acks.issue());
            }
            peer.notify_clients(invalidation, || acks.issue());
        }
        let patience = peer.objects.options().callbacks.patience;
        let (mut acks, mut wait) = (pin!(acks), patience);
        // Lanes answer. Of those that have ended the clients have as long as of any other.
        while lane::time::timeout(wait, acks.as_mut()).await.is_err() {
            wait = ANOTHER_LOOK;
            peer.objects.queues().end_waits(lane::time::now() - patience);
        }
    }

    /// Sends lease breaks to their holders' lanes.
    pub(super) fn send_breaks(&self, mut breaks: BreaksToSend) {
        breaks.unlock();
        let Some(peer) = self.peer.get() else { return };
        self.counters.grants_expired.add(breaks.expired());
        for unsent in breaks.into_breaks() {
            self.counters.grants_broken.increment();
            let lane = Member::from(usize::from(unsent.lease_break.grant_break.home.0));
            if lane == peer.me {
                peer.break_lease(&unsent.lease_break);
            } else {
                peer.objects.queues().queue_lease_break(&peer.ringer, lane, unsent);
            }
        }
    }

    /// Handles one invalidation of another lane.
    fn handle_request(self: &Rc<Self>, request: InvalidateRequest) {
        let peer = self.peer.get().expect("lanes that share are asked");
        self.counters.invalidations_acked.increment();
        self.forget_invalidated(&request.invalidation);
        let notification = peer.notifications(&request.invalidation);
        peer.notify_clients(&request.invalidation, || request.ack.clone());
        let request = Rc::new(request);
        notification
            .into_iter()
            .for_each(|notification| spawn_notification(notification, Rc::clone(&request)));
    }

    fn forget_invalidated(self: &Rc<Self>, invalidation: &Invalidation) {
        match &invalidation.what {
            ChangeKind::Names(names) => {
                for watched in self.watches.of_object(&invalidation.object) {
                    watched.note_change();
                    self.note_own_change(&watched);
                    names.iter().for_each(|name| self.forget_in(&watched, name));
                }
            }
            ChangeKind::Unknown => {
                for watched in self.watches.of_object(&invalidation.object) {
                    watched.note_change();
                    self.forget_within(watched.key());
                }
            }
            ChangeKind::Place | ChangeKind::Gone | ChangeKind::Rights | ChangeKind::Subtree => {
                for watched in self.watches.of_object(&invalidation.object) {
                    watched.retire();
                    self.watches.forget_subtree(watched.key());
                }
            }
            // Attributes and content are asked of the kernel at every use.
            ChangeKind::Content | ChangeKind::Attributes => {}
        }
    }
}

/// Returns the mark of the process that gave a file this staged name; `None` for a name of another kind.
pub(crate) fn staging_process(name: &[u8]) -> Option<u64> {
    let rest = std::str::from_utf8(name.strip_prefix(RESERVED)?).ok()?;
    let mut parts = rest.split('-');
    let [mark, lane, number] = [parts.next()?, parts.next()?, parts.next()?];
    let are_numbers = lane.parse::<u32>().is_ok() && number.parse::<u64>().is_ok();
    if !are_numbers || parts.next().is_some() {
        return None;
    }
    u64::from_str_radix(mark, 16).ok()
}

/// Runs a notification while the lane goes on; `until` is dropped when it has ended.
fn spawn_notification<T: 'static>(notification: ClientNotification, until: T) {
    lane::spawn(async move {
        notification.await;
        drop(until);
    })
    .detach();
}

/// Serves the invalidation queue of the lane for as long as the cache lives.
pub(super) async fn serve_requests(inner: Weak<Inner>, objects: Objects, me: Member) -> Ended {
    let Ok(mut bell) = objects.queues().bell(me) else { return Ended::Unexpectedly };
    loop {
        loop {
            let Some(inner) = inner.upgrade() else { return Ended::Done };
            if let Some(lease) = objects.queues().next_lease_break(me) {
                inner.peer.get().expect("lanes that share are told").break_lease(&lease.lease_break);
                continue;
            }
            let Some(request) = objects.queues().next_request(me) else { break };
            inner.handle_request(request);
        }
        if let Some(peer) = inner.upgrade().and_then(|inner| inner.peer.get().cloned()) {
            peer.ack_voided_clients();
            peer.notify_queued_clients();
        }
        if bell.recv().await.is_none() {
            return Ended::Unexpectedly;
        }
    }
}

/// Interval at which a change that has waited long looks whether it is a lane that has ended which does not
/// answer.
const ANOTHER_LOOK: std::time::Duration = std::time::Duration::from_millis(50);
