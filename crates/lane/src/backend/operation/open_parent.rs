//! Operation that opens the directory above an open one (openat(2)).

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};
use rustix::fs::{self as sys, Mode, OFlags};

use super::{Call, Completion, Keeper, Opened};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::{Access, AtFile};

/// Opens `..` of `dir`.
#[derive(Clone)]
pub(crate) struct OpenParent {
    pub(crate) dir: Fd,
}

impl Call for OpenParent {
    const NAME: &'static str = "open the directory above";
    type Value = Opened;

    fn descriptor(&self) -> Fd {
        self.dir
    }

    fn entry(&mut self) -> Option<squeue::Entry> {
        let entry = opcode::OpenAt::new(RingFd(self.dir.0), c"..".as_ptr());
        Some(entry.flags(FLAGS.bits().cast_signed()).build())
    }

    fn answer(&mut self, completion: Completion) -> io::Result<Opened> {
        let fd = completion.result()?.cast_signed();
        // SAFETY: the kernel made this descriptor for this operation, and nothing else owns it.
        Ok(Opened::Kernel(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn call(&self, dir: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<Opened> {
        Ok(Opened::Kernel(sys::openat(dir, c"..", FLAGS, Mode::empty())?))
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<Opened> {
        let parent = at.disk.parent_of(at.inode, at.engine)?;
        at.process.add_file(parent, Access::Read).map(Opened::Simulated)
    }

    fn abandon(opened: Opened, keeper: &mut dyn Keeper) {
        keeper.close(opened);
    }
}

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
