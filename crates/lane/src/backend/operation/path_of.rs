//! Tells the path of an open file (readlink(2) of what `/proc/self/fd` says).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs as sys;

use super::Call;
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;

/// Asks for the path of the name by which `file` was opened.
#[derive(Clone)]
pub(crate) struct PathOf {
    pub(crate) file: Fd,
}

impl Call for PathOf {
    const NAME: &'static str = "path of an open file";
    type Value = Vec<u8>;

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
        Ok(sys::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?.into_bytes())
    }

    /// Returns false: the names of an open file are in memory.
    fn waits_for_disk(&self) -> bool {
        false
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<Vec<u8>> {
        Ok(at.file.path())
    }
}
