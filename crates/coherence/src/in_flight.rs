//! Replies that carry callbacks and are in flight to a client, on one lane.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

/// The replies in flight from one lane, by the number of the callback that they carry.
#[derive(Default)]
pub(crate) struct InFlightTable {
    by_callback: RefCell<HashMap<u32, Rc<InFlightReplies>>>,
}

/// Counts the replies in flight that carry one callback, and wakes those that wait for their delivery.
#[derive(Default)]
pub struct InFlightReplies {
    count: Cell<usize>,
    waiting: RefCell<Vec<Waker>>,
}

/// A reply that carries a callback and is in flight. It is dropped once the client has it. Until then, but for at
/// most [`CallbackOptions::overtake_max`](crate::CallbackOptions::overtake_max), the callback's break is held back.
#[must_use = "dropped, the reply counts as received"]
pub struct InFlightReply {
    replies: Rc<InFlightReplies>,
    table: Weak<InFlightTable>,
    /// Number of the callback.
    number: u32,
}

impl InFlightTable {
    /// Counts one more reply that carries the callback of this number.
    pub(crate) fn begin(self: &Rc<Self>, number: u32) -> InFlightReply {
        let replies = Rc::clone(self.by_callback.borrow_mut().entry(number).or_default());
        replies.count.set(replies.count.get() + 1);
        InFlightReply { replies, table: Rc::downgrade(self), number }
    }

    /// Returns the replies in flight that carry this callback, if there are any.
    pub(crate) fn of(&self, number: u32) -> Option<Rc<InFlightReplies>> {
        self.by_callback.borrow().get(&number).filter(|replies| !replies.is_empty()).cloned()
    }

    /// Returns all replies in flight, by the number of their callback.
    pub(crate) fn all(&self) -> Vec<(u32, Rc<InFlightReplies>)> {
        let by_callback = self.by_callback.borrow();
        let in_flight = by_callback.iter().filter(|(_, replies)| !replies.is_empty());
        in_flight.map(|(&number, replies)| (number, Rc::clone(replies))).collect()
    }

    /// Forgets the replies of a callback, whose number is reused.
    pub(crate) fn remove(&self, number: u32) {
        self.by_callback.borrow_mut().remove(&number);
    }

    /// Forgets replies that were delivered. The number may be another callback's by now.
    fn forget(&self, number: u32, delivered: &Rc<InFlightReplies>) {
        let mut by_callback = self.by_callback.borrow_mut();
        if by_callback.get(&number).is_some_and(|known| Rc::ptr_eq(known, delivered)) {
            by_callback.remove(&number);
        }
    }
}

impl InFlightReplies {
    /// Returns whether no reply that carries the callback is in flight.
    pub fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// Waits until no reply that carries the callback is in flight.
    pub async fn delivered(&self) {
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
            table.forget(self.number, &self.replies);
        }
        self.replies.waiting.take().into_iter().for_each(Waker::wake);
    }
}
