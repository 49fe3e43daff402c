//! Directories of a volume that are read to find the name of a file in them, and those that were read in vain.

use std::cell::{Cell, RefCell};
use std::time::SystemTime;

use crate::attributes::{Attributes, ChangeToken, FileId};
use crate::object::Identity;

/// The searches of one lane in one volume.
pub(crate) struct Searches {
    under_way: Cell<usize>,
    /// What a directory was when a file had no name in it.
    vain: RefCell<quick_cache::unsync::Cache<(FileId, Identity), ChangeToken>>,
}

/// A directory that is being read to find a name.
pub(crate) struct Search<'a>(&'a Cell<usize>);

impl Searches {
    /// Begins a search, unless too many are under way.
    pub(crate) fn begin(&self) -> Option<Search<'_>> {
        let under_way = self.under_way.get();
        (under_way < SEARCHES_MAX).then(|| {
            self.under_way.set(under_way + 1);
            Search(&self.under_way)
        })
    }

    /// Whether a file is known to have no name in a directory that is so.
    pub(crate) fn is_vain(&self, directory: &Attributes, file: &Identity) -> bool {
        let vain = self.vain.borrow();
        vain.get(&(directory.id, file.clone())).is_some_and(|token| *token == directory.change_token())
    }

    /// Remembers that a file has no name in a directory that was so before it was read.
    pub(crate) fn note_vain(&self, directory: &Attributes, file: &Identity, now: SystemTime) {
        // Within the tick of the file system's clock a name may come and leave the time stamp as it is.
        if directory.is_settled(now) {
            self.vain.borrow_mut().insert((directory.id, file.clone()), directory.change_token());
        }
    }
}

impl Default for Searches {
    fn default() -> Self {
        Self { under_way: Cell::new(0), vain: RefCell::new(quick_cache::unsync::Cache::new(VAIN_MAX)) }
    }
}

impl std::fmt::Debug for Searches {
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
/// Of one volume, on one lane: each may hold the names of a large directory in memory.
const SEARCHES_MAX: usize = 2;
//@ limit: directories known not to have a file
//@ section: Writable volumes
//@ unit: directory and file, some 100 bytes
//@ connection: its own requests
//@ all: lane: {} of a volume
//@ empty: the least used are forgotten, and searched again when they are asked for
//@ counter: vfs_reopened_by_listing
//@ attack: afs-pools
/// Files that were sought in vain, with the directories.
const VAIN_MAX: usize = 1024;
