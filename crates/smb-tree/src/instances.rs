//! Which opens belong to which instance of an application (MS-SMB2 3.3.5.9.13): one that has moved to another client takes over what
//! it had open.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard};

use smb_wire::Guid;

/// Opens by AppInstanceId.
#[derive(Default)]
pub(crate) struct Instances(Mutex<HashMap<Guid, Vec<u64>>>);

/// An instance of an application, as a CREATE names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) id: Guid,
    /// High and low part.
    pub(crate) version: Option<(u64, u64)>,
}

/// An open of an instance, for as long as this lives.
pub(crate) struct Member {
    instances: Arc<Instances>,
    pub(crate) instance: Instance,
    volatile: u64,
}

impl Instances {
    /// FileId.Volatile of what an instance has open.
    pub(crate) fn of(&self, id: Guid) -> Vec<u64> {
        self.lock().get(&id).cloned().unwrap_or_default()
    }

    /// An open is of this instance.
    pub(crate) fn join(self: &Arc<Self>, instance: Instance, volatile: u64) -> Member {
        self.lock().entry(instance.id).or_default().push(volatile);
        Member { instances: Arc::clone(self), instance, volatile }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Guid, Vec<u64>>> {
        self.0.lock().expect("nobody panics while holding it")
    }
}

impl Instance {
    /// Whether it may take over what `other`, of the same id, has open: a version must be newer, and nobody without one takes over
    /// from who has one.
    pub(crate) fn may_succeed(&self, other: &Self) -> bool {
        match (self.version, other.version) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(new), Some(old)) => new > old,
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Entry::Occupied(mut opens) = self.instances.lock().entry(self.instance.id) {
            opens.get_mut().retain(|volatile| *volatile != self.volatile);
            if opens.get().is_empty() {
                opens.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_newer_version_takes_over_from_one_that_has_one() {
        let of = |version| Instance { id: Guid::new([1; 16]), version };
        for (new, old, may) in [
            (None, None, true),
            (Some((1, 0)), None, true),
            (None, Some((1, 0)), false),
            (Some((1, 1)), Some((1, 0)), true),
            (Some((2, 0)), Some((1, 9)), true),
            (Some((1, 0)), Some((1, 0)), false),
            (Some((0, 9)), Some((1, 0)), false),
        ] {
            assert_eq!(of(new).may_succeed(&of(old)), may, "{new:?} after {old:?}");
        }
    }

    #[test]
    fn an_instance_is_forgotten_with_its_last_open() {
        let instances = Arc::new(Instances::default());
        let instance = Instance { id: Guid::new([1; 16]), version: None };
        let (one, two) = (instances.join(instance, 1), instances.join(instance, 2));
        assert_eq!(instances.of(instance.id), [1, 2]);
        drop(one);
        assert_eq!(instances.of(instance.id), [2]);
        drop(two);
        assert!(instances.lock().is_empty());
    }
}
