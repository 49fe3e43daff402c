//! Which CREATE is known by which number of its client (MS-SMB2 3.3.5.9.10), so that one that comes again after a channel was lost
//! finds what the first has made, or that it is still under way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use smb_wire::Guid;

use crate::open::Open;

/// CREATEs under way, and opens that nobody has used yet: one of each open at most.
#[derive(Default)]
pub(crate) struct Replays(Mutex<HashMap<Key, Slot>>);

/// ClientGuid and CreateGuid.
type Key = (Guid, Guid);

enum Slot {
    UnderWay,
    Done(Weak<Open>),
}

/// What is known of a CREATE.
pub(crate) enum Known {
    /// Nothing: this is the first, and is under way from now on.
    First(Entry),
    /// The first is not answered yet.
    UnderWay,
    /// What the first has opened.
    Done(Arc<Open>),
}

/// A place in the table, for as long as this lives and has not [ended](Entry::end).
pub(crate) struct Entry {
    replays: Arc<Replays>,
    key: Key,
    is_in: AtomicBool,
}

impl Replays {
    /// Looks for a CREATE; one that is not known is entered.
    pub(crate) fn look(self: &Arc<Self>, client: Guid, create: Guid) -> Known {
        let key = (client, create);
        let mut slots = self.lock();
        match slots.get(&key) {
            Some(Slot::UnderWay) => return Known::UnderWay,
            Some(Slot::Done(open)) => {
                if let Some(open) = open.upgrade() {
                    drop(slots);
                    return Known::Done(open);
                }
            }
            None => {}
        }
        slots.insert(key, Slot::UnderWay);
        drop(slots);
        Known::First(Entry { replays: Arc::clone(self), key, is_in: AtomicBool::new(true) })
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Slot>> {
        self.0.lock().expect("nobody panics while holding it")
    }
}

impl Entry {
    /// The CREATE has opened this.
    pub(crate) fn done(&self, open: &Arc<Open>) {
        if self.is_in.load(Ordering::Acquire) {
            self.replays.lock().insert(self.key, Slot::Done(Arc::downgrade(open)));
        }
    }

    /// Whether the CREATE does not come again.
    pub(crate) fn has_ended(&self) -> bool {
        !self.is_in.load(Ordering::Acquire)
    }

    /// What was opened is used: the CREATE does not come again.
    pub(crate) fn end(&self) {
        if self.is_in.load(Ordering::Relaxed) && self.is_in.swap(false, Ordering::AcqRel) {
            self.replays.lock().remove(&self.key);
        }
    }
}

impl Drop for Entry {
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
        let Known::First(entry) = replays.look(client, create) else { panic!("nobody asked before") };
        assert!(matches!(replays.look(client, create), Known::UnderWay));
        let Known::First(other) = replays.look(Guid::new([3; 16]), create) else { panic!("another client") };
        assert_eq!(replays.len(), 2);
        drop(other);
        entry.end();
        let Known::First(_again) = replays.look(client, create) else { panic!("it has failed") };
        drop(entry);
        assert!(matches!(replays.look(client, create), Known::UnderWay), "who has ended takes nothing away");
    }
}
