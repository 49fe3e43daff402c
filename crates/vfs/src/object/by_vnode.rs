//! Objects of a volume by vnode number, as AFS clients name them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use index::Number;

use super::{Identity, Object, Place, SharedVolume};
use crate::error::Error;

/// The objects of one volume that are in use, by vnode.
pub(super) struct ObjectsByVnode {
    shards: Box<[Mutex<Shard>]>,
}

/// Place where a file is, or was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) directory: Identity,
    pub(crate) name: Box<[u8]>,
}

impl Recorded {
    pub(super) fn of(place: &Place) -> Self {
        Self::named(&place.directory, &place.name)
    }

    /// Makes the place of a name in a directory.
    pub(crate) fn named(directory: &Object, name: &[u8]) -> Self {
        Self { directory: directory.identity().clone(), name: name.into() }
    }
}

type Shard = HashMap<u32, Weak<Object>>;

impl ObjectsByVnode {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    pub(super) fn insert(&self, object: &Arc<Object>, vnode: u32) {
        debug_assert!(vnode != 0, "no file has the number 0");
        self.shard(vnode).insert(vnode, Arc::downgrade(object));
    }

    /// Removes an object that is no longer in use, after the index has recorded it.
    pub(super) fn remove(&self, object: &Object) {
        if object.is_loaded() {
            let vnode = object.number().vnode;
            let mut shard = self.shard(vnode);
            if shard.get(&vnode).is_some_and(|known| std::ptr::eq(known.as_ptr(), object)) {
                shard.remove(&vnode);
            }
        }
    }

    fn get(&self, vnode: u32) -> Option<Arc<Object>> {
        loop {
            let known = self.shard(vnode).get(&vnode)?.upgrade();
            if known.is_some() {
                return known;
            }
            // Its last user is just telling the index.
            std::thread::yield_now();
        }
    }

    fn shard(&self, vnode: u32) -> MutexGuard<'_, Shard> {
        // The lowest bit is the kind.
        let at = (vnode >> 1) as usize % SHARDS;
        self.shards[at].lock().expect("nobody panics while holding it")
    }
}

impl SharedVolume {
    /// Returns the object of this number, if it is in use.
    pub(crate) fn in_use_as(&self, number: Number) -> Option<Arc<Object>> {
        self.numbered.get(number.vnode).filter(|object| object.number() == number)
    }

    /// Returns which file has this number: one in use, or one that the index knows. May wait for the disk.
    ///
    /// # Errors
    /// [`Error::Stale`] for a number that no file has; [`Error::Busy`] when the index cannot be read.
    pub(crate) fn identity_of(&self, number: Number) -> Result<Identity, Error> {
        if let Some(object) = self.in_use_as(number) {
            return Ok(object.identity().clone());
        }
        let known = self.index.find(self.id(), number).map_err(|error| self.report_failure(&error))?;
        known.and_then(|known| Identity::of_words(&known.identity, self.device())).ok_or(Error::Stale)
    }

    /// Returns a place that the index has, where its directory is in use.
    pub(super) fn recorded_in_use(&self, place: &index::Place) -> Option<Place> {
        let directory = self.numbered.get(place.parent)?;
        Some(Place { directory, name: place.name.as_slice().into() })
    }

    /// Notes that a directory has a name for a file that is recorded elsewhere.
    pub(crate) fn note_other_name_of(&self, file: &Identity, seen: Recorded) {
        self.other_names.note(file, seen);
    }

    /// Returns the places where a file was seen that is recorded elsewhere, the last first.
    pub(crate) fn other_names_of(&self, file: &Identity) -> impl Iterator<Item = Recorded> + use<> {
        self.other_names.of(file)
    }

    /// Returns the recorded place of a file: its directory, and its name there. May wait for the disk.
    ///
    /// # Errors
    /// [`Error::Busy`] when the index cannot be read.
    pub(crate) fn recorded_place(&self, file: &Identity) -> Result<Option<Recorded>, Error> {
        let told = |error| self.report_failure(&error);
        let record = self.index.look_up(self.id(), &file.words(self.device())).map_err(told)?;
        let Some(place) = record.map(|record| record.place).filter(|place| place.parent != 0) else {
            return Ok(None);
        };
        let above = match self.numbered.get(place.parent) {
            Some(object) => Some(object.identity().clone()),
            None => {
                let known = self.index.find_vnode(self.id(), place.parent).map_err(told)?;
                known.and_then(|known| Identity::of_words(&known.identity, self.device()))
            }
        };
        Ok(above.map(|directory| Recorded { directory, name: place.name.into() }))
    }
}

const SHARDS: usize = 16;
