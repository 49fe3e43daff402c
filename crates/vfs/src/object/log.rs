//! Log of a directory's changes of names, change by change: for a client that keeps an image of its names, on
//! whatever lane, and edits that rather than making it anew. A log exists only while something keeps it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use index::{Number, Version};

use super::Object;
use crate::names::NumberedName;

/// The latest changes of one directory's names.
#[derive(Default)]
pub(crate) struct Log {
    changes: Mutex<VecDeque<LoggedChange>>,
    found: Mutex<VecDeque<ExternalName>>,
    /// A version that others have brought by changing names of which it is not known which: what names led to before
    /// says nothing.
    unnamed: AtomicU64,
    covered: Arc<()>,
}

/// Held by the lane that watches the directory and has reported what other programs changed before.
pub(crate) struct RevalidationOwner(#[expect(dead_code, reason = "what counts is that it is held")] Arc<()>);

/// A name that another program has changed, and what it was found to lead to, if anything.
struct ExternalName {
    /// Version of the directory by which clients are notified of it.
    version: Version,
    name: Box<[u8]>,
    number: Option<Number>,
}

/// One change of names, which raised the directory's version once.
#[derive(Clone)]
pub(crate) struct LoggedChange {
    pub(crate) before: Version,
    pub(crate) after: Version,
    /// Changes of names; none if nothing was said of what it has done.
    pub(crate) edits: Vec<Edit>,
}

/// A name that comes or goes. One that is given to another file goes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The name leads to the file of this number now.
    Added {
        /// The name.
        name: Box<[u8]>,
        /// Number of the name's target.
        number: Number,
    },
    /// The name leads nowhere.
    Removed {
        /// The name.
        name: Box<[u8]>,
    },
}

impl Log {
    /// Enters a change that is made, under the directory's change lock.
    pub(crate) fn note(&self, change: LoggedChange) {
        debug_assert!(change.before < change.after, "a change of names raises the version");
        let mut changes = self.lock();
        debug_assert!(changes.len() <= CHANGES_MAX, "the log keeps its bound");
        if changes.len() == CHANGES_MAX {
            changes.pop_front();
        }
        changes.push_back(change);
    }

    /// Returns what leads from `version` to how the directory is now, but for a change that is under way;
    /// `version` is the one that it leads to. `None` where that is not known, as after changes behind the
    /// server's back. Never waits.
    pub(crate) fn catch_up(&self, object: &Object, version: &mut Version) -> Option<Vec<Edit>> {
        for _ in 0..LOOKS {
            // Before the look: a change that begins after it raises the version further, or is under way.
            let is_changing = object.is_changing();
            let now = object.version();
            if now == *version {
                return Some(Vec::new());
            }
            let (edits, latest) = self.since(*version)?;
            if latest >= now || is_changing && latest.next() >= now {
                *version = latest;
                return Some(edits);
            }
            // It has begun since, and may be put down by the next look.
        }
        None
    }

    /// Returns whether a change that was put down has led to this version: a client that kept an image of the
    /// directory may have come to it by edits.
    pub(crate) fn has_led_to(&self, version: Version) -> bool {
        let changes = self.lock();
        match changes.partition_point(|change| change.after < version) {
            // What was before these is not known.
            0 if changes.front().is_some_and(|first| first.after > version) => changes.len() == CHANGES_MAX,
            at => changes.get(at).is_some_and(|change| change.after == version),
        }
    }

    /// Makes the caller a revalidation owner for as long as it holds the result.
    pub(crate) fn own_revalidation(&self) -> RevalidationOwner {
        RevalidationOwner(Arc::clone(&self.covered))
    }

    /// Returns whether any lane is a revalidation owner.
    pub(crate) fn has_revalidation_owner(&self) -> bool {
        Arc::strong_count(&self.covered) > 1
    }

    /// Notes the numbers to which names were found to lead, or that they lead nowhere; the directory has got this
    /// version for it.
    pub(crate) fn note_external(&self, version: Version, names: Vec<(Box<[u8]>, Option<Number>)>) {
        let mut found = self.found.lock().expect("nobody panics while holding it");
        found.extend(names.into_iter().map(|(name, number)| ExternalName { version, name, number }));
        let over = found.len().saturating_sub(FOUND_MAX);
        found.drain(..over);
    }

    /// Notes that other programs have changed names, it is not known which, and the directory has got this
    /// version for it.
    pub(crate) fn note_unnamed(&self, version: Version) {
        self.unnamed.fetch_max(version.into(), Ordering::AcqRel);
    }

