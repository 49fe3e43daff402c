//! Names in a directory by which clients have something open. What other programs do to these is looked at, as clients may cache it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Open names of one directory, each with how often it is open.
#[derive(Default)]
pub(crate) struct OpenNames {
    /// Number of names that there are, for readers without the lock.
    count: AtomicU32,
    names: Mutex<HashMap<Box<[u8]>, u32>>,
}

impl OpenNames {
    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Returns whether something is open by this name.
    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        !self.is_empty() && self.names().contains_key(name)
    }

    /// All of them, in no order.
    pub(crate) fn all(&self) -> Vec<Box<[u8]>> {
        if self.is_empty() { Vec::new() } else { self.names().keys().cloned().collect() }
    }

    /// Adds one open by this name.
    pub(crate) fn add(&self, name: &[u8]) {
        let mut names = self.names();
        match names.get_mut(name) {
            Some(opens) => *opens += 1,
            None => _ = names.insert(name.into(), 1),
        }
        self.tell(&names);
    }

    /// One open less by this name.
    pub(crate) fn remove(&self, name: &[u8]) {
        let mut names = self.names();
        let Some(opens) = names.get_mut(name) else {
            debug_assert!(false, "it was added before");
            return;
        };
        *opens -= 1;
        if *opens == 0 {
            names.remove(name);
            if names.is_empty() {
                names.shrink_to_fit();
            }
        }
        self.tell(&names);
    }

    fn tell(&self, names: &HashMap<Box<[u8]>, u32>) {
        self.count.store(u32::try_from(names.len()).unwrap_or(u32::MAX), Ordering::Release);
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, u32>> {
        self.names.lock().expect("nobody panics while holding it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_there_until_its_last_open_is_closed() {
        let names = OpenNames::default();
        assert!(names.is_empty());
        for name in [&b"a"[..], b"a", b"b"] {
            names.add(name);
        }
        names.remove(b"a");
        assert!(names.contains(b"a") && names.contains(b"b") && !names.contains(b"c"));
        names.remove(b"a");
        assert_eq!(names.all(), [Box::from(&b"b"[..])]);
        names.remove(b"b");
        assert!(names.is_empty() && names.all().is_empty() && !names.contains(b"b"));
    }
}
