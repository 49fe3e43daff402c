//! Operation that opens a file that was found (open(2) of its link in `/proc/self/fd`).

use std::ffi::CString;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};
use rustix::fs::OFlags;

use super::{Call, Completion, Keeper, Opened};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::{Access, AtFile};
use crate::backend::uring::files;

/// Opens the file that `found` leads to and that is known to be one, whatever has its name by now.
#[derive(Clone)]
pub(crate) struct OpenFound {
    found: Fd,
    write: bool,
    /// Path that the ring reads.
    path: CString,
    flags: OFlags,
}

impl OpenFound {
    pub(crate) fn new(found: Fd, write: bool) -> Self {
        let (path, flags) = files::open_found_rules(found.0, write);
        Self { found, write, path, flags }
    }
}

impl Call for OpenFound {
    const NAME: &'static str = "open what was found";
    type Value = Opened;

    fn descriptor(&self) -> Fd {
        self.found
    }

    fn entry(&mut self) -> Option<squeue::Entry> {
        let entry = opcode::OpenAt::new(RingFd(libc::AT_FDCWD), self.path.as_ptr());
        Some(entry.flags(self.flags.bits().cast_signed()).build())
    }

    fn answer(&mut self, completion: Completion) -> io::Result<Opened> {
        let fd = completion.result()?.cast_signed();
        // SAFETY: the kernel made this descriptor for this operation, and nothing else owns it.
        files::settle(unsafe { OwnedFd::from_raw_fd(fd) }).map(Opened::Kernel)
    }

    fn call(&self, found: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<Opened> {
        files::open_found(found, self.write).map(Opened::Kernel)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<Opened> {
        let access = if self.write { Access::Write } else { Access::Read };
        at.process.add_file(std::rc::Rc::clone(at.inode), access).map(Opened::Simulated)
    }

    fn abandon(opened: Opened, keeper: &mut dyn Keeper) {
        keeper.close(opened);
    }
}
