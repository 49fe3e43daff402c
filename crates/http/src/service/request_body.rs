//! A request's body as it comes over HTTP/1.1: content where it was received, piece by piece.

use std::time::Instant;

use super::abort::Abort;
use super::inbox::Inbox;
use super::wire::{Received, Wire};
use crate::body::BodyReader;

/// The body behind a head that was consumed. Nothing is received before the piece before it was done with: who takes a body
/// slowly holds its client up, not the lane's memory.
pub(super) struct RequestBody<'c> {
    wire: &'c mut Wire,
    inbox: &'c mut Inbox,
    body: BodyReader,
    deadline: Instant,
    /// Bytes of the inbox that belong to the piece that was given last.
    lent: usize,
}

impl<'c> RequestBody<'c> {
    /// A body that must have come by `deadline`.
    pub(super) fn new(wire: &'c mut Wire, inbox: &'c mut Inbox, body: BodyReader, deadline: Instant) -> Self {
        Self { wire, inbox, body, deadline, lent: 0 }
    }

    /// The next piece of content; `None` at the body's end, behind which the next request begins.
    ///
    /// # Errors
    /// [`Abort::RequestBody`] for one that is malformed, too long or too late: where the next request would begin is not
    /// known.
    pub(super) async fn next(&mut self) -> Result<Option<&[u8]>, Abort> {
        self.inbox.consume(std::mem::take(&mut self.lent));
        let content = loop {
            let fed = self.body.feed(self.inbox.unread()).map_err(|_| Abort::RequestBody)?;
            if !fed.content.is_empty() {
                self.lent = fed.consumed;
                break fed.content;
            }
            self.inbox.consume(fed.consumed);
            if fed.done {
                return Ok(None);
            }
            match self.wire.receive(self.inbox, self.deadline).await {
                Ok(Received::Bytes) => {}
                Ok(Received::End) => return Err(Abort::PeerClosed),
                Err(abort) if abort.is_timeout() => return Err(Abort::RequestBody),
                Err(abort) => return Err(abort),
            }
        };
        Ok(Some(&self.inbox.unread()[content]))
    }
}
