//! Revalidation after notification of external changes, where clients cache something: at once where they hold
//! callbacks; where they hold leases or oplocks a little later, so that the server's own changes are looked at once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use lane::Task;
use lane::fs::EntryChange;

use super::CoherencePeer;
use super::Inner;
use super::key::{Key, KeyRef};
use super::watches::WatchedDir;
use crate::callback::{ReplacedFile, ReplacedNames};
use crate::change::{LookedUpName, NotifiedNames};
use crate::error::Error;
use crate::name::Name;
use crate::object::Object;
use crate::volume::{Volume, WeakVolume};
use crate::which_name::WhichName;

/// Names to revalidate, and the tasks that do it.
#[derive(Default)]
pub(super) struct PendingRevalidation {
    waiting: VecDeque<NameToRevalidate>,
    looking: Option<Task<()>>,
    open: OpensToRevalidate,
    looking_at_open: Option<Task<()>>,
    /// Looks after which a client may rely on a file that is no longer there.
    looked: Vec<LookedUpIn>,
    seeking: Option<Task<()>>,
    volumes: Vec<WeakVolume>,
}

/// Opens of clients that are to be revalidated.
#[derive(Default)]
struct OpensToRevalidate {
    names: HashSet<Key>,
    /// Directories of which it is all that is open in them, by where they were found.
    directories: HashMap<*const Object, (Key, Arc<Object>)>,
}

/// A name to revalidate, and if it is a directory's, which names in it.
struct NameToRevalidate {
    key: Key,
    names: NotifiedNames,
}

/// A look, and the volume that it was into.
type LookedUpIn = (LookedUpName, WeakVolume);

impl Inner {
    pub(super) fn note_volume(&self, volume: WeakVolume) {
        let mut pending_revalidation = self.pending_revalidation.borrow_mut();
        pending_revalidation.volumes.retain(|known| known.upgrade().is_some());
        pending_revalidation.volumes.push(volume);
    }

    /// Revalidates an entry of a directory that this server or another program has changed.
    pub(super) fn revalidate(self: &Rc<Self>, watched: &WatchedDir, name: &[u8], what: EntryChange) {
        // No client relies on a name of the server's own, and what is found by one would be recorded by it.
        let is_reserved = Name::parse(name).is_ok_and(Name::is_reserved);
        if !is_reserved && self.is_cached_in(watched) {
            let in_it = (what != EntryChange::Modified).then(|| Box::from(name));
            let child =
                watched.key().child(name).filter(|_| self.has_client_callbacks()).map(|key| (key, None));
            self.revalidate_each(child.into_iter().chain([(watched.key().to_key(), in_it)]));
        }
        let key = || watched.key().child(name);
        match watched.object().filter(|object| object.open_names().contains(name)) {
            Some(_) if !self.pending_revalidation.borrow().open.has_room() => {
                self.revalidate_all_open_in([watched])
            }
            Some(_) => self.revalidate_open(key()),
            None => {}
        }
    }

    /// Revalidates what has this name.
    pub(super) fn revalidate_name(self: &Rc<Self>, key: Key) {
        if self.has_client_callbacks() {
            self.revalidate_each([(key, None)]);
        }
    }

    /// Revalidates what clients have open by this name.
    pub(super) fn revalidate_open(self: &Rc<Self>, key: Option<Key>) {
        let mut pending_revalidation = self.pending_revalidation.borrow_mut();
        if pending_revalidation.open.has_room() {
            pending_revalidation.open.names.extend(key);
        }
        self.start_looking_at_open(&mut pending_revalidation);
    }

    /// Revalidates all that is open by names in these directories.
    pub(super) fn revalidate_all_open_in<'w>(
        self: &Rc<Self>,
        watched: impl IntoIterator<Item = &'w WatchedDir>,
    ) {
        let mut pending_revalidation = self.pending_revalidation.borrow_mut();
        for watched in watched {
            if let Some(object) = watched.object().filter(|object| !object.open_names().is_empty()) {
                let found = (watched.key().to_key(), Arc::clone(object));
                pending_revalidation.open.directories.insert(Arc::as_ptr(object), found);
            }
        }
        self.start_looking_at_open(&mut pending_revalidation);
    }

    fn start_looking_at_open(self: &Rc<Self>, pending_revalidation: &mut PendingRevalidation) {
        if !pending_revalidation.open.is_empty()
            && pending_revalidation.looking_at_open.as_ref().is_none_or(Task::is_finished)
        {
            pending_revalidation.looking_at_open = Some(lane::spawn(look_at_open(Rc::downgrade(self))));
        }
    }

    /// Revalidates a directory whose own attributes were changed.
    pub(super) fn revalidate_directory(self: &Rc<Self>, watched: &WatchedDir) {
        if self.is_cached_in(watched) {
            self.revalidate_each([(watched.key().to_key(), None)]);
        }
    }

    /// Returns whether clients cache anything, or the names of this directory.
    fn is_cached_in(&self, watched: &WatchedDir) -> bool {
        self.has_client_callbacks() || watched.object().is_some_and(|object| object.log().is_some())
    }

    fn has_client_callbacks(&self) -> bool {
        self.peer.get().is_some_and(|peer| peer.callbacks.callback_count() > 0)
    }

    fn revalidate_each(self: &Rc<Self>, names: impl IntoIterator<Item = (Key, Option<Box<[u8]>>)>) {
        let mut pending_revalidation = self.pending_revalidation.borrow_mut();
        for (key, in_it) in names {
            if !pending_revalidation.add(key, in_it) {
                drop(pending_revalidation);
                return self.revalidate_all();
            }
        }
        if pending_revalidation.looking.as_ref().is_none_or(Task::is_finished) {
            pending_revalidation.looking = Some(lane::spawn(look(Rc::downgrade(self))));
        }
    }

    /// Events were lost, or are too many: no client of this lane may rely on anything it has cached.
    pub(super) fn revalidate_all(&self) {
        self.pending_revalidation.borrow_mut().forget_names();
        if let Some(peer) = self.peer.get() {
            self.counters.callbacks_voided_all.increment();
            peer.void_clients();
        }
    }
}

