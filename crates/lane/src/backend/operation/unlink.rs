//! Operation that removes a name: of a file, link or special file, or of an empty directory (unlinkat(2)).

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};
use rustix::fs::{self as sys, AtFlags};

use super::{Call, Completion};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::uring::files;

/// Removes `name` from `dir`.
#[derive(Clone)]
pub(crate) struct Unlink {
    pub(crate) dir: Fd,
    pub(crate) name: CString,
    pub(crate) what: Unlinked,
}

/// Kind of a name that is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unlinked {
    /// Empty directory.
    Directory,
    /// File that stays open meanwhile, so that its pages stay.
    Open,
    /// Anything but a directory.
    Any,
}

impl Unlink {
    fn flags(&self) -> AtFlags {
        if self.what == Unlinked::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() }
    }
}

impl Call for Unlink {
    const NAME: &'static str = "unlink";
    type Value = ();

    fn descriptor(&self) -> Fd {
        self.dir
    }

    fn entry(&mut self) -> Option<squeue::Entry> {
        let entry = opcode::UnlinkAt::new(RingFd(self.dir.0), self.name.as_ptr());
        Some(entry.flags(self.flags().bits().cast_signed()).build())
    }

    fn answer(&mut self, completion: Completion) -> io::Result<()> {
        completion.result().map(drop)
    }

    fn call(&self, dir: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(sys::unlinkat(dir, &self.name, self.flags())?)
    }

    /// Returns false for the last name of a large file, whose pages are freed.
    fn is_brief(&self, dir: BorrowedFd<'_>, _: BorrowedFd<'_>) -> bool {
        self.what != Unlinked::Any || files::is_small(dir, &self.name)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<()> {
        let name = self.name.as_bytes();
        match self.what {
            Unlinked::Directory => at.disk.rmdir_at(at.inode, name, at.engine),
            Unlinked::Open | Unlinked::Any => at.disk.unlink_at(at.inode, name, at.engine),
        }
    }
}
