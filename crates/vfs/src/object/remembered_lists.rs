//! Directories that have had a list or descriptor of their own, as the volume's index remembers by their
//! paths. One that is found without is denied to all but administrators: a copy that leaves attributes out
//! would open it to the users that the directory above lets in.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use index::{Index, ListRecord, Number, VolumeId};
use lane::fs::{Dir, File, OpenHow, OpenKind, Stat};
use lane::offload::offload;

use super::{ACCEPTED_TRUSTED, ACCEPTED_USER, Object, SharedVolume};
use crate::error::Error;
use crate::name::{RelPath, RelPathBuf};

/// The directories of a volume that have had an access list or descriptor.
pub(super) struct RememberedLists {
    /// `None` where nothing knows of the volume.
    by: Option<(Arc<Index>, VolumeId)>,
    /// Set if what is found is recorded too: the index is the one that the volume's numbers come from.
    is_kept: bool,
    /// Set if lists or descriptors lie in it, or have.
    has_rights: AtomicBool,
    /// Set while a task of some lane syncs lists that were recorded.
    pub(super) is_syncing: AtomicBool,
    /// Directories that have lost theirs, the first of them, and are closed to all but administrators.
    lost: Mutex<BTreeSet<RelPathBuf>>,
}

impl RememberedLists {
    pub(super) fn new(by: Option<(Arc<Index>, VolumeId)>, is_kept: bool) -> Self {
        let record = by.as_ref().and_then(|(index, volume)| index.volume_of(*volume));
        let has_rights = AtomicBool::new(record.is_some_and(|record| record.has_rights));
        Self { by, is_kept, has_rights, is_syncing: AtomicBool::new(false), lost: Mutex::default() }
    }

    fn lost(&self) -> MutexGuard<'_, BTreeSet<RelPathBuf>> {
        self.lost.lock().expect("nobody panics while holding it")
    }

    /// Returns where to record what is found, once there is anything to compare it with.
    pub(super) fn records(&self) -> Option<&(Arc<Index>, VolumeId)> {
        self.by.as_ref().filter(|_| self.is_kept && self.has_rights.load(Ordering::Relaxed))
    }
}

impl SharedVolume {
    /// Notes that a list or descriptor lies in it. Its index remembers that, for the time when they are gone.
    pub(crate) fn note_rights(&self) {
        let has_rights = &self.remembered.has_rights;
        let knows = has_rights.load(Ordering::Relaxed) || has_rights.swap(true, Ordering::Relaxed);
        if !knows && self.is_numbered && !self.is_sealed() {
            self.index.note_rights(self.id, true);
        }
    }

    /// Directories that have lost their lists and are closed to all but administrators, the first of them.
    /// As paths beneath its own.
    pub fn lost_lists(&self) -> Vec<PathBuf> {
        let lost = self.remembered.lost();
        lost.iter().map(|path| OsStr::from_bytes(path.as_path().as_bytes()).into()).collect()
    }

    /// Notes that the directory `object` has a list or descriptor of its own. Its index remembers that, over a loss of
    /// power once the disk is known to have it: `seen`, the directory where its list is merely seen, may say so.
    /// `root` is the volume's directory.
    pub(crate) fn remember_list(
        self: &Arc<Self>,
        root: &Rc<Dir>,
        object: &Object,
        path: RelPath<'_>,
        seen: Option<&Dir>,
    ) {
        self.note_rights();
        // Another lane may have found it lost just before it was given one.
        self.forget_loss(path);
        let Some((index, volume)) = self.remembered.records() else { return };
        let mut hasher = DefaultHasher::new();
        (path.as_bytes(), self.objects().rights_generation()).hash(&mut hasher);
        if object.is_list_noted(hasher.finish()) {
            return;
        }
        let (directory, generation) = (object.number(), self.generation);
        let seen_ms = milliseconds(lane::time::wall_clock());
        let is_synced = seen.and_then(|dir| dir.stat().ok()).is_some_and(|stat| is_old(&stat));
        let record = ListRecord { directory, generation, seen_ms, is_synced };
        index.record_list(*volume, path.as_bytes(), Some(record));
        if !is_synced {
            self.begin_to_sync_lists(root);
        }
    }

