//! Notices to tasks that what they do has to end.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

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

    /// Polls a future; `None` once the notice is given. The caller pins the future: those of requests are large, and each
    /// function on the way would copy them.
    pub(super) fn poll<F: Future>(
        &self,
        cx: &mut Context<'_>,
        future: Pin<&mut F>,
    ) -> Poll<Option<F::Output>> {
        if self.is_given.get() {
            return Poll::Ready(None);
        }
        let polled = future.poll(cx).map(Some);
        if polled.is_pending() {
            let mut waker = self.waker.borrow_mut();
            if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
        }
        polled
    }
}
