//! Operation that finds data and holes of a file (lseek(2), SEEK_DATA and SEEK_HOLE).

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{self as sys, SeekFrom};

use super::Call;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::{Fd, SeekTo};

/// Searches `file` from `offset` on. Moves the file's position, which nothing uses.
#[derive(Clone)]
pub(crate) struct Seek {
    pub(crate) file: Fd,
    pub(crate) offset: u64,
    pub(crate) to: SeekTo,
}

impl Call for Seek {
    const NAME: &'static str = "seek";
    /// Offset where the data or hole begins.
    type Value = u64;

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<u64> {
        let from = match self.to {
            SeekTo::Data => SeekFrom::Data(self.offset),
            SeekTo::Hole => SeekFrom::Hole(self.offset),
        };
        Ok(sys::seek(file, from)?)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<u64> {
        at.disk.seek(at.inode, self.offset, self.to)
    }
}
