//! Place of the state in an object: nothing where no client holds anything, and one look at a flag tells.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::task::{Poll, Waker};

use grants::{Break, Event, Limits, Ticket};

use super::Link;
use super::local::{LocalLocks, Span, wanted};
use crate::object::{Object, ObjectState};

/// Access to the grants of one object.
#[derive(Clone, Copy)]
pub(crate) struct GrantSlot<'a> {
    object: &'a Object,
}

/// The grants of one object, and what waits for them on all lanes.
pub(crate) struct HeldGrants {
    grants: Grants,
    pauses: Vec<Waiter>,
    /// Number of holders that lose something and were not notified yet.
    unsent: u32,
    /// Tasks that wait until they have been.
    notifiers: Vec<Waker>,
    /// The open that has the locks where other programs see them.
    local: Option<Arc<LocalLocks>>,
}

pub(crate) type Grants = grants::Object<Arc<Link>>;

/// A request that waits, or is about to.
struct Waiter {
    ticket: Ticket,
    came: Option<WaitOutcome>,
    waker: Option<Waker>,
}

/// Reason why a wait for a grant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// Something was given back: ask again.
    Back,
    /// The lock is held.
    Locked,
    /// The open was closed.
    Cancelled,
}

/// Outcome of a request to the grants, with the breaks that it causes.
pub(crate) struct GrantOutcome<T> {
    pub(crate) value: T,
    pub(crate) breaks: Vec<Break>,
    /// Holders that did not answer in time.
    pub(crate) expired: u64,
    /// Locks that other programs see are over.
    pub(crate) unlocked: Option<Arc<LocalLocks>>,
}

impl<'a> GrantSlot<'a> {
    pub(crate) fn new(object: &'a Object) -> Self {
        Self { object }
    }

    /// Returns whether a client holds or waits for anything. The flag is set before an open looks whether the object
    /// changes; a change that has its change lock looks here.
    pub(crate) fn is_in_use(self) -> bool {
        self.has(IN_USE, Ordering::SeqCst)
    }

    /// Returns whether what is held is so; not where nothing is.
    fn are(self, so: impl FnOnce(&Grants) -> bool) -> bool {
        self.is_in_use() && self.object.lock_state().grants.as_ref().is_some_and(|held| so(&held.grants))
    }

    /// Returns whether it is open.
    pub(crate) fn is_open(self) -> bool {
        self.are(Grants::is_open)
    }

    /// Returns whether it is open by a client that keeps no opens for later.
    pub(crate) fn is_open_to_stay(self) -> bool {
        self.are(Grants::is_open_to_stay)
    }

    /// Returns whether it is open to be read or written, or by a client that does not share it for deletion.
    pub(crate) fn is_used(self) -> bool {
        self.are(Grants::is_used)
    }

    /// Returns whether it is used ([`Self::is_used`]) by a client that keeps no opens for later.
    pub(crate) fn is_used_to_stay(self) -> bool {
        self.are(Grants::is_used_to_stay)
    }

    /// Returns whether any client may cache anything of it.
    pub(crate) fn is_cached(self) -> bool {
        self.are(Grants::is_cached)
    }

    /// Returns whether a client may cache an object that is open by this name.
    pub(crate) fn is_cached_by(object: &Arc<Object>, directory: &Arc<Object>, name: &[u8]) -> bool {
        if !object.grants().is_cached() {
            return false;
        }
        let link = Link::new(directory, name, object);
        object.grants().are(|grants| grants.is_open_by(&link))
    }

    /// Returns whether any range is locked.
    pub(crate) fn is_ranged(self) -> bool {
        self.has(RANGED, Ordering::Acquire)
    }

    /// Runs a request on the state, and wakes the tasks whose wait is over.
    pub(crate) fn ask<T>(self, ask: impl FnOnce(&mut Grants, &mut Vec<Event>) -> T) -> GrantOutcome<T> {
        let mut side = self.object.lock_state();
        let state = side.grants.get_or_insert_with(|| {
            self.mark(IN_USE, true);
            self.object.volume().objects().count_held(true);
            Box::new(HeldGrants::new())
        });
        let mut events = Vec::new();
        let value = ask(&mut state.grants, &mut events);
        let mut outcome = GrantOutcome { value, breaks: Vec::new(), expired: 0, unlocked: None };
        let mut wakers = Vec::new();
        for event in events {
            match event {
                Event::Break(told) => outcome.breaks.push(told),
                Event::Wake(ticket) => wakers.extend(state.came(ticket, WaitOutcome::Back)),
                Event::Locked(ticket) => wakers.extend(state.came(ticket, WaitOutcome::Locked)),
                Event::Cancelled(ticket) => wakers.extend(state.came(ticket, WaitOutcome::Cancelled)),
                Event::Expired(_) => outcome.expired += 1,
            }
        }
        state.unsent += u32::try_from(outcome.breaks.len()).expect("fewer hold anything");
        let is_ranged = state.grants.has_ranges();
        if is_ranged != self.is_ranged() {
            self.mark(RANGED, is_ranged);
        }
        // Where no client holds anything any more the open goes, and with it all that it has locked.
        if let Some(local) = &state.local
            && !state.is_over()
            && local.has_more_than(&state.grants)
        {
            outcome.unlocked = Some(Arc::clone(local));
        }
        self.end(side);
        wakers.into_iter().for_each(Waker::wake);
        outcome
    }

    /// Runs a request ([`GrantSlot::ask`]) where there is a state.
    pub(crate) fn ask_if_any<T>(
        self,
        ask: impl FnOnce(&mut Grants, &mut Vec<Event>) -> T,
    ) -> Option<GrantOutcome<T>> {
        self.is_in_use().then(|| self.ask(ask))
    }

