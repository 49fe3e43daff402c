//! Operation that makes a file without a name (openat(2) with O_TMPFILE).

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};
use rustix::fs::{self as sys, Mode, OFlags};

use super::{Call, Completion, Keeper, Opened};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::{Access, AtFile};

/// Makes a file on the file system of `dir`, and opens it for reading and writing.
#[derive(Clone)]
pub(crate) struct CreateUnnamed {
    pub(crate) dir: Fd,
    /// Permission bits, of which the process's umask takes some.
    pub(crate) mode: u32,
}

impl Call for CreateUnnamed {
    const NAME: &'static str = "create without a name";
    type Value = Opened;

    fn descriptor(&self) -> Fd {
        self.dir
    }

    fn entry(&mut self) -> Option<squeue::Entry> {
        let entry = opcode::OpenAt::new(RingFd(self.dir.0), c".".as_ptr());
        Some(entry.flags(FLAGS.bits().cast_signed()).mode(self.mode).build())
    }

    fn answer(&mut self, completion: Completion) -> io::Result<Opened> {
        let fd = completion.result()?.cast_signed();
        // SAFETY: the kernel made this descriptor for this operation, and nothing else owns it.
        Ok(Opened::Kernel(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn call(&self, dir: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<Opened> {
        Ok(Opened::Kernel(sys::openat(dir, c".", FLAGS, Mode::from_raw_mode(self.mode))?))
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<Opened> {
        let inode = at.disk.temporary(at.inode, self.mode, at.engine)?;
        at.process.add_file(inode, Access::Write).map(Opened::Simulated)
    }

    fn abandon(opened: Opened, keeper: &mut dyn Keeper) {
        keeper.close(opened);
    }
}

const FLAGS: OFlags = OFlags::TMPFILE.union(OFlags::RDWR).union(OFlags::CLOEXEC);
