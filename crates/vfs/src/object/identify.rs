//! The objects of files that are open, or have a name: by the kernel's handle, which asks no disk, and at the first use by the
//! index, which a helper asks.

use std::ffi::CString;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use index::{FileStamp, FirstUse, Kind, Loaded, PlaceRef};
use lane::fs::{Dir, File, FileKind, OpenHow, OpenKind, Stat, Timestamp};
use lane::offload::offload;

use super::{Identity, Object, SharedVolume};
use crate::attributes::Attributes;
use crate::error::Error;

/// Ways by which a file is found.
#[derive(Clone, Copy)]
pub(crate) enum By<'a> {
    /// The object is an open file.
    Open(&'a File),
    /// The object has this name in a directory; links are not followed.
    Name(&'a Dir, &'a CString),
}

/// Place where a file was found: a directory, and the name in it. Kept with its number, as a hint.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) directory: &'a Arc<Object>,
    pub(crate) name: &'a [u8],
}

impl SharedVolume {
    /// Returns the object of a file or directory with these attributes, found there. `root` is the volume's directory.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Overloaded`]; those of the file system.
    pub(crate) async fn object_of(
        self: &Arc<Self>,
        root: &Rc<Dir>,
        by: By<'_>,
        stat: &Stat,
        at: Option<At<'_>>,
    ) -> Result<Arc<Object>, Error> {
        let object = self.objects().get(self, identity_of(by, stat).await?)?;
        let stat = if object.is_loaded() || !self.is_numbered() { *stat } else { by.restat(stat).await };
        let object = self.loaded(root, object, &stat, at).await?;
        if let (By::Open(file), false) = (by, object.is_own_read()) {
            object.read_own(file).await?;
        }
        Ok(object)
    }

    /// Returns the object of a file or directory that was just made here, in `above`. The index cannot know it, unless
    /// a client has found it since and it is no longer in use.
    ///
    /// # Errors
    /// As [`SharedVolume::object_of`].
    pub(crate) async fn object_of_new(
        self: &Arc<Self>,
        root: &Rc<Dir>,
        by: By<'_>,
        stat: &Stat,
        above: Option<&Arc<Object>>,
    ) -> Result<Arc<Object>, Error> {
        let object = self.objects().get(self, identity_of(by, stat).await?)?;
        let words = object.identity().words(self.device());
        if !object.is_loaded()
            && let Ok(Some(number)) = self.index.begin(self.id(), &words, kind_of(stat.kind))
        {
            object.begin(number, lane::time::wall_clock());
            // The caller that made it sets all of it, but for what the kernel hands down.
            if above.is_none_or(|above| above.left().is_none()) {
                object.set_own(None);
            }
            self.reserve_numbers(root);
        }
        // It was looked at before, or there was no number at hand.
        let object = self.loaded(root, object, stat, None).await?;
        if let (By::Open(file), false) = (by, object.is_own_read()) {
            object.read_own(file).await?;
        }
        Ok(object)
    }

    /// Returns the object with its number and version, which at its first use come from the index.
    async fn loaded(
        self: &Arc<Self>,
        root: &Rc<Dir>,
        object: Arc<Object>,
        stat: &Stat,
        at: Option<At<'_>>,
    ) -> Result<Arc<Object>, Error> {
        if !self.is_numbered() {
            let kind = if self.is_root(stat) { Kind::Root } else { kind_of(stat.kind) };
            object.begin_unnumbered(kind);
            return Ok(object);
        }
        for attempt in 0..ATTEMPTS_MAX {
            if object.is_loaded() {
                return Ok(object);
            }
            match self.load(&object, stat, at).await? {
                Ok(Loaded { object: record, is_new }) => {
                    object.begin_as(&record, stat, at);
                    if is_new {
                        object.is_fresh();
                        self.reserve_numbers(root);
                    }
                }
                Err(index::Error::Full) => self.make_room(root, attempt).await?,
                Err(error) => return Err(self.report_failure(&error)),
            }
        }
        Err(Error::Busy)
    }

