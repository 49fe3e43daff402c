//! What notification tells of changes made behind the server's back is looked at, where clients rely on something: at once where they were
//! promised to be told, and a little later, so that what the server does itself is looked at once, where they have leases or oplocks.

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
use crate::callback::{Displaced, Sought};
use crate::change::{Doubted, Looked};
use crate::name::Name;
use crate::object::Object;
use crate::volume::{Volume, WeakVolume};

/// Names to look at, and who does.
#[derive(Default)]
pub(super) struct Doubts {
    waiting: VecDeque<Doubt>,
    looking: Option<Task<()>>,
    open: DoubtedOpens,
    looking_at_open: Option<Task<()>>,
    /// Looks after which somebody may rely on a file that is no longer there.
    looked: Vec<LookedIn>,
    seeking: Option<Task<()>>,
    volumes: Vec<WeakVolume>,
}

/// What clients have open that is to be looked at.
#[derive(Default)]
struct DoubtedOpens {
    names: HashSet<Key>,
    /// Directories of which it is all that is open in them, by where they were found.
    directories: HashMap<*const Object, (Key, Arc<Object>)>,
}

/// A name to look at, and if it is a directory's, which ones in it.
struct Doubt {
    key: Key,
    names: Doubted,
}

/// A look, and the volume that it was into.
type LookedIn = (Looked, WeakVolume);

impl Inner {
    pub(super) fn note_volume(&self, volume: WeakVolume) {
        let mut doubts = self.doubts.borrow_mut();
        doubts.volumes.retain(|known| known.upgrade().is_some());
        doubts.volumes.push(volume);
    }

    /// An entry of a directory has changed, by whomever.
    pub(super) fn doubt(self: &Rc<Self>, watched: &WatchedDir, name: &[u8], what: EntryChange) {
        // Nobody relies on a name of the server's own, and what is found by one would be recorded by it.
        let is_reserved = Name::parse(name).is_ok_and(Name::is_reserved);
        if !is_reserved && self.relies_in(watched) {
            let in_it = (what != EntryChange::Modified).then(|| Box::from(name));
            let child = watched.key().child(name).filter(|_| self.is_given()).map(|key| (key, None));
            self.doubt_each(child.into_iter().chain([(watched.key().to_key(), in_it)]));
        }
        let key = || watched.key().child(name);
        match watched.object().filter(|object| object.open_names().contains(name)) {
            Some(_) if !self.doubts.borrow().open.has_room() => self.doubt_all_open_in([watched]),
            Some(_) => self.doubt_open(key()),
            None => {}
        }
    }

    /// What has this name may have changed, by whomever and by whichever name.
    pub(super) fn doubt_name(self: &Rc<Self>, key: Key) {
        if self.is_given() {
            self.doubt_each([(key, None)]);
        }
    }

    /// What clients have open by this name may be as another program has left it.
    pub(super) fn doubt_open(self: &Rc<Self>, key: Option<Key>) {
        let mut doubts = self.doubts.borrow_mut();
        if doubts.open.has_room() {
            doubts.open.names.extend(key);
        }
        self.start_looking_at_open(&mut doubts);
    }