    /// The directory `object`, open as `dir`, is about to be given a list or descriptor. That is remembered for good before: one that
    /// is there and not remembered would be missed by nobody. `root` is the volume's directory.
    ///
    /// # Errors
    /// [`Error::Busy`] where the index cannot be written: it is not to be given; [`Error::Overloaded`].
    pub(crate) async fn remember_list_to_come(
        self: &Arc<Self>,
        root: &Rc<Dir>,
        object: &Object,
        path: RelPath<'_>,
        dir: &File,
    ) -> Result<(), Error> {
        self.remember_list(root, object, path, None);
        let kept = self.lists_are_kept().await;
        if kept.is_err() {
            // What was told may be kept all the same, or not: the next look at the directory says what is there.
            self.forget_list_unless_there(object, path, dir).await;
            object.note_no_list();
        }
        kept
    }

    /// The directory `object` was not given the list or descriptor that was [to come](SharedVolume::remember_list_to_come). Where it
    /// has none it is not to be missed.
    pub(crate) async fn forget_list_unless_there(&self, object: &Object, path: RelPath<'_>, dir: &File) {
        let has_none = self.rights_storage().list_of(dir).await.is_ok_and(|list| list.is_none());
        if has_none && object.own().is_none() {
            self.forget_list(Some(object), path);
        }
    }

    /// Notes that the directory of this path has been given a list beside the server, which may not have looked at it
    /// yet, and was synced.
    pub fn remember_list_at(&self, path: RelPath<'_>) {
        self.note_rights();
        if let Some((index, volume)) = self.remembered.records() {
            // It is known by its path alone until it is looked at.
            let directory = Number { vnode: 0, uniquifier: 0 };
            let (generation, seen_ms) = (self.generation, milliseconds(SystemTime::now()));
            let record = ListRecord { directory, generation, seen_ms, is_synced: true };
            index.record_list(*volume, path.as_bytes(), Some(record));
        }
    }

    /// Notes that the directory of this path has no list of its own, and need not: `object`, where there is one.
    pub(crate) fn forget_list(&self, object: Option<&Object>, path: RelPath<'_>) {
        object.into_iter().for_each(Object::note_no_list);
        if let Some((index, volume)) = self.remembered.records() {
            index.record_list(*volume, path.as_bytes(), None);
            self.forget_loss(path);
        }
    }

    /// Forgets for good what is remembered of this path, and of those beneath, before another directory is put there.
    /// So one that is found after a kill of the server has lost no list.
    ///
    /// # Errors
    /// [`Error::Io`] where the index cannot be written; [`Error::Overloaded`].
    pub(crate) async fn forget_lists(&self, path: RelPath<'_>) -> Result<(), Error> {
        let at = Box::<[u8]>::from(path.as_bytes());
        self.record_durably(move |index, volume| index.forget_lists(volume, &at)).await
    }

    /// Commits what was recorded of directories' lists.
    ///
    /// # Errors
    /// As [`SharedVolume::forget_lists`].
    pub(crate) async fn lists_are_kept(&self) -> Result<(), Error> {
        self.record_durably(|index, _| index.flush()).await
    }

    async fn record_durably(
        &self,
        tell: impl FnOnce(&Index, VolumeId) -> Result<(), index::Error> + Send + 'static,
    ) -> Result<(), Error> {
        let Some((index, volume)) = self.remembered.records() else { return Ok(()) };
        let (index, volume) = (Arc::clone(index), *volume);
        let told = offload(None, move || tell(&index, volume)).await.map_err(|_| Error::Overloaded)?;
        told.map_err(|error| self.report_failure(&error))
    }

    /// Notes that a directory has another path, and all that lies beneath it. `root` is the volume's directory.
    pub(crate) fn move_lists(self: &Arc<Self>, root: &Rc<Dir>, from: RelPath<'_>, to: RelPath<'_>) {
        if let Some((index, volume)) = self.remembered.records() {
            index.move_lists(*volume, from.as_bytes(), to.as_bytes());
            self.begin_to_sync_lists(root);
        }
    }

    /// Notes that two paths have changed places. `root` is the volume's directory.
    pub(crate) fn exchange_lists(self: &Arc<Self>, root: &Rc<Dir>, one: RelPath<'_>, other: RelPath<'_>) {
        if let Some((index, volume)) = self.remembered.records() {
            index.exchange_lists(*volume, one.as_bytes(), other.as_bytes());
            self.begin_to_sync_lists(root);
        }
    }