    async fn load(
        &self,
        object: &Object,
        stat: &Stat,
        at: Option<At<'_>>,
    ) -> Result<Result<Loaded, index::Error>, Error> {
        let (index, id, words) = (&self.index, self.id(), object.identity().words(self.device()));
        let kind = if self.is_root(stat) { Kind::Root } else { kind_of(stat.kind) };
        let place = at.map(|at| PlaceRef { parent: at.directory.number().vnode, name: at.name });
        let (seen, now) = (seen_of(stat), lane::time::wall_clock());
        // Of a directory nothing is kept that is not stored yet: clients take it anew, as late as it changes.
        let is_to_change = kind == Kind::File && self.is_writable();
        let of = FirstUse { identity: &words, kind, seen, place, is_to_change, now };
        if let Some(loaded) = index.try_load(id, of) {
            return Ok(loaded);
        }
        let (index, name) = (Arc::clone(index), at.map(|at| Box::<[u8]>::from(at.name)));
        let parent = place.map(|place| place.parent);
        let load = move || {
            let place = parent.zip(name.as_deref()).map(|(parent, name)| PlaceRef { parent, name });
            index.load(id, FirstUse { identity: &words, kind, seen, place, is_to_change, now })
        };
        offload(None, load).await.map_err(|_| Error::Overloaded)
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
            Ok(Err(error)) => return Err(self.report_failure(&error)),
            Err(_) => return Err(Error::Overloaded),
        }
        if attempt > 0 {
            lane::time::sleep(PAUSE * attempt).await;
        }
        Ok(())
    }

    /// Returns whether changes have to wait for the index: see [`SharedVolume::make_room`].
    pub(crate) fn is_crowded(&self) -> bool {
        self.index.is_full()
    }

    pub(crate) fn report_failure(&self, error: &index::Error) -> Error {
        //@ cause: The index in the state directory could not be read or written, mostly for lack of room or for a failing disk.
        //@ remedy: Look at the disk of the state directory. Requests are served again without a restart once the index can be used.
        tracing::error!(
            volume = %self.name(),
            "volume {}: the index cannot be used: {error}; requests that need a file's number or version are refused as busy; look at the \
             disk of the state directory [volume-index-failed]",
            self.name()
        );
        Error::Busy
    }
}

/// Returns which file it is, with these attributes.
pub(crate) async fn identity_of(by: By<'_>, stat: &Stat) -> Result<Identity, Error> {
    let handle = match by {
        By::Open(file) => file.handle().await,
        By::Name(dir, name) => dir.handle_at(name).await,
    };
    match handle {
        Ok(handle) => Ok(Identity::of_handle(stat.dev, handle.kind, &handle.bytes)),
        Err(error) if has_none(&error) => Ok(Identity::of_inode(stat.dev, stat.ino, by.born().await?)),
        Err(error) => Err(error.into()),
    }
}

impl By<'_> {
    /// Returns how it looks now that its object is at hand, which all changes of ours are noted in from here on:
    /// `before` may be older than one that another lane has made, noted and forgotten. Where that is another file by
    /// now, or unknown, it is as before.
    async fn restat(self, before: &Stat) -> Stat {
        let now = match self {
            By::Open(file) => file.stat(),
            By::Name(dir, name) => dir.stat_at(name).await,
        };
        now.ok().filter(|now| (now.dev, now.ino) == (before.dev, before.ino)).unwrap_or(*before)
    }

    /// Returns the time of creation, as far as the file system knows it.
    async fn born(self) -> Result<Timestamp, Error> {
        let opened;
        let file = match self {
            By::Open(file) => file,
            By::Name(dir, name) => {
                let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: false };
                // What cannot be opened never is: it is known by its inode alone.
                let Ok(file) = dir.open(name, how).await else { return Ok(Timestamp::default()) };
                opened = file;
                &opened
            }
        };
        Ok(file.born().await?.unwrap_or_default())
    }
}

/// Returns whether the file system has no handles, or none that is kept, or the system call is refused, as by
/// a seccomp filter or a security module.
fn has_none(error: &io::Error) -> bool {
    let none = [libc::EOPNOTSUPP, libc::EOVERFLOW, libc::ENOSYS, libc::EPERM, libc::EACCES];
    error.raw_os_error().is_some_and(|error| none.contains(&error))
}

pub(crate) fn kind_of(kind: FileKind) -> Kind {
    if kind == FileKind::Directory { Kind::Directory } else { Kind::File }
}

/// Returns what the index judges a file by.
fn seen_of(stat: &Stat) -> FileStamp {
    seen(stat.ctime, stat.size)
}

fn seen(changed: Timestamp, size: u64) -> FileStamp {
    FileStamp { changed: index::Timestamp { secs: changed.secs, nanos: changed.nanos }, size }
}

impl Attributes {
    /// Returns the stamp of the file as it was seen ([`seen_of`]).
    pub(super) fn seen(&self) -> FileStamp {
        seen(self.ctime, self.size)
    }
}

/// Number of looks at an object for which the index has no room, or no number.
const ATTEMPTS_MAX: u32 = 64;
/// Grows with each: two seconds in all.
const PAUSE: Duration = Duration::from_millis(1);
