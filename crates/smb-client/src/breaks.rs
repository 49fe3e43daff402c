//! Breaks of oplocks and leases: how a client takes and acknowledges them (MS-SMB2 3.2.5.19).

use std::future::poll_fn;
use std::task::Poll;

use smb_wire::body::oplock_break::{LeaseBreakAck, OplockBreak};
use smb_wire::fixed::Fixed;
use smb_wire::{Command, FileId, Guid};

use crate::break_queue::BreakNotification;
use crate::connection::Connection;
use crate::error::Error;
use crate::exchange::OutgoingRequest;
use crate::tree::Tree;

impl Connection {
    /// Waits for the next break. One task of a connection does.
    ///
    /// # Errors
    /// Why the connection is over.
    pub async fn next_break(&self) -> Result<BreakNotification, Error> {
        let break_queue = &self.shared().break_queue;
        poll_fn(|cx| match (break_queue.take(), self.ended()) {
            (Some(broken), _) => Poll::Ready(Ok(broken)),
            (None, Some(error)) => Poll::Ready(Err(error)),
            (None, None) => {
                break_queue.wake_by(cx.waker());
                Poll::Pending
            }
        })
        .await
    }

    /// Returns the number of breaks that [`Connection::next_break`] gave.
    pub fn breaks_received(&self) -> u64 {
        self.shared().break_queue.taken()
    }
}

impl Tree {
    /// Answers the break of an oplock: it is at `level` now (MS-SMB2 2.2.24.1).
    ///
    /// # Errors
    /// The request's.
    pub async fn acknowledge_oplock(&self, file: FileId, level: u8) -> Result<(), Error> {
        let answer = OplockBreak { oplock_level: level, file_id: file, ..OplockBreak::blank() };
        let request = OutgoingRequest::new(Command::OplockBreak, move |body| body.push(&answer));
        self.exchange(request).await?.body().map(|_| ())
    }

    /// Answers the break of a lease: it is at `state` now (MS-SMB2 2.2.24.2).
    ///
    /// # Errors
    /// The request's.
    pub async fn acknowledge_lease(&self, key: Guid, state: u32) -> Result<(), Error> {
        let answer = LeaseBreakAck { lease_key: key, lease_state: state.into(), ..LeaseBreakAck::blank() };
        let request = OutgoingRequest::new(Command::OplockBreak, move |body| body.push(&answer));
        self.exchange(request).await?.body().map(|_| ())
    }
}
