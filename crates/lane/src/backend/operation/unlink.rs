//! Takes a name away: of a file, link or special file, or of an empty directory (unlinkat(2)).

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};
use rustix::fs::{self as sys, AtFlags};

use super::{Call, Completion};
use crate::backend::Fd;
use crate::backend::sim::AtFile;
use crate::backend::uring::files;

/// Takes `name` out of `dir`.
#[derive(Clone)]
pub(crate) struct Unlink {
    pub(crate) dir: Fd,
    pub(crate) name: CString,
    /// The name of an empty directory; else of anything but a directory.
    pub(crate) directory: bool,
}

impl Unlink {
    fn flags(&self) -> AtFlags {
        if self.directory { AtFlags::REMOVEDIR } else { AtFlags::empty() }
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

    /// The last name of a large file takes its pages along.
    fn is_brief(&self, dir: BorrowedFd<'_>, _: BorrowedFd<'_>) -> bool {
        self.directory || files::is_small(dir, &self.name)
    }

    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<()> {
        let name = self.name.as_bytes();
        match self.directory {
            true => at.disk.rmdir_at(at.inode, name, at.engine),
            false => at.disk.unlink_at(at.inode, name, at.engine),
        }
    }
}
