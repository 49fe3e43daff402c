//! How many files are open for their locks alone: each takes a descriptor.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use grants::Refused;

/// Those of a process.
#[derive(Clone)]
pub(crate) struct LocalPlaces {
    inner: Arc<Inner>,
}

struct Inner {
    max: usize,
    /// By who locked the file first.
    taken: Mutex<HashMap<u64, usize>>,
}

/// A place, until this is dropped.
pub(super) struct LocalPlace {
    places: LocalPlaces,
    owner: u64,
}

impl LocalPlaces {
    pub(crate) fn new(max: usize) -> Self {
        Self { inner: Arc::new(Inner { max, taken: Mutex::default() }) }
    }

    /// A place for a file that `owner` locks. He has no more than he leaves, so that who comes next always finds some.
    ///
    /// # Errors
    /// [`Refused::TooMany`].
    pub(super) fn take(&self, owner: u64) -> Result<LocalPlace, Refused> {
        let mut taken = self.inner.taken.lock().expect("nobody panics while holding it");
        let all: usize = taken.values().sum();
        let own = taken.get(&owner).copied().unwrap_or(0);
        if own + 1 > self.inner.max.saturating_sub(all) {
            return Err(Refused::TooMany);
        }
        *taken.entry(owner).or_default() += 1;
        Ok(LocalPlace { places: self.clone(), owner })
    }
}

impl Drop for LocalPlace {
    fn drop(&mut self) {
        let mut taken = self.places.inner.taken.lock().expect("nobody panics while holding it");
        let own = taken.get_mut(&self.owner).expect("he has this one");
        *own -= 1;
        if *own == 0 {
            taken.remove(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_locks_many_files_leaves_as_many_to_others() {
        let places = LocalPlaces::new(8);
        let take = |owner| std::iter::from_fn(|| places.take(owner).ok()).collect::<Vec<_>>();
        let first = take(1);
        assert_eq!(first.len(), 4);
        let second = take(2);
        assert_eq!(second.len(), 2);
        assert_eq!(take(3).len(), 1);
        drop(first);
        assert_eq!(take(3).len(), 3);
        drop(second);
        assert!(places.inner.taken.lock().unwrap().is_empty());
    }
}
