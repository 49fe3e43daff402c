//! The objects of files that are open, or have a name: by the kernel's handle, which asks no disk, and at the first use by the
//! index, which a helper asks.

use std::ffi::CString;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use index::{Kind, Loaded, Seen};
use lane::fs::{Dir, File, FileKind, OpenHow, OpenKind, Stat, Timestamp};
use lane::offload::offload;

use super::{Identity, Object, SharedVolume};
use crate::error::Error;

impl SharedVolume {
    /// The object of an open file or directory with these attributes. `root` is the volume's directory.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Overloaded`]; those of the file system.
    pub(crate) async fn of_open(
        self: &Arc<Self>,
        root: &Rc<Dir>,
        file: &File,
        stat: &Stat,
    ) -> Result<Arc<Object>, Error> {
        let object = self.objects().get(self, identity_of(file, stat).await?)?;
        self.loaded(root, object, stat).await
    }

    /// The object of what has the name `name` and these attributes, links not followed.
    ///
    /// # Errors
    /// As [`SharedVolume::of_open`].
    pub(crate) async fn of_name(
        self: &Arc<Self>,
        root: &Rc<Dir>,
        dir: &Dir,
        name: &CString,
        stat: &Stat,
    ) -> Result<Arc<Object>, Error> {
        let identity = identity_at(dir, name, stat).await?;
        let object = self.objects().get(self, identity)?;
        self.loaded(root, object, stat).await
    }

    /// The object of a file or directory that was just made here: the index cannot know it.
    ///
    /// # Errors
    /// As [`SharedVolume::of_open`].
    pub(crate) async fn of_new(
        self: &Arc<Self>,
        root: &Rc<Dir>,
        file: &File,
        stat: &Stat,
    ) -> Result<Arc<Object>, Error> {
        let object = self.objects().get(self, identity_of(file, stat).await?)?;
        if !object.is_loaded()
            && let Ok(number) = self.index.new_number(self.id(), kind_of(stat.kind))
        {
            object.begin(number, lane::time::wall_clock());
            self.reserve_numbers(root);
        }
        // Somebody looked at it before, or there was no number at hand.
        self.loaded(root, object, stat).await
    }

    /// The object with its number and version, which at its first use come from the index.
    async fn loaded(
        self: &Arc<Self>,
        root: &Rc<Dir>,
        object: Arc<Object>,
        stat: &Stat,
    ) -> Result<Arc<Object>, Error> {
        for attempt in 0..ATTEMPTS_MAX {
            if object.is_loaded() {
                return Ok(object);
            }
            match self.load(&object, stat).await? {
                Ok(Loaded { object: record, is_new }) => {
                    object.begin_as(&record);
                    if is_new {
                        self.reserve_numbers(root);
                    }
                }
                Err(index::Error::Full) => self.make_room(root, attempt).await?,
                Err(error) => return Err(self.told(&error)),
            }
        }
        Err(Error::Busy)
    }

    async fn load(&self, object: &Object, stat: &Stat) -> Result<Result<Loaded, index::Error>, Error> {
        let (index, id, now) = (&self.index, self.id(), lane::time::wall_clock());
        let kind = if self.is_root(stat) { Kind::Root } else { kind_of(stat.kind) };
        let (words, seen) = (object.identity().words(self.device()), seen_of(stat));
        if let Some(loaded) = index.try_load(id, &words, kind, seen, now) {
            return Ok(loaded);
        }
        let index = Arc::clone(index);
        offload(None, move || index.load(id, &words, kind, seen, now)).await.map_err(|_| Error::Overloaded)
    }

    /// Waits until the index takes more: for a commit, and for numbers.
    ///
    /// # Errors
    /// [`Error::Busy`] when it cannot be written.
    pub(crate) async fn make_room(self: &Arc<Self>, root: &Rc<Dir>, attempt: u32) -> Result<(), Error> {
        self.reserve_numbers(root);
        let index = Arc::clone(&self.index);
        match offload(None, move || index.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(self.told(&error)),
            Err(_) => return Err(Error::Overloaded),
        }
        if attempt > 0 {
            lane::time::sleep(PAUSE * attempt).await;
        }
        Ok(())
    }

    /// Whether changes have to wait for the index: see [`SharedVolume::make_room`].
    pub(crate) fn is_crowded(&self) -> bool {
        self.index.is_full()
    }

    fn told(&self, error: &index::Error) -> Error {
        tracing::error!(volume = %self.name(), %error, "numbers and versions cannot be had");
        Error::Busy
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

fn kind_of(kind: FileKind) -> Kind {
    if kind == FileKind::Directory { Kind::Directory } else { Kind::File }
}

/// What the index judges a file by.
pub(super) fn seen_of(stat: &Stat) -> Seen {
    let changed = index::Timestamp { secs: stat.ctime.secs, nanos: stat.ctime.nanos };
    Seen { changed, size: stat.size }
}

/// Looks at what the index has no room for, or no number.
const ATTEMPTS_MAX: u32 = 64;
/// Grows with each: two seconds in all.
const PAUSE: Duration = Duration::from_millis(1);