impl OpensToRevalidate {
    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.directories.is_empty()
    }

    fn has_room(&self) -> bool {
        self.names.len() < DOUBTS_MAX
    }
}

impl PendingRevalidation {
    /// Has a name looked at, and what became of a name in it; `false`: they are too many.
    fn add(&mut self, key: Key, in_it: Option<Box<[u8]>>) -> bool {
        let known = self.waiting.iter_mut().find(|revalidate| revalidate.key == key);
        let Some(known) = known else {
            if self.waiting.len() >= DOUBTS_MAX {
                return false;
            }
            let names = NotifiedNames { names: in_it.into_iter().collect(), is_any: false };
            self.waiting.push_back(NameToRevalidate { key, names });
            return true;
        };
        let in_it = in_it.filter(|name| !known.names.is_any && !known.names.names.contains(name));
        if known.names.names.len() >= DOUBTS_MAX && in_it.is_some() {
            return false;
        }
        known.names.names.extend(in_it);
        true
    }

    /// Forgets the names, which are too many to look at each: any name of the directories may have been changed.
    fn forget_names(&mut self) {
        self.waiting.retain_mut(|revalidate| {
            let has_names = revalidate.names.is_any || !revalidate.names.names.is_empty();
            revalidate.names = NotifiedNames { names: Vec::new(), is_any: true };
            has_names
        });
        if self.waiting.len() >= DOUBTS_MAX {
            self.waiting.clear();
        }
    }
}

async fn look(inner: Weak<Inner>) {
    while let Some((revalidate, volume)) = inner.upgrade().and_then(|inner| inner.next_to_revalidate()) {
        let Some(volume) = volume else { continue };
        if let Some(looked) =
            volume.revalidate_external(revalidate.key.as_ref().path, &revalidate.names).await
            && let Some(inner) = inner.upgrade()
        {
            inner.seek(looked, volume.downgrade());
        }
    }
}

/// Looks at what clients have open, not more often than every so often.
async fn look_at_open(inner: Weak<Inner>) {
    loop {
        lane::time::sleep(OPEN_PAUSE).await;
        let Some(OpensToRevalidate { names, directories }) =
            inner.upgrade().and_then(|inner| inner.next_open())
        else {
            return;
        };
        let volume = |key: &Key| inner.upgrade().and_then(|inner| inner.volume_of(key.as_ref()));
        for key in names {
            if let Some(volume) = volume(&key) {
                volume.look_at_open(key.as_ref().path).await;
            }
        }
        for (key, directory) in directories.into_values() {
            if let Some(volume) = volume(&key) {
                volume.look_at_all_open_in(&directory).await;
            }
        }
    }
}

impl Volume {
    /// Looks at what clients have open by names in a directory, wherever that is now. Where no path leads to it any more,
    /// as it has left the volume or another file system was mounted over it, clients are notified that it is gone.
    async fn look_at_all_open_in(&self, directory: &Arc<Object>) {
        let at = match self.find_moved(directory, None, WhichName::Any).await {
            Ok(at) => Some(at),
            Err(Error::Stale) => return self.has_left(directory).await,
            Err(_) => self.path_of(directory),
        };
        for name in directory.open_names().all() {
            if let Some(path) = at.as_ref().and_then(|at| at.as_path().child(&name)) {
                self.look_at_open(path.as_path()).await;
            }
            lane::yield_now().await;
        }
    }
}

