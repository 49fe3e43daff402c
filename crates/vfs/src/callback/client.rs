//! Clients that cache: one record of each for all lanes of the process, with its pending callback breaks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use lane::mesh::Member;
use smallvec::SmallVec;

use super::{Ack, Acks, Holder};
use crate::object::{Object, SharedVolume};

/// A client that caches under callbacks: an AFS host, or the holder of a lease key. All lanes share the record. The
/// service keeps it for as long as it knows the client; callbacks keep it too.
pub struct Client {
    holder: Holder,
    /// Promises of an earlier epoch are void.
    epoch: AtomicU32,
    /// Set by a callback; cleared when the client says that it relies on nothing.
    promised: AtomicBool,
    /// Set if the client has to be told something before it is served again.
    has_pending_breaks: AtomicBool,
    /// The client gets no callbacks any more.
    is_retired: AtomicBool,
    kept_max: usize,
    state: Mutex<ClientState>,
}

/// Scope of a callback break.
#[derive(Clone, Debug)]
pub enum Notice {
    /// All that the client has cached of an object.
    Object(Arc<Object>),
    /// All that the client has cached of a whole volume.
    Volume(Arc<SharedVolume>),
    /// Everything that the client has cached.
    All,
}

struct ClientState {
    /// The lane on which it is told.
    home: Member,
    is_down: bool,
    /// Tellings in a row that came to nothing.
    late: u32,
    /// A task on the home lane is notifying the client.
    is_being_notified: bool,
    queue: VecDeque<Queued>,
    /// Number of holders that delay the notice that all is void, until in-flight replies have arrived.
    holds: u32,
    /// Notices that the client is being told.
    in_progress: Vec<Queued>,
}

/// One notice, the changes that wait for its acknowledgement, and when it expires.
struct Queued {
    notice: Notice,
    until: Instant,
    waiting: SmallVec<[Ack; 1]>,
}

/// Next step in notifying a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// Nothing.
    Nothing,
    /// To have it told, on this lane.
    Tell(Member),
}

impl Client {
    /// Makes a client without callbacks, to be told on the lane `home`. Of what it is not told at once at
    /// most `kept_max` notices are kept one by one.
    pub(crate) fn new(holder: Holder, home: Member, kept_max: usize) -> Arc<Self> {
        let state = ClientState {
            home,
            is_down: false,
            late: 0,
            is_being_notified: false,
            queue: VecDeque::new(),
            holds: 0,
            in_progress: Vec::new(),
        };
        let (epoch, has_pending_breaks, is_retired) =
            (AtomicU32::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let promised = AtomicBool::new(false);
        Arc::new(Self {
            holder,
            epoch,
            promised,
            has_pending_breaks,
            is_retired,
            kept_max,
            state: Mutex::new(state),
        })
    }

    /// Returns the client as a holder.
    pub fn holder(&self) -> Holder {
        self.holder
    }

    /// Returns whether callback breaks are pending that the client must receive before its next request is
    /// served.
    pub fn has_pending_breaks(&self) -> bool {
        self.has_pending_breaks.load(Ordering::SeqCst)
    }

    /// Returns whether it was found not to answer, and is told nothing until it comes by itself.
    pub fn is_down(&self) -> bool {
        self.lock().is_down
    }

    /// The client has given up all callbacks: those of all lanes become void, and no change waits for it.
    pub fn give_up_all_callbacks(&self) {
        let mut state = self.lock();
        // Before the epoch, so that a promise of the next one is noted.
        self.promised.store(false, Ordering::SeqCst);
        self.epoch.fetch_add(1, Ordering::SeqCst);
        let (queue, in_progress) = (std::mem::take(&mut state.queue), std::mem::take(&mut state.in_progress));
        self.has_pending_breaks.store(false, Ordering::SeqCst);
        drop(state);
        drop((queue, in_progress));
    }

    /// Returns whether the client may hold callbacks, or has breaks pending, since it last gave up all of
    /// them ([`Client::give_up_all_callbacks`]).
    pub fn has_callbacks(&self) -> bool {
        let state = self.lock();
        self.promised.load(Ordering::SeqCst)
            || self.has_pending_breaks()
            || !state.queue.is_empty()
            || !state.in_progress.is_empty()
    }

    /// Retires the client, which its service forgets: what it was promised on whatever lane is void, and it
    /// is promised nothing from here on. It is told nothing of that
    /// ([`Cache::void_all`](crate::Cache::void_all)).
    pub fn retire(&self) {
        // First, so that a promise of the next epoch finds it.
        self.is_retired.store(true, Ordering::SeqCst);
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::SeqCst)
    }

