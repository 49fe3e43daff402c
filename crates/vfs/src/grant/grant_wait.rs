//! Waits for grants of one object to be given back, on this lane, whichever lane they come back on.

use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use grants::Ticket;

use super::slot::WaitOutcome;
use crate::object::Object;

/// A place among the requests that wait.
pub(crate) struct GrantWait {
    object: Arc<Object>,
    ticket: Ticket,
}

impl GrantWait {
    pub(crate) fn new(object: &Arc<Object>, ticket: Ticket) -> Self {
        Self { object: Arc::clone(object), ticket }
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    pub(crate) fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Waits until something has come, or it is this late: `None`.
    pub(crate) async fn until(&mut self, until: Instant) -> Option<WaitOutcome> {
        lane::time::timeout_at(until, self.ended()).await.ok()
    }

    /// Waits until something has come, however long that takes.
    pub(crate) async fn ended(&mut self) -> WaitOutcome {
        let (grants, ticket) = (self.object.grants(), self.ticket);
        std::future::poll_fn(|cx| match grants.poll(ticket, cx.waker()) {
            Some(came) => Poll::Ready(came),
            None => Poll::Pending,
        })
        .await
    }
}

impl Drop for GrantWait {
    fn drop(&mut self) {
        self.object.grants().leave(self.ticket);
    }
}
