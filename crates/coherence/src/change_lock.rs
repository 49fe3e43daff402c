//! Change lock of an object: first come, first served, on whatever lane, but for cohort [handoff](self::handoff):
//! the lock may stay on one lane for a while. To wake another lane takes as long as several changes, in which none
//! would be made.
//!
//! Data writes of one client share the lock on whatever lanes they are made, and it is kept after the last of them:
//! no client can cache the object meanwhile, so the next write need not invalidate. Any other change takes it.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lane::LaneId;

#[cfg(test)]
pub(crate) use self::handoff::HANDOFF_FOR;
use self::handoff::{CohortHandoff, HandedOff, HandoffTimer, HandoffWatch};
use super::{GatePass, GatedVolume, Holder};

mod handoff;

/// An object that one change at a time may change.
pub trait LockedObject: Sized + Send + Sync + 'static {
    /// Identity of the object. Change locks are taken in its order.
    type Identity: Ord;
    /// Volume of the object.
    type Volume: GatedVolume;

    /// Returns the identity, which never changes.
    fn identity(&self) -> &Self::Identity;

    /// Returns the volume, which never changes.
    fn volume(&self) -> &Arc<Self::Volume>;

    /// Returns the change lock.
    fn change_lock(&self) -> &ChangeLock;
}

/// The change lock of one object. Its mutex is taken by changes alone.
#[derive(Default)]
pub struct ChangeLock {
    /// Copy of the holder in `state`, for readers without the mutex.
    held: AtomicU8,
    /// Flags of the object's owner, which are kept here as there is room.
    pub flags: AtomicU8,
    /// Number of releases that are not to hand off to the lane, as handoffs failed.
    failed_handoffs: AtomicU8,
    /// Number of beginnings and ends of changes, by which a look at the object is known to be of one state. The
    /// owner of the object counts them, under a lock of its own.
    pub steps: AtomicU32,
    state: Mutex<LockState>,
}

/// The change lock is free.
const FREE: u8 = 0;
/// The change lock is kept for a next write.
const KEPT: u8 = 1;
/// A change of the object is under way.
const BUSY: u8 = 2;

/// The client or the open file whose writes share a change lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockSharer {
    /// A client, through however many lanes.
    Holder(Holder),
    /// One open file, by its number.
    Writer(u64),
}

#[derive(Default)]
struct LockState {
    /// Ticket of the change that holds the lock.
    holder: Option<LockTicket>,
    /// Writes that share the lock instead.
    share: Option<Box<SharedHold>>,
    next_ticket: u32,
    /// Most objects never have a change wait.
    waiting: Option<Box<Waiters>>,
}

/// A change lock that writes share.
struct SharedHold {
    sharer: LockSharer,
    /// Writes under way; none while the lock is kept.
    writes: u32,
}

type LockTicket = NonZeroU32;

#[derive(Default)]
struct Waiters {
    queue: VecDeque<Waiter>,
    /// Number of times in a row that the first waiter was overtaken.
    overtaken: u32,
    /// Set while the lock is free for the next change on one lane.
    handoff: Option<CohortHandoff>,
    /// Number of handoffs.
    handoffs: u32,
    /// The task that ends the handoff, if it still runs.
    watch: Weak<()>,
}

struct Waiter {
    ticket: LockTicket,
    /// Lane where it waits, and since when; `None` off lanes.
    place: Option<(LaneId, Instant)>,
    waker: Option<Waker>,
}

/// The owner of the lock after the present one.
enum NextOwner {
    Waiter(Waiter),
    /// The next change on this lane, where all that wait are on other lanes.
    CohortHandoff(LaneId),
}

/// The change lock of one object, released when this is dropped.
pub(crate) struct ChangeLockGuard<O: LockedObject> {
    object: Arc<O>,
    ticket: LockTicket,
}

/// One part in a shared change lock, released when this is dropped.
pub struct SharedChangeLock<O: LockedObject> {
    object: Arc<O>,
    /// Dropped last.
    _pass: Option<GatePass<O::Volume>>,
}

/// Future that waits for a change lock. Dropped, it leaves the queue, or hands on the lock that it has just got.
pub(crate) struct LockWait<O: LockedObject> {
    /// `None` once the lock was returned.
    object: Option<Arc<O>>,
    ticket: LockTicket,
}

/// The queue of a change lock has its maximum length.
#[derive(Debug)]
pub struct LockQueueFull;

