//! Handles of the kernel, which name a file whatever its names are, over restarts too, and never another
//! file.

use std::ffi::CString;
use std::io;

use super::names::component;
use super::{Dir, File, FileHandle};
use crate::backend::OpFuture;
use crate::backend::operation as op;
use crate::context;

impl File {
    /// Returns the file's handle, which stays the same over renames and restarts (name_to_handle_at(2)). Asks
    /// no disk.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the file system has none, as overlayfs; `EOVERFLOW` where it has more than 128 bytes, as NFS may.
    pub async fn handle(&self) -> io::Result<FileHandle> {
        OpFuture::submit(op::HandleOf { file: self.fd(), name: None, connectable: false }).await
    }
}

impl Dir {
    /// Returns the handle of what has the name, a symbolic link itself.
    ///
    /// # Errors
    /// `ENOENT`; `EINVAL` for what is no name; `EAGAIN` when the silo's helpers are overloaded; else as [`File::handle`].
    pub async fn handle_at(&self, name: &CString) -> io::Result<FileHandle> {
        let name = Some(component(name)?);
        OpFuture::submit(op::HandleOf { file: self.fd(), name, connectable: false }).await
    }

    /// Returns a handle of what has the name that tells its directory too. What [`Dir::open_handle`] opens by
    /// it is connected to the root, as directories are by any handle. The handle changes when the name moves
    /// (`AT_HANDLE_CONNECTABLE`).
    ///
    /// # Errors
    /// `EINVAL` before Linux 6.13; `EOPNOTSUPP` where the file system has none such, as tmpfs and simulated ones; else as
    /// [`Dir::handle_at`].
    pub async fn connectable_handle_at(&self, name: &CString) -> io::Result<FileHandle> {
        let name = Some(component(name)?);
        OpFuture::submit(op::HandleOf { file: self.fd(), name, connectable: true }).await
    }

    /// Opens a file or directory on this directory's file system, wherever it lies there: a handle outlives
    /// its file's leaving of an exported tree (open_by_handle_at(2)). Needs CAP_DAC_READ_SEARCH in the
    /// initial user namespace.
    ///
    /// # Errors
    /// `ESTALE` when the file is gone, no descriptor having it open any more; `EPERM` without the capability;
    /// `ELOOP` for a symbolic link; `EISDIR` for a directory with `write`; `ENXIO` for a device, socket or
    /// pipe; `EAGAIN` when the silo's helpers are overloaded.
    pub async fn open_handle(&self, handle: &FileHandle, write: bool) -> io::Result<File> {
        let opened =
            OpFuture::submit(op::OpenHandle { on: self.fd(), handle: handle.clone(), write }).await?;
        Ok(File { fd: context::with(|lane| lane.backend().own(opened, None)) })
    }
}
