//! Operation that reads the target of a symbolic link (readlinkat(2)).

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{self as sys, FileType};

use super::Call;
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::uring::files;

/// Reads the symbolic link `path` beneath `dir`, links before it followed; `EINVAL` for anything else.
#[derive(Clone)]
pub(crate) struct ReadLink {
    pub(crate) dir: Fd,
    pub(crate) path: CString,
}

impl Call for ReadLink {
    const NAME: &'static str = "read a link";
    type Value = Vec<u8>;

    fn descriptor(&self) -> Fd {
        self.dir
    }

    fn call(&self, dir: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
        let found = files::find_at(dir, &self.path)?;
        if FileType::from_raw_mode(sys::fstat(&found)?.st_mode) != FileType::Symlink {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(sys::readlinkat(&found, c"", Vec::new())?.into_bytes())
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<Vec<u8>> {
        at.disk.read_link_at(at.inode, self.path.as_bytes(), at.engine)
    }
}
