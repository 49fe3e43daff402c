//! The objects of files that are open, or have a name: by the kernel's handle, which asks no disk.

use std::ffi::CString;
use std::io;
use std::sync::Arc;

use lane::fs::{Dir, File, OpenHow, OpenKind, Stat, Timestamp};

use super::{Identity, Object, SharedVolume};
use crate::error::Error;

impl SharedVolume {
    /// The object of an open file or directory with these attributes.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Overloaded`]; those of the file system.
    pub(crate) async fn of_open(self: &Arc<Self>, file: &File, stat: &Stat) -> Result<Arc<Object>, Error> {
        self.objects().get(self, identity_of(file, stat).await?)
    }

    /// The object of what has the name `name` and these attributes, links not followed.
    ///
    /// # Errors
    /// As [`SharedVolume::of_open`].
    pub(crate) async fn of_name(
        self: &Arc<Self>,
        dir: &Dir,
        name: &CString,
        stat: &Stat,
    ) -> Result<Arc<Object>, Error> {
        self.objects().get(self, identity_at(dir, name, stat).await?)
    }
}

/// Which file is open, with these attributes.
pub(crate) async fn identity_of(file: &File, stat: &Stat) -> Result<Identity, Error> {
    match file.handle().await {
        Ok(handle) => Ok(Identity::of_handle(stat.dev, handle.kind, &handle.bytes)),
        Err(error) if has_none(&error) => {
            Ok(Identity::of_inode(stat.dev, stat.ino, file.born().await?.unwrap_or_default()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Which file has the name `name` and these attributes, links not followed.
pub(crate) async fn identity_at(dir: &Dir, name: &CString, stat: &Stat) -> Result<Identity, Error> {
    match dir.handle_at(name).await {
        Ok(handle) => Ok(Identity::of_handle(stat.dev, handle.kind, &handle.bytes)),
        Err(error) if has_none(&error) => {
            let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: false };
            // What cannot be opened never is: it is known by this alone.
            let born = match dir.open(name, how).await {
                Ok(file) => file.born().await?.unwrap_or_default(),
                Err(_) => Timestamp::default(),
            };
            Ok(Identity::of_inode(stat.dev, stat.ino, born))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether the file system has no handles, or none that is kept.
fn has_none(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EOVERFLOW))
}
