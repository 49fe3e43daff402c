//! Operation that makes a file in a directory, or opens an existing one (openat(2) with O_CREAT).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};
use rustix::fs::{self as sys, Mode, OFlags};

use super::{Call, Completion, Keeper, Opened};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::{Access, AtFile};
use crate::backend::uring::files;

/// Makes the file `name` in `dir` and opens it for reading and writing. A symbolic link of that name is not followed.
#[derive(Clone)]
pub(crate) struct Create {
    pub(crate) dir: Fd,
    pub(crate) name: CString,
    /// Permission bits, of which the process's umask takes some.
    pub(crate) mode: u32,
    /// True for `EEXIST` where the name exists.
    pub(crate) exclusive: bool,
}

impl Create {
    fn flags(&self) -> OFlags {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        // What is there already may be a pipe, whose open must not wait.
        flags | if self.exclusive { OFlags::EXCL } else { OFlags::NONBLOCK }
    }

    fn settle(&self, fd: OwnedFd) -> io::Result<Opened> {
        if self.exclusive {
            return Ok(Opened::Kernel(fd));
        }
        files::found(fd.as_fd())?;
        files::settle(fd).map(Opened::Kernel)
    }
}

impl Call for Create {
    const NAME: &'static str = "create";
    type Value = Opened;

    fn descriptor(&self) -> Fd {
        self.dir
    }

    fn entry(&mut self) -> Option<squeue::Entry> {
        let entry = opcode::OpenAt::new(RingFd(self.dir.0), self.name.as_ptr());
        Some(entry.flags(self.flags().bits().cast_signed()).mode(self.mode).build())
    }

    fn answer(&mut self, completion: Completion) -> io::Result<Opened> {
        let fd = completion.result()?.cast_signed();
        // SAFETY: the kernel made this descriptor for this operation, and nothing else owns it.
        self.settle(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn call(&self, dir: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<Opened> {
        self.settle(sys::openat(dir, &self.name, self.flags(), Mode::from_raw_mode(self.mode))?)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<Opened> {
        let name = self.name.as_bytes();
        let inode = at.disk.create_at(at.inode, name, self.mode, self.exclusive, at.engine)?;
        at.process.add_file(inode, Access::Write).map(Opened::Simulated)
    }

    fn abandon(opened: Opened, keeper: &mut dyn Keeper) {
        keeper.close(opened);
    }
}
