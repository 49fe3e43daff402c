//! Locks that outlast the lane that asked for them.

use std::io;

use super::{File, LockKind};
use crate::backend::operation as op;
use crate::backend::{OpFuture, Released};
use crate::context;

/// An open of a file that is on no lane: any lane of the process sets [locks](File::try_lock) of it. The
/// locks last until this is dropped, whichever lanes have ended by then, and do not conflict with each other.
#[derive(Debug)]
#[must_use = "its locks go with it"]
pub struct LockKeeper(Released);

impl File {
    /// Takes the file off its lane, to keep locks.
    ///
    /// # Errors
    /// `EBUSY` while an operation that was given up is at work on it.
    pub fn into_keeper(self) -> io::Result<LockKeeper> {
        let released = context::with(|lane| lane.backend().release_file(self.fd()))?;
        self.fd.forget();
        Ok(LockKeeper(released))
    }
}

impl LockKeeper {
    /// Locks a range, or releases what is locked there. Never waits. A range is as in [`File::try_lock`].
    ///
    /// # Errors
    /// As [`File::try_lock`].
    pub async fn set(&self, offset: u64, len: u64, kind: Option<LockKind>) -> io::Result<()> {
        OpFuture::submit(op::Lock { file: self.0.fd(), offset, len, kind }).await
    }
}
