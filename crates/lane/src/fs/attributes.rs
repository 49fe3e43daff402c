//! Attributes of files and directories: owner, mode and times, and the extended ones.
//!
//! A change shows at once and is safe after [`File::sync`] with [`SyncOf::All`](super::SyncOf::All). One whose future is
//! dropped early may happen all the same.

use std::ffi::CString;
use std::io;

use super::names::component;
use super::{AttributeChange, Dir, File, StatxExtra, Timestamp, XattrHow};
use crate::backend::OpFuture;
use crate::backend::operation as op;

impl File {
    /// Returns the time of the file's creation, where the file system keeps one (statx(2), `STATX_BTIME`);
    /// the time tells apart files that had one inode number after another.
    pub async fn born(&self) -> io::Result<Option<Timestamp>> {
        Ok(self.statx_extra().await?.born)
    }

    /// Returns the attributes that statx(2) alone tells.
    ///
    /// # Errors
    /// `EIO`, and `EAGAIN` when the silo's helpers are overloaded.
    pub async fn statx_extra(&self) -> io::Result<StatxExtra> {
        OpFuture::submit(op::Statx { file: self.fd() }).await
    }

    /// Sets whether the file system compresses what is written from now on; bytes written before stay as they
    /// are. What is made in a directory begins as the directory is (ioctl_iflags(2), `FS_COMPR_FL`).
    ///
    /// # Errors
    /// `ENOTTY`, `EOPNOTSUPP` where the file system knows no such flag; `EINVAL` of a file that is written in
    /// place (btrfs: `FS_NOCOW_FL`); `EPERM` for a process that neither owns it nor may act for the owner
    /// (CAP_FOWNER); `ETXTBSY` of swap; `EROFS`, `ENOSPC`, `EIO`; `EAGAIN` when the silo's helpers are
    /// overloaded.
    pub async fn set_compressed(&self, on: bool) -> io::Result<()> {
        OpFuture::submit(op::Compress { file: self.fd(), on }).await
    }

    /// Sets owner, mode and times, in this order: after an error the earlier changes are done (fchown(2),
    /// fchmod(2), futimens(3)).
    ///
    /// # Errors
    /// `EPERM` without the privilege; `EINVAL` for nanoseconds of a second and more; `EROFS`, `EDQUOT`, `EIO` as the kernel
    /// says; `EAGAIN` when the silo's helpers are overloaded.
    pub async fn set_attributes(&self, change: AttributeChange) -> io::Result<()> {
        OpFuture::submit(op::SetAttributes { file: self.fd(), name: None, change }).await
    }

    /// Returns the value of an extended attribute, of at most `max` bytes, and never more than 65,536
    /// (fgetxattr(2)).
    ///
    /// # Errors
    /// `ENODATA` when there is none; `ERANGE` when it is longer, or for a name that is empty or has more than 255 bytes;
    /// `EOPNOTSUPP` where the file system has none of this namespace.
    pub async fn xattr(&self, name: &CString, max: usize) -> io::Result<Vec<u8>> {
        OpFuture::submit(op::GetXattr::new(self.fd(), name.clone(), max)).await
    }

    /// Sets an extended attribute in one step (fsetxattr(2)).
    ///
    /// # Errors
    /// `EEXIST` and `ENODATA` as [`XattrHow`] says; `E2BIG` beyond 65,536 bytes; `ENOSPC` where the file system keeps fewer
    /// (ext4: about 4,000 for all of a file's together); `ERANGE` and `EOPNOTSUPP` as [`File::xattr`]; `EPERM` for
    /// `trusted.` without CAP_SYS_ADMIN; `EDQUOT`, `EROFS`, `EIO`.
    pub async fn set_xattr(&self, name: &CString, value: Vec<u8>, how: XattrHow) -> io::Result<()> {
        OpFuture::submit(op::SetXattr { file: self.fd(), name: name.clone(), value, how }).await
    }

    /// Returns the names of all extended attributes that the process may see, in the file system's order
    /// (flistxattr(2)).
    ///
    /// # Errors
    /// `E2BIG` beyond 65,536 bytes of names; `EAGAIN` when the silo's helpers are overloaded.
    pub async fn xattrs(&self) -> io::Result<Vec<CString>> {
        OpFuture::submit(op::ListXattrs { file: self.fd() }).await
    }

    /// Takes an extended attribute away (fremovexattr(2)).
    ///
    /// # Errors
    /// `ENODATA` when there is none; else as [`File::set_xattr`], and `EAGAIN` when the silo's helpers are overloaded.
    pub async fn remove_xattr(&self, name: &CString) -> io::Result<()> {
        OpFuture::submit(op::RemoveXattr { file: self.fd(), name: name.clone() }).await
    }
}

impl Dir {
    /// Sets the attributes of what has the name, a symbolic link itself ([`File::set_attributes`]): for
    /// inodes that cannot be opened.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for a mode, as links have none; `ENOENT`; `EINVAL` for what is no name; else as there.
    pub async fn set_attributes_at(&self, name: &CString, change: AttributeChange) -> io::Result<()> {
        let name = Some(component(name)?);
        OpFuture::submit(op::SetAttributes { file: self.fd(), name, change }).await
    }
}
