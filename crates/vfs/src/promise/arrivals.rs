//! Replies on their way to a client, on one lane.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use super::Promises;

/// How many are on their way, and who waits until none is.
#[derive(Default)]
pub(crate) struct Arrivals {
    count: Cell<usize>,
    waiting: RefCell<Vec<Waker>>,
}

/// A reply that carries a promise and is on its way. Dropped when the client has it: until then, but for
/// [`PromiseOptions::overtake_max`](crate::PromiseOptions::overtake_max), the client is not told that the promise is broken.
#[must_use = "dropped, the reply counts as received"]
pub struct OnItsWay {
    arrivals: Rc<Arrivals>,
    promises: Weak<Promises>,
    /// Of the promise.
    number: u32,
}

impl Arrivals {
    /// One more, with the promise of this number.
    pub(super) fn one_more(self: &Rc<Self>, promises: &Rc<Promises>, number: u32) -> OnItsWay {
        self.count.set(self.count.get() + 1);
        OnItsWay { arrivals: Rc::clone(self), promises: Rc::downgrade(promises), number }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.count.get() == 0
    }

    /// Waits until none is on its way.
    pub(crate) async fn over(&self) {
        poll_fn(|cx| {
            if self.is_over() {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.arrivals.count.set(self.arrivals.count.get() - 1);
        if !self.arrivals.is_over() {
            return;
        }
        if let Some(promises) = self.promises.upgrade() {
            promises.have_arrived(self.number, &self.arrivals);
        }
        self.arrivals.waiting.take().into_iter().for_each(Waker::wake);
    }
}
