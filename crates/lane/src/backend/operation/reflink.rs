//! Operation that lets a file share all the room of another until one of them is changed (ioctl_ficlone(2)).

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs as sys;

use super::Call;
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;

/// Makes the content of `to` that of `from`.
#[derive(Clone)]
pub(crate) struct Reflink {
    pub(crate) from: Fd,
    pub(crate) to: Fd,
}

impl Call for Reflink {
    const NAME: &'static str = "reflink";
    type Value = ();

    fn descriptor(&self) -> Fd {
        self.from
    }

    fn second(&self) -> Option<Fd> {
        Some(self.to)
    }

    fn call(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
        Ok(sys::ioctl_ficlone(to, from)?)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<()> {
        let to = at.second()?;
        if !to.is_writable() {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        at.disk.reflink(at.inode, &to.inode, at.engine)
    }
}