    /// The epoch in which promises are given now.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// The epoch of a callback that is given to the client now.
    pub(crate) fn issue_callback(&self) -> u32 {
        let epoch = self.epoch();
        if !self.promised.load(Ordering::SeqCst) {
            self.promised.store(true, Ordering::SeqCst);
        }
        epoch
    }

    /// Has it told `notice`, which matters until `until`. `ack` is dropped once it has heard; at once where it does not
    /// answer: it will hear before it is served again.
    pub(crate) fn post(&self, notice: Notice, until: Instant, ack: Ack, now: Instant) -> NextStep {
        let mut state = self.lock();
        let mut left = SmallVec::<[Ack; 1]>::new();
        state.queue.retain(|queued| queued.until > now || !queued.waiting.is_empty());
        let waiting = match state.is_down {
            true => {
                left.push(ack);
                self.has_pending_breaks.store(true, Ordering::SeqCst);
                SmallVec::new()
            }
            false => SmallVec::from_iter([ack]),
        };
        match state.queue.iter_mut().find(|queued| queued.notice.covers(&notice)) {
            Some(queued) => {
                queued.until = queued.until.max(until);
                queued.waiting.extend(waiting);
            }
            None => {
                state.queue.push_back(Queued { notice, until, waiting });
                if state.queue.len() > self.kept_max {
                    self.collapse_to_all(&mut state);
                }
            }
        }
        let next = state.next();
        drop(state);
        drop(left);
        next
    }

    /// Voids its promises of all lanes and has it told so; `ack` as in [`Client::post`].
    pub(crate) fn post_all(&self, until: Instant, ack: Ack, now: Instant) -> NextStep {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.post(Notice::All, until, ack, now)
    }

    /// Keeps back that all is void until [`Client::release_all`], each time.
    pub(crate) fn hold_all(&self) {
        self.lock().holds += 1;
    }

    /// Replies on their way have come, or had their time.
    pub(crate) fn release_all(&self) -> NextStep {
        let mut state = self.lock();
        state.holds -= 1;
        state.next()
    }

    /// Returns whether the break that voids all callbacks is still pending.
    pub(crate) fn has_void_pending(&self) -> bool {
        self.lock().undelivered().any(|queued| matches!(queued.notice, Notice::All))
    }

    /// Has `ack` wait with those that wait for it to hear that all is void, if it has yet to hear that.
    pub(crate) fn join_all(&self, ack: Ack) {
        let mut state = self.lock();
        let is_down = state.is_down;
        let all = state.undelivered().find(|queued| matches!(queued.notice, Notice::All));
        let left = match all {
            Some(queued) if !is_down => {
                queued.waiting.push(ack);
                None
            }
            _ => Some(ack),
        };
        drop(state);
        drop(left);
    }

    /// A change has waited for the client as long as allowed: pending breaks are delivered before the next request is
    /// served.
    pub(crate) fn defer_breaks(&self) {
        let state = self.lock();
        if !state.queue.is_empty() || state.is_being_notified {
            self.has_pending_breaks.store(true, Ordering::SeqCst);
        }
    }

    /// The client has contacted the server, so it may answer again. `acks` wait for every pending break.
    pub(crate) fn note_reachable(&self, acks: &Acks) -> NextStep {
        let mut state = self.lock();
        if state.is_down {
            state.is_down = false;
            // One telling that comes to nothing, and it is down again.
            state.late = u32::MAX - 1;
        }
        state.undelivered().for_each(|queued| queued.waiting.push(acks.issue()));
        if state.queue.is_empty() && !state.is_being_notified {
            self.has_pending_breaks.store(false, Ordering::SeqCst);
        }
        state.next()
    }

    /// The lane on which it is told from now on.
    pub(crate) fn set_home(&self, home: Member) {
        self.lock().home = home;
    }

