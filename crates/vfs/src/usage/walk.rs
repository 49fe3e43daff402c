//! The walk that counts a volume for the first time, while it is served and changed.

use std::cell::Cell;
use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use index::Usage;
use lane::fs::{Dir, DirPart, FileKind, OpenHow, OpenKind, Stat};

use super::count::Leaf;
use super::{Account, CountedFile, Space};
use crate::attributes::Attributes;
use crate::error::Error;
use crate::name::{Name, RelPath};
use crate::object::{At, By, Object, Place, SharedVolume, path_beneath};
use crate::volume::Volume;

/// Reason why a volume is not counted.
#[derive(Debug, thiserror::Error)]
pub enum CountFailed {
    /// The volume has more directories side by side, or more files with several names, than a count keeps in
    /// mind.
    #[error("it has more directories side by side, or files with several names, than can be kept in mind")]
    TooLarge,
    /// Changes were under way all the time, so that no count could begin.
    #[error("changes that were under way do not end")]
    NeverStill,
    /// A directory cannot be read.
    #[error("{path}: {source}")]
    Directory {
        /// Path of the directory, beneath the volume's own.
        path: String,
        /// Error of the file system.
        source: Error,
    },
}

/// The one walker of a volume.
struct Walker<'v> {
    volume: &'v Volume,
    shared: Arc<SharedVolume>,
    account: Arc<Account>,
    /// State of the volume's flag of attributes when the walk began.
    attribute_word: u64,
    /// Set once a file has attributes that count.
    has_attributes: Cell<bool>,
}

impl Volume {
    /// Returns what the volume holds and may hold; `None` of a read-only one, or where usage is not counted.
    pub fn space(&self) -> Option<Space> {
        self.shared()?.space()
    }

    /// Counts what the volume holds, if no lane has or is at it, or anew where it is in doubt; while it is changed.
    /// `told` gets how far it has come, now and then. It takes half of one helper's time at most, and gives others of
    /// the lane their turns. Until it is done, and where it fails or is dropped, what it has seen is what is used.
    ///
    /// # Errors
    /// [`CountFailed`].
    pub async fn count(&self, told: impl Fn(Space)) -> Result<(), CountFailed> {
        let Some(shared) = self.shared() else { return Ok(()) };
        if shared.ledger().wants_renewal() && !shared.renew_account().await {
            return Err(CountFailed::NeverStill);
        }
        let Some(account) = shared.ledger().account().filter(|account| account.begin_walk()) else {
            return Ok(());
        };
        let (attribute_word, has_attributes) = (shared.attribute_word(), Cell::new(false));
        let walker =
            Walker { volume: self, shared: Arc::clone(shared), account, attribute_word, has_attributes };
        walker.walk(told).await
    }
}

impl SharedVolume {
    /// Begins a new account while no change is under way: those that come wait meanwhile. Says whether there is one.
    async fn renew_account(self: &Arc<Self>) -> bool {
        let Some(pause) = self.pause() else { return true };
        let until = lane::time::now() + STILL_WITHIN;
        while !self.is_still() {
            if lane::time::now() >= until {
                return false;
            }
            lane::time::sleep(PAUSE).await;
        }
        if self.ledger().wants_renewal() {
            self.ledger().renew();
        }
        drop(pause);
        true
    }
}