impl ChangeLock {
    /// Returns whether a change holds the lock, or writes have kept it: a change may be under way, or may begin
    /// without an invalidation. A lane that caches what it looks at sets its presence bit first.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst) != FREE
    }

    /// Returns whether a change is under way. For a caller that has made sure that none may begin without an
    /// invalidation.
    pub fn is_busy(&self) -> bool {
        self.held.load(Ordering::SeqCst) == BUSY
    }

    /// Takes back a lock that is only kept for further writes. Returns whether it is free now.
    pub fn reclaim(&self) -> bool {
        let mut state = self.lock();
        if state.is_free() && state.share.take().is_some() {
            self.held.store(FREE, Ordering::SeqCst);
        }
        state.is_free()
    }

    fn lock(&self) -> MutexGuard<'_, LockState> {
        self.state.lock().expect("nobody panics while holding it")
    }

    fn give(&self, state: &mut LockState, ticket: LockTicket) {
        debug_assert!(
            state.share.as_ref().is_none_or(|share| share.writes == 0),
            "no write shares what is given on"
        );
        (state.holder, state.share) = (Some(ticket), None);
        if let Some(waiting) = &mut state.waiting
            && waiting.handoff.take().is_some()
        {
            waiting.overtaken += 1;
        }
        self.held.store(BUSY, Ordering::SeqCst);
    }

    /// Passes the lock on, whose holder releases it or never took it.
    fn pass_on<O: LockedObject>(object: &Arc<O>, mut state: MutexGuard<'_, LockState>) {
        let change_lock = object.change_lock();
        match state.waiting.as_mut().and_then(|waiting| waiting.next(change_lock)) {
            Some(NextOwner::CohortHandoff(lane)) => change_lock.handoff(object, state, lane),
            Some(NextOwner::Waiter(next)) => change_lock.hand_over(state, Some(next)),
            None => change_lock.hand_over(state, None),
        }
    }

    fn hand_over(&self, mut state: MutexGuard<'_, LockState>, next: Option<Waiter>) {
        if state.waiting.as_ref().is_some_and(|waiting| waiting.queue.is_empty()) {
            state.waiting = None;
        }
        match next {
            Some(next) => {
                self.give(&mut state, next.ticket);
                drop(state);
                if let Some(waker) = next.waker {
                    waker.wake();
                }
            }
            None => {
                state.holder = None;
                self.held.store(FREE, Ordering::SeqCst);
            }
        }
    }

    /// Keeps the lock on this lane for a moment.
    fn handoff<O: LockedObject>(&self, object: &Arc<O>, mut state: MutexGuard<'_, LockState>, lane: LaneId) {
        state.holder = None;
        self.held.store(FREE, Ordering::SeqCst);
        let Some(waiting) = &mut state.waiting else { return };
        let handoff = waiting.begin_handoff(lane);
        let timer = (waiting.watch.strong_count() == 0).then(|| {
            let watch = Arc::new(());
            waiting.watch = Arc::downgrade(&watch);
            HandoffTimer(LockedHandoff { object: Arc::clone(object), watch })
        });
        drop(state);
        if let Some(timer) = timer {
            lane::spawn(timer.run(handoff)).detach();
        }
    }

    /// Returns whether the lock may stay on a lane where no change waits: mostly one comes soon.
    fn may_hand_off(&self) -> bool {
        let failed_handoffs = self.failed_handoffs.load(Ordering::Relaxed);
        // Under the mutex.
        self.failed_handoffs.store(failed_handoffs.saturating_sub(1), Ordering::Relaxed);
        failed_handoffs == 0
    }
}

/// The handoff of an object's lock, watched by one timer.
struct LockedHandoff<O: LockedObject> {
    object: Arc<O>,
    watch: Arc<()>,
}

impl<O: LockedObject> LockedHandoff<O> {
    fn is_watched(&self, waiting: &Waiters) -> bool {
        std::ptr::eq(waiting.watch.as_ptr(), Arc::as_ptr(&self.watch))
    }
}

impl<O: LockedObject> HandoffWatch for LockedHandoff<O> {
    fn look(&self, seen: Option<u32>) -> HandedOff {
        let change_lock = self.object.change_lock();
        let state = change_lock.lock();
        let Some(waiting) = state.waiting.as_ref().filter(|waiting| self.is_watched(waiting)) else {
            return HandedOff::Over;
        };
        match waiting.handoff.as_ref().map(CohortHandoff::number) {
            now @ Some(_) if now == seen => {
                change_lock.failed_handoffs.store(FAILED_HANDOFFS, Ordering::Relaxed);
                HandedOff::Over
            }
            now => HandedOff::Number(now),
        }
    }

