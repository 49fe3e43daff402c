//! Directories of a volume that are read to find the name of a file in them, and those that were read in vain.

use std::cell::{Cell, RefCell};
use std::hash::Hash;

/// Searches of one lane in one volume. `K` is a file and a directory, `T` the state of the directory, which shows
/// whether anything has changed in it.
pub(crate) struct Searches<K, T> {
    under_way: Cell<usize>,
    /// Directories, with their state at the time, in which a file had no name.
    vain: RefCell<quick_cache::unsync::Cache<K, T>>,
}

/// A directory that is being read to find a name.
pub(crate) struct Search<'a>(&'a Cell<usize>);

impl<K: Eq + Hash, T: PartialEq> Searches<K, T> {
    /// Begins a search, unless too many are under way.
    pub(crate) fn begin(&self) -> Option<Search<'_>> {
        let under_way = self.under_way.get();
        (under_way < SEARCHES_MAX).then(|| {
            self.under_way.set(under_way + 1);
            Search(&self.under_way)
        })
    }

    /// Returns whether a search is known to be in vain while the directory is `now`.
    pub(crate) fn is_vain(&self, key: &K, now: &T) -> bool {
        self.vain.borrow().get(key).is_some_and(|then| then == now)
    }

    /// Remembers that a search was in vain, with what the directory was before it was read.
    pub(crate) fn note_vain(&self, key: K, before: T) {
        self.vain.borrow_mut().insert(key, before);
    }
}

impl<K: Eq + Hash, T> Default for Searches<K, T> {
    fn default() -> Self {
        Self { under_way: Cell::new(0), vain: RefCell::new(quick_cache::unsync::Cache::new(VAIN_MAX)) }
    }
}

impl<K, T> std::fmt::Debug for Searches<K, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Searches").field("under_way", &self.under_way.get()).finish_non_exhaustive()
    }
}

impl Drop for Search<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

//@ limit: directories searched for a file at once
//@ section: Writable volumes
//@ unit: directory
//@ connection: its own requests
//@ all: lane: {} of a volume
//@ empty: refused as overloaded; others wait for turns in the helpers' queue
//@ counter: vfs_refused{reason="overload"}, vfs_reopened
//@ attack: afs-pools
/// Searches of one volume that run on one lane at once: each may hold the names of a large directory in memory.
const SEARCHES_MAX: usize = 2;
//@ limit: directories known not to have a file
//@ section: Writable volumes
//@ unit: directory and file, some 100 bytes
//@ connection: its own requests
//@ all: lane: {} of a volume
//@ empty: the least used are forgotten, and searched again when they are asked for
//@ counter: vfs_reopened_by_listing
//@ attack: afs-pools
/// Largest number of vain searches that are remembered, by file and directory.
const VAIN_MAX: usize = 1024;