    /// Notes that one lease break was sent, or cannot be.
    pub(super) fn note_break_sent(self) {
        let mut side = self.object.lock_state();
        let held = side.grants.as_mut().expect("who has not been told keeps the state");
        debug_assert!(held.unsent > 0, "a break is sent once");
        held.unsent -= 1;
        let notifiers = if held.unsent == 0 { std::mem::take(&mut held.notifiers) } else { Vec::new() };
        self.end(side);
        notifiers.into_iter().for_each(Waker::wake);
    }

    /// Waits until all pending lease breaks of the object have been sent, whichever request caused them.
    pub(crate) async fn all_breaks_sent(self) {
        if !self.is_in_use() {
            return;
        }
        std::future::poll_fn(|cx| {
            let mut side = self.object.lock_state();
            match &mut side.grants {
                Some(held) if held.unsent > 0 => {
                    held.notifiers.push(cx.waker().clone());
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Returns the open that has its locks where other programs see them, if there is one.
    pub(super) fn local(self) -> Option<Arc<LocalLocks>> {
        self.is_in_use().then(|| self.object.lock_state().grants.as_ref()?.local.clone())?
    }

    /// Has this open have the locks, unless there is one, which it gives. `None` where no client holds
    /// anything any more.
    pub(super) fn keep_local(self, local: Arc<LocalLocks>) -> Option<Arc<LocalLocks>> {
        let mut side = self.object.lock_state();
        let kept =
            side.grants.as_mut().map(|held| Arc::clone(held.local.get_or_insert_with(|| Arc::clone(&local))));
        drop(side);
        kept
    }

    /// Returns what is locked, if this open has the locks.
    pub(super) fn locked_by(self, local: &Arc<LocalLocks>) -> Option<Vec<Span>> {
        let side = self.object.lock_state();
        let held = side.grants.as_ref()?;
        let is_it = held.local.as_ref().is_some_and(|known| Arc::ptr_eq(known, local));
        is_it.then(|| wanted(&held.grants))
    }

    /// Notes that the object has another name: what is open by the old one, or to be deleted, is so by the new one.
    pub(crate) fn renamed(object: &Arc<Object>, from: (&Arc<Object>, &[u8]), to: (&Arc<Object>, &[u8])) {
        let link = |(directory, name)| Link::new(directory, name, object);
        object.grants().ask_if_any(|grants, _| grants.renamed(&link(from), &link(to)));
    }

    /// Returns the outcome of a wait, if it has come; else has `waker` called when it does.
    pub(super) fn poll(self, ticket: Ticket, waker: &Waker) -> Option<WaitOutcome> {
        let mut side = self.object.lock_state();
        let state = side.grants.as_mut().expect("who waits keeps the state");
        let paused = state.paused(ticket);
        let came = paused.came.take();
        if came.is_none() {
            paused.waker = Some(waker.clone());
        }
        came
    }

    /// Ends a wait. Returns the outcome that had come and that the waiter has not seen.
    pub(super) fn leave(self, ticket: Ticket) -> Option<WaitOutcome> {
        let mut side = self.object.lock_state();
        let state = side.grants.as_mut()?;
        state.grants.leave(ticket);
        state.grants.cancel(ticket);
        let at = state.pauses.iter().position(|paused| paused.ticket == ticket);
        let left = at.map(|at| state.pauses.swap_remove(at));
        self.end(side);
        left?.came
    }

    fn has(self, mark: u8, order: Ordering) -> bool {
        self.object.change_lock().flags.load(order) & mark != 0
    }

    /// Sets or clears a mark, under the lock.
    fn mark(self, mark: u8, is_so: bool) {
        let marks = &self.object.change_lock().flags;
        match is_so {
            true => marks.fetch_or(mark, Ordering::SeqCst),
            false => marks.fetch_and(!mark, Ordering::SeqCst),
        };
    }

    /// Gives the state back when nothing is left of it.
    fn end(self, mut side: MutexGuard<'_, ObjectState>) {
        let is_over = side.grants.as_ref().is_some_and(|held| held.is_over());
        let over = if is_over { side.grants.take() } else { None };
        if over.is_some() {
            self.mark(IN_USE, false);
            self.object.volume().objects().count_held(false);
        }
        drop(side);
        // Outside of the lock: it may be the last that holds a directory.
        drop(over);
    }
}

impl HeldGrants {
    fn new() -> Self {
        let grants = Grants::new(&LIMITS);
        Self { grants, pauses: Vec::new(), unsent: 0, notifiers: Vec::new(), local: None }
    }

    fn is_over(&self) -> bool {
        self.grants.is_empty() && self.pauses.is_empty() && self.unsent == 0
    }

    fn paused(&mut self, ticket: Ticket) -> &mut Waiter {
        let at = self.pauses.iter().position(|paused| paused.ticket == ticket).unwrap_or_else(|| {
            self.pauses.push(Waiter { ticket, came: None, waker: None });
            self.pauses.len() - 1
        });
        &mut self.pauses[at]
    }

    /// Notes an outcome, which may come before the waiter has begun to wait.
    fn came(&mut self, ticket: Ticket, came: WaitOutcome) -> Option<Waker> {
        let paused = self.paused(ticket);
        paused.came = Some(came);
        paused.waker.take()
    }
}

/// A client holds or waits for something.
const IN_USE: u8 = 1;
/// A range is locked.
const RANGED: u8 = 2;

static LIMITS: Limits = Limits::DEFAULT;
