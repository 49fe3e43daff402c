//! Operation that allocates or frees room of a file (fallocate(2)).

use std::io;
use std::os::fd::BorrowedFd;

use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};
use rustix::fs::{self as sys, FallocateFlags};

use super::{Call, Completion};
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::uring::files;
use crate::backend::{Allocate, Fd};

/// Applies `what` to `len` bytes of `file` from `offset` on.
#[derive(Clone)]
pub(crate) struct Fallocate {
    pub(crate) file: Fd,
    pub(crate) what: Allocate,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Fallocate {
    fn flags(&self) -> FallocateFlags {
        match self.what {
            Allocate::Extend => FallocateFlags::empty(),
            Allocate::KeepSize => FallocateFlags::KEEP_SIZE,
            Allocate::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            Allocate::Zero => FallocateFlags::ZERO_RANGE,
        }
    }
}

impl Call for Fallocate {
    const NAME: &'static str = "fallocate";
    type Value = ();

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn entry(&mut self) -> Option<squeue::Entry> {
        let entry = opcode::Fallocate::new(RingFd(self.file.0), self.len).offset(self.offset);
        Some(entry.mode(self.flags().bits().cast_signed()).build())
    }

    fn answer(&mut self, completion: Completion) -> io::Result<()> {
        completion.result().map(drop)
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(sys::fallocate(file, self.flags(), self.offset, self.len)?)
    }

    fn is_brief(&self, _: BorrowedFd<'_>, _: BorrowedFd<'_>) -> bool {
        self.len <= files::SMALL_BYTES
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<()> {
        if self.len == 0 || [self.offset, self.len].iter().any(|&n| i64::try_from(n).is_err()) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        at.check_writable()?;
        at.disk.allocate(at.inode, self.what, self.offset, self.len, at.engine)
    }
}
