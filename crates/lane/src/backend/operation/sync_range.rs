//! Operation that writes a range of a file to the disk (sync_file_range(2)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};

use super::{Call, Completion};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;

/// Writes `len` bytes of `file` from `offset` on back and waits for it; to the end of the file where `len` is
/// 0.
#[derive(Clone)]
pub(crate) struct SyncRange {
    pub(crate) file: Fd,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Call for SyncRange {
    const NAME: &'static str = "sync a range";
    type Value = ();

    fn descriptor(&self) -> Fd {
        self.file
    }

    /// Returns the entry for the ring, which takes lengths of 32 bits.
    fn entry(&mut self) -> Option<squeue::Entry> {
        let entry = opcode::SyncFileRange::new(RingFd(self.file.0), u32::try_from(self.len).ok()?);
        Some(entry.offset(self.offset).flags(FLAGS).build())
    }

    fn answer(&mut self, completion: Completion) -> io::Result<()> {
        completion.result().map(drop)
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
        let (offset, len) = (self.offset.cast_signed(), self.len.cast_signed());
        // SAFETY: it takes numbers only.
        match unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, FLAGS) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<()> {
        at.disk.sync_range(at.inode, at.engine)
    }
}

const FLAGS: u32 =
    libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