    /// Returns whether a directory that has no list has lost it, and no administrator has said that it may be
    /// gone. `root` is the volume's directory.
    ///
    /// # Errors
    /// [`Error::Io`] where the index cannot be read.
    pub(crate) async fn has_lost_list(
        &self,
        root: &Dir,
        dir: &Dir,
        object: &Object,
        path: RelPath<'_>,
    ) -> Result<bool, Error> {
        let remembered = &self.remembered;
        let Some((index, volume)) =
            remembered.by.as_ref().filter(|_| remembered.has_rights.load(Ordering::Relaxed))
        else {
            return Ok(false);
        };
        let (index, volume, at) = (Arc::clone(index), *volume, Box::<[u8]>::from(path.as_bytes()));
        let read = offload(None, move || index.list_at(volume, &at)).await.map_err(|_| Error::Overloaded)?;
        let Some(record) = read.map_err(|error| self.report_failure(&error))? else {
            self.forget_loss(path);
            return Ok(false);
        };
        // An administrator that removes the list of a served directory, as by setfattr(1), means to.
        let is_same =
            remembered.is_kept && (record.directory, record.generation) == (object.number(), self.generation);
        let sees_trusted = self.objects().options().trusted_attributes;
        if is_same || is_accepted(root, dir, path, record.seen_ms, sees_trusted).await {
            self.forget_list(Some(object), path);
            self.forget_loss(path);
            return Ok(false);
        }
        let mut lost = remembered.lost();
        if lost.len() < LOST_MAX {
            lost.insert(path.into());
        }
        Ok(true)
    }

    fn forget_loss(&self, path: RelPath<'_>) {
        let mut lost = self.remembered.lost();
        if !lost.is_empty() {
            lost.retain(|lost| lost.as_path().as_bytes() != path.as_bytes());
        }
    }
}

/// An operator's word that lists which were seen before a time may be gone: the value of [`ACCEPTED_USER`] and
/// [`ACCEPTED_TRUSTED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Time in milliseconds since 1970.
    pub at_ms: u64,
    /// Set if the statement is about the directory and all beneath it, not about the directory alone.
    pub is_of_all: bool,
}

impl Accepted {
    /// Makes the statement as of now.
    pub fn now(is_of_all: bool) -> Self {
        Self { at_ms: milliseconds(SystemTime::now()), is_of_all }
    }

    /// Encodes the attribute's value: the time in digits, and a word where it is about the directory alone.
    pub fn encode(self) -> String {
        format!("{}{}", self.at_ms, if self.is_of_all { "" } else { ALONE })
    }

    /// Returns what a value says; of one that says nothing `None`.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let value = std::str::from_utf8(value).ok()?;
        let (at, is_of_all) = match value.strip_suffix(ALONE) {
            Some(at) => (at, false),
            None => (value, true),
        };
        Some(Self { at_ms: at.parse().ok()?, is_of_all })
    }

    /// Bytes of a value.
    pub const BYTES_MAX: usize = 32;
}

/// Returns whether an operator has said, for the directory or for all of one above, that lists seen before
/// may be gone.
pub(crate) async fn is_accepted(
    root: &Dir,
    dir: &Dir,
    path: RelPath<'_>,
    seen_ms: u64,
    sees_trusted: bool,
) -> bool {
    let name = if sees_trusted { ACCEPTED_TRUSTED } else { ACCEPTED_USER };
    if accepted(dir.as_file(), name).await.is_some_and(|accepted| accepted.at_ms >= seen_ms) {
        return true;
    }
    for above in path.prefixes().filter(|above| above.as_bytes() != path.as_bytes()) {
        let how = OpenHow { kind: OpenKind::Directory, symlinks: false, write: false };
        let at = if above.is_root() { b"." } else { above.as_bytes() };
        let at = CString::new(at).expect("a RelPath holds no zero byte");
        let Ok(above) = root.open(&at, how).await else { return false };
        let accepted = accepted(&above, name).await;
        if accepted.is_some_and(|accepted| accepted.is_of_all && accepted.at_ms >= seen_ms) {
            return true;
        }
    }
    false
}

async fn accepted(file: &File, name: &CStr) -> Option<Accepted> {
    Accepted::parse(&file.xattr(&name.into(), Accepted::BYTES_MAX).await.ok()?)
}

/// Returns whether something has not changed for so long that every file system has it on its disk.
fn is_old(stat: &Stat) -> bool {
    let age = lane::time::wall_clock().duration_since(stat.ctime.to_system_time());
    age.is_ok_and(|age| age >= OLD_AFTER)
}

pub(super) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

const ALONE: &str = " alone";
/// Age at which a change is on the disk. It is twice the longest interval at which file systems of Linux write their
/// journals by default (ext4 5 s, xfs and btrfs 30 s, f2fs 60 s).
const OLD_AFTER: Duration = Duration::from_secs(120);
/// Largest number of directories with lost lists that are reported at once.
const LOST_MAX: usize = 16;
