//! Operation that makes a directory (mkdirat(2)).

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};
use rustix::fs::{self as sys, Mode};

use super::{Call, Completion};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;

/// Makes the directory `name` in `dir`.
#[derive(Clone)]
pub(crate) struct Mkdir {
    pub(crate) dir: Fd,
    pub(crate) name: CString,
    /// Permission bits, of which the process's umask takes some.
    pub(crate) mode: u32,
}

impl Call for Mkdir {
    const NAME: &'static str = "mkdir";
    type Value = ();

    fn descriptor(&self) -> Fd {
        self.dir
    }

    fn entry(&mut self) -> Option<squeue::Entry> {
        let entry = opcode::MkDirAt::new(RingFd(self.dir.0), self.name.as_ptr());
        Some(entry.mode(self.mode).build())
    }

    fn answer(&mut self, completion: Completion) -> io::Result<()> {
        completion.result().map(drop)
    }

    fn call(&self, dir: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(sys::mkdirat(dir, &self.name, Mode::from_raw_mode(self.mode))?)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<()> {
        at.disk.mkdir_at(at.inode, self.name.as_bytes(), self.mode, at.engine)
    }
}
