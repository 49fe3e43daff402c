//! CREATEs by number of their client (MS-SMB2 3.3.5.9.10), so that one that comes again after a channel was
//! lost finds what the first has made, or that it is still under way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use smb_wire::Guid;

use crate::open::Open;

/// CREATEs under way, and opens that were not used yet: one of each open at most.
#[derive(Default)]
pub(crate) struct Replays(Mutex<HashMap<ReplayKey, ReplaySlot>>);

/// ClientGuid and CreateGuid.
type ReplayKey = (Guid, Guid);

enum ReplaySlot {
    UnderWay,
    Done(Weak<Open>),
}

/// The result of a look-up by ClientGuid and CreateGuid.
pub(crate) enum ReplayLookup {
    /// The CREATE is the first, and is under way from now on.
    First(ReplayEntry),
    /// The first is not answered yet.
    UnderWay,
    /// The open that the first has made.
    Done(Arc<Open>),
}

/// The table's entry of one CREATE, until this is dropped or has [ended](ReplayEntry::end).
pub(crate) struct ReplayEntry {
    replays: Arc<Replays>,
    key: ReplayKey,
    is_in: AtomicBool,
}

impl Replays {
    /// Looks for a CREATE; one that is not known is entered.
    pub(crate) fn look(self: &Arc<Self>, client: Guid, create: Guid) -> ReplayLookup {
        let key = (client, create);
        let mut slots = self.lock();
        match slots.get(&key) {
            Some(ReplaySlot::UnderWay) => return ReplayLookup::UnderWay,
            Some(ReplaySlot::Done(open)) => {
                if let Some(open) = open.upgrade() {
                    drop(slots);
                    return ReplayLookup::Done(open);
                }
            }
            None => {}
        }
        slots.insert(key, ReplaySlot::UnderWay);
        drop(slots);
        ReplayLookup::First(ReplayEntry { replays: Arc::clone(self), key, is_in: AtomicBool::new(true) })
    }

    /// Returns how many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ReplayKey, ReplaySlot>> {
        self.0.lock().expect("nobody panics while holding it")
    }
}

impl ReplayEntry {
    /// Records the open that the CREATE has made.
    pub(crate) fn done(&self, open: &Arc<Open>) {
        if self.is_in.load(Ordering::Acquire) {
            self.replays.lock().insert(self.key, ReplaySlot::Done(Arc::downgrade(open)));
        }
    }

    /// Returns whether the CREATE does not come again.
    pub(crate) fn has_ended(&self) -> bool {
        !self.is_in.load(Ordering::Acquire)
    }

    /// Ends the replay of an open that is used: the CREATE does not come again.
    pub(crate) fn end(&self) {
        if self.is_in.load(Ordering::Relaxed) && self.is_in.swap(false, Ordering::AcqRel) {
            self.replays.lock().remove(&self.key);
        }
    }
}

impl Drop for ReplayEntry {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_create_is_under_way_until_it_is_answered_and_known_until_it_is_used() {
        let replays = Arc::new(Replays::default());
        let (client, create) = (Guid::new([1; 16]), Guid::new([2; 16]));
        let ReplayLookup::First(entry) = replays.look(client, create) else { panic!("nobody asked before") };
        assert!(matches!(replays.look(client, create), ReplayLookup::UnderWay));
        let ReplayLookup::First(other) = replays.look(Guid::new([3; 16]), create) else {
            panic!("another client")
        };
        assert_eq!(replays.len(), 2);
        drop(other);
        entry.end();
        let ReplayLookup::First(_again) = replays.look(client, create) else { panic!("it has failed") };
        drop(entry);
        assert!(
            matches!(replays.look(client, create), ReplayLookup::UnderWay),
            "who has ended takes nothing away"
        );
    }
}