    fn end(&self) {
        let change_lock = self.object.change_lock();
        let mut state = change_lock.lock();
        if let Some(waiting) = state.waiting.as_mut().filter(|waiting| self.is_watched(waiting))
            && waiting.handoff.is_some()
        {
            let next = waiting.first();
            change_lock.hand_over(state, next);
        }
    }
}

impl Waiters {
    /// Begins a handoff to the next change on a lane. Returns its number.
    fn begin_handoff(&mut self, lane: LaneId) -> u32 {
        let number = self.handoffs;
        self.handoffs = number.wrapping_add(1);
        self.handoff = Some(CohortHandoff::new(lane, number));
        number
    }

    /// Takes the change that is next after that of a change on this lane: the first on it, for as long as
    /// [`Waiters::is_patient`], then the first of all.
    fn next(&mut self, change_lock: &ChangeLock) -> Option<NextOwner> {
        let here = current_lane();
        let is_near = |waiter: &Waiter| waiter.place.map(|(lane, _)| lane) == here;
        let near = self.queue.iter().take(LOOKED_AT_MAX).position(is_near);
        let may_overtake = near != Some(0) && self.is_patient();
        match (near, here) {
            (Some(at), _) if may_overtake => {
                self.overtaken += 1;
                self.queue.remove(at).map(NextOwner::Waiter)
            }
            (None, Some(here)) if may_overtake && change_lock.may_hand_off() => {
                Some(NextOwner::CohortHandoff(here))
            }
            _ => self.first().map(NextOwner::Waiter),
        }
    }

    /// Takes the first waiter of all.
    fn first(&mut self) -> Option<Waiter> {
        self.overtaken = 0;
        let first = self.queue.pop_front();
        if first.as_ref().is_some_and(|first| first.place.map(|(lane, _)| lane) != current_lane()) {
            // The lock leaves this lane.
            self.watch = Weak::new();
        }
        first
    }

    /// Returns whether the first in line can wait longer. Off lanes it is not known how long it has waited.
    fn is_patient(&self) -> bool {
        let since = self.queue.front().and_then(|first| first.place).map(|(_, since)| since);
        let has_time = |since: Instant| lane::time::now() < since + OVERTAKEN_FOR;
        self.overtaken < OVERTAKEN_MAX && lane::on_lane() && since.is_some_and(has_time)
    }
}

fn current_lane() -> Option<LaneId> {
    lane::on_lane().then(|| lane::current().id())
}

impl LockState {
    fn ticket(&mut self) -> LockTicket {
        self.next_ticket = self.next_ticket.wrapping_add(1).max(1);
        LockTicket::new(self.next_ticket).expect("it is at least 1")
    }

    fn is_free(&self) -> bool {
        self.holder.is_none() && self.share.as_ref().is_none_or(|share| share.writes == 0)
    }

    /// Returns whether a change on this lane may take the lock.
    fn is_free_here(&self) -> bool {
        let handoff = self.waiting.as_ref().and_then(|waiting| waiting.handoff.as_ref());
        self.is_free() && handoff.is_none_or(|handoff| handoff.is_for(current_lane()))
    }
}

impl<O: LockedObject> ChangeLockGuard<O> {
    /// Takes the lock if it is free and no change waits for it.
    pub(crate) fn try_take(object: &Arc<O>) -> Option<Self> {
        let change_lock = object.change_lock();
        let mut state = change_lock.lock();
        if !state.is_free_here() {
            return None;
        }
        let ticket = state.ticket();
        change_lock.give(&mut state, ticket);
        drop(state);
        Some(Self { object: Arc::clone(object), ticket })
    }

    pub(crate) fn object(&self) -> &Arc<O> {
        &self.object
    }

    /// Shares the lock with further writes of the same, until the last has ended and another change wants it.
    pub(crate) fn share(self, sharer: LockSharer, pass: Option<GatePass<O::Volume>>) -> SharedChangeLock<O> {
        let mut state = self.object.change_lock().lock();
        (state.holder, state.share) = (None, Some(Box::new(SharedHold { sharer, writes: 1 })));
        drop(state);
        SharedChangeLock { object: Arc::clone(&self.object), _pass: pass }
    }
}

