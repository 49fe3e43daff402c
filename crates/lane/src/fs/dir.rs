//! Open directories, beneath which names are opened, looked up, listed and watched.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use super::{File, SyncOf};
use crate::backend::operation as op;
use crate::backend::uring::files::{self, Found};
use crate::backend::uring::tree_lock::TreeLock;
use crate::backend::{DirEntry, DirPart, Fd, NameStat, NamesPart, OpFuture, OpenHow, OpenKind, Stat, Watch};
use crate::context;

/// An open directory, beneath which names resolve.
#[derive(Debug)]
pub struct Dir {
    file: File,
}

impl Dir {
    /// Opens the directory that a volume exports. Blocks: for start-up and configuration.
    pub fn open_root(path: &Path) -> io::Result<Self> {
        context::with(|lane| lane.backend().open_root(path)).map(|fd| Self { file: File { fd } })
    }

    /// Returns the value of an extended attribute of the directory, as [`File::xattr`]. Blocks: for start-up
    /// and configuration.
    ///
    /// # Errors
    /// As there.
    pub fn xattr_at_start(&self, name: &CString, max: usize) -> io::Result<Vec<u8>> {
        context::with(|lane| lane.backend().xattr_at_start(self.fd(), name, max))
    }

    /// Sets an extended attribute of the directory, as [`File::set_xattr`], and makes the change safe.
    /// Blocks: for start-up and configuration.
    ///
    /// # Errors
    /// As there, and as [`File::sync`]: it may have the value or not then.
    pub fn set_xattr_at_start(&self, name: &CString, value: &[u8]) -> io::Result<()> {
        context::with(|lane| lane.backend().set_xattr_at_start(self.fd(), name, value))
    }

    /// Locks the directory and all beneath for this process, among all processes that lock trees. Returns
    /// `None` where the file system locks no directories, and no process is kept out. Blocks: for start-up
    /// and configuration.
    ///
    /// # Errors
    /// `EWOULDBLOCK` with a [`TreeInUse`](super::TreeInUse) where another has it, a directory above it, or one beneath.
    pub fn lock_at_start(&self) -> io::Result<Option<TreeLock>> {
        context::with(|lane| lane.backend().lock_at_start(self.fd()))
    }

    /// Opens `path` beneath this directory. `path` is relative, `.` names the directory itself.
    ///
    /// # Errors
    /// `EXDEV` when the path or a symbolic link in it leads out of the directory; `ELOOP` when links are
    /// not followed; `ENOENT`, `EACCES`, `ENAMETOOLONG` as the kernel says.
    pub async fn open(&self, path: &CString, how: OpenHow) -> io::Result<File> {
        if let Some(fd) = context::with(|lane| lane.backend().try_open_at(self.fd(), path, how))? {
            return Ok(File { fd });
        }
        let opened = OpFuture::submit(op::Open::new(self.fd(), path.clone(), how)).await?;
        let what = match &opened {
            op::Opened::Kernel(found) if how.kind == OpenKind::Any => files::found(found.as_fd()).map(Some),
            _ => Ok(None),
        };
        let file = File { fd: context::with(|lane| lane.backend().own(opened, None)) };
        let opened = match what? {
            None => return Ok(file),
            Some(Found::File) => OpFuture::submit(op::OpenFound::new(file.fd(), how.write)).await?,
            Some(Found::Directory) => {
                // By its name again, by which the kernel mounts what is mounted on demand.
                let how = OpenHow { kind: OpenKind::Directory, ..how };
                let opening = OpFuture::submit(op::Open::new(self.fd(), path.clone(), how));
                opening.await.map_err(files::replaced)?
            }
        };
        Ok(File { fd: context::with(|lane| lane.backend().own(opened, None)) })
    }

    /// Returns the directory's own attributes as the kernel has them now.
    pub fn stat(&self) -> io::Result<Stat> {
        context::with(|lane| lane.backend().stat(self.fd()))
    }

    /// Opens the directory above, which may lie outside of the exported tree. For a caller that has opened a
    /// directory by its handle and looks where it lies. Above the root of a file system lies what it is
    /// mounted on, and above that of all the root itself.
    ///
    /// # Errors
    /// A directory that was removed has the one that it was in, or `ENOENT`; `EACCES`, `EIO` as the kernel says.
    pub async fn parent(&self) -> io::Result<Self> {
        let opened = OpFuture::submit(op::OpenParent { dir: self.fd() }).await?;
        Ok(Self::of(File { fd: context::with(|lane| lane.backend().own(opened, None)) }))
    }

