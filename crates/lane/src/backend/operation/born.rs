//! When a file was made (statx(2)).

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{self as sys, AtFlags, StatxFlags};

use super::Call;
use crate::backend::sim::AtFile;
use crate::backend::{Fd, Timestamp};

/// Asks when `file` was made.
#[derive(Clone)]
pub(crate) struct Born {
    pub(crate) file: Fd,
}

impl Call for Born {
    const NAME: &'static str = "birth time";
    /// `None` where the file system does not keep it.
    type Value = Option<Timestamp>;

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<Option<Timestamp>> {
        let stat = sys::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME)?;
        let told = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        let (secs, nanos) = (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec);
        Ok(told.then_some(Timestamp { secs, nanos }))
    }

    /// An open file's inode is in memory.
    fn waits_for_disk(&self) -> bool {
        false
    }

    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<Option<Timestamp>> {
        Ok(Some(at.inode.born()))
    }
}
