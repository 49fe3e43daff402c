//! Requests that are not answered at once: how many there are, how they are named, how they are cancelled, and which of them go
//! on when their connection is lost.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The requests of a connection that are not answered yet.
#[derive(Default)]
pub(crate) struct PendingRequests {
    waiting: RefCell<HashMap<u64, Rc<Pending>>>,
    /// Number of these that have got an interim reply.
    async_count: Cell<usize>,
    async_ids: Cell<u64>,
    has_room: RefCell<Option<Waker>>,
    /// Waker of the task that waits until there are none.
    emptied: RefCell<Option<Waker>>,
    is_lost: Cell<bool>,
}

/// One request that waits.
pub(crate) struct Pending {
    message_id: u64,
    /// Session whose end cancels it; 0 for a request that goes on.
    session: u64,
    /// The request ends with its session alone, and not with its connection.
    outlives_connection: bool,
    /// The request's client may cancel it.
    obeys_cancel: bool,
    async_id: Cell<Option<u64>>,
    is_cancelled: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// Keeps a request among those that wait. Dropped, it removes the request.
pub(crate) struct PendingGuard<'a> {
    requests: &'a PendingRequests,
    pub(crate) pending: Rc<Pending>,
}

impl PendingRequests {
    /// Returns whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    /// Waits while there are so many without an interim reply that no more should be begun.
    pub(crate) async fn room(&self) {
        poll_fn(|cx| {
            if self.is_lost.get() || self.waiting.borrow().len() - self.async_count.get() < SYNC_MAX {
                return Poll::Ready(());
            }
            *self.has_room.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Waits until there are none.
    pub(crate) async fn empty(&self) {
        poll_fn(|cx| {
            if self.is_empty() {
                return Poll::Ready(());
            }
            *self.emptied.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Returns how many of a session go on without the connection.
    pub(crate) fn going_on(&self, session: u64) -> usize {
        let waiting = self.waiting.borrow();
        waiting.values().filter(|pending| pending.outlives_connection && pending.session == session).count()
    }

    /// Enters a request that cannot be answered at once.
    pub(crate) fn enter(
        &self,
        message_id: u64,
        session: u64,
        outlives_connection: bool,
        obeys_cancel: bool,
    ) -> PendingGuard<'_> {
        let is_cancelled = self.is_lost.get() && !outlives_connection;
        let pending = Rc::new(Pending {
            message_id,
            session,
            outlives_connection,
            obeys_cancel,
            async_id: Cell::new(None),
            is_cancelled: Cell::new(is_cancelled),
            waker: RefCell::default(),
        });
        self.waiting.borrow_mut().insert(message_id, Rc::clone(&pending));
        PendingGuard { requests: self, pending }
    }

    /// Cancels a request by the id that its interim reply had, or by its message's.
    pub(crate) fn cancel(&self, async_id: Option<u64>, message_id: u64) {
        let waiting = self.waiting.borrow();
        let found = match async_id {
            Some(id) => waiting.values().find(|pending| pending.async_id.get() == Some(id)),
            None => waiting.get(&message_id),
        };
        if let Some(pending) = found.filter(|pending| pending.obeys_cancel) {
            pending.cancel();
        }
    }

    /// Cancels those of a session.
    pub(crate) fn cancel_session(&self, session: u64) {
        let waiting = self.waiting.borrow();
        waiting.values().filter(|pending| pending.session == session).for_each(|pending| pending.cancel());
    }

    /// Notes that the connection is lost, and cancels those that end with it.
    pub(crate) fn lose(&self) {
        self.is_lost.set(true);
        let waiting = self.waiting.borrow();
        waiting.values().filter(|pending| !pending.outlives_connection).for_each(|pending| pending.cancel());
        drop(waiting);
        self.has_room.take().into_iter().for_each(Waker::wake);
    }
}

impl PendingGuard<'_> {
    /// Returns the number for its interim reply; `None` where too many have one.
    pub(crate) fn go_async(&self) -> Option<u64> {
        let requests = self.requests;
        //= MS-SMB2 3.3.4.2
        //# A server may bound asynchronous requests, and fails what goes beyond with STATUS_INSUFFICIENT_RESOURCES.
        if requests.async_count.get() >= ASYNC_MAX {
            return None;
        }
        let id = requests.async_ids.get() + 1;
        requests.async_ids.set(id);
        requests.async_count.update(|count| count + 1);
        self.pending.async_id.set(Some(id));
        requests.has_room.take().into_iter().for_each(Waker::wake);
        Some(id)
    }
}

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        let requests = self.requests;
        if self.pending.async_id.get().is_some() {
            requests.async_count.update(|count| count - 1);
        }
        requests.waiting.borrow_mut().remove(&self.pending.message_id);
        requests.has_room.take().into_iter().for_each(Waker::wake);
        if requests.is_empty() {
            requests.emptied.take().into_iter().for_each(Waker::wake);
        }
    }
}

impl Pending {
    fn cancel(&self) {
        self.is_cancelled.set(true);
        self.waker.take().into_iter().for_each(Waker::wake);
    }

    /// Returns ready once it was cancelled.
    pub(crate) fn poll_cancelled(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_cancelled.get() {
            return Poll::Ready(());
        }
        *self.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

//@ limit: requests that wait with an interim reply
//@ section: SMB
//@ unit: request
//@ connection: {}
//@ empty: STATUS_INSUFFICIENT_RESOURCES; others feel nothing
//@ counter: smb_waiting, smb_requests_refused_async
//@ attack: smb-hoards
/// Requests that wait with an interim reply: as many as with Windows, whose clients count on it.
const ASYNC_MAX: usize = 511;
//@ limit: requests under way without an interim reply
//@ section: SMB
//@ unit: request
//@ connection: {}
//@ empty: no more is read until one is answered
//@ counter: none
//@ attack: smb-unread
/// Requests under way without one.
const SYNC_MAX: usize = 256;
