//! Room of files and file systems: taken and given back, shared, looked at, copied without coming to the
//! lane.

use std::io;

use super::{Allocate, File, SeekTo, SystemStat};
use crate::backend::OpFuture;
use crate::backend::operation as op;

impl File {
    /// Takes or frees room for `len` bytes from `offset` on, as `what` says (fallocate(2)).
    ///
    /// # Errors
    /// `EBADF` where the file was not opened for writing; `EINVAL` for no bytes; `EFBIG`; `ENOSPC`, `EDQUOT`, and then some
    /// room may have been taken; `EOPNOTSUPP` where the file system cannot do it (tmpfs: [`Allocate::Zero`]); `EIO`.
    pub async fn allocate(&self, what: Allocate, offset: u64, len: u64) -> io::Result<()> {
        OpFuture::submit(op::Fallocate { file: self.fd(), what, offset, len }).await
    }

    /// Returns the next begin of data or of a hole at or behind `offset`; the end of a file is a hole
    /// (lseek(2)). File systems tell by blocks, and may call a hole data.
    ///
    /// # Errors
    /// `ENXIO` at or behind the end, and when no data follows; `EAGAIN` when the silo's helpers are overloaded.
    pub async fn seek(&self, offset: u64, to: SeekTo) -> io::Result<u64> {
        OpFuture::submit(op::Seek { file: self.fd(), offset, to }).await
    }

    /// Copies `len` bytes from `offset` on to another file, at `to_offset`, and returns how many: fewer only
    /// at the end of this one (copy_file_range(2)). The file system may share room instead. Done in parts, so
    /// that no helper is kept long: after an error, and where the future was dropped early, an unknown part
    /// was copied.
    ///
    /// # Errors
    /// `EBADF` where `to` was not opened for writing; `EINVAL` when the ranges are of one file and overlap; `EXDEV` and
    /// `EOPNOTSUPP` where the file systems cannot; `EFBIG`, `ENOSPC`, `EDQUOT`, `EIO`; `EAGAIN` when the silo's helpers are
    /// overloaded.
    pub async fn copy_range(&self, offset: u64, to: &Self, to_offset: u64, len: u64) -> io::Result<u64> {
        let mut done = 0;
        while done < len {
            let part = op::CopyRange {
                from: self.fd(),
                offset: offset.saturating_add(done),
                to: to.fd(),
                to_offset: to_offset.saturating_add(done),
                len: (len - done).min(COPY_BYTES_MAX),
            };
            match OpFuture::submit(part).await? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }

    /// Gives this file the content of another, sharing all room until either is changed (ioctl_ficlone(2)).
    /// Earlier content is lost.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the file system cannot (ext4, tmpfs); `EXDEV` for a file of another; `EBADF` where this file was not
    /// opened for writing; `EISDIR`, `EINVAL` for what is no file; `ENOSPC`, `EDQUOT`, `EIO`; `EAGAIN` when the silo's helpers
    /// are overloaded.
    pub async fn reflink_from(&self, from: &Self) -> io::Result<()> {
        OpFuture::submit(op::Reflink { from: from.fd(), to: self.fd() }).await
    }

    /// Writes `len` bytes from `offset` on, to the end where `len` is 0, to the disk, and waits for that
    /// (sync_file_range(2)). A later [`File::sync`] has less to do then. This makes nothing safe, as neither
    /// new sizes and places nor the disk's own cache are written.
    ///
    /// # Errors
    /// `EIO`, `ENOSPC` of earlier writes, which a sync by this open does not tell again; `EINVAL` beyond 2^63; `ESPIPE`.
    pub async fn sync_range(&self, offset: u64, len: u64) -> io::Result<()> {
        OpFuture::submit(op::SyncRange { file: self.fd(), offset, len }).await
    }

    /// Returns the room of the file's file system (fstatfs(2)).
    ///
    /// # Errors
    /// `EIO`; `EAGAIN` when the silo's helpers are overloaded.
    pub async fn stat_system(&self) -> io::Result<SystemStat> {
        OpFuture::submit(op::StatSystem { file: self.fd() }).await
    }

    /// Makes the whole file system of the file safe: names, attributes and contents (syncfs(2)). May take
    /// long.
    ///
    /// # Errors
    /// `EIO`, `ENOSPC`, `EDQUOT` of anything written since this open last returned such an error; `EAGAIN` when the
    /// silo's helpers are overloaded.
    pub async fn sync_system(&self) -> io::Result<()> {
        OpFuture::submit(op::SyncSystem { file: self.fd() }).await
    }
}

/// Most bytes that one call copies.
const COPY_BYTES_MAX: u64 = 8 << 20;
