//! Operation that opens a file by the kernel's handle (open_by_handle_at(2)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::OFlags;

use super::handle_of::RawHandle;
use super::{Call, Keeper, Opened};
#[cfg(feature = "sim")]
use crate::backend::sim::{Access, AtFile};
use crate::backend::uring::files;
use crate::backend::{Fd, FileHandle};

/// Opens the file of `handle` on the file system that `on` is of.
#[derive(Clone)]
pub(crate) struct OpenHandle {
    pub(crate) on: Fd,
    pub(crate) handle: FileHandle,
    /// True to open for writing as well as reading.
    pub(crate) write: bool,
}

impl Call for OpenHandle {
    const NAME: &'static str = "open by handle";
    type Value = Opened;

    fn descriptor(&self) -> Fd {
        self.on
    }

    fn call(&self, on: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<Opened> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let mut handle =
            RawHandle::of(&self.handle).ok_or_else(|| io::Error::from_raw_os_error(libc::ESTALE))?;
        // SAFETY: the handle says how long it is, and outlives the call.
        let fd = unsafe {
            let handle = (&raw mut handle).cast::<libc::file_handle>();
            libc::open_by_handle_at(on.as_raw_fd(), handle, flags.bits().cast_signed())
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel made this descriptor for this operation, and nothing else owns it.
        let found = unsafe { OwnedFd::from_raw_fd(fd) };
        files::open_found(found.as_fd(), self.write).map(Opened::Kernel)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<Opened> {
        let inode = at.disk.open_handle(&self.handle, self.write, at.engine)?;
        let access = if self.write { Access::Write } else { Access::Read };
        at.process.add_file(inode, access).map(Opened::Simulated)
    }

    fn abandon(opened: Opened, keeper: &mut dyn Keeper) {
        keeper.close(opened);
    }
}
