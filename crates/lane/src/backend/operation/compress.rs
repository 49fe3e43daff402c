//! Operation that sets or clears compression for a file, or a directory's new files (FS_IOC_SETFLAGS,
//! ioctl_iflags(2)).

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{self as sys, IFlags};

use super::Call;
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;

/// Sets or clears the flag that data written to `file` is compressed.
#[derive(Clone)]
pub(crate) struct Compress {
    pub(crate) file: Fd,
    pub(crate) on: bool,
}

impl Call for Compress {
    const NAME: &'static str = "compress";
    type Value = ();

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
        let before = sys::ioctl_getflags(file)?;
        // A file system that has given up on a file says so by this flag, and takes no file with both.
        let without = before.difference(IFlags::COMPRESSED | NOT_COMPRESSED);
        let after = match self.on {
            true => without | IFlags::COMPRESSED,
            false => before.difference(IFlags::COMPRESSED),
        };
        if before == after {
            return Ok(());
        }
        Ok(sys::ioctl_setflags(file, after)?)
    }

    /// Simulates tmpfs, which has no such flag.
    #[cfg(feature = "sim")]
    fn simulate(&mut self, _: &mut AtFile<'_>) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::ENOTTY))
    }
}

/// Flag `FS_NOCOMP_FL`.
const NOT_COMPRESSED: IFlags = IFlags::from_bits_retain(0x400);
