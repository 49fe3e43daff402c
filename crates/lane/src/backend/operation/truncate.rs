//! Operation that sets the length of a file (ftruncate(2)).

use std::io;
use std::os::fd::BorrowedFd;

use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};
use rustix::fs as sys;

use super::{Call, Completion};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::uring::files;

/// Cuts `file` to `len` bytes, or lengthens it with a hole.
#[derive(Clone)]
pub(crate) struct Truncate {
    pub(crate) file: Fd,
    pub(crate) len: u64,
}

impl Call for Truncate {
    const NAME: &'static str = "truncate";
    const CUTS: bool = true;
    type Value = ();

    fn descriptor(&self) -> Fd {
        self.file
    }

    /// Returns the entry for rings since Linux 6.9.
    fn entry(&mut self) -> Option<squeue::Entry> {
        Some(opcode::Ftruncate::new(RingFd(self.file.0), self.len).build())
    }

    fn answer(&mut self, completion: Completion) -> io::Result<()> {
        completion.result().map(drop)
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(sys::ftruncate(file, self.len)?)
    }

    fn is_brief(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> bool {
        sys::fstat(file)
            .is_ok_and(|stat| stat.st_size.cast_unsigned() < self.len.saturating_add(files::SMALL_BYTES))
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<()> {
        at.check_resizable()?;
        at.disk.truncate(at.inode, self.len, at.engine)
    }
}
