//! Breaks that the server sends unasked: oplocks and leases (MS-SMB2 3.2.5.19).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use smb_wire::body::oplock_break::{FLAG_ACK_REQUIRED, LeaseBreak, LeaseBreakAck, OplockBreak};
use smb_wire::fixed::Fixed;
use smb_wire::{Command, FileId, Guid};

use crate::connection::Connection;
use crate::error::Error;
use crate::exchange::OutgoingRequest;
use crate::tree::Tree;

/// A notification of an oplock or lease break (MS-SMB2 2.2.23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakNotification {
    /// An oplock goes down to a level of [`smb_wire::create::oplock_level`].
    Oplock {
        /// Of this open.
        file: FileId,
        /// To this level.
        level: u8,
    },
    /// A lease goes down: bits of [`smb_wire::create::lease::state`].
    Lease {
        /// Key of the lease.
        key: Guid,
        /// State of the lease before.
        current: u32,
        /// State that it becomes.
        new: u32,
        /// The lease's count of changes (version 2).
        epoch: u16,
        /// The server waits for an acknowledgment.
        acknowledge: bool,
    },
    /// The session is over (3.1.1).
    SessionClosed {
        /// Id of the session.
        session_id: u64,
    },
}

impl BreakNotification {
    pub(crate) fn lease(broken: &LeaseBreak) -> Self {
        Self::Lease {
            key: broken.lease_key,
            current: broken.current_lease_state.get(),
            new: broken.new_lease_state.get(),
            epoch: broken.new_epoch.get(),
            acknowledge: broken.flags.get() & FLAG_ACK_REQUIRED != 0,
        }
    }
}

/// The queue of a connection's break notifications.
#[derive(Debug, Default)]
pub(crate) struct BreakQueue {
    waiting: RefCell<VecDeque<BreakNotification>>,
    waker: RefCell<Option<Waker>>,
    taken: Cell<u64>,
}

impl BreakQueue {
    /// Keeps a break; `false` where too many wait already.
    pub(crate) fn put(&self, broken: BreakNotification) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let has_room = waiting.len() < WAITING_MAX;
        if has_room {
            waiting.push_back(broken);
        }
        self.wake();
        has_room
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Connection {
    /// Waits for the next break. One task of a connection does.
    ///
    /// # Errors
    /// Why the connection is over.
    pub async fn next_break(&self) -> Result<BreakNotification, Error> {
        let break_queue = &self.shared().break_queue;
        poll_fn(|cx| {
            if let Some(broken) = break_queue.waiting.borrow_mut().pop_front() {
                break_queue.taken.set(break_queue.taken.get() + 1);
                return Poll::Ready(Ok(broken));
            }
            if let Some(error) = self.ended() {
                return Poll::Ready(Err(error));
            }
            *break_queue.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Breaks that [`Connection::next_break`] gave.
    pub fn breaks_received(&self) -> u64 {
        self.shared().break_queue.taken.get()
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

/// A client that takes none of its breaks loses those beyond; the server's timer ends what it did not answer.
const WAITING_MAX: usize = 4096;
