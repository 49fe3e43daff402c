//! Operation that syncs a file system (syncfs(2)).

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs as sys;

use super::Call;
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;

/// Syncs the file system that `file` is on.
#[derive(Clone)]
pub(crate) struct SyncSystem {
    pub(crate) file: Fd,
}

impl Call for SyncSystem {
    const NAME: &'static str = "sync a file system";
    type Value = ();

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(sys::syncfs(file)?)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<()> {
        at.disk.sync_all(at.engine)
    }
}
