//! Replies that carry callbacks and are in flight to a client, on one lane.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use super::CallbackTable;

/// Counts the replies in flight that carry one callback, and wakes those that wait for their delivery.
#[derive(Default)]
pub(crate) struct InFlightReplies {
    count: Cell<usize>,
    waiting: RefCell<Vec<Waker>>,
}

/// A reply that carries a callback and is in flight. It is dropped once the client has it. Until then, but for at
/// most [`CallbackOptions::overtake_max`](crate::CallbackOptions::overtake_max), the callback's break is held back.
#[must_use = "dropped, the reply counts as received"]
pub struct InFlightReply {
    replies: Rc<InFlightReplies>,
    table: Weak<CallbackTable>,
    /// Of the promise.
    number: u32,
}

impl InFlightReplies {
    /// Counts one more reply that carries the callback of this number.
    pub(super) fn begin(self: &Rc<Self>, table: &Rc<CallbackTable>, number: u32) -> InFlightReply {
        self.count.set(self.count.get() + 1);
        InFlightReply { replies: Rc::clone(self), table: Rc::downgrade(table), number }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// Waits until no reply that carries the callback is in flight.
    pub(crate) async fn delivered(&self) {
        poll_fn(|cx| {
            if self.is_empty() {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for InFlightReply {
    fn drop(&mut self) {
        self.replies.count.set(self.replies.count.get() - 1);
        if !self.replies.is_empty() {
            return;
        }
        if let Some(table) = self.table.upgrade() {
            table.all_delivered(self.number, &self.replies);
        }
        self.replies.waiting.take().into_iter().for_each(Waker::wake);
    }
}
