//! Operation that returns attributes of a file that only statx(2) gives: birth time and compression.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{self as sys, AtFlags, StatxFlags};

use super::Call;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::uring::files;
use crate::backend::{Fd, StatxExtra};

/// Asks statx(2) for the birth time and flags of `file`, which fstat(2) does not give.
#[derive(Clone)]
pub(crate) struct Statx {
    pub(crate) file: Fd,
}

impl Call for Statx {
    const NAME: &'static str = "birth time";
    type Value = StatxExtra;

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<StatxExtra> {
        let stat = sys::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME)?;
        Ok(files::statx_extra_of(&stat))
    }

    /// Returns false, as an open file's inode is in memory.
    fn waits_for_disk(&self) -> bool {
        false
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<StatxExtra> {
        Ok(StatxExtra { born: Some(at.inode.born()), is_compressed: false })
    }
}
