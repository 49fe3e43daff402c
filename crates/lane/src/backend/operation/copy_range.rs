//! Operation that copies bytes between files within the kernel (copy_file_range(2)).

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs as sys;

use super::Call;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::{Fd, FileKind};

/// Copies up to `len` bytes of `from` to `to`.
#[derive(Clone)]
pub(crate) struct CopyRange {
    pub(crate) from: Fd,
    pub(crate) offset: u64,
    pub(crate) to: Fd,
    pub(crate) to_offset: u64,
    pub(crate) len: u64,
}

impl Call for CopyRange {
    const NAME: &'static str = "copy a range";
    /// Number of bytes copied; 0 at the end of `from`.
    type Value = u64;

    fn descriptor(&self) -> Fd {
        self.from
    }

    fn second(&self) -> Option<Fd> {
        Some(self.to)
    }

    fn call(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<u64> {
        let (mut offset, mut to_offset) = (self.offset, self.to_offset);
        let len = usize::try_from(self.len).unwrap_or(usize::MAX);
        Ok(sys::copy_file_range(from, Some(&mut offset), to, Some(&mut to_offset), len)? as u64)
    }

    fn is_brief(&self, _: BorrowedFd<'_>, _: BorrowedFd<'_>) -> bool {
        false
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<u64> {
        let to = at.second()?;
        if [at.inode, &to.inode].iter().any(|inode| inode.stat().kind == FileKind::Directory) {
            return Err(io::Error::from_raw_os_error(libc::EISDIR));
        }
        if !to.is_writable() {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        at.disk.copy_range((at.inode, self.offset), (&to.inode, self.to_offset), self.len, at.engine)
    }
}
