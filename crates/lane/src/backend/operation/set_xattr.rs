//! Operation that sets an extended attribute (fsetxattr(2)).

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use io_uring::types::Fd as RingFd;
use io_uring::{opcode, squeue};
use rustix::fs::{self as sys, XattrFlags};

use super::{Call, Completion};
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::{Fd, XattrHow};

/// Sets the attribute `name` of `file`.
#[derive(Clone)]
pub(crate) struct SetXattr {
    pub(crate) file: Fd,
    pub(crate) name: CString,
    pub(crate) value: Vec<u8>,
    pub(crate) how: XattrHow,
}

impl SetXattr {
    fn flags(&self) -> XattrFlags {
        match self.how {
            XattrHow::Any => XattrFlags::empty(),
            XattrHow::Create => XattrFlags::CREATE,
            XattrHow::Replace => XattrFlags::REPLACE,
        }
    }
}

impl Call for SetXattr {
    const NAME: &'static str = "set an attribute";
    type Value = ();

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn entry(&mut self) -> Option<squeue::Entry> {
        let (value, len) = (self.value.as_ptr().cast(), u32::try_from(self.value.len()).ok()?);
        let entry = opcode::FSetXattr::new(RingFd(self.file.0), self.name.as_ptr(), value, len);
        Some(entry.flags(self.flags().bits().cast_signed()).build())
    }

    fn answer(&mut self, completion: Completion) -> io::Result<()> {
        completion.result().map(drop)
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(sys::fsetxattr(file, &self.name, &self.value, self.flags())?)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<()> {
        at.disk.xattr_set(at.inode, self.name.as_bytes(), &self.value, self.how, at.engine)
    }
}
