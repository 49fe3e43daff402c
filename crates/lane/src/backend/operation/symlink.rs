//! Operation that makes a symbolic link (symlinkat(2)).

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};
use rustix::fs as sys;

use super::{Call, Completion};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;

/// Makes the link `name` in `dir`, with the target `target`.
#[derive(Clone)]
pub(crate) struct Symlink {
    pub(crate) dir: Fd,
    pub(crate) name: CString,
    pub(crate) target: CString,
}

impl Call for Symlink {
    const NAME: &'static str = "symlink";
    type Value = ();

    fn descriptor(&self) -> Fd {
        self.dir
    }

    fn entry(&mut self) -> Option<squeue::Entry> {
        let dir = RingFd(self.dir.0);
        Some(opcode::SymlinkAt::new(dir, self.target.as_ptr(), self.name.as_ptr()).build())
    }

    fn answer(&mut self, completion: Completion) -> io::Result<()> {
        completion.result().map(drop)
    }

    fn call(&self, dir: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(sys::symlinkat(&self.target, dir, &self.name)?)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<()> {
        at.disk.symlink_at(at.inode, self.name.as_bytes(), self.target.as_bytes(), at.engine)
    }
}
