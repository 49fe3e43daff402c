//! Who changes an object and who waits to: first come, first served, on whatever lane.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use super::Object;

/// The turn at one object. Its lock is taken by changes alone.
#[derive(Default)]
pub(crate) struct Line {
    /// As `state` has it, for who looks without the lock.
    held: AtomicBool,
    /// What is held of the object, for who looks without its lock: [`Slot`](crate::grant::Slot)'s.
    pub(crate) marks: AtomicU8,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whose turn it is, by ticket.
    holder: Option<u64>,
    next_ticket: u32,
    /// Most objects never have anybody wait.
    waiting: Option<Box<Waiters>>,
}

#[derive(Default)]
struct Waiters(VecDeque<Waiter>);

struct Waiter {
    ticket: u64,
    waker: Option<Waker>,
}

/// The turn at one object, for as long as this lives.
pub(super) struct Turn {
    object: Arc<Object>,
    ticket: u64,
}

/// Waits for a turn. Dropped, it leaves the line, or hands on the turn that has just come.
pub(super) struct InLine {
    /// `None` once it has become a turn.
    object: Option<Arc<Object>>,
    ticket: u64,
}

/// As many wait as may.
#[derive(Debug)]
pub(super) struct LineIsFull;

impl Line {
    /// Whether somebody has the turn.
    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }

    fn give(&self, state: &mut State, ticket: u64) {
        state.holder = Some(ticket);
        self.held.store(true, Ordering::SeqCst);
    }

    /// The holder goes, or never came: the next has the turn.
    fn pass_on(&self, mut state: MutexGuard<'_, State>) {
        let next = state.waiting.as_mut().and_then(|waiting| waiting.0.pop_front());
        if state.waiting.as_ref().is_some_and(|waiting| waiting.0.is_empty()) {
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
                self.held.store(false, Ordering::SeqCst);
            }
        }
    }
}

impl State {
    fn ticket(&mut self) -> u64 {
        self.next_ticket = self.next_ticket.wrapping_add(1);
        self.next_ticket.into()
    }

    fn is_free(&self) -> bool {
        self.holder.is_none()
    }
}

impl Turn {
    /// The turn if nobody has it or waits for it.
    pub(super) fn try_take(object: &Arc<Object>) -> Option<Self> {
        let line = object.line();
        let mut state = line.lock();
        if !state.is_free() {
            return None;
        }
        let ticket = state.ticket();
        line.give(&mut state, ticket);
        drop(state);
        Some(Self { object: Arc::clone(object), ticket })
    }

    pub(super) fn object(&self) -> &Arc<Object> {
        &self.object
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let line = self.object.line();
        let state = line.lock();
        debug_assert_eq!(state.holder, Some(self.ticket));
        line.pass_on(state);
    }
}

impl InLine {
    /// Takes a place at the end of the line, of at most `max`.
    pub(super) fn join(object: Arc<Object>, max: usize) -> Result<Self, LineIsFull> {
        let line = object.line();
        let mut state = line.lock();
        let ticket = state.ticket();
        if state.is_free() {
            line.give(&mut state, ticket);
        } else {
            let waiting = &mut state.waiting.get_or_insert_default().0;
            if waiting.len() >= max {
                return Err(LineIsFull);
            }
            waiting.push_back(Waiter { ticket, waker: None });
        }
        drop(state);
        Ok(Self { object: Some(object), ticket })
    }
}

impl Future for InLine {
    type Output = Turn;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Turn> {
        let ticket = self.ticket;
        let object = self.object.as_ref().expect("it is polled until it is ready");
        let mut state = object.line().lock();
        if state.holder == Some(ticket) {
            drop(state);
            let object = self.object.take().expect("looked at above");
            return Poll::Ready(Turn { object, ticket });
        }
        let mut waiting = state.waiting.iter_mut().flat_map(|waiting| waiting.0.iter_mut());
        let mine = waiting.find(|waiter| waiter.ticket == ticket);
        let mine = mine.expect("who has not left the line is in it");
        match &mut mine.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => mine.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let Some(object) = self.object.take() else { return };
        let line = object.line();
        let mut state = line.lock();
        if state.holder == Some(self.ticket) {
            return line.pass_on(state);
        }
        let ticket = self.ticket;
        let left = state.waiting.as_mut().and_then(|waiting| {
            let at = waiting.0.iter().position(|waiter| waiter.ticket == ticket)?;
            waiting.0.remove(at)
        });
        drop(state);
        drop(left);
    }
}
