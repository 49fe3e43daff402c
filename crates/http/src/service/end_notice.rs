//! Notices to tasks that what they do has to end.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, Waker};

/// Notice to one task that what it does has to end.
#[derive(Default)]
pub(super) struct EndNotice {
    is_given: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl EndNotice {
    /// Gives the notice, for good.
    pub(super) fn give(&self) {
        self.is_given.set(true);
        self.waker.take().into_iter().for_each(Waker::wake);
    }

    /// Returns whether it was given.
    pub(super) fn is_given(&self) -> bool {
        self.is_given.get()
    }

    /// Returns the output of `future`; `None` once the notice is given.
    pub(super) async fn unless_given<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if self.is_given.get() {
                return Poll::Ready(None);
            }
            let polled = future.as_mut().poll(cx).map(Some);
            if polled.is_pending() {
                let mut waker = self.waker.borrow_mut();
                if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
                    *waker = Some(cx.waker().clone());
                }
            }
            polled
        })
        .await
    }
}
