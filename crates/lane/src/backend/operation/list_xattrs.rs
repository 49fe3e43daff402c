//! Operation that lists the names of a file's extended attributes (flistxattr(2)).

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs as sys;
use rustix::io::Errno;

use super::Call;
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;

/// Lists the extended attributes of `file`.
#[derive(Clone)]
pub(crate) struct ListXattrs {
    pub(crate) file: Fd,
}

impl Call for ListXattrs {
    const NAME: &'static str = "list attributes";
    /// Names in the file system's order.
    type Value = Vec<CString>;

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
        // Most have few or none.
        let mut list = vec![0; LIST_BYTES_USUAL];
        let len = match sys::flistxattr(file, &mut list[..]) {
            Err(Errno::RANGE) => {
                list.resize(LIST_BYTES_MAX, 0);
                sys::flistxattr(file, &mut list[..])?
            }
            len => len?,
        };
        let names = list[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| CString::new(name).expect("split at its zeros")).collect())
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<Vec<CString>> {
        let names = at.disk.xattr_list(at.inode, at.engine)?;
        Ok(names.into_iter().map(|name| CString::new(name).expect("set as one")).collect())
    }
}

const LIST_BYTES_USUAL: usize = 512;
/// Most bytes of the list, XATTR_LIST_MAX.
const LIST_BYTES_MAX: usize = 65_536;