/// Looks for files that clients rely on and that another program has replaced or removed. Nothing but their recorded
/// places leads from the name to them, so all callbacks of this lane are looked through, at intervals.
async fn seek(inner: Weak<Inner>) {
    loop {
        let Some((peer, looked)) = inner.upgrade().and_then(|inner| inner.next_looked()) else { return };
        let (looked, volumes): (Vec<_>, Vec<_>) = looked.into_iter().unzip();
        let replaced_names = ReplacedNames::new(looked);
        let mut from = Some(0);
        while let Some(next) = from {
            let (displaced, rest) = peer.callbacks.select(next, SOUGHT_AT_ONCE, |object, is_linked| {
                replaced_names.displaced(object, is_linked)
            });
            for displaced in displaced {
                match replaced_names.name_of(&displaced) {
                    Some((at, path)) => {
                        if let Some(volume) = volumes[at].upgrade() {
                            volume.look_for(&displaced, path).await;
                        }
                    }
                    None => look_at_other_name(&volumes, &displaced).await,
                }
            }
            lane::yield_now().await;
            from = rest;
        }
        drop((peer, volumes, replaced_names));
        lane::time::sleep(SEEK_PAUSE).await;
    }
}

/// Finds the volume that holds an object.
fn volume_with(volumes: &[WeakVolume], object: &Object) -> Option<Volume> {
    let is_its = |volume: &Volume| volume.shared().is_some_and(|shared| Arc::ptr_eq(shared, object.volume()));
    volumes.iter().filter_map(WeakVolume::upgrade).find(is_its)
}

/// Looks at a file by the name that it was last found by, as it may have lost another.
async fn look_at_other_name(volumes: &[WeakVolume], displaced: &ReplacedFile) {
    let Some(volume) = volume_with(volumes, &displaced.object) else { return };
    let Some(above) = volume.path_of(&displaced.at.directory) else { return };
    if let Some(path) = above.as_path().child(&displaced.at.name) {
        volume.look_for(displaced, path.as_path()).await;
    }
}

impl Inner {
    fn seek(self: &Rc<Self>, looked: LookedUpName, volume: WeakVolume) {
        let mut pending_revalidation = self.pending_revalidation.borrow_mut();
        if pending_revalidation.looked.len() >= DOUBTS_MAX {
            return self.counters.replaced_scans_skipped.increment();
        }
        pending_revalidation.looked.push((looked, volume));
        if pending_revalidation.seeking.as_ref().is_none_or(Task::is_finished) {
            pending_revalidation.seeking = Some(lane::spawn(seek(Rc::downgrade(self))));
        }
    }

    fn next_looked(&self) -> Option<(Rc<CoherencePeer>, Vec<LookedUpIn>)> {
        let looked = std::mem::take(&mut self.pending_revalidation.borrow_mut().looked);
        if looked.is_empty() {
            return None;
        }
        Some((Rc::clone(self.peer.get()?), looked))
    }

    fn next_open(&self) -> Option<OpensToRevalidate> {
        let next = std::mem::take(&mut self.pending_revalidation.borrow_mut().open);
        (!next.is_empty()).then_some(next)
    }

    fn next_to_revalidate(&self) -> Option<(NameToRevalidate, Option<Volume>)> {
        let revalidate = self.pending_revalidation.borrow_mut().waiting.pop_front()?;
        let volume = self.volume_of(revalidate.key.as_ref());
        Some((revalidate, volume))
    }

    /// Returns the volume that holds an object.
    pub(super) fn volume_of_object(&self, object: &Object) -> Option<Volume> {
        volume_with(&self.pending_revalidation.borrow().volumes, object)
    }

    /// Reports to all clients' watches that events were lost.
    pub(super) fn report_all_lost(&self) {
        for volume in self.pending_revalidation.borrow().volumes.iter().filter_map(WeakVolume::upgrade) {
            if let Some(watches) =
                volume.shared().map(|shared| shared.watches()).filter(|watches| watches.any())
            {
                watches.report_all_lost();
            }
        }
    }

    /// Returns the volume of a key.
    pub(super) fn volume_of(&self, key: KeyRef<'_>) -> Option<Volume> {
        let pending_revalidation = self.pending_revalidation.borrow();
        let mut volumes = pending_revalidation.volumes.iter().filter_map(WeakVolume::upgrade);
        volumes.find(|volume| volume.key(key.path).volume == key.volume)
    }
}

//@ limit: names that notification tells of and have to be looked at
//@ section: Writable volumes
//@ unit: name
//@ all: lane: {}
//@ empty: every promise of the lane is voided, and clients ask again
//@ counter: vfs_callbacks_voided_all, vfs_external_changes
//@ attack: none, only other programs of the machine cause it
//@ reach: server
/// Largest number of names that wait for a look, and of names in one of them.
const DOUBTS_MAX: usize = 256;
/// Time between two looks at what clients have open: the kernel also reports the server's own writes.
const OPEN_PAUSE: Duration = Duration::from_millis(100);
//@ limit: names behind which replaced files are sought
//@ section: Writable volumes
//@ unit: promise looked through
//@ all: lane: {} in one turn; 256 names in {SEEK_PAUSE}
//@ empty: what is beyond is found at the next look; others feel nothing
//@ counter: vfs_replaced_scans_skipped, vfs_external_changes
//@ attack: none, only other programs of the machine cause it
//@ reach: server
/// Callbacks looked through before other tasks of the lane run.
const SOUGHT_AT_ONCE: u32 = 1024;
/// Time between two searches through all callbacks.
const SEEK_PAUSE: std::time::Duration = std::time::Duration::from_millis(700);