    /// As [`Inner::doubt_open`], of all that is open by names in these directories.
    pub(super) fn doubt_all_open_in<'w>(self: &Rc<Self>, watched: impl IntoIterator<Item = &'w WatchedDir>) {
        let mut doubts = self.doubts.borrow_mut();
        for watched in watched {
            if let Some(object) = watched.object().filter(|object| !object.open_names().is_empty()) {
                let found = (watched.key().to_key(), Arc::clone(object));
                doubts.open.directories.insert(Arc::as_ptr(object), found);
            }
        }
        self.start_looking_at_open(&mut doubts);
    }

    fn start_looking_at_open(self: &Rc<Self>, doubts: &mut Doubts) {
        if !doubts.open.is_empty() && doubts.looking_at_open.as_ref().is_none_or(Task::is_finished) {
            doubts.looking_at_open = Some(lane::spawn(look_at_open(Rc::downgrade(self))));
        }
    }

    /// A directory itself has other attributes, by whomever they were changed.
    pub(super) fn doubt_itself(self: &Rc<Self>, watched: &WatchedDir) {
        if self.relies_in(watched) {
            self.doubt_each([(watched.key().to_key(), None)]);
        }
    }

    /// Whether clients rely on anything, or on the names of this directory.
    fn relies_in(&self, watched: &WatchedDir) -> bool {
        self.is_given() || watched.object().is_some_and(|object| object.log().is_some())
    }

    fn is_given(&self) -> bool {
        self.peer.get().is_some_and(|peer| peer.callbacks.callback_count() > 0)
    }

    fn doubt_each(self: &Rc<Self>, names: impl IntoIterator<Item = (Key, Option<Box<[u8]>>)>) {
        let mut doubts = self.doubts.borrow_mut();
        for (key, in_it) in names {
            if !doubts.add(key, in_it) {
                drop(doubts);
                return self.doubt_all();
            }
        }
        if doubts.looking.as_ref().is_none_or(Task::is_finished) {
            doubts.looking = Some(lane::spawn(look(Rc::downgrade(self))));
        }
    }

    /// Changes were lost, or are too many to look at: no client of this lane is to rely on anything it knows.
    pub(super) fn doubt_all(&self) {
        self.doubts.borrow_mut().forget_names();
        if let Some(peer) = self.peer.get() {
            self.counters.callbacks_voided_all.increment();
            peer.void_clients();
        }
    }
}

impl DoubtedOpens {
    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.directories.is_empty()
    }

    fn has_room(&self) -> bool {
        self.names.len() < DOUBTS_MAX
    }
}

impl Doubts {
    /// Has a name looked at, and what became of a name in it; `false`: they are too many.
    fn add(&mut self, key: Key, in_it: Option<Box<[u8]>>) -> bool {
        let known = self.waiting.iter_mut().find(|doubt| doubt.key == key);
        let Some(known) = known else {
            if self.waiting.len() >= DOUBTS_MAX {
                return false;
            }
            let names = Doubted { names: in_it.into_iter().collect(), is_any: false };
            self.waiting.push_back(Doubt { key, names });
            return true;
        };
        let in_it = in_it.filter(|name| !known.names.is_any && !known.names.names.contains(name));
        if known.names.names.len() >= DOUBTS_MAX && in_it.is_some() {
            return false;
        }
        known.names.names.extend(in_it);
        true
    }

    /// Too many names to look at each: of directories any may have been changed.
    fn forget_names(&mut self) {
        self.waiting.retain_mut(|doubt| {
            let has_names = doubt.names.is_any || !doubt.names.names.is_empty();
            doubt.names = Doubted { names: Vec::new(), is_any: true };
            has_names
        });
        if self.waiting.len() >= DOUBTS_MAX {
            self.waiting.clear();
        }
    }
}

async fn look(inner: Weak<Inner>) {
    while let Some((doubt, volume)) = inner.upgrade().and_then(|inner| inner.next_doubt()) {
        let Some(volume) = volume else { continue };
        if let Some(looked) = volume.look_behind(doubt.key.as_ref().path, &doubt.names).await
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
        let Some(DoubtedOpens { names, directories }) = inner.upgrade().and_then(|inner| inner.next_open())
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
            let Some(volume) = volume(&key) else { continue };
            let Some(at) = volume.path_of(&directory) else { continue };
            for name in directory.open_names().all() {
                if let Some(path) = at.as_path().child(&name) {
                    volume.look_at_open(path.as_path()).await;
                }
                lane::yield_now().await;
            }
        }
    }
}

