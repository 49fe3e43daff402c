//! Signal that a transfer is over.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Signal to all tasks of a transfer that it is over. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Rc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    code: Cell<Option<i32>>,
    waiting: RefCell<Vec<Waker>>,
}

impl Stop {
    /// Gives the signal with an abort code. The first code counts.
    pub fn stop(&self, code: i32) {
        if self.0.code.get().is_none() {
            self.0.code.set(Some(code));
            let waiting = self.0.waiting.take();
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    /// Returns the abort code once the signal was given.
    pub fn code(&self) -> Option<i32> {
        self.0.code.get()
    }

    /// Waits for the signal and returns its abort code.
    pub async fn stopped(&self) -> i32 {
        poll_fn(|cx| {
            if let Some(code) = self.code() {
                return Poll::Ready(code);
            }
            let mut waiting = self.0.waiting.borrow_mut();
            // A transfer has few streams, each of which waits in one task.
            if !waiting.iter().any(|known| known.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}
