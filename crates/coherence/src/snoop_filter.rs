//! Snoop filter: which names a lane may cache something of, in a form that other lanes read. A change invalidates
//! only lanes whose filter has one of its names. It does no I/O and knows no clock and no lane: it is a table of
//! counts.
//!
//! A lane counts itself in *before* the look whose outcome it will cache, and out when it has forgotten that. A
//! change takes its lock, then reads the counts. So either the change finds the lane counted in and asks it, or the
//! lane, which looks whether the lock is held after it has counted itself in, finds the lock and caches nothing.
//! What is not counted in is not cached.
//!
//! Names share counts by their hash: a lane may be asked in vain, never not at all.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Counts of the names that one lane may cache something of.
pub struct SnoopFilter {
    counts: Box<[AtomicU32]>,
    matches_all: AtomicBool,
}

/// Slot of a name in every lane's filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterSlot(u16);

/// Guard that keeps a lane counted in for one name until it is dropped.
pub struct PresenceToken {
    filter: Arc<SnoopFilter>,
    slot: FilterSlot,
}

impl FilterSlot {
    /// Returns the slot of a name in a directory of this process.
    pub(crate) fn of<O>(hasher: &RandomState, directory: &Arc<O>, name: &[u8]) -> Self {
        let hash = hasher.hash_one((Arc::as_ptr(directory) as usize, name));
        Self((hash >> 48) as u16)
    }
}

impl SnoopFilter {
    pub(crate) fn new() -> Arc<Self> {
        let counts = (0..SLOTS).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Self { counts, matches_all: AtomicBool::new(false) })
    }

    /// Counts the lane in for a name: it may cache what it looks at afterwards, unless the directory [is
    /// changing](crate::ChangeLock::is_held).
    pub fn count_in(self: &Arc<Self>, slot: FilterSlot) -> PresenceToken {
        self.counts[usize::from(slot.0)].fetch_add(1, Ordering::SeqCst);
        PresenceToken { filter: Arc::clone(self), slot }
    }

    /// Makes the filter match every name from now on, as a service on the lane notifies clients of its own.
    pub fn match_all(&self) {
        self.matches_all.store(true, Ordering::SeqCst);
    }

    /// Returns whether the filter matches every name.
    pub fn matches_all(&self) -> bool {
        self.matches_all.load(Ordering::SeqCst)
    }

    /// Returns whether the lane may cache something of one of these names. The caller holds the change lock
    /// of their directory.
    pub fn has_any(&self, slots: &[FilterSlot]) -> bool {
        self.matches_all()
            || slots.iter().any(|slot| self.counts[usize::from(slot.0)].load(Ordering::SeqCst) > 0)
    }
}

impl Clone for PresenceToken {
    /// Counts the lane in once more.
    fn clone(&self) -> Self {
        self.filter.count_in(self.slot)
    }
}

impl Drop for PresenceToken {
    fn drop(&mut self) {
        let before = self.filter.counts[usize::from(self.slot.0)].fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "a lane counts itself out once");
    }
}

//@ limit: counts of names that other lanes read
//@ section: Writable volumes
//@ unit: count
//@ all: lane: {} (256 KiB) for however many names
//@ empty: names share a count, and the lane is asked in vain; others feel nothing
//@ counter: vfs_invalidations_sent, vfs_invalidations_filtered
//@ attack: none, a table of fixed size whose spots are shared
//@ reach: server
/// Five for each name that a lane remembers at most by default: one question in six is in vain then.
const SLOTS: usize = 1 << 16;

#[cfg(test)]
mod tests;