/// Looks for files that clients rely on and that somebody else has replaced or taken away: nothing but their recorded places leads from
/// the name to them, so all that this lane has promised is looked through, not more often than every so often.
async fn seek(inner: Weak<Inner>) {
    loop {
        let Some((peer, looked)) = inner.upgrade().and_then(|inner| inner.next_looked()) else { return };
        let (looked, volumes): (Vec<_>, Vec<_>) = looked.into_iter().unzip();
        let sought = Sought::new(looked);
        let mut from = Some(0);
        while let Some(next) = from {
            let (displaced, rest) = peer.callbacks.displaced(&sought, next, SOUGHT_AT_ONCE);
            for displaced in displaced {
                match sought.name_of(&displaced) {
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
        drop((peer, volumes, sought));
        lane::time::sleep(SEEK_PAUSE).await;
    }
}

/// Finds the volume that holds an object.
fn volume_with(volumes: &[WeakVolume], object: &Object) -> Option<Volume> {
    let is_its = |volume: &Volume| volume.shared().is_some_and(|shared| Arc::ptr_eq(shared, object.volume()));
    volumes.iter().filter_map(WeakVolume::upgrade).find(is_its)
}

/// Looks at a file by the name that it was last found by, as it may have lost another.
async fn look_at_other_name(volumes: &[WeakVolume], displaced: &Displaced) {
    let Some(volume) = volume_with(volumes, &displaced.object) else { return };
    let Some(above) = volume.path_of(&displaced.at.directory) else { return };
    if let Some(path) = above.as_path().child(&displaced.at.name) {
        volume.look_for(displaced, path.as_path()).await;
    }
}

impl Inner {
    fn seek(self: &Rc<Self>, looked: Looked, volume: WeakVolume) {
        let mut doubts = self.doubts.borrow_mut();
        if doubts.looked.len() >= DOUBTS_MAX {
            return self.counters.replaced_scans_skipped.increment();
        }
        doubts.looked.push((looked, volume));
        if doubts.seeking.as_ref().is_none_or(Task::is_finished) {
            doubts.seeking = Some(lane::spawn(seek(Rc::downgrade(self))));
        }
    }

    fn next_looked(&self) -> Option<(Rc<CoherencePeer>, Vec<LookedIn>)> {
        let looked = std::mem::take(&mut self.doubts.borrow_mut().looked);
        if looked.is_empty() {
            return None;
        }
        Some((Rc::clone(self.peer.get()?), looked))
    }

    fn next_open(&self) -> Option<DoubtedOpens> {
        let next = std::mem::take(&mut self.doubts.borrow_mut().open);
        (!next.is_empty()).then_some(next)
    }

    fn next_doubt(&self) -> Option<(Doubt, Option<Volume>)> {
        let doubt = self.doubts.borrow_mut().waiting.pop_front()?;
        let volume = self.volume_of(doubt.key.as_ref());
        Some((doubt, volume))
    }

    /// The volume that holds an object.
    pub(super) fn volume_of_object(&self, object: &Object) -> Option<Volume> {
        volume_with(&self.doubts.borrow().volumes, object)
    }

    /// What the kernel's watches would have told is lost: who watches for clients is to look.
    pub(super) fn tell_all_lost(&self) {
        for volume in self.doubts.borrow().volumes.iter().filter_map(WeakVolume::upgrade) {
            if let Some(watches) =
                volume.shared().map(|shared| shared.watches()).filter(|watches| watches.any())
            {
                watches.tell_all_lost();
            }
        }
    }

    /// The volume that a key is of.
    pub(super) fn volume_of(&self, key: KeyRef<'_>) -> Option<Volume> {
        let doubts = self.doubts.borrow();
        let mut volumes = doubts.volumes.iter().filter_map(WeakVolume::upgrade);
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
/// Names that wait to be looked at, and those in one of them.
const DOUBTS_MAX: usize = 256;
/// Between two looks at what clients have open: a write of the server's own is told by the kernel too.
const OPEN_PAUSE: Duration = Duration::from_millis(100);
//@ limit: names behind which replaced files are sought
//@ section: Writable volumes
//@ unit: promise looked through
//@ all: lane: {} in one turn; 256 names in {SEEK_PAUSE}
//@ empty: what is beyond is found at the next look; others feel nothing
//@ counter: vfs_replaced_scans_skipped, vfs_external_changes
//@ attack: none, only other programs of the machine cause it
//@ reach: server
/// Promises looked through in one turn of the lane.
const SOUGHT_AT_ONCE: u32 = 1024;
/// Between two times that all promises are looked through.
const SEEK_PAUSE: std::time::Duration = std::time::Duration::from_millis(700);
