//! Clients that cache: one record of each for all lanes of the process, with its pending callback breaks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use lane::mesh::Member;
use smallvec::SmallVec;

use super::{Ack, Acks, CachedObject, Holder, LockedObject};

/// A client that caches under callbacks: an AFS host, or the holder of a lease key. All lanes share the record. The
/// service keeps it for as long as it knows the client; callbacks keep it too.
pub struct Client<O: CachedObject> {
    holder: Holder,
    /// Callbacks of an earlier epoch are void.
    epoch: AtomicU32,
    /// Set by a callback; cleared when the client says that it relies on nothing.
    has_been_given: AtomicBool,
    /// Set if breaks must be delivered before the client is served again.
    has_pending_breaks: AtomicBool,
    /// The client gets no callbacks any more.
    is_retired: AtomicBool,
    kept_max: usize,
    state: Mutex<ClientState<O>>,
}

/// Scope of a callback break.
pub enum Notice<O: LockedObject> {
    /// All that the client has cached of an object.
    Object(Arc<O>),
    /// All that the client has cached of a whole volume.
    Volume(Arc<O::Volume>),
    /// Everything that the client has cached.
    All,
}

struct ClientState<O: CachedObject> {
    /// The lane on which the client is notified.
    home: Member,
    is_down: bool,
    /// Notifications in a row without an answer.
    late: u32,
    /// A task on the home lane is notifying the client.
    is_being_notified: bool,
    queue: VecDeque<Queued<O>>,
    /// Number of holders that delay the notice that all is void, until in-flight replies have arrived.
    holds: u32,
    /// Set once too many notices were replaced by one that all is void: that waits for replies in flight, which
    /// nobody has asked for yet.
    awaits_replies: bool,
    /// Notices that the client is being sent.
    in_progress: Vec<Queued<O>>,
}

/// One notice, the changes that wait for its acknowledgement, and when it expires.
struct Queued<O: CachedObject> {
    notice: Notice<O>,
    until: Instant,
    waiting: SmallVec<[Ack; 1]>,
}

/// Next step in notifying a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Nothing.
    Nothing,
    /// The client is to be notified, on this lane.
    Notify(Member),
    /// The replies in flight to the client are to be awaited on all lanes: then [`Client::release_all`] is due.
    AwaitReplies,
}

