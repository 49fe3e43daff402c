//! Where a symbolic link points (readlinkat(2)).

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;
use std::task::Poll;

use rustix::fs::{self as sys, FileType};

use super::{Operation, Start};
use crate::backend::Fd;
use crate::backend::sim::Step;
use crate::backend::uring::{Uring, files};

/// Reads the symbolic link `path` beneath `dir`, links before it followed; `EINVAL` for what is none.
pub(crate) struct ReadLink {
    pub(crate) dir: Fd,
    pub(crate) path: CString,
}

impl Operation for ReadLink {
    const NAME: &'static str = "read a link";
    type Value = Vec<u8>;
    type Output = io::Result<Vec<u8>>;

    fn descriptor(&self) -> Fd {
        self.dir
    }

    fn prepare(&mut self, _: &Uring) -> Start {
        let path = std::mem::take(&mut self.path);
        Start::on_helper::<Self>(self.dir, move |dir| read_link(dir, &path))
    }

    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<Vec<u8>>> {
        let at = step.file()?;
        Poll::Ready(at.disk.read_link_at(at.inode, self.path.as_bytes(), at.engine))
    }

    fn finish(self, result: io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
        result
    }
}

fn read_link(dir: BorrowedFd<'_>, path: &CString) -> io::Result<Vec<u8>> {
    let found = files::find_at(dir, path)?;
    if FileType::from_raw_mode(sys::fstat(&found)?.st_mode) != FileType::Symlink {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    Ok(sys::readlinkat(&found, c"", Vec::new())?.into_bytes())
}
