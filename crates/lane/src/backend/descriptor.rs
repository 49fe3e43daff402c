//! Descriptor that closes with its owner and never leaves its lane: the number has a meaning only for the
//! backend that gave it out.

use std::marker::PhantomData;
use std::rc::Rc;

use super::{Fd, current};

/// Owner of a descriptor of the current lane. Neither `Send` nor `Sync`.
#[derive(Debug)]
#[must_use = "a descriptor that nobody keeps is closed"]
pub struct Descriptor {
    fd: Fd,
    stays_on_its_lane: PhantomData<Rc<()>>,
}

impl Descriptor {
    /// Takes over a descriptor that a backend has just given out.
    pub(crate) fn new(fd: Fd) -> Self {
        Self { fd, stays_on_its_lane: PhantomData }
    }

    /// Returns the token that names the descriptor in operations.
    pub fn fd(&self) -> Fd {
        self.fd
    }

    /// Ends the ownership without closing.
    pub(crate) fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // Off lanes there is nothing left to close: the backend closed all it had when it ended.
        current::try_with(|backend| backend.close(self.fd));
    }
}
