//! Files found again without a path: by what they are, as a durable open names them. By number, as AFS's clients do: [`super::by_number`].
//!
//! A file's handle outlives its leaving of the tree, so nothing that was opened by a handle is served. What is opened by it
//! only tells the way: from a directory up to the volume's root, or from a file's recorded directory. That way is then gone
//! down like any other path, by the caller's rights, and must lead to the very file.
//!
//! Where the process may not open by handle, or the file system has no handles, the way is the one last recorded: in the object
//! where the file is in use, else in the index. What a lane has open tells itself where its name is (`/proc/self/fd`).

use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use identity::Rights;
use lane::fs::{Dir, File, FileHandle, FileKind, Stat};
use lane::offload::offload;

use crate::attributes::{Attributes, FileId};
use crate::caller::Caller;
use crate::change::{Writer, c_name};
use crate::directory::Directory;
use crate::error::Error;
use crate::guarded::{LookupResult, Steps};
use crate::name::{Name, RelPath, RelPathBuf};
use crate::object::{By, Identity, Object, Recorded, identity_of};
use crate::searches::Search;
use crate::volume::{Resolved, Volume};
use crate::which_name::WhichName;

impl Volume {
    /// Finds the file or directory of this identity, wherever it is in the volume now. The caller has to be allowed
    /// through every directory on the way, and needs the rights `need` there, as [`Volume::lookup_as`] has them. Where
    /// the file is not in use the index says where it was.
    ///
    /// # Errors
    /// [`Error::Stale`] when it is gone, has left the volume or cannot be found in it; [`Error::Unsettled`] when it
    /// moves again and again; [`Error::ReadOnly`] for a volume whose files lanes do not share; else as
    /// [`Volume::lookup_as`].
    pub fn reopen<'a>(
        &'a self,
        caller: &'a Caller,
        file: &'a Identity,
        need: Rights,
    ) -> LocalBoxFuture<'a, Result<Resolved, Error>> {
        Box::pin(async move { Ok(self.reopen_at(caller, file, need).await?.1) })
    }

    /// Opens a file anew ([`Volume::reopen`]), with the path that leads there.
    pub(crate) fn reopen_at<'a>(
        &'a self,
        caller: &'a Caller,
        file: &'a Identity,
        need: Rights,
    ) -> LocalBoxFuture<'a, Result<(RelPathBuf, Resolved), Error>> {
        Box::pin(async move {
            // Apart, as it is rare and its memory large.
            let found = Reopening { volume: self }.resolve(caller, file, need).await;
            self.report_failure(RelPath::ROOT, "a file of this volume cannot be found again", found)
        })
    }

    /// Finds where an object in use is now, and notes it: another program may have moved it, or a directory above, and
    /// no look has found it there yet. `open` is the object, where this lane has it open. The caller checks the rights
    /// there.
    ///
    /// # Errors
    /// [`Error::Stale`] where it has no name in the volume any more, or none that can be known; [`Error::Unsettled`]
    /// when it moves again and again; those of the file system.
    pub(crate) fn find_moved<'a>(
        &'a self,
        object: &'a Arc<Object>,
        open: Option<&'a File>,
        which: WhichName,
    ) -> LocalBoxFuture<'a, Result<RelPathBuf, Error>> {
        Box::pin(async move {
            let found = Reopening { volume: self }.present(object, open, which).await;
            self.report_failure(RelPath::ROOT, "a file that was moved cannot be found again", found)
        })
    }

    /// Opens the directory of an object, wherever it is now.
    ///
    /// # Errors
    /// [`Error::NotADirectory`]; as [`Volume::lookup_as`] and [`Volume::find_moved`].
    pub(crate) async fn directory_of(
        &self,
        caller: &Caller,
        object: &Arc<Object>,
    ) -> Result<Directory, Error> {
        let (mut path, mut is_sought) = (self.path_of(object), false);
        loop {
            let found = match &path {
                Some(path) => self.lookup_as(caller, path.as_path(), Rights::NONE).await,
                None => Err(Error::Stale),
            };
            match found {
                Ok(found) if found.object().is_some_and(|found| Arc::ptr_eq(found, object)) => {
                    return Ok(found.into_directory()?.0);
                }
                Ok(_) | Err(_) if !is_sought => {
                    path = Some(self.find_moved(object, None, WhichName::Any).await?);
                    is_sought = true;
                }
                Ok(_) => return Err(Error::Stale),
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens a file anew to write ([`Volume::reopen`]). Takes [`Rights::WRITE`].
    ///
    /// # Errors
    /// As [`Volume::reopen`]; [`Error::IsADirectory`].
    pub fn reopen_writer<'a>(
        &'a self,
        caller: &'a Caller,
        file: &'a Identity,
    ) -> LocalBoxFuture<'a, Result<Writer, Error>> {
        Box::pin(async move {
            for _ in 0..TRIES_MAX {
                let (path, resolved) = self.reopen_at(caller, file, Rights::WRITE).await?;
                resolved.into_file()?;
                let (Some(above), Some(name)) = (path.as_path().parent(), path.as_path().file_name()) else {
                    return self.counted(Err(Error::IsADirectory));
                };
                let directory = self.lookup_as(caller, above, Rights::NONE).await?.into_directory()?.0;
                match directory.open_writer(caller, name).await {
                    Ok(writer) if writer.file().object().is_some_and(|object| object.identity() == file) => {
                        return Ok(writer);
                    }
                    // It has moved since.
                    Ok(_) | Err(Error::NotFound) => {}
                    Err(error) => return Err(error),
                }
            }
            self.counted(Err(self.unsettled(RelPath::ROOT, "opening a file that moves")))
        })
    }
}

