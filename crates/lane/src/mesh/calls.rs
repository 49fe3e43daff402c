//! Calls of the mesh: the cell for an answer, the ticket that fills the cell, and the futures that wait.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use super::exchange::{Counts, tell_owned};
use super::members::Member;
use super::sender::CallError;

/// Error of a call that will not be answered: the other side dropped the call, closed its port or died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("the other lane did not answer")]
pub struct Unanswered;

/// The right to answer a call, and the room for the answer. Dropped, it ends the call with [`Unanswered`].
#[must_use = "a call whose ticket is dropped ends without an answer"]
pub struct Ticket<R: Send + 'static> {
    /// Cell for the answer; `None` once used.
    cell: Option<Arc<ReplyCell<R>>>,
    counts: Arc<Counts>,
}

/// Future of the answer to a call, which gives the call up when dropped. Dropped, it gives the call up, which
/// the other side sees at [`Ticket::is_wanted`].
#[derive(Debug)]
#[must_use = "a call that is not awaited is given up"]
pub struct Call<R> {
    cell: Arc<ReplyCell<R>>,
}

/// Future of the answers of many: each with its member, in the order of the members.
#[derive(Debug)]
#[must_use = "calls that are not awaited are given up"]
pub struct Gather<R> {
    waiting: Vec<(Member, ReplyStage<R>)>,
}

#[derive(Debug)]
enum ReplyStage<R> {
    Waits(Call<R>),
    Over(Result<R, CallError>),
}

#[derive(Debug)]
struct ReplyCell<R> {
    state: Mutex<ReplyState<R>>,
}

#[derive(Debug)]
enum ReplyState<R> {
    Waits(Option<Waker>),
    Over(Result<R, Unanswered>),
    /// The caller has the answer, or wants none any more.
    Left,
}

/// Opens both ends of a call, which counts as open until the ticket is used or dropped; returns `None` when
/// `max` are open.
pub(super) fn open_call<R: Send + 'static>(counts: &Arc<Counts>, max: usize) -> Option<(Ticket<R>, Call<R>)> {
    if counts.calls.fetch_add(1, Ordering::Relaxed) >= max {
        counts.calls.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    let cell = Arc::new(ReplyCell { state: Mutex::new(ReplyState::Waits(None)) });
    let call = Call { cell: Arc::clone(&cell) };
    Some((Ticket { cell: Some(cell), counts: Arc::clone(counts) }, call))
}

impl<R: Send + 'static> Ticket<R> {
    /// Answers the call. The answer is dropped when the caller has given up.
    pub fn answer(mut self, answer: R) {
        self.end(Ok(answer));
    }

    /// Returns whether the caller still waits.
    pub fn is_wanted(&self) -> bool {
        self.cell.as_ref().is_some_and(|cell| !matches!(*cell.lock(), ReplyState::Left))
    }

    fn end(&mut self, outcome: Result<R, Unanswered>) {
        let Some(cell) = self.cell.take() else { return };
        // Before the caller can know: it may call again at once.
        let before = self.counts.calls.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a call that ends was open");
        tell_owned(move || cell.fill(outcome));
    }
}

impl<R: Send + 'static> Drop for Ticket<R> {
    fn drop(&mut self) {
        self.end(Err(Unanswered));
    }
}

impl<R: Send + 'static> std::fmt::Debug for Ticket<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

impl<R> ReplyCell<R> {
    fn lock(&self) -> MutexGuard<'_, ReplyState<R>> {
        self.state.lock().expect("nobody panics while holding it")
    }

    /// Leaves the outcome for the caller; returns the caller's waker.
    fn fill(&self, outcome: Result<R, Unanswered>) -> Option<Waker> {
        let mut state = self.lock();
        let ReplyState::Waits(waker) = &mut *state else {
            drop(state);
            // Dropped here, with nothing held: it may do anything.
            drop(outcome);
            return None;
        };
        let waker = waker.take();
        *state = ReplyState::Over(outcome);
        waker
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<R, Unanswered>> {
        let mut state = self.lock();
        match &mut *state {
            ReplyState::Waits(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => *waker = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
            ReplyState::Over(_) => match std::mem::replace(&mut *state, ReplyState::Left) {
                ReplyState::Over(outcome) => Poll::Ready(outcome),
                ReplyState::Waits(_) | ReplyState::Left => unreachable!("looked at above"),
            },
            ReplyState::Left => panic!("a call is polled again after its end"),
        }
    }
}

impl<R> Future for Call<R> {
    type Output = Result<R, Unanswered>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.cell.poll(cx)
    }
}

impl<R> Drop for Call<R> {
    fn drop(&mut self) {
        let left = std::mem::replace(&mut *self.cell.lock(), ReplyState::Left);
        drop(left);
    }
}

impl<R> Gather<R> {
    pub(super) fn new(calls: impl Iterator<Item = (Member, Result<Call<R>, CallError>)>) -> Self {
        let stage = |call| match call {
            Ok(call) => ReplyStage::Waits(call),
            Err(error) => ReplyStage::Over(Err(error)),
        };
        Self { waiting: calls.map(|(member, call)| (member, stage(call))).collect() }
    }
}

impl<R> Unpin for Gather<R> {}

impl<R> Future for Gather<R> {
    type Output = Vec<(Member, Result<R, CallError>)>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut open = false;
        for (_, stage) in &mut self.waiting {
            if let ReplyStage::Waits(call) = stage {
                match Pin::new(call).poll(cx) {
                    Poll::Ready(outcome) => *stage = ReplyStage::Over(outcome.map_err(CallError::from)),
                    Poll::Pending => open = true,
                }
            }
        }
        if open {
            return Poll::Pending;
        }
        let over = std::mem::take(&mut self.waiting).into_iter().map(|(member, stage)| match stage {
            ReplyStage::Over(outcome) => (member, outcome),
            ReplyStage::Waits(_) => unreachable!("none is open"),
        });
        Poll::Ready(over.collect())
    }
}
