//! Operation that reads an extended attribute (fgetxattr(2)).

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};
use rustix::fs as sys;

use super::{Call, Completion};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;

/// Reads the attribute `name` of `file`; `ERANGE` when its value exceeds `max` bytes.
#[derive(Clone)]
pub(crate) struct GetXattr {
    file: Fd,
    name: CString,
    max: usize,
    /// Buffer that the kernel writes to.
    value: Vec<u8>,
}

impl GetXattr {
    pub(crate) fn new(file: Fd, name: CString, max: usize) -> Self {
        Self { file, name, max: max.min(VALUE_BYTES_MAX), value: Vec::new() }
    }

    /// Returns the size of the buffer, at least 1, as no room at all would ask for the length.
    fn room(&self) -> usize {
        self.max.max(1)
    }

    fn checked(&self, mut value: Vec<u8>, len: usize) -> io::Result<Vec<u8>> {
        if len > self.max {
            return Err(io::Error::from_raw_os_error(libc::ERANGE));
        }
        value.truncate(len);
        Ok(value)
    }
}

impl Call for GetXattr {
    const NAME: &'static str = "get an attribute";
    type Value = Vec<u8>;

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn entry(&mut self) -> Option<squeue::Entry> {
        self.value = vec![0; self.room()];
        let len = u32::try_from(self.value.len()).expect("at most 64 KiB");
        let value = self.value.as_mut_ptr().cast();
        Some(opcode::FGetXattr::new(RingFd(self.file.0), self.name.as_ptr(), value, len).build())
    }

    fn answer(&mut self, completion: Completion) -> io::Result<Vec<u8>> {
        let value = std::mem::take(&mut self.value);
        self.checked(value, completion.bytes()?)
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
        let mut value = vec![0; self.room()];
        let len = sys::fgetxattr(file, &self.name, &mut value[..])?;
        self.checked(value, len)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<Vec<u8>> {
        let value = at.disk.xattr_get(at.inode, self.name.as_bytes(), at.engine)?;
        let len = value.len();
        self.checked(value, len)
    }
}

/// Most bytes of a value, XATTR_SIZE_MAX.
pub(super) const VALUE_BYTES_MAX: usize = 65_536;
