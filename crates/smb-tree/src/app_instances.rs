//! Opens by instance of an application (MS-SMB2 3.3.5.9.13): one that has moved to another client takes over
//! what it had open.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard};

use smb_wire::Guid;

/// The opens of each application instance, by AppInstanceId.
#[derive(Default)]
pub(crate) struct AppInstances(Mutex<HashMap<Guid, Vec<u64>>>);

/// The AppInstanceId and AppInstanceVersion of a CREATE (MS-SMB2 2.2.13.2.13, 2.2.13.2.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppInstance {
    pub(crate) id: Guid,
    /// High and low part.
    pub(crate) version: Option<(u64, u64)>,
}

/// Counts an open among those of an application instance, until this is dropped.
pub(crate) struct AppInstanceMember {
    app_instances: Arc<AppInstances>,
    pub(crate) app_instance: AppInstance,
    volatile: u64,
}

impl AppInstances {
    /// Returns the FileId.Volatile of what an instance has open.
    pub(crate) fn of(&self, id: Guid) -> Vec<u64> {
        self.lock().get(&id).cloned().unwrap_or_default()
    }

    /// Adds an open to those of an instance.
    pub(crate) fn join(self: &Arc<Self>, app_instance: AppInstance, volatile: u64) -> AppInstanceMember {
        self.lock().entry(app_instance.id).or_default().push(volatile);
        AppInstanceMember { app_instances: Arc::clone(self), app_instance, volatile }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Guid, Vec<u64>>> {
        self.0.lock().expect("nobody panics while holding it")
    }
}

impl AppInstance {
    /// Returns whether it may take over what `other`, of the same id, has open: a version must be newer, and
    /// an instance without one never takes over from one that has one.
    pub(crate) fn may_succeed(&self, other: &Self) -> bool {
        match (self.version, other.version) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(new), Some(old)) => new > old,
        }
    }
}

impl Drop for AppInstanceMember {
    fn drop(&mut self) {
        if let Entry::Occupied(mut opens) = self.app_instances.lock().entry(self.app_instance.id) {
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
        let of = |version| AppInstance { id: Guid::new([1; 16]), version };
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
        let app_instances = Arc::new(AppInstances::default());
        let app_instance = AppInstance { id: Guid::new([1; 16]), version: None };
        let (one, two) = (app_instances.join(app_instance, 1), app_instances.join(app_instance, 2));
        assert_eq!(app_instances.of(app_instance.id), [1, 2]);
        drop(one);
        assert_eq!(app_instances.of(app_instance.id), [2]);
        drop(two);
        assert!(app_instances.lock().is_empty());
    }
}
