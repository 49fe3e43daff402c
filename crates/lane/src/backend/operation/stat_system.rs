//! Operation that returns a file system's room (fstatfs(2)).

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs as sys;

use super::Call;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::{Fd, SystemStat};

/// Asks for the room of the file system that `file` is on.
#[derive(Clone)]
pub(crate) struct StatSystem {
    pub(crate) file: Fd,
}

impl Call for StatSystem {
    const NAME: &'static str = "stat a file system";
    type Value = SystemStat;

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<SystemStat> {
        let stat = sys::fstatfs(file)?;
        Ok(SystemStat {
            // Some file systems say it by the other field alone.
            block_bytes: if stat.f_frsize == 0 { stat.f_bsize } else { stat.f_frsize }.cast_unsigned(),
            blocks: stat.f_blocks,
            blocks_free: stat.f_bavail,
            files: stat.f_files,
            files_free: stat.f_ffree,
            name_max: stat.f_namelen.cast_unsigned(),
            compresses: stat.f_type == BTRFS,
        })
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<SystemStat> {
        Ok(at.disk.statfs())
    }
}

/// Magic number `BTRFS_SUPER_MAGIC`.
const BTRFS: sys::FsWord = 0x9123_683e;