/// Source by which the directory above a file is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParentSource {
    /// The place that was recorded last, then handles and listings.
    All,
    /// The place that was recorded last.
    Recorded,
}

/// The search for one file.
struct Reopening<'a> {
    volume: &'a Volume,
}

impl Reopening<'_> {
    async fn resolve(
        &self,
        caller: &Caller,
        file: &Identity,
        need: Rights,
    ) -> Result<(RelPathBuf, Resolved), Error> {
        if self.volume.shared().is_none() {
            return Err(Error::ReadOnly);
        }
        let mut before = None;
        for _ in 0..TRIES_MAX {
            if let Some(path) = self.known_path(file)
                && let Some(found) = self.at(caller, &path, file, need).await?
            {
                self.volume.counters().reopened_in_use.increment();
                return Ok((path, found));
            }
            let path = self.find_path(file, ParentSource::All).await?;
            if let Some(found) = self.at(caller, &path, file, need).await? {
                self.volume.counters().reopened_found.increment();
                return Ok((path, found));
            }
            // It is not where it was recorded, and no change moves it.
            if before.as_ref() == Some(&path) {
                return Err(Error::Stale);
            }
            before = Some(path);
        }
        Err(self.volume.unsettled(RelPath::ROOT, "finding a file that moves"))
    }

    /// Finds where an object in use is ([`Volume::find_moved`]).
    async fn present(
        &self,
        object: &Arc<Object>,
        open: Option<&File>,
        which: WhichName,
    ) -> Result<RelPathBuf, Error> {
        let operator = Caller::operator();
        for _ in 0..TRIES_MAX {
            let path = self.present_path(object, open, which).await?;
            // Looked up anew, it is noted there. Of a file this lane may go on with what it has noted before.
            if let Some(found) = self.at(&operator, &path, object.identity(), Rights::NONE).await? {
                let is_noted = || self.volume.path_of(object).is_some_and(|noted| noted == path);
                if matches!(found, Resolved::File(..)) || is_noted() {
                    self.volume.counters().reopened_found.increment();
                    return Ok(path);
                }
            }
            self.volume.cache().forget_at(self.volume.key(path.as_path()));
        }
        Err(self.volume.unsettled(RelPath::ROOT, "finding what another program moves"))
    }

    /// Finds the path of an object as the file system has it at this moment.
    async fn present_path(
        &self,
        object: &Arc<Object>,
        open: Option<&File>,
        which: WhichName,
    ) -> Result<RelPathBuf, Error> {
        let file = object.identity();
        if let Some(path) = self.opened_path(open).await
            && self.leads_to(&path, file).await?
        {
            return Ok(path);
        }
        if which == WhichName::Opened && !open.is_some_and(has_one_name) {
            return Err(Error::Stale);
        }
        if let Some(path) = self.volume.path_of(object) {
            if self.leads_to(&path, file).await? {
                return Ok(path);
            }
            // What this lane has kept of it there is of before.
            self.volume.cache().forget_at(self.volume.key(path.as_path()));
        }
        self.find_path(file, ParentSource::All).await
    }

    /// Returns the path, beneath the volume, of the name by which a file was opened.
    async fn opened_path(&self, open: Option<&File>) -> Option<RelPathBuf> {
        let path = open?.path().await.ok()?;
        let root = self.volume.root().dir().as_file().path().await.ok()?;
        let beneath = path.strip_prefix(root.strip_suffix(b"/").unwrap_or(&root))?;
        let beneath = if beneath.is_empty() { beneath } else { beneath.strip_prefix(b"/")? };
        RelPath::parse(beneath).ok().map(RelPathBuf::from)
    }

    /// Returns what the path leads to, if that is the file.
    async fn at(
        &self,
        caller: &Caller,
        path: &RelPathBuf,
        file: &Identity,
        need: Rights,
    ) -> Result<Option<Resolved>, Error> {
        match self.volume.lookup_guarded(caller, path.as_path(), need, &Steps::of_lookup()).await {
            Ok(LookupResult { resolved: found, .. }) => {
                let is_it = found.object().is_some_and(|object| object.identity() == file);
                Ok(is_it.then_some(found))
            }
            Err(Error::NotFound | Error::NotADirectory | Error::Escapes | Error::SymlinkRefused) => Ok(None),
            Err(Error::Hidden) if self.volume.hides(path.as_path()) => Err(Error::Hidden),
            // What keeps another from being served, as one that a link leads to, says nothing about this one.
            Err(Error::Denied(_) | Error::NotServable | Error::Hidden | Error::NameTooLong)
                if !self.leads_to(path, file).await? =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether the path leads to this file by now, for whatever caller.
    async fn leads_to(&self, path: &RelPathBuf, file: &Identity) -> Result<bool, Error> {
        let found = match self.volume.root().open_real(path.as_path()).await {
            Ok(found) => found,
            Err(Error::TooManyOpen | Error::Overloaded) => return Err(Error::Overloaded),
            Err(_) => return Ok(false),
        };
        Ok(identity_of(By::Open(&found), &found.stat()?).await? == *file)
    }

    /// Returns the path of a file in use, as this server last moved it.
    fn known_path(&self, file: &Identity) -> Option<RelPathBuf> {
        let shared = self.volume.shared()?;
        self.volume.path_of(&shared.objects().in_use_in(shared, file)?)
    }

    /// Finds the path to a file as the tree has it, from the file upwards.
    async fn find_path(&self, file: &Identity, ways: ParentSource) -> Result<RelPathBuf, Error> {
        let root = self.volume.root().dir();
        let root = identity_of(By::Open(root.as_file()), &root.stat()?).await?;
        let (mut at, mut names, mut length) = (file.clone(), Vec::new(), 0);
        let mut path = loop {
            if at == root {
                break RelPathBuf::root();
            }
            if !names.is_empty()
                && let Some(path) = self.known_path(&at)
                && self.leads_to(&path, &at).await?
            {
                break path;
            }
            let above = match ways {
                ParentSource::All => self.above(&at).await?,
                ParentSource::Recorded => self.recorded(&at).await?.into_iter().next().ok_or(Error::Stale)?,
            };
            let Recorded { directory, name } = above;
            length += name.len() + 1;
            // What was recorded at different times may form a circle.
            if length > RelPath::BYTES_MAX + 1 {
                return Err(Error::Stale);
            }
            names.push(name);
            at = directory;
        };
        for name in names.iter().rev() {
            let pushed = Name::parse(name).and_then(|name| path.push(name));
            pushed.map_err(|_| Error::Stale)?;
        }
        Ok(path)
    }

    /// Finds the directory that a file is in, and its name there.
    async fn above(&self, file: &Identity) -> Result<Recorded, Error> {
        let hints = self.recorded(file).await?;
        let Some(open) = self.open(file).await? else { return self.above_unopened(file, hints).await };
        let stat = open.stat()?;
        if stat.nlink == 0 {
            return Err(Error::Stale);
        }
        if stat.kind == FileKind::Directory {
            let directory = above_directory(open.into_dir()?, &stat).await?;
            let identity = identity_of(By::Open(directory.as_file()), &directory.stat()?).await?;
            let hint = hints.into_iter().find(|hint| hint.directory == identity);
            let name = self.name_in(&directory, file, &stat, hint.as_ref().map(|hint| &*hint.name)).await?;
            return Ok(Recorded { directory: identity, name });
        }
        for hint in hints {
            let Some(directory) = self.open(&hint.directory).await? else { continue };
            match self.name_in(&directory.into_dir()?, file, &stat, Some(&hint.name)).await {
                Ok(name) => return Ok(Recorded { directory: hint.directory, name }),
                Err(Error::Stale) => {}
                Err(error) => return Err(error),
            }
        }
        self.above_opened(&open, file).await
    }

    /// Returns the directory and name by which the kernel knows an open file, as it does of one that was in use since
    /// another program moved it.
    async fn above_opened(&self, open: &File, file: &Identity) -> Result<Recorded, Error> {
        let path = self.opened_path(Some(open)).await.ok_or(Error::Stale)?;
        let (above, name) = path.as_path().parent().zip(path.as_path().file_name()).ok_or(Error::Stale)?;
        if !self.leads_to(&path, file).await? {
            return Err(Error::Stale);
        }
        let directory = self.volume.root().open_real_directory(above).await.map_err(|_| Error::Stale)?;
        let directory = identity_of(By::Open(directory.as_file()), &directory.stat()?).await?;
        Ok(Recorded { directory, name: name.as_bytes().into() })
    }

    /// Returns the directory above ([`Reopening::above`]) of what cannot be opened by its handle. It is found by a
    /// name that was recorded, or another of the same directory, as when one of two names was removed. A directory has
    /// but one.
    async fn above_unopened(&self, file: &Identity, hints: Vec<Recorded>) -> Result<Recorded, Error> {
        let root = self.volume.root();
        for hint in &hints {
            let path = match self.known_path(&hint.directory) {
                Some(path) => path,
                None => match Box::pin(self.find_path(&hint.directory, ParentSource::Recorded)).await {
                    Ok(path) => path,
                    Err(Error::Stale) => continue,
                    Err(error) => return Err(error),
                },
            };
            let Ok(directory) = root.open_real_directory(path.as_path()).await else { continue };
            if let Some(stat) = self.stat_of(&directory, &hint.name).await
                && self.is_name_of(&directory, &hint.name, file, &stat).await?
            {
                return Ok(hint.clone());
            }
            if let Some(name) = self.other_name_in(&directory, file).await? {
                return Ok(Recorded { directory: hint.directory.clone(), name });
            }
        }
        hints.into_iter().next().ok_or(Error::Stale)
    }

    async fn stat_of(&self, directory: &Dir, name: &[u8]) -> Option<Stat> {
        directory.stat_at(&c_name(Name::parse(name).ok()?)).await.ok()
    }

    /// Finds a name that the directory has for what is no directory, whatever it costs.
    async fn other_name_in(&self, directory: &Dir, file: &Identity) -> Result<Option<Box<[u8]>>, Error> {
        let Some(search) = self.begin_search(directory, file)? else { return Ok(None) };
        let Ok(entries) = directory.entries_with_handles(ENTRIES_MAX).await else { return Ok(None) };
        for entry in entries {
            // A file that has lost a name had two.
            let Some(stat) = entry.stat.filter(|stat| stat.kind != FileKind::Directory) else { continue };
            let is_it = match &entry.handle {
                Some(handle) => Identity::of_handle(stat.dev, handle.kind, &handle.bytes) == *file,
                None => self.is_name_of(directory, &entry.name, file, &stat).await?,
            };
            if is_it {
                return Ok(Some(entry.name.into()));
            }
        }
        self.note_vain(search);
        Ok(None)
    }

    /// Returns the places where the file was last seen: by its object in use, by the index, and by a listing. The
    /// index may know better where a look was overtaken.
    async fn recorded(&self, file: &Identity) -> Result<Vec<Recorded>, Error> {
        let shared = self.volume.shared().ok_or(Error::ReadOnly)?;
        let in_use = shared.objects().in_use_in(shared, file).and_then(|object| object.place());
        let mut hints: Vec<_> = in_use
            .map(|place| Recorded { directory: place.directory.identity().clone(), name: place.name })
            .into_iter()
            .collect();
        let (there, words) = (Arc::clone(shared), file.clone());
        let known = offload(None, move || there.recorded_place(&words)).await;
        let known = known.map_err(|_| Error::Overloaded)??;
        hints.extend(known.filter(|known| !hints.contains(known)));
        for seen in shared.other_names_of(file) {
            if !hints.contains(&seen) {
                hints.push(seen);
            }
        }
        Ok(hints)
    }

    /// Opens a file by its handle; `None` where that cannot be done.
    async fn open(&self, file: &Identity) -> Result<Option<File>, Error> {
        let root = self.volume.root();
        let Some((kind, bytes)) = file.handle().filter(|_| root.opens_by_handle()) else { return Ok(None) };
        if root.dir().stat()?.dev != file.device() {
            return Ok(None);
        }
        let handle = FileHandle { kind, bytes: bytes.into() };
        let mut tries = 0;
        loop {
            let error = match root.dir().open_handle(&handle, false).await {
                Ok(file) => return Ok(Some(file)),
                Err(error) => error,
            };
            tries += 1;
            match error.raw_os_error() {
                // A file system that fell behind its server says so too: worth another try.
                Some(libc::ESTALE) if tries < OPEN_TRIES_MAX => {}
                Some(libc::EPERM | libc::EOPNOTSUPP) => {
                    root.opens_no_handles();
                    return Ok(None);
                }
                Some(libc::ELOOP) => return Err(Error::NotServable),
                _ => return Err(error.into()),
            }
        }
    }

    /// Finds the name by which a directory has a file: the one that was recorded if it still leads there, else
    /// another.
    async fn name_in(
        &self,
        directory: &Dir,
        file: &Identity,
        stat: &Stat,
        recorded: Option<&[u8]>,
    ) -> Result<Box<[u8]>, Error> {
        if let Some(name) = recorded
            && self.is_name_of(directory, name, file, stat).await?
        {
            return Ok(name.into());
        }
        let search = self.begin_search(directory, file)?.ok_or(Error::Stale)?;
        let entries = match directory.entries(ENTRIES_MAX).await {
            // Not sought among so many, this time or another.
            Err(error) if error.raw_os_error() == Some(libc::EFBIG) => Vec::new(),
            entries => entries?,
        };
        let has_inode = |other: &Stat| (other.dev, other.ino) == (stat.dev, stat.ino);
        for entry in entries.iter().filter(|entry| entry.stat.as_ref().is_some_and(has_inode)) {
            if self.is_name_of(directory, &entry.name, file, stat).await? {
                return Ok(entry.name.as_slice().into());
            }
        }
        self.note_vain(search);
        Err(Error::Stale)
    }

    /// Begins to read a directory to find the name of a file in it; `None` where it was read in vain since its last
    /// change.
    fn begin_search(&self, directory: &Dir, file: &Identity) -> Result<Option<NameSearch<'_>>, Error> {
        let searches = self.volume.root().searches();
        let before = Attributes::from(directory.stat()?);
        let key = (before.id, file.clone());
        if searches.is_vain(&key, &before.change_token()) {
            return Ok(None);
        }
        let search = searches.begin().ok_or(Error::Overloaded)?;
        self.volume.counters().reopened_by_listing.increment();
        Ok(Some(NameSearch { before, key, _search: search }))
    }

    /// Remembers that the file has no name in the directory as it was before the search.
    fn note_vain(&self, NameSearch { before, key, .. }: NameSearch<'_>) {
        // Within the tick of the file system's clock a name may come and leave the time stamp as it is.
        if before.is_settled(lane::time::wall_clock()) {
            self.volume.root().searches().note_vain(key, before.change_token());
        }
    }

    async fn is_name_of(
        &self,
        directory: &Dir,
        name: &[u8],
        file: &Identity,
        stat: &Stat,
    ) -> Result<bool, Error> {
        let name = Name::parse(name).ok().filter(|name| !name.is_reserved());
        let Some(name) = name else { return Ok(false) };
        match identity_of(By::Name(directory, &c_name(name)), stat).await {
            Ok(identity) => Ok(identity == *file),
            Err(Error::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A search for the name of a file in a directory.
struct NameSearch<'a> {
    before: Attributes,
    key: (FileId, Identity),
    _search: Search<'a>,
}

/// Returns whether an open file has no other name than that by which it was opened, as a directory has.
fn has_one_name(open: &File) -> bool {
    open.stat().is_ok_and(|stat| stat.kind == FileKind::Directory || stat.nlink == 1)
}

/// Opens the directory above an open one, which may lie outside of the volume.
async fn above_directory(directory: Dir, stat: &Stat) -> Result<Dir, Error> {
    let above = match directory.parent().await {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Err(Error::Stale),
        above => above?,
    };
    let found = above.stat()?;
    // The uppermost is above itself: the way has passed the volume by.
    if (found.dev, found.ino) == (stat.dev, stat.ino) { Err(Error::Stale) } else { Ok(above) }
}

/// Searches while what is searched for moves.
const TRIES_MAX: u32 = 8;
const OPEN_TRIES_MAX: u32 = 4;
//@ limit: names among which a file is sought by its number
//@ section: Writable volumes
//@ unit: name
//@ connection: its own requests
//@ all: process: {} of one directory
//@ empty: refused as stale; others wait for turns in the helpers' queue
//@ counter: vfs_reopened_by_listing, vfs_reopened
//@ attack: afs-pools
/// Names of a directory among which one is looked for: as many as a lane keeps of all listings.
const ENTRIES_MAX: usize = 262_144;
