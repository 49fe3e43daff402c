//! Operation that moves a name (renameat2(2)).

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};
use rustix::fs::{self as sys, RenameFlags};

use super::{Call, Completion};
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::uring::files;
use crate::backend::{Fd, RenameHow};

/// Moves `from` of one directory to `to` of the same or another.
#[derive(Clone)]
pub(crate) struct Rename {
    pub(crate) from_dir: Fd,
    pub(crate) from: CString,
    pub(crate) to_dir: Fd,
    pub(crate) to: CString,
    pub(crate) how: RenameHow,
}

impl Rename {
    fn flags(&self) -> RenameFlags {
        match self.how {
            RenameHow::Replace => RenameFlags::empty(),
            RenameHow::NoReplace => RenameFlags::NOREPLACE,
            RenameHow::Exchange => RenameFlags::EXCHANGE,
        }
    }
}

impl Call for Rename {
    const NAME: &'static str = "rename";
    type Value = ();

    fn descriptor(&self) -> Fd {
        self.from_dir
    }

    fn second(&self) -> Option<Fd> {
        Some(self.to_dir)
    }

    fn entry(&mut self) -> Option<squeue::Entry> {
        let (from, to) = (RingFd(self.from_dir.0), RingFd(self.to_dir.0));
        let entry = opcode::RenameAt::new(from, self.from.as_ptr(), to, self.to.as_ptr());
        Some(entry.flags(self.flags().bits()).build())
    }

    fn answer(&mut self, completion: Completion) -> io::Result<()> {
        completion.result().map(drop)
    }

    fn call(&self, from_dir: BorrowedFd<'_>, to_dir: BorrowedFd<'_>) -> io::Result<()> {
        Ok(sys::renameat_with(from_dir, &self.from, to_dir, &self.to, self.flags())?)
    }

    /// Returns false when a large file is replaced, whose pages are freed.
    fn is_brief(&self, _: BorrowedFd<'_>, to_dir: BorrowedFd<'_>) -> bool {
        self.how != RenameHow::Replace || files::is_small(to_dir, &self.to)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<()> {
        let to_dir = &at.second()?.inode;
        let (from, to) = (self.from.as_bytes(), self.to.as_bytes());
        at.disk.rename_at((at.inode, from), (to_dir, to), self.how, at.engine)
    }
}
