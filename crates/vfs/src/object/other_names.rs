//! Names of files beside the one that each is recorded by, as a look or a listing has shown them or a change
//! of ours has made them: a look for a file by number finds it by these as well, and it is recorded by one of
//! them when it loses the other.

use std::sync::{Mutex, MutexGuard};

use quick_cache::unsync::Cache;
use smallvec::SmallVec;

use super::{Identity, Recorded};

/// Other names of the files of one volume, beside the recorded ones.
pub(super) struct OtherNames(Mutex<Cache<Identity, RecordedPlaces>>);

/// Places of one file; those that were seen first are dropped first.
type RecordedPlaces = SmallVec<[Recorded; 1]>;

impl OtherNames {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Cache::new(FILES_MAX)))
    }

    pub(super) fn note(&self, file: &Identity, seen: Recorded) {
        let mut files = self.lock();
        let mut places = files.get(file).cloned().unwrap_or_default();
        places.retain(|place| *place != seen);
        if places.len() == PLACES_MAX {
            places.remove(0);
        }
        places.push(seen);
        files.insert(file.clone(), places);
    }

    /// Returns the places of a file, the last one first.
    pub(super) fn of(&self, file: &Identity) -> impl Iterator<Item = Recorded> + use<> {
        self.lock().get(file).cloned().unwrap_or_default().into_iter().rev()
    }

    fn lock(&self) -> MutexGuard<'_, Cache<Identity, RecordedPlaces>> {
        self.0.lock().expect("nobody panics while holding it")
    }
}

//@ limit: files that have names beside the one that they are recorded by
//@ section: Writable volumes
//@ unit: file of about 200 bytes
//@ connection: what its directories list
//@ all: process: {} of a volume, {PLACES_MAX} names of a file
//@ empty: the least used goes; a file that was moved is found once its directory is listed again
//@ counter: vfs_reopened{by="search"}
//@ attack: none, only other programs of the machine move files so
//@ reach: server
/// Files of one volume. Each takes about 200 bytes, and 50 for each further place.
const FILES_MAX: usize = 16_384;
/// Places of one file.
const PLACES_MAX: usize = 8;