    /// Returns the attributes of `path` beneath this directory, not following a symbolic link at the path's
    /// end.
    pub async fn stat_at(&self, path: &CString) -> io::Result<Stat> {
        OpFuture::submit(op::StatAt { dir: self.fd(), path: path.clone() }).await
    }

    /// Returns the target of the symbolic link `path` beneath this directory. Links before it are followed.
    ///
    /// # Errors
    /// `EINVAL` for what is no link; as [`Dir::open`] otherwise, and `EAGAIN` when the silo's helpers are overloaded.
    pub async fn read_link_at(&self, path: &CString) -> io::Result<Vec<u8>> {
        OpFuture::submit(op::ReadLink { dir: self.fd(), path: path.clone() }).await
    }

    /// Returns every entry with its attributes, in the file system's order.
    ///
    /// # Errors
    /// `EFBIG` when there are more than `max`; `EAGAIN` when the silo's helpers are overloaded.
    pub async fn entries(&self, max: usize) -> io::Result<Vec<DirEntry>> {
        OpFuture::submit(op::List { dir: self.fd(), max, handles: false }).await
    }

    /// Returns the next entries from `position` on: as many as `bytes` of getdents64(2) hold, 24 and the name
    /// for each.
    ///
    /// The position is 0 or what an earlier part of the same directory ended with. The open directory keeps one of its own: one
    /// reading at a time. A name that comes or goes meanwhile may show or not; any other shows once.
    ///
    /// # Errors
    /// `EINVAL` for a position that no directory has; `EAGAIN` when the silo's helpers are overloaded.
    pub async fn entries_part(&self, position: u64, bytes: usize) -> io::Result<DirPart> {
        OpFuture::submit(op::ListPart { dir: self.fd(), position, bytes }).await
    }

    /// Returns the names alone of a part of the directory ([`Dir::entries_part`]), without a look at the
    /// inodes.
    ///
    /// # Errors
    /// As there.
    pub async fn names_part(&self, position: u64, bytes: usize) -> io::Result<NamesPart> {
        OpFuture::submit(op::ListNames { dir: self.fd(), position, bytes }).await
    }

    /// Returns the entries, each with its handle ([`Dir::entries`]), of a link the link's own. One helper
    /// does all the work.
    ///
    /// # Errors
    /// As there; what the file system says of a handle is not among them.
    pub async fn entries_with_handles(&self, max: usize) -> io::Result<Vec<DirEntry>> {
        OpFuture::submit(op::List { dir: self.fd(), max, handles: true }).await
    }

    /// Returns the attributes of names in this directory, links themselves, with the extended attribute
    /// `xattr` of at most `max` bytes. One helper does all the work. `None` where a name has gone, or
    /// something of it cannot be read.
    ///
    /// # Errors
    /// `EAGAIN` when the silo's helpers are overloaded.
    pub async fn stat_names(
        &self,
        names: Arc<[CString]>,
        xattr: &CString,
        max: usize,
    ) -> io::Result<Vec<Option<NameStat>>> {
        OpFuture::submit(op::StatNames::new(self.fd(), names, xattr.clone(), max)).await
    }

    /// Returns the directory as a file, for what the two have in common: attributes, syncs, handles. Its
    /// bytes cannot be read.
    pub fn as_file(&self) -> &File {
        &self.file
    }

    /// Makes a directory of an open file that is known to be one.
    pub(super) fn of(file: File) -> Self {
        Self { file }
    }

    /// Makes the names in the directory safe, as they are now (fsync(2)).
    ///
    /// # Errors
    /// As [`File::sync`].
    pub async fn sync(&self) -> io::Result<()> {
        self.file.sync(SyncOf::All).await
    }

    /// Begins to watch the entries of this directory; events come from [`watch_events`](super::watch_events).
    pub fn watch(&self) -> io::Result<Watch> {
        context::with(|lane| lane.backend().watch(self.fd()))
    }

    pub(super) fn fd(&self) -> Fd {
        self.file.fd()
    }
}
