//! Objects that are on no lane: a stream that one lane has released and no other has adopted yet, a file
//! whose locks are kept.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex};

use super::Fd;

/// Stream on its way to another lane of the process, or a file on none. Dropped, it closes.
#[derive(Debug)]
#[must_use = "a stream that nobody adopts is closed"]
pub struct Released(pub(super) ReleasedKind);

#[derive(Debug)]
pub(super) enum ReleasedKind {
    Kernel(OwnedFd),
    Simulated(Numbered),
}

/// Simulated descriptor that is on no lane. Its number stays taken until it is adopted or closed.
#[derive(Debug)]
pub(super) struct Numbered {
    /// Number of the descriptor; `None` once adopted.
    fd: Option<Fd>,
    dropped: Dropped,
}

/// Numbers of one simulated process that were dropped on their way, for the world to close.
#[derive(Clone, Debug, Default)]
pub(super) struct Dropped(Arc<Mutex<Vec<Fd>>>);

impl Released {
    /// Returns the number that any lane of the process may use for it, as long as this lives.
    pub(crate) fn fd(&self) -> Fd {
        match &self.0 {
            ReleasedKind::Kernel(owned) => Fd(owned.as_raw_fd()),
            ReleasedKind::Simulated(numbered) => numbered.fd.expect("it has not been adopted"),
        }
    }
}

impl From<OwnedFd> for Released {
    fn from(stream: OwnedFd) -> Self {
        Self(ReleasedKind::Kernel(stream))
    }
}

impl Numbered {
    pub(super) fn new(fd: Fd, dropped: &Dropped) -> Self {
        Self { fd: Some(fd), dropped: dropped.clone() }
    }

    /// Takes the number, if it is one of the process that `dropped` belongs to.
    pub(super) fn into_fd(mut self, dropped: &Dropped) -> Option<Fd> {
        Arc::ptr_eq(&self.dropped.0, &dropped.0).then(|| self.fd.take())?
    }
}

impl Drop for Numbered {
    fn drop(&mut self) {
        if let Some(fd) = self.fd.take() {
            self.dropped.0.lock().expect("nobody panics while holding it").push(fd);
        }
    }
}

impl Dropped {
    pub(super) fn take(&self) -> Vec<Fd> {
        std::mem::take(&mut *self.0.lock().expect("nobody panics while holding it"))
    }
}
