//! What statx(2) alone tells of a file: when it was made, whether its file system compresses it.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{self as sys, AtFlags, StatxAttributes, StatxFlags};

use super::Call;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::{Fd, Particulars, Timestamp};

/// Asks for what no other call tells of `file`.
#[derive(Clone)]
pub(crate) struct Born {
    pub(crate) file: Fd,
}

impl Call for Born {
    const NAME: &'static str = "birth time";
    type Value = Particulars;

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<Particulars> {
        let stat = sys::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME)?;
        let told = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        let (secs, nanos) = (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec);
        Ok(Particulars {
            born: told.then_some(Timestamp { secs, nanos }),
            is_compressed: stat.stx_attributes.contains(StatxAttributes::COMPRESSED),
        })
    }

    /// An open file's inode is in memory.
    fn waits_for_disk(&self) -> bool {
        false
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<Particulars> {
        Ok(Particulars { born: Some(at.inode.born()), is_compressed: false })
    }
}
