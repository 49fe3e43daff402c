//! Ending a park from another thread: an eventfd the ring polls, written only while the lane is parked.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

use crate::backend::Unpark;

/// State of a lane's park that the lane and its wakers share.
pub(super) struct Parker {
    event: OwnedFd,
    parked: AtomicBool,
    pending: AtomicBool,
}

impl Parker {
    pub(super) fn new() -> std::io::Result<Arc<Self>> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self { event, parked: AtomicBool::new(false), pending: AtomicBool::new(false) }))
    }

    /// Announces a park. Returns false when a thread unparked since the last one: then there is no parking.
    pub(super) fn prepare(&self) -> bool {
        self.parked.store(true, Ordering::SeqCst);
        if self.pending.swap(false, Ordering::SeqCst) {
            self.parked.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// Notes that the park ended.
    pub(super) fn done(&self) {
        self.parked.store(false, Ordering::SeqCst);
        self.pending.store(false, Ordering::SeqCst);
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}

impl Unpark for Parker {
    fn unpark(&self) -> bool {
        self.pending.store(true, Ordering::SeqCst);
        let was_parked = self.parked.swap(false, Ordering::SeqCst);
        if was_parked {
            // The counter cannot overflow in practice and an unread one still wakes; nothing else can fail.
            let _ = rustix::io::write(self.event.as_fd(), &1u64.to_ne_bytes());
        }
        was_parked
    }
}