impl<O: LockedObject> SharedChangeLock<O> {
    /// Joins the writes of the same that share the lock, or have kept it, unless others wait for it.
    pub fn join(object: &Arc<O>, sharer: LockSharer, pass: GatePass<O::Volume>) -> Option<Self> {
        let change_lock = object.change_lock();
        let mut state = change_lock.lock();
        if state.waiting.is_some() {
            return None;
        }
        state.share.as_mut().filter(|share| share.sharer == sharer)?.writes += 1;
        change_lock.held.store(BUSY, Ordering::SeqCst);
        drop(state);
        Some(Self { object: Arc::clone(object), _pass: Some(pass) })
    }
}

impl<O: LockedObject> Drop for SharedChangeLock<O> {
    fn drop(&mut self) {
        let change_lock = self.object.change_lock();
        let mut state = change_lock.lock();
        let share = state.share.as_mut().expect("the lock is shared while a write shares it");
        debug_assert!(share.writes > 0, "a write that ends shares the lock");
        share.writes -= 1;
        if share.writes > 0 {
            return;
        }
        if state.waiting.is_none() {
            return change_lock.held.store(KEPT, Ordering::SeqCst);
        }
        state.share = None;
        ChangeLock::pass_on(&self.object, state);
    }
}

impl<O: LockedObject> Drop for ChangeLockGuard<O> {
    fn drop(&mut self) {
        let change_lock = self.object.change_lock();
        let state = change_lock.lock();
        // Else it was shared.
        if state.holder == Some(self.ticket) {
            ChangeLock::pass_on(&self.object, state);
        }
    }
}

impl<O: LockedObject> LockWait<O> {
    /// Takes a place at the end of the queue, of at most `max`.
    pub(crate) fn join(object: Arc<O>, max: usize) -> Result<Self, LockQueueFull> {
        let change_lock = object.change_lock();
        let mut state = change_lock.lock();
        let ticket = state.ticket();
        if state.is_free_here() {
            change_lock.give(&mut state, ticket);
        } else {
            let waiting = &mut state.waiting.get_or_insert_default().queue;
            if waiting.len() >= max {
                return Err(LockQueueFull);
            }
            let place = current_lane().map(|lane| (lane, lane::time::now()));
            waiting.push_back(Waiter { ticket, place, waker: None });
        }
        drop(state);
        Ok(Self { object: Some(object), ticket })
    }
}

impl<O: LockedObject> Future for LockWait<O> {
    type Output = ChangeLockGuard<O>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ChangeLockGuard<O>> {
        let ticket = self.ticket;
        let object = self.object.as_ref().expect("it is polled until it is ready");
        let mut state = object.change_lock().lock();
        if state.holder == Some(ticket) {
            drop(state);
            let object = self.object.take().expect("looked at above");
            return Poll::Ready(ChangeLockGuard { object, ticket });
        }
        let mut waiting = state.waiting.iter_mut().flat_map(|waiting| waiting.queue.iter_mut());
        let mine = waiting.find(|waiter| waiter.ticket == ticket);
        let mine = mine.expect("a waiter that was not dropped is in the queue");
        match &mut mine.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => mine.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl<O: LockedObject> Drop for LockWait<O> {
    fn drop(&mut self) {
        let Some(object) = self.object.take() else { return };
        let change_lock = object.change_lock();
        let mut state = change_lock.lock();
        if state.holder == Some(self.ticket) {
            return ChangeLock::pass_on(&object, state);
        }
        let ticket = self.ticket;
        let left = state.waiting.as_mut().and_then(|waiting| {
            let at = waiting.queue.iter().position(|waiter| waiter.ticket == ticket)?;
            waiting.queue.remove(at)
        });
        let waiting = state.waiting.take_if(|waiting| waiting.queue.is_empty());
        drop(state);
        drop((left, waiting));
    }
}

/// Number of times that a lock stays on a lane while a change on another lane is first in the queue, and the time
/// for which it does.
pub(crate) const OVERTAKEN_MAX: u32 = 256;
pub(crate) const OVERTAKEN_FOR: Duration = Duration::from_millis(2);
/// Number of waiters that are looked at for one of this lane.
const LOOKED_AT_MAX: usize = 64;
/// Number of releases that pass the lock on at once after a failed handoff.
pub(crate) const FAILED_HANDOFFS: u8 = 32;