impl<O: CachedObject> Client<O> {
    /// Makes a client without callbacks, to be notified on the lane `home`. At most `kept_max` notices that cannot
    /// be sent at once are kept one by one.
    pub fn new(holder: Holder, home: Member, kept_max: usize) -> Arc<Self> {
        let state = ClientState {
            home,
            is_down: false,
            late: 0,
            is_being_notified: false,
            queue: VecDeque::new(),
            holds: 0,
            awaits_replies: false,
            in_progress: Vec::new(),
        };
        let (epoch, has_pending_breaks, is_retired) =
            (AtomicU32::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let has_been_given = AtomicBool::new(false);
        Arc::new(Self {
            holder,
            epoch,
            has_been_given,
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

    /// Returns whether the client was found not to answer: it is not notified until it comes by itself.
    pub fn is_down(&self) -> bool {
        self.lock().is_down
    }

    /// Notes that the client has given up all callbacks: those of all lanes become void, and no change waits for it.
    pub fn give_up_all_callbacks(&self) {
        let mut state = self.lock();
        // Before the epoch, so that a callback of the next one is noted.
        self.has_been_given.store(false, Ordering::SeqCst);
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
        self.has_been_given.load(Ordering::SeqCst)
            || self.has_pending_breaks()
            || !state.queue.is_empty()
            || !state.in_progress.is_empty()
    }

    /// Retires the client, which its service forgets: its callbacks on all lanes are void, and it gets none from here
    /// on. It is not notified.
    pub fn retire(&self) {
        // First, so that a callback of the next epoch finds it.
        self.is_retired.store(true, Ordering::SeqCst);
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns whether the client gets no callbacks any more.
    pub fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::SeqCst)
    }

    /// Returns the epoch in which callbacks are given now.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Returns the epoch of a callback that is given to the client now.
    pub(crate) fn issue_callback(&self) -> u32 {
        let epoch = self.epoch();
        if !self.has_been_given.load(Ordering::SeqCst) {
            self.has_been_given.store(true, Ordering::SeqCst);
        }
        epoch
    }

    /// Queues a notice, which matters until `until`. `ack` is dropped once the client has acknowledged it; at once
    /// where the client is down: it is sent the notice before it is served again.
    pub fn post(&self, notice: Notice<O>, until: Instant, ack: Ack, now: Instant) -> NextStep {
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

    /// Voids the callbacks of all lanes and queues the notice of it; `ack` as in [`Client::post`].
    pub fn post_all(&self, until: Instant, ack: Ack, now: Instant) -> NextStep {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.post(Notice::All, until, ack, now)
    }

    /// Holds the notice that all is void back until [`Client::release_all`], once for each call.
    pub fn hold_all(&self) {
        self.lock().holds += 1;
    }

    /// Ends one [`Client::hold_all`]: the replies in flight were delivered, or had their time.
    pub fn release_all(&self) -> NextStep {
        let mut state = self.lock();
        assert!(state.holds > 0, "a hold is released once");
        state.holds -= 1;
        state.next()
    }

    /// Returns whether the break that voids all callbacks is still pending.
    pub fn has_void_pending(&self) -> bool {
        self.lock().undelivered().any(|queued| matches!(queued.notice, Notice::All))
    }

    /// Has `ack` wait for the pending break that voids all callbacks, if there is one.
    pub fn join_all(&self, ack: Ack) {
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

    /// Notes that a change has waited for the client as long as allowed: pending breaks are delivered before the next
    /// request is served.
    pub fn defer_breaks(&self) {
        let state = self.lock();
        if !state.queue.is_empty() || state.is_being_notified {
            self.has_pending_breaks.store(true, Ordering::SeqCst);
        }
    }

    /// Notes that the client has contacted the server, so it may answer again. `acks` wait for every pending break.
    pub fn note_reachable(&self, acks: &Acks) -> NextStep {
        let mut state = self.lock();
        if state.is_down {
            state.is_down = false;
            // One notification without an answer, and it is down again.
            state.late = u32::MAX - 1;
        }
        state.undelivered().for_each(|queued| queued.waiting.push(acks.issue()));
        if state.queue.is_empty() && !state.is_being_notified {
            self.has_pending_breaks.store(false, Ordering::SeqCst);
        }
        state.next()
    }

    /// Sets the lane on which the client is notified from now on.
    pub fn set_home(&self, home: Member) {
        self.lock().home = home;
    }

    /// Returns the next step, after the notices that could be sent were.
    pub fn resume(&self) -> NextStep {
        self.lock().next()
    }

    /// Returns the notices to send next, at most `max` objects at once; `None` if there are none.
    pub fn next_batch(&self, max: usize) -> Option<Vec<Notice<O>>> {
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

    /// Notes that the client has acknowledged the batch that was being sent.
    pub fn note_acknowledged(&self) {
        let mut state = self.lock();
        state.late = 0;
        let told = std::mem::take(&mut state.in_progress);
        if state.queue.is_empty() {
            self.has_pending_breaks.store(false, Ordering::SeqCst);
        }
        drop(state);
        drop(told);
    }

    /// Notes that the client did not acknowledge the batch; after `late_max` times in a row it counts as down. Returns
    /// whether it does.
    pub fn note_no_reply(&self, late_max: u32) -> bool {
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

    /// Notes that the lane that was notifying the client ends: another lane takes the pending breaks.
    pub fn hand_back(&self) -> NextStep {
        let mut state = self.lock();
        self.put_back(&mut state);
        state.is_being_notified = false;
        state.next()
    }

    /// Gives up the notices, as no service is left to send them.
    pub fn give_up(&self) {
        self.note_no_reply(0);
    }

    fn put_back(&self, state: &mut ClientState<O>) {
        std::mem::take(&mut state.in_progress)
            .into_iter()
            .rev()
            .for_each(|queued| state.queue.push_front(queued));
        if state.queue.len() > self.kept_max {
            self.collapse_to_all(state);
        }
    }

    /// Replaces the pending breaks, which are too many, by one that voids all callbacks.
    fn collapse_to_all(&self, state: &mut ClientState<O>) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        let queue = std::mem::take(&mut state.queue);
        let until = queue.iter().map(|queued| queued.until).max().expect("there is too much");
        let waiting = queue.into_iter().flat_map(|queued| queued.waiting).collect();
        state.queue.push_back(Queued { notice: Notice::All, until, waiting });
        // A client that got a reply after this notice would cache under a callback that is void.
        if !std::mem::replace(&mut state.awaits_replies, true) {
            state.holds += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, ClientState<O>> {
        self.state.lock().expect("nobody panics while holding it")
    }
}

impl<O: CachedObject> ClientState<O> {
    /// Breaks that the client has not acknowledged.
    fn undelivered(&mut self) -> impl Iterator<Item = &mut Queued<O>> {
        self.queue.iter_mut().chain(&mut self.in_progress)
    }

    /// Returns the next step. The task that gets `Notify` sends the notices.
    fn next(&mut self) -> NextStep {
        if std::mem::take(&mut self.awaits_replies) {
            return NextStep::AwaitReplies;
        }
        let is_held = || self.holds > 0 && matches!(self.queue[0].notice, Notice::All);
        if self.is_down || self.is_being_notified || self.queue.is_empty() || is_held() {
            return NextStep::Nothing;
        }
        self.is_being_notified = true;
        NextStep::Notify(self.home)
    }
}

impl<O: LockedObject> Clone for Notice<O> {
    fn clone(&self) -> Self {
        match self {
            Self::Object(object) => Self::Object(Arc::clone(object)),
            Self::Volume(volume) => Self::Volume(Arc::clone(volume)),
            Self::All => Self::All,
        }
    }
}

impl<O: LockedObject + std::fmt::Debug> std::fmt::Debug for Notice<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Object(object) => f.debug_tuple("Object").field(object).finish(),
            Self::Volume(_) => f.write_str("Volume"),
            Self::All => f.write_str("All"),
        }
    }
}

impl<O: CachedObject> Notice<O> {
    /// Returns whether a client that gets this notice does not need `other`.
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

impl<O: CachedObject> std::fmt::Debug for Client<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        f.debug_struct("Client")
            .field("holder", &self.holder)
            .field("is_down", &state.is_down)
            .field("queued", &state.queue.len())
            .finish_non_exhaustive()
    }
}
