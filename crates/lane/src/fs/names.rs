//! Changes of names, each in a directory that is open. A name is one component, never a path, so that nothing
//! leads out.
//!
//! A change shows at once and is safe only after [`Dir::sync`] of every directory concerned. One whose future is dropped
//! early may happen all the same.

use std::ffi::CString;
use std::io;

use super::{Dir, File, RenameHow};
use crate::backend::OpFuture;
use crate::backend::operation::{self as op, Unlinked};
use crate::context;

/// Options of making a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateHow {
    /// Permission bits of a new file, of which the process's umask clears some.
    pub mode: u32,
    /// True to make a new file or none: `EEXIST` where something has the name.
    pub exclusive: bool,
}

impl Dir {
    /// Makes a file and opens it for reading and writing, or opens an existing one, as it is (openat(2),
    /// `O_CREAT`).
    ///
    /// # Errors
    /// `EEXIST` with [`CreateHow::exclusive`]; `ELOOP` for a symbolic link, which is not followed; `EISDIR`; `ENXIO` for
    /// a device, socket or pipe; `ENOENT` in a directory that was removed; `EINVAL` for what is no name: empty, `.`, `..`
    /// or with a slash; `ENAMETOOLONG` beyond 255 bytes; `ENOSPC`, `EDQUOT`, `EACCES`, `EROFS`, `EIO` as the kernel says.
    pub async fn create(&self, name: &CString, how: CreateHow) -> io::Result<File> {
        let CreateHow { mode, exclusive } = how;
        let create = op::Create { dir: self.fd(), name: component(name)?, mode, exclusive };
        let opened = OpFuture::submit(create).await?;
        // What was there may be of another file system, mounted over the name.
        let made_in = exclusive.then(|| self.fd());
        Ok(File { fd: context::with(|lane| lane.backend().own(opened, made_in)) })
    }

    /// Makes a directory. The process's umask clears some of the permission bits `mode` (mkdirat(2)).
    ///
    /// # Errors
    /// `EEXIST`; `EMLINK` where the file system counts subdirectories; else as [`Dir::create`].
    pub async fn mkdir(&self, name: &CString, mode: u32) -> io::Result<()> {
        OpFuture::submit(op::Mkdir { dir: self.fd(), name: component(name)?, mode }).await
    }

    /// Makes a file without a name and opens it for reading and writing. [`Dir::link`] gives it one, and
    /// without one it goes with its last descriptor, and in a loss of power (openat(2), `O_TMPFILE`).
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the file system cannot; else as [`Dir::create`].
    pub async fn create_unnamed(&self, mode: u32) -> io::Result<File> {
        let opened = OpFuture::submit(op::CreateUnnamed { dir: self.fd(), mode }).await?;
        Ok(File { fd: context::with(|lane| lane.backend().own(opened, Some(self.fd()))) })
    }

    /// Gives an open file one more name, or the first (linkat(2)).
    ///
    /// # Errors
    /// `EEXIST`; `EPERM` for a directory, and where the file system has no hard links; `EXDEV` on another file system;
    /// `EMLINK` when it has as many names as the file system allows (ext4: 65,000); `ENOENT` for a file that lost its last
    /// name, in a directory that was removed, and where neither CAP_DAC_READ_SEARCH nor /proc is to be had; else as
    /// [`Dir::create`], and `EAGAIN` when the silo's helpers are overloaded.
    pub async fn link(&self, file: &File, name: &CString) -> io::Result<()> {
        OpFuture::submit(op::Link { file: file.fd(), dir: self.fd(), name: component(name)? }).await
    }

    /// Makes a symbolic link with the text `target`, whatever that is (symlinkat(2)).
    ///
    /// # Errors
    /// `EEXIST`; `ENOENT` for an empty target; `ENAMETOOLONG` for one of 4096 bytes or more (xfs: 1024); `EPERM` where the
    /// file system has none; else as [`Dir::create`].
    pub async fn symlink(&self, name: &CString, target: &CString) -> io::Result<()> {
        let symlink = op::Symlink { dir: self.fd(), name: component(name)?, target: target.clone() };
        OpFuture::submit(symlink).await
    }

    /// Takes the name of anything but a directory away. An open file stays readable and writable
    /// (unlinkat(2)).
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`; `EBUSY` where something is mounted; else as [`Dir::create`].
    pub async fn unlink(&self, name: &CString) -> io::Result<()> {
        OpFuture::submit(op::Unlink { dir: self.fd(), name: component(name)?, what: Unlinked::Any }).await
    }

    /// Takes away a name of `file` ([`Dir::unlink`]), which stays open until the end: the removal takes
    /// little time whatever the file's size.
    ///
    /// # Errors
    /// As [`Dir::unlink`].
    pub async fn unlink_open(&self, name: &CString, file: &File) -> io::Result<()> {
        let _stays_open = file;
        OpFuture::submit(op::Unlink { dir: self.fd(), name: component(name)?, what: Unlinked::Open }).await
    }

    /// Takes the name of an empty directory away (unlinkat(2), `AT_REMOVEDIR`).
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENOTEMPTY`; `EBUSY` where something is mounted; else as [`Dir::create`].
    pub async fn rmdir(&self, name: &CString) -> io::Result<()> {
        OpFuture::submit(op::Unlink { dir: self.fd(), name: component(name)?, what: Unlinked::Directory })
            .await
    }

    /// Moves the name `from` of this directory to `to` of another or the same, in one step (renameat2(2)). Two names of
    /// one file stay as they are.
    ///
    /// # Errors
    /// `ENOENT` without `from`, or in a directory that was removed; `EXDEV` on another file system; `EINVAL` into the
    /// directory's own tree; `ENOTEMPTY`, or `EEXIST` on some file systems, over a directory with entries, the one of
    /// `from` itself or one above it; `EISDIR` for a file over a directory; `ENOTDIR` for a directory over a file;
    /// `EEXIST` and `ENOENT` as [`RenameHow`] says; `EINVAL` where the file system cannot do it so; else as
    /// [`Dir::create`].
    pub async fn rename(
        &self,
        from: &CString,
        to_dir: &Self,
        to: &CString,
        how: RenameHow,
    ) -> io::Result<()> {
        let (from, to) = (component(from)?, component(to)?);
        OpFuture::submit(op::Rename { from_dir: self.fd(), from, to_dir: to_dir.fd(), to, how }).await
    }
}

/// Returns the name of something in a directory, checked to lead nowhere else: `EINVAL` where not.
pub(super) fn component(name: &CString) -> io::Result<CString> {
    match name.as_bytes() {
        b"" | b"." | b".." => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        bytes if bytes.contains(&b'/') => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        _ => Ok(name.clone()),
    }
}
