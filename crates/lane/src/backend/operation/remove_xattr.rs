//! Operation that removes an extended attribute (fremovexattr(2)).

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs as sys;

use super::Call;
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;

/// Removes the attribute `name` of `file`.
#[derive(Clone)]
pub(crate) struct RemoveXattr {
    pub(crate) file: Fd,
    pub(crate) name: CString,
}

impl Call for RemoveXattr {
    const NAME: &'static str = "remove an attribute";
    type Value = ();

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(sys::fremovexattr(file, &self.name)?)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<()> {
        at.disk.xattr_remove(at.inode, self.name.as_bytes(), at.engine)
    }
}
