//! Locks that other processes see: of ranges of bytes, advisory, and of one open of a file ("Open file
//! description locks", fcntl(2)). They conflict with those of other opens, in this process and any, and with
//! POSIX locks; they go when the open does.

use std::io;

use super::{File, HeldLock, LockKind};
use crate::backend::OpFuture;
use crate::backend::operation as op;

impl File {
    /// Locks `len` bytes from `offset` on, or to the end of the file wherever that comes to lie where `len`
    /// is 0. What of them this open had locked before gets the new kind. Never waits.
    ///
    /// # Errors
    /// `EAGAIN` while another has a lock that this one cannot share, and when the silo's helpers are overloaded; `EBADF` for
    /// an exclusive one where the file was not opened for writing; `EINVAL` and `EOVERFLOW` beyond 2^63; `ENOLCK`.
    pub async fn try_lock(&self, offset: u64, len: u64, kind: LockKind) -> io::Result<()> {
        OpFuture::submit(op::Lock { file: self.fd(), offset, len, kind: Some(kind) }).await
    }

    /// Releases this open's locks of a range, which may be parts of locks, or nothing.
    ///
    /// # Errors
    /// As [`File::try_lock`], but for conflicts.
    pub async fn unlock(&self, offset: u64, len: u64) -> io::Result<()> {
        OpFuture::submit(op::Lock { file: self.fd(), offset, len, kind: None }).await
    }

    /// Returns a lock of another open that conflicts with this one now.
    ///
    /// # Errors
    /// As [`File::try_lock`], but for conflicts.
    pub async fn lock_in_the_way(
        &self,
        offset: u64,
        len: u64,
        kind: LockKind,
    ) -> io::Result<Option<HeldLock>> {
        OpFuture::submit(op::FindLock { file: self.fd(), offset, len, kind }).await
    }
}
