//! Operation that returns attributes by name (openat2(2) and fstat(2); fstatat(2) for a single component).

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use super::Call;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::uring::files;
use crate::backend::{Fd, Stat};

/// Asks for the attributes of `path` beneath `dir`, not following a last symbolic link.
#[derive(Clone)]
pub(crate) struct StatAt {
    pub(crate) dir: Fd,
    pub(crate) path: CString,
}

impl Call for StatAt {
    const NAME: &'static str = "stat";
    type Value = Stat;

    fn descriptor(&self) -> Fd {
        self.dir
    }

    fn call(&self, dir: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<Stat> {
        files::stat_at(dir, &self.path)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<Stat> {
        at.disk.stat_at(at.inode, self.path.as_bytes(), at.engine)
    }
}
