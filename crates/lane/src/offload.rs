//! Blocking work, done by the helper threads of the lane's silo. It is what io_uring has no operation for, or
//! what a library does with system calls of its own.
//!
//! The helpers' queue is bounded and shared by client: each has its turn, none keeps every thread, and when
//! there is no room the client with most waiting gives way ([`OffloadError::Refused`]).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use crate::backend;
use crate::helper::account;
pub use crate::helper::queue::Client;

//@ limit: jobs of helpers that panic
//@ section: Lanes
//@ unit: job
//@ connection: its own answer
//@ all: process: no bound; the thread goes on
//@ empty: its caller gets an error; others feel nothing
//@ counter: lane_helper_panics
//@ attack: none, a defect of the server
//@ reach: server
/// Runs `work` on a helper thread, on this client's account; without one on that of the task that asks
/// ([`spawn_for`](crate::spawn_for)), and else on the lane's own.
///
/// Work whose future is dropped before its turn is not begun; what has begun ends, and its result is dropped by the
/// helper.
///
/// # Panics
/// Off lanes.
pub fn offload<T: Send + 'static>(
    client: Option<Client>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Offload<T> {
    let slot = Arc::new(OffloadSlot { state: Mutex::new(OffloadState::Waits(None)) });
    let end = OffloadEnd { slot: Some(Arc::clone(&slot)) };
    let job = Box::new(move || {
        if end.is_wanted() {
            let outcome = catch_unwind(AssertUnwindSafe(work));
            end.tell(outcome.map_err(|_| OffloadError::Panicked));
        }
    });
    backend::try_with(|backend| {
        backend.counters().helper_jobs.increment();
        // What is given back tells its end as it is dropped.
        drop(backend.offload(client.or_else(account::current), job));
    })
    .expect("lane types are used only on a lane's own thread");
    Offload { slot }
}

/// Future of offloaded work's result.
#[derive(Debug)]
#[must_use = "work whose future is dropped may not be done"]
pub struct Offload<T> {
    slot: Arc<OffloadSlot<T>>,
}

/// Reason why offloaded work has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OffloadError {
    /// The job was not begun: the queue is full and the job's client has most there, or the helpers have
    /// ended.
    #[error("the silo's helpers have too much to do")]
    Refused,
    /// The job panicked, which is a defect.
    #[error("the helper's work panicked")]
    Panicked,
}

#[derive(Debug)]
struct OffloadSlot<T> {
    state: Mutex<OffloadState<T>>,
}

#[derive(Debug)]
enum OffloadState<T> {
    Waits(Option<Waker>),
    Over(Result<T, OffloadError>),
    /// The result is not wanted, or was taken.
    Left,
}

/// Guard that tells the end of the work, also when the work is dropped undone.
struct OffloadEnd<T> {
    slot: Option<Arc<OffloadSlot<T>>>,
}

impl<T> OffloadEnd<T> {
    fn is_wanted(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| !matches!(*slot.lock(), OffloadState::Left))
    }

    fn tell(mut self, outcome: Result<T, OffloadError>) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: Result<T, OffloadError>) {
        let Some(slot) = self.slot.take() else { return };
        let mut state = slot.lock();
        let OffloadState::Waits(waker) = &mut *state else {
            drop(state);
            // Dropped here with nothing held. A result's own panic is the helper's to catch.
            drop(outcome);
            return;
        };
        let waker = waker.take();
        *state = OffloadState::Over(outcome);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for OffloadEnd<T> {
    fn drop(&mut self) {
        self.end(Err(OffloadError::Refused));
    }
}

impl<T> OffloadSlot<T> {
    fn lock(&self) -> MutexGuard<'_, OffloadState<T>> {
        self.state.lock().expect("nobody panics while holding it")
    }
}

impl<T> Future for Offload<T> {
    type Output = Result<T, OffloadError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.slot.lock();
        if let OffloadState::Waits(waker) = &mut *state {
            match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        let OffloadState::Over(outcome) = std::mem::replace(&mut *state, OffloadState::Left) else {
            panic!("offloaded work is polled again after its end")
        };
        drop(state);
        backend::try_with(|backend| match outcome {
            Ok(_) => {}
            Err(OffloadError::Refused) => backend.counters().helper_refused.increment(),
            Err(OffloadError::Panicked) => backend.counters().helper_panics.increment(),
        });
        Poll::Ready(outcome)
    }
}

impl<T> Drop for Offload<T> {
    fn drop(&mut self) {
        let left = std::mem::replace(&mut *self.slot.lock(), OffloadState::Left);
        drop(left);
    }
}
