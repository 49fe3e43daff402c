//! Operation that gives an open file one more name (linkat(2)), or its first one.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{self as sys, AtFlags, CWD};
use rustix::io::Errno;

use super::Call;
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;

/// Gives `file` the name `name` in `dir`.
///
/// Not the ring's linkat: it may take two calls, and a helper is woken once for both.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) file: Fd,
    pub(crate) dir: Fd,
    pub(crate) name: CString,
}

impl Call for Link {
    const NAME: &'static str = "link";
    type Value = ();

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn second(&self) -> Option<Fd> {
        Some(self.dir)
    }

    fn call(&self, file: BorrowedFd<'_>, dir: BorrowedFd<'_>) -> io::Result<()> {
        match sys::linkat(file, c"", dir, &self.name, AtFlags::EMPTY_PATH) {
            // A process that lacks CAP_DAC_READ_SEARCH gets this; the other way needs /proc instead.
            Err(Errno::NOENT) => {
                let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                Ok(sys::linkat(CWD, path, dir, &self.name, AtFlags::SYMLINK_FOLLOW)?)
            }
            linked => Ok(linked?),
        }
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<()> {
        let dir = &at.second()?.inode;
        at.disk.link_at(at.inode, dir, self.name.as_bytes(), at.engine)
    }
}
