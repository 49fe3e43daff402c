//! Notifications of breaks that a server sends unasked, until the client takes them (MS-SMB2 3.2.5.19).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::Waker;

use smb_wire::body::oplock_break::{FLAG_ACK_REQUIRED, LeaseBreak};
use smb_wire::{FileId, Guid};

/// A notification of an oplock or lease break (MS-SMB2 2.2.23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakNotification {
    /// An oplock goes down to a level of [`smb_wire::create::oplock_level`].
    Oplock {
        /// Id of the open.
        file: FileId,
        /// Level that it becomes.
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
    /// Reads the notification of a lease break.
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

    /// Takes the oldest break.
    pub(crate) fn take(&self) -> Option<BreakNotification> {
        let broken = self.waiting.borrow_mut().pop_front()?;
        self.taken.set(self.taken.get() + 1);
        Some(broken)
    }

    /// Returns the number of breaks that were taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.get()
    }

    /// Has the task of this waker woken by the next break.
    pub(crate) fn wake_by(&self, waker: &Waker) {
        *self.waker.borrow_mut() = Some(waker.clone());
    }

    /// Wakes the task that waits for a break, as one came or the connection is over.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Number of breaks that wait at most. A client that takes none loses those beyond, and the server's timer ends
/// what it did not answer.
const WAITING_MAX: usize = 4096;
