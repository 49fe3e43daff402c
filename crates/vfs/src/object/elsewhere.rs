//! Files that a directory was seen to list, though they are recorded in another: who looks for them by number finds them there as well.

use std::sync::{Mutex, MutexGuard};

use quick_cache::unsync::Cache;

use super::{Identity, Recorded};

/// Where listings have seen files of one volume. A listing may have been overtaken by a rename, so these are hints, asked for after what
/// is recorded; a file that is found is recorded there. The least used go first.
pub(super) struct Elsewhere(Mutex<Cache<Identity, Recorded>>);

impl Elsewhere {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Cache::new(FILES_MAX)))
    }

    pub(super) fn note(&self, file: &Identity, seen: Recorded) {
        self.lock().insert(file.clone(), seen);
    }

    pub(super) fn of(&self, file: &Identity) -> Option<Recorded> {
        self.lock().get(file).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Cache<Identity, Recorded>> {
        self.0.lock().expect("nobody panics while holding it")
    }
}

/// Of one volume. About 200 bytes each.
const FILES_MAX: usize = 16_384;
