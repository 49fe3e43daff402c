//! Names in a directory by which clients have something open. What other programs do to these is looked at, as clients may cache it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use smallvec::SmallVec;

/// Open names of one directory, each with how often it is open, and what objects are.
pub(crate) struct OpenNames<T> {
    /// Number of names that there are, for readers without the lock.
    count: AtomicU32,
    names: Mutex<HashMap<Box<[u8]>, OpenName<T>>>,
}

/// A name by which something is open.
struct OpenName<T> {
    /// Number of opens by it.
    opens: u32,
    /// Objects that are open by it: more than one where another program has replaced the first.
    objects: SmallVec<[Weak<T>; 1]>,
}

impl<T> Default for OpenNames<T> {
    fn default() -> Self {
        Self { count: AtomicU32::default(), names: Mutex::default() }
    }
}

impl<T> OpenNames<T> {
    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Returns whether something is open by this name.
    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        !self.is_empty() && self.names().contains_key(name)
    }

    /// Returns all names, in no order.
    pub(crate) fn all(&self) -> Vec<Box<[u8]>> {
        if self.is_empty() { Vec::new() } else { self.names().keys().cloned().collect() }
    }

    /// Returns the objects that are open by this name.
    pub(crate) fn objects(&self, name: &[u8]) -> Vec<Arc<T>> {
        let names = self.names();
        names.get(name).into_iter().flat_map(|open| &open.objects).filter_map(Weak::upgrade).collect()
    }

    /// Adds one open of an object by this name.
    pub(crate) fn add(&self, name: &[u8], object: Weak<T>) {
        let mut names = self.names();
        if !names.contains_key(name) {
            names.insert(name.into(), OpenName { opens: 0, objects: SmallVec::new() });
        }
        let open = names.get_mut(name).expect("it was put there");
        open.opens += 1;
        if !open.objects.iter().any(|known| known.ptr_eq(&object)) {
            open.objects.retain(|known| known.strong_count() > 0);
            open.objects.push(object);
        }
        self.tell(&names);
    }

    /// Counts one open less by this name.
    pub(crate) fn remove(&self, name: &[u8]) {
        let mut names = self.names();
        let Some(open) = names.get_mut(name) else {
            debug_assert!(false, "it was added before");
            return;
        };
        debug_assert!(open.opens > 0, "a name without opens is removed");
        open.opens -= 1;
        if open.opens == 0 {
            names.remove(name);
            if names.is_empty() {
                names.shrink_to_fit();
            }
        }
        self.tell(&names);
    }

    fn tell(&self, names: &HashMap<Box<[u8]>, OpenName<T>>) {
        self.count.store(u32::try_from(names.len()).unwrap_or(u32::MAX), Ordering::Release);
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, OpenName<T>>> {
        self.names.lock().expect("nobody panics while holding it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_there_until_its_last_open_is_closed() {
        let names = OpenNames::<()>::default();
        assert!(names.is_empty());
        for name in [&b"a"[..], b"a", b"b"] {
            names.add(name, Weak::new());
        }
        names.remove(b"a");
        assert!(names.contains(b"a") && names.contains(b"b") && !names.contains(b"c"));
        names.remove(b"a");
        assert_eq!(names.all(), [Box::from(&b"b"[..])]);
        names.remove(b"b");
        assert!(names.is_empty() && names.all().is_empty() && !names.contains(b"b"));
    }
}
