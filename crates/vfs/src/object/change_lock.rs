//! Change lock of an object: first come, first served, on whatever lane, but for cohort [handoff]: the lock may stay
//! on one lane for a while. To wake another lane takes as long as several changes, in which none would be made.
//!
//! Data writes of one client share a turn on whatever lanes they are made, and the turn is kept after the
//! last of them: no client can rely on the object meanwhile, so the next one need not ask. Any other change
//! takes it.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lane::LaneId;

use self::handoff::{CohortHandoff, HandoffTimer};
use super::{GatePass, Object};
use crate::callback::Holder;

pub(super) mod handoff;

/// The change lock of one object. Its mutex is taken by changes alone.
#[derive(Default)]
pub(crate) struct ChangeLock {
    /// Copy of `state`'s holding, for readers without the lock.
    held: AtomicU8,
    /// State of the object's holders, for readers without its lock: [`GrantSlot`](crate::grant::GrantSlot)'s.
    pub(crate) marks: AtomicU8,
    /// Times that the turn is not to stay where no change waits, as it stayed in vain.
    failed_handoffs: AtomicU8,
    /// Beginnings and ends of changes: by these a [look](super::look) is known to be of one state. Written under the object's small lock.
    pub(super) steps: AtomicU32,
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
pub(crate) enum LockSharer {
    /// A client's, through however many lanes.
    Holder(Holder),
    /// Writes of one open file, whose number this is.
    Writer(u64),
}

#[derive(Default)]
struct LockState {
    /// Ticket of the change that has the turn.
    holder: Option<LockTicket>,
    /// Writers that share the turn instead.
    share: Option<Box<SharedHold>>,
    next_ticket: u32,
    /// Most objects never have a change wait.
    waiting: Option<Box<Waiters>>,
}

/// A change lock that writes share.
struct SharedHold {
    sharer: LockSharer,
    /// Under way; none while it is kept.
    writes: u32,
}

type LockTicket = NonZeroU32;

#[derive(Default)]
struct Waiters {
    queue: VecDeque<Waiter>,
    /// Turns in a row by which a waiting change was overtaken.
    overtaken: u32,
    /// The turn is free, and the next change on a lane may take it.
    handoff: Option<CohortHandoff>,
    /// Counts such stays.
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
pub(super) struct ChangeLockGuard {
    object: Arc<Object>,
    ticket: LockTicket,
}

/// One part in a shared change lock, released when this is dropped.
pub(crate) struct SharedChangeLock {
    object: Arc<Object>,
    /// Given back last.
    _pass: Option<GatePass>,
}

/// Future that waits for a change lock. Dropped, it leaves the queue, or hands on the lock that it has just got.
pub(super) struct LockWait {
    /// `None` once it has become a turn.
    object: Option<Arc<Object>>,
    ticket: LockTicket,
}

/// The queue of a change lock has its maximum length.
#[derive(Debug)]
pub(super) struct LockQueueFull;

impl ChangeLock {
    /// Returns whether a change has the turn, or it is kept.
    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst) != FREE
    }

    /// Returns whether a change of the object is under way right now.
    pub(super) fn is_busy(&self) -> bool {
        self.held.load(Ordering::SeqCst) == BUSY
    }

    /// Takes back a lock that is only kept for further writes. Returns whether it is free now.
    pub(crate) fn reclaim(&self) -> bool {
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
        (state.holder, state.share) = (Some(ticket), None);
        if let Some(waiting) = &mut state.waiting
            && waiting.handoff.take().is_some()
        {
            waiting.overtaken += 1;
        }
        self.held.store(BUSY, Ordering::SeqCst);
    }

    /// The holder goes, or never came: the next has the turn.
    fn pass_on(object: &Arc<Object>, mut state: MutexGuard<'_, LockState>) {
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

    /// Keeps the turn on this lane for a moment.
    fn handoff(&self, object: &Arc<Object>, mut state: MutexGuard<'_, LockState>, lane: LaneId) {
        state.holder = None;
        self.held.store(FREE, Ordering::SeqCst);
        let Some(waiting) = &mut state.waiting else { return };
        let handoff = waiting.begin_handoff(lane);
        let watch =
            (waiting.watch.strong_count() == 0).then(|| HandoffTimer::new(object, &mut waiting.watch));
        drop(state);
        if let Some(watch) = watch {
            lane::spawn(watch.run(handoff)).detach();
        }
    }
}

impl Waiters {
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
            // The turn leaves this lane.
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

    /// Returns whether a change on this lane may have the turn.
    fn is_free_here(&self) -> bool {
        let handoff = self.waiting.as_ref().and_then(|waiting| waiting.handoff.as_ref());
        self.is_free() && handoff.is_none_or(|handoff| handoff.is_for(current_lane()))
    }
}

impl ChangeLockGuard {
    /// Takes the turn if it is free and no change waits for it.
    pub(super) fn try_take(object: &Arc<Object>) -> Option<Self> {
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

    pub(super) fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Shares it with further writes of the same, until the last has ended and another change wants it.
    pub(super) fn share(self, sharer: LockSharer, pass: Option<GatePass>) -> SharedChangeLock {
        let mut state = self.object.change_lock().lock();
        (state.holder, state.share) = (None, Some(Box::new(SharedHold { sharer, writes: 1 })));
        drop(state);
        SharedChangeLock { object: Arc::clone(&self.object), _pass: pass }
    }
}

impl SharedChangeLock {
    /// A part in the turn that writes of the same share, or have kept, unless others wait for it.
    pub(crate) fn join(object: &Arc<Object>, sharer: LockSharer, pass: GatePass) -> Option<Self> {
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

impl Drop for SharedChangeLock {
    fn drop(&mut self) {
        let change_lock = self.object.change_lock();
        let mut state = change_lock.lock();
        let share = state.share.as_mut().expect("it is shared while somebody has a part");
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

impl Drop for ChangeLockGuard {
    fn drop(&mut self) {
        let change_lock = self.object.change_lock();
        let state = change_lock.lock();
        // Else it was shared.
        if state.holder == Some(self.ticket) {
            ChangeLock::pass_on(&self.object, state);
        }
    }
}

impl LockWait {
    /// Takes a place at the end of the line, of at most `max`.
    pub(super) fn join(object: Arc<Object>, max: usize) -> Result<Self, LockQueueFull> {
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

impl Future for LockWait {
    type Output = ChangeLockGuard;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ChangeLockGuard> {
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
        let mine = mine.expect("who has not left the line is in it");
        match &mut mine.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => mine.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for LockWait {
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

/// Turns that stay on a lane while a change on another is first in line, and for how long they do.
pub(super) const OVERTAKEN_MAX: u32 = 256;
pub(super) const OVERTAKEN_FOR: Duration = Duration::from_millis(2);
/// Of a long line so many are looked at for one of this lane.
const LOOKED_AT_MAX: usize = 64;
