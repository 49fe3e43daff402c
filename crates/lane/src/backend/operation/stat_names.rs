//! Operation that returns the attributes and birth time (statx(2)) and one extended attribute (lgetxattr(2))
//! of a batch of names, all by one helper.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::{self as sys, AtFlags, StatxFlags};
use rustix::io::Errno;

use super::Call;
use super::get_xattr::VALUE_BYTES_MAX;
#[cfg(feature = "sim")]
use crate::backend::StatxExtra;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::uring::files;
use crate::backend::{Fd, NameStat};

/// Asks for the attributes of `names` in `dir`, links themselves, and for their attribute `xattr` of at most
/// `max` bytes.
#[derive(Clone)]
pub(crate) struct StatNames {
    dir: Fd,
    names: Arc<[CString]>,
    xattr: CString,
    max: usize,
}

impl StatNames {
    pub(crate) fn new(dir: Fd, names: Arc<[CString]>, xattr: CString, max: usize) -> Self {
        Self { dir, names, xattr, max: max.min(VALUE_BYTES_MAX) }
    }
}

impl Call for StatNames {
    const NAME: &'static str = "attributes of names";
    /// Result for each name; `None` where it is gone, or a part cannot be read.
    type Value = Vec<Option<NameStat>>;

    fn descriptor(&self) -> Fd {
        self.dir
    }

    fn call(&self, dir: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<Self::Value> {
        // No call takes a directory and a name before Linux 6.13 (getxattrat); this leads through the directory that is open.
        let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
        let start = path.len();
        let mut value = vec![0; self.max.max(1)];
        let each = self.names.iter().map(|name| {
            path.truncate(start);
            path.extend(name.as_bytes_with_nul());
            let path = CStr::from_bytes_with_nul(&path).expect("a name has no zero");
            stat_name(dir, name, path, &self.xattr, &mut value).ok()
        });
        Ok(each.collect())
    }

    /// Returns false, as the call takes as long as there are names.
    fn is_brief(&self, _: BorrowedFd<'_>, _: BorrowedFd<'_>) -> bool {
        false
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<Self::Value> {
        let each = self.names.iter().map(|name| {
            let inode = at.disk.child(at.inode, name.as_bytes(), at.engine).ok()?;
            let xattr = match at.disk.xattr_get(&inode, self.xattr.as_bytes(), at.engine) {
                Ok(value) if value.len() <= self.max => Some(value),
                Err(error) if error.raw_os_error() == Some(libc::ENODATA) => None,
                _ => return None,
            };
            let statx_extra = StatxExtra { born: Some(inode.born()), is_compressed: false };
            Some(NameStat { stat: inode.stat(), statx_extra, xattr })
        });
        Ok(each.collect())
    }
}

fn stat_name(
    dir: BorrowedFd<'_>,
    name: &CStr,
    path: &CStr,
    xattr: &CStr,
    value: &mut [u8],
) -> io::Result<NameStat> {
    let asked = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let stat = sys::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, asked)?;
    let xattr = match sys::lgetxattr(path, xattr, &mut value[..]) {
        Ok(len) => Some(value[..len].to_vec()),
        // Symbolic links bear none of users' attributes (EPERM).
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => None,
        Err(error) => return Err(error.into()),
    };
    Ok(NameStat { stat: files::convert_statx(&stat), statx_extra: files::statx_extra_of(&stat), xattr })
}