impl Walker<'_> {
    /// Walks the tree. Where it ends before all is counted, another may begin anew.
    async fn walk(&self, told: impl Fn(Space)) -> Result<(), CountFailed> {
        let unfinished = IncompleteWalk(&self.account);
        let walked = self.walk_all(told).await;
        drop(unfinished);
        walked
    }

    async fn walk_all(&self, told: impl Fn(Space)) -> Result<(), CountFailed> {
        let root = self.root().await;
        let root = root.map_err(|source| CountFailed::Directory { path: ".".to_owned(), source })?;
        self.account.count().begin(&root);
        self.volume.counters().counts_begun.increment();
        let mut last_told = lane::time::now();
        loop {
            let began = lane::time::now();
            if self.account.is_uncertain() {
                return Ok(());
            }
            let Some(directory) = self.next() else { return Ok(()) };
            self.enter(&directory).await?;
            if lane::time::now() - last_told >= TOLD_EVERY {
                told(self.account.space());
                last_told = lane::time::now();
            }
            lane::time::sleep(lane::time::now() - began).await;
        }
    }

    /// Returns the next directory; when there is none the count is done.
    fn next(&self) -> Option<Arc<Object>> {
        let mut count = self.account.count();
        let next = count.next();
        if next.is_none() {
            self.account.end_count(&mut count);
            if !self.has_attributes.get() {
                self.shared.note_no_attributes(self.attribute_word);
            }
        }
        next
    }

    async fn root(&self) -> Result<Arc<Object>, Error> {
        let dir = self.volume.root().open_real_directory(RelPath::ROOT).await?;
        let object = self.of_open(&dir).await?;
        self.volume.root().keep_object(&object);
        Ok(object)
    }

    async fn of_open(&self, dir: &Dir) -> Result<Arc<Object>, Error> {
        self.shared.object_of(self.volume.root().dir(), By::Open(dir.as_file()), &dir.stat()?, None).await
    }

    /// Counts what lies in one directory; waits while it is on the move.
    async fn enter(&self, directory: &Arc<Object>) -> Result<(), CountFailed> {
        for tries in 0.. {
            let entered = self.try_enter(directory).await;
            let (is_waiting, is_lost) = {
                let count = self.account.count();
                (count.is_waiting(directory), count.is_lost)
            };
            if is_lost {
                return Err(CountFailed::TooLarge);
            }
            match entered {
                Ok(true) => return Ok(()),
                // Removed meanwhile.
                _ if !is_waiting => return Ok(()),
                Ok(false) if tries < TRIES_MAX => {}
                Err(Error::Busy | Error::Unsettled | Error::Overloaded | Error::TooManyOpen)
                    if tries < TRIES_MAX => {}
                entered => {
                    let path = self.volume.path_of(directory).filter(|path| !path.as_path().is_root());
                    let path = path.map_or_else(|| ".".to_owned(), |path| path.to_string());
                    let source = entered.err().unwrap_or(Error::Stale);
                    return Err(CountFailed::Directory { path, source });
                }
            }
            lane::time::sleep(PAUSE).await;
        }
        unreachable!("it ends after some tries")
    }

    /// Counts what lies in one directory, under its change lock; `false`: it is not where it is thought to be.
    async fn try_enter(&self, directory: &Arc<Object>) -> Result<bool, Error> {
        let _permit = self.volume.lock_to_count(directory).await?;
        let Some(path) = self.volume.path_of(directory) else { return Ok(false) };
        let dir = match self.volume.root().open_real_directory(path.as_path()).await {
            Ok(dir) => dir,
            Err(Error::NotFound | Error::NotADirectory | Error::SymlinkRefused) => return Ok(false),
            Err(error) => return Err(error),
        };
        if !Arc::ptr_eq(&self.of_open(&dir).await?, directory) {
            return Ok(false);
        }
        let attributes = self.volume.bytes_of_attributes(dir.as_file(), true).await;
        let (leaves, inner) = self.look(directory, &dir).await?;
        let mut count = self.account.count();
        let Usage { bytes, files } = count.entered(directory, attributes, &leaves, inner);
        self.account.add(files, bytes);
        Ok(true)
    }

    async fn look(&self, directory: &Arc<Object>, dir: &Dir) -> Result<(Vec<Leaf>, Vec<Arc<Object>>), Error> {
        let (mut leaves, mut inner, mut position) = (Vec::new(), Vec::new(), 0);
        loop {
            let DirPart { entries, next } = dir.entries_part(position, PART_BYTES).await?;
            for entry in entries {
                let (Some(stat), Ok(name)) = (entry.stat, Name::parse(&entry.name)) else { continue };
                if name.is_reserved() {
                    continue;
                }
                if stat.kind == FileKind::Directory {
                    inner.push(self.inner((directory, dir), name, &stat).await?);
                } else {
                    let CountedFile { inode, links, size, .. } = CountedFile::from(Attributes::from(stat));
                    let attributes = self.attributes_of(dir, name, stat.kind).await;
                    leaves.push(Leaf { inode, links, size, attributes });
                }
                if leaves.len() + inner.len() > ENTRIES_MAX {
                    return Err(Error::TooLarge { max: ENTRIES_MAX });
                }
            }
            let Some(next) = next else { return Ok((leaves, inner)) };
            position = next;
        }
    }

    /// Returns the bytes of a file's attributes; none of what the server may not open, which it serves to nobody.
    async fn attributes_of(&self, dir: &Dir, name: Name<'_>, kind: FileKind) -> u64 {
        if kind != FileKind::File || !self.volume.may_have_attributes() {
            return 0;
        }
        let c_name = CString::new(name.as_bytes()).expect("a Name holds no zero byte");
        let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: false };
        let Ok(file) = dir.open(&c_name, how).await else { return 0 };
        let bytes = self.volume.bytes_of_attributes(&file, false).await;
        self.has_attributes.set(self.has_attributes.get() || bytes > 0);
        bytes
    }

    /// Finds the directory of this name in another one, and places it there.
    async fn inner(
        &self,
        (directory, dir): (&Arc<Object>, &Dir),
        name: Name<'_>,
        stat: &Stat,
    ) -> Result<Arc<Object>, Error> {
        let c_name = CString::new(name.as_bytes()).expect("a Name holds no zero byte");
        let (by, at) = (By::Name(dir, &c_name), At { directory, name: name.as_bytes() });
        let object = self.shared.object_of(self.volume.root().dir(), by, stat, Some(at)).await?;
        // What is mounted within itself stays where it is, or the way up would be a circle.
        if path_beneath(&object, directory).is_none() {
            object.set_place(Place { directory: Arc::clone(directory), name: name.as_bytes().into() });
        }
        Ok(object)
    }
}

/// A walk that has not counted everything; dropped, it leaves the account in doubt.
struct IncompleteWalk<'a>(&'a Account);

impl Drop for IncompleteWalk<'_> {
    fn drop(&mut self) {
        if self.0.is_counting() {
            self.0.mark_uncertain();
        }
    }
}

/// Time between two tries at a directory that is being moved, and between two checks of changes under way.
const PAUSE: Duration = Duration::from_millis(2);
//@ limit: changes that wait because a volume's account begins again
//@ section: Writable volumes
//@ unit: time
//@ all: process: {}, then it is tried again after 5 min
//@ empty: refused as busy after 12 s; others wait as well
//@ counter: vfs_refused{reason="busy"}
//@ attack: none, a lane that ended or a reload causes it
//@ reach: server
/// Changes that are under way are waited for so long.
const STILL_WITHIN: Duration = Duration::from_secs(10);
const TRIES_MAX: u32 = 64;
//@ limit: counting a volume: names of one directory
//@ section: Writable volumes
//@ unit: name
//@ all: process: {}; one walker a volume, half of one helper's time
//@ empty: as above; changes of names in that directory wait while it is listed
//@ counter: vfs_counts_begun, volume_counted
//@ attack: none, as above
//@ reach: server
/// Entries of one directory: 24 bytes of memory for each.
const ENTRIES_MAX: usize = 1 << 20;
/// A part of a directory that is read at once: some 1,600 names.
const PART_BYTES: usize = 64 * 1024;
const TOLD_EVERY: Duration = Duration::from_secs(5);