    /// Returns the target of a name by the latest change of it that is put down, or as it was last found:
    /// `None` of a name of which nothing is known.
    pub(crate) fn latest_of(&self, name: &[u8]) -> Option<Option<Number>> {
        let changed = self.lock().iter().rev().find_map(|change| {
            let number = change.edits.iter().rev().find_map(|edit| match edit {
                Edit::Added { name: added, number } => (**added == *name).then_some(Some(*number)),
                Edit::Removed { name: removed } => (**removed == *name).then_some(None),
            });
            Some((change.after, number?))
        });
        let found = self.found.lock().expect("nobody panics while holding it");
        let found = found.iter().rev().find(|found| *found.name == *name);
        let found = found.map(|found| (found.version, found.number));
        let latest = changed.into_iter().chain(found).max_by_key(|(version, _)| *version);
        let unnamed = Version::from(self.unnamed.load(Ordering::Acquire));
        latest.filter(|(version, _)| *version >= unnamed).map(|(_, number)| number)
    }

    /// Returns the names that these entries have otherwise than what is [known](Self::latest_of) of them.
    pub(crate) fn unlike(&self, entries: &[NumberedName]) -> Vec<Box<[u8]>> {
        let mut known = HashMap::new();
        for change in &*self.lock() {
            for edit in &change.edits {
                let (name, number) = match edit {
                    Edit::Added { name, number } => (name, Some(*number)),
                    Edit::Removed { name } => (name, None),
                };
                known.insert(name.clone(), (change.after, number));
            }
        }
        for ExternalName { version, name, number } in
            &*self.found.lock().expect("nobody panics while holding it")
        {
            let latest = known.entry(name.clone()).or_insert((*version, *number));
            if latest.0 <= *version {
                *latest = (*version, *number);
            }
        }
        let unnamed = Version::from(self.unnamed.load(Ordering::Acquire));
        known.retain(|_, (version, _)| *version >= unnamed);
        let is_unlike = |entry: &&NumberedName| {
            known.remove(&entry.name).is_some_and(|(_, number)| number != Some(entry.number))
        };
        let mut unlike: Vec<_> = entries.iter().filter(is_unlike).map(|entry| entry.name.clone()).collect();
        unlike.extend(known.into_iter().filter(|(_, (_, number))| number.is_some()).map(|(name, _)| name));
        unlike
    }

    /// Returns the edits that lead from version `from` to the latest that is known, and which that is; `None` where
    /// they do not lead on from there.
    pub(crate) fn since(&self, from: Version) -> Option<(Vec<Edit>, Version)> {
        let changes = self.lock();
        // Versions rise from one to the next.
        let first = changes.partition_point(|change| change.before < from);
        if changes.get(first).is_none_or(|change| change.before != from) {
            return (changes.back().is_none_or(|last| last.after <= from)).then(|| (Vec::new(), from));
        }
        let (mut told, mut at) = (Vec::new(), from);
        for change in changes.iter().skip(first) {
            if change.before != at || change.edits.is_empty() {
                return None;
            }
            at = change.after;
            told.extend(change.edits.iter().cloned());
        }
        Some((told, at))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<LoggedChange>> {
        self.changes.lock().expect("nobody panics while holding it")
    }
}

impl Object {
    /// Returns the log of this directory, which is kept for as long as its users hold it. Of changes that
    /// were under way when it is asked for it may say nothing.
    pub(crate) fn keep_log(&self) -> Arc<Log> {
        let mut kept =
            self.used.get_or_init(Box::default).log.lock().expect("nobody panics while holding it");
        let known = kept.as_ref().and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let log = Arc::new(Log::default());
            *kept = Some(Arc::downgrade(&log));
            self.change_lock().flags.fetch_or(LOGGED, Ordering::SeqCst);
            log
        })
    }

    /// Returns the log, if one is kept: one look at a flag where none is.
    pub(crate) fn log(&self) -> Option<Arc<Log>> {
        if self.change_lock().flags.load(Ordering::SeqCst) & LOGGED == 0 {
            return None;
        }
        let mut kept = self.used.get()?.log.lock().expect("nobody panics while holding it");
        let log = kept.as_ref().and_then(Weak::upgrade);
        if log.is_none() {
            *kept = None;
            self.change_lock().flags.fetch_and(!LOGGED, Ordering::SeqCst);
        }
        log
    }
}

