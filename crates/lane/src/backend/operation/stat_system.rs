//! A file system's room (fstatvfs(3)).

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs as sys;

use super::Call;
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
        let stat = sys::fstatvfs(file)?;
        Ok(SystemStat {
            block_bytes: stat.f_frsize,
            blocks: stat.f_blocks,
            blocks_free: stat.f_bavail,
            files: stat.f_files,
            files_free: stat.f_favail,
            name_max: stat.f_namemax,
        })
    }

    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<SystemStat> {
        Ok(at.disk.statfs())
    }
}