    /// Returns what is to be told next, at most `max` objects at once; `None` if there is nothing.
    pub(crate) fn next_batch(&self, max: usize) -> Option<Vec<Notice>> {
        let mut state = self.lock();
        let count = match state.queue.front().map(|queued| &queued.notice) {
            Some(Notice::Object(_)) => {
                let objects =
                    state.queue.iter().take_while(|queued| matches!(queued.notice, Notice::Object(_)));
                objects.count().min(max)
            }
            Some(Notice::All) if state.holds > 0 => 0,
            Some(Notice::Volume(_) | Notice::All) => 1,
            None => 0,
        };
        state.is_being_notified = count > 0;
        state.in_progress = state.queue.drain(..count).collect();
        (count > 0).then(|| state.in_progress.iter().map(|queued| queued.notice.clone()).collect())
    }

    /// The client has acknowledged the batch that was being sent.
    pub(crate) fn note_acknowledged(&self) {
        let mut state = self.lock();
        state.late = 0;
        let told = std::mem::take(&mut state.in_progress);
        if state.queue.is_empty() {
            self.has_pending_breaks.store(false, Ordering::SeqCst);
        }
        drop(state);
        drop(told);
    }

    /// The client did not acknowledge the batch; after `late_max` times in a row it counts as down. Returns whether
    /// it does.
    pub(crate) fn note_no_reply(&self, late_max: u32) -> bool {
        let mut state = self.lock();
        state.late = state.late.saturating_add(1);
        self.put_back(&mut state);
        if state.late < late_max {
            return false;
        }
        (state.is_down, state.is_being_notified) = (true, false);
        self.has_pending_breaks.store(true, Ordering::SeqCst);
        let left: Vec<_> = state.queue.iter_mut().map(|queued| std::mem::take(&mut queued.waiting)).collect();
        drop(state);
        drop(left);
        true
    }

    /// The lane that was notifying the client ends: another lane takes the pending breaks.
    pub(crate) fn hand_back(&self) -> NextStep {
        let mut state = self.lock();
        self.put_back(&mut state);
        state.is_being_notified = false;
        state.next()
    }

    /// Gives up the notices, as no service is left to send them.
    pub(crate) fn give_up(&self) {
        self.note_no_reply(0);
    }

    fn put_back(&self, state: &mut ClientState) {
        std::mem::take(&mut state.in_progress)
            .into_iter()
            .rev()
            .for_each(|queued| state.queue.push_front(queued));
        if state.queue.len() > self.kept_max {
            self.collapse_to_all(state);
        }
    }

    /// Too many breaks are pending: one that voids all callbacks replaces them.
    fn collapse_to_all(&self, state: &mut ClientState) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        let queue = std::mem::take(&mut state.queue);
        let until = queue.iter().map(|queued| queued.until).max().expect("there is too much");
        let waiting = queue.into_iter().flat_map(|queued| queued.waiting).collect();
        state.queue.push_back(Queued { notice: Notice::All, until, waiting });
    }

    fn lock(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().expect("nobody panics while holding it")
    }
}

impl ClientState {
    /// Breaks that the client has not acknowledged.
    fn undelivered(&mut self) -> impl Iterator<Item = &mut Queued> {
        self.queue.iter_mut().chain(&mut self.in_progress)
    }

    /// The task that gets `Tell` sends it.
    fn next(&mut self) -> NextStep {
        let is_held = || self.holds > 0 && matches!(self.queue[0].notice, Notice::All);
        if self.is_down || self.is_being_notified || self.queue.is_empty() || is_held() {
            return NextStep::Nothing;
        }
        self.is_being_notified = true;
        NextStep::Tell(self.home)
    }
}

impl Notice {
    /// Returns whether a client that hears this needs not hear `other`.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Object(one), Self::Object(other)) => Arc::ptr_eq(one, other),
            (Self::Volume(one), Self::Volume(other)) => Arc::ptr_eq(one, other),
            (Self::Volume(one), Self::Object(other)) => Arc::ptr_eq(one, other.volume()),
            _ => false,
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        f.debug_struct("Client")
            .field("holder", &self.holder)
            .field("is_down", &state.is_down)
            .field("queued", &state.queue.len())
            .finish_non_exhaustive()
    }
}