/// Flag of the object's change lock: the directory has a log.
const LOGGED: u8 = 4;
/// Changes that a log keeps; an image that is older than these is made anew.
const CHANGES_MAX: usize = 1024;
//@ limit: changes of a directory's names kept for images of it
//@ section: Writable volumes
//@ unit: change
//@ all: process: {} of each directory
//@ empty: an older image is made again; others feel nothing
//@ counter: vfs_names_read
//@ attack: afs-pools
/// Names changed by others that a log keeps; a name that is forgotten is reported once more.
const FOUND_MAX: usize = 256;
/// Number of looks at the log: a change may begin, be made and be entered during the first.
const LOOKS: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_lead_from_one_version_to_another_without_a_gap_or_not_at_all() {
        let at = |count| Version { generation: 7, count };
        let removed = |n: u8| Edit::Removed { name: [n].into() };
        let log = Log::default();
        assert_eq!(log.since(at(3)), Some((vec![], at(3))));
        let note = |before, after, n| {
            log.note(LoggedChange { before: at(before), after: at(after), edits: vec![removed(n)] })
        };
        note(3, 4, 1);
        note(4, 5, 2);
        assert_eq!(log.since(at(3)), Some((vec![removed(1), removed(2)], at(5))));
        assert_eq!(log.since(at(4)), Some((vec![removed(2)], at(5))));
        assert_eq!(log.since(at(5)), Some((vec![], at(5))));
        assert_eq!(log.since(at(2)), None, "what was before is not known");
        // Something was changed untold.
        note(6, 7, 3);
        assert_eq!(log.since(at(4)), None);
        assert_eq!(log.since(at(5)), None);
        assert_eq!(log.since(at(6)), Some((vec![removed(3)], at(7))));
        (7..7 + CHANGES_MAX as u32).for_each(|n| note(n, n + 1, 4));
        assert_eq!(log.since(at(6)), None, "that is too long ago");
        assert_eq!(log.since(at(7)).unwrap().0.len(), CHANGES_MAX);
        log.note(LoggedChange { before: at(3000), after: at(3001), edits: Vec::new() });
        assert_eq!(log.since(at(3000)), None, "nobody knows what that has done");
    }

    #[test]
    fn a_log_knows_what_a_name_has_come_to_lead_to() {
        let (at, name) = (|count| Version { generation: 7, count }, |name: &str| Box::from(name.as_bytes()));
        let number = |vnode| Number { vnode, uniquifier: 1 };
        let log = Log::default();
        let note =
            |before, edits| log.note(LoggedChange { before: at(before), after: at(before + 1), edits });
        note(1, vec![Edit::Added { name: name("a"), number: number(2) }]);
        assert_eq!((log.latest_of(b"a"), log.latest_of(b"b")), (Some(Some(number(2))), None));
        let moved = Edit::Added { name: name("b"), number: number(2) };
        note(2, vec![Edit::Removed { name: name("a") }, moved]);
        assert_eq!((log.latest_of(b"a"), log.latest_of(b"b")), (Some(None), Some(Some(number(2)))));
        log.note_external(at(4), vec![(name("b"), None), (name("c"), Some(number(4)))]);
        assert_eq!((log.latest_of(b"b"), log.latest_of(b"c")), (Some(None), Some(Some(number(4)))));
        note(4, vec![Edit::Added { name: name("b"), number: number(6) }]);
        assert_eq!(log.latest_of(b"b"), Some(Some(number(6))));
        let there = |name: Box<[u8]>, vnode| NumberedName { name, number: number(vnode) };
        assert_eq!(log.unlike(&[there(name("b"), 6), there(name("c"), 4), there(name("e"), 8)]), []);
        assert_eq!(
            log.unlike(&[there(name("b"), 8), there(name("a"), 2)]),
            [name("b"), name("a"), name("c")]
        );
        log.note_external(at(6), vec![(name("c"), None)]);
        log.note_unnamed(at(6));
        assert_eq!(log.latest_of(b"b"), None, "it may have been among those that others have changed");
        assert_eq!(log.latest_of(b"c"), Some(None), "which was found then");
        log.note_external(at(9), (0..FOUND_MAX).map(|_| (name("d"), None)).collect());
        assert_eq!(log.latest_of(b"c"), None, "others have been changed since");
    }

    #[test]
    fn a_log_knows_to_which_versions_edits_have_led() {
        let at = |count| Version { generation: 7, count };
        let edits = || vec![Edit::Removed { name: [1].into() }];
        let log = Log::default();
        assert!(!log.has_led_to(at(1)));
        for (before, after) in [(1, 2), (4, 5)] {
            log.note(LoggedChange { before: at(before), after: at(after), edits: edits() });
        }
        let led = (0..8).filter(|&count| log.has_led_to(at(count))).collect::<Vec<_>>();
        assert_eq!(led, [2, 5], "what made the others was not put down");
        for before in 5..5 + CHANGES_MAX as u32 {
            log.note(LoggedChange { before: at(before), after: at(before + 1), edits: edits() });
        }
        assert!(log.has_led_to(at(2)), "of what is too long ago nobody knows");
    }
}
