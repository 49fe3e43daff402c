//! Versions: what a content, or a directory's names, have come to.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use index::Version;

use super::Identity;

/// Where versions are kept while no object holds them. Called on lanes: an implementation waits for nobody.
pub trait Versions: Send + Sync {
    /// The version of a file that is used for the first time since its object was last gone: the one last recorded, or
    /// one greater than any it may have had.
    fn load(&self, identity: &Identity) -> Version;

    /// A file has this version from now on.
    fn record(&self, identity: &Identity, version: Version);
}

/// Versions in memory, where there is no index: all begin anew with the process.
pub struct MemoryVersions {
    known: Mutex<Known>,
    max: usize,
}

struct Known {
    generation: u32,
    of: HashMap<Identity, Version>,
}

impl MemoryVersions {
    /// Remembers `max` files that were changed. When there are more, all begin a new generation, and it goes on.
    pub fn new(max: usize, now: SystemTime) -> Self {
        let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let generation = u32::try_from(seconds).unwrap_or(u32::MAX);
        Self { known: Mutex::new(Known { generation, of: HashMap::new() }), max }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().expect("nobody panics while holding it")
    }
}

impl Versions for MemoryVersions {
    fn load(&self, identity: &Identity) -> Version {
        let known = self.lock();
        let first = Version { generation: known.generation, count: 0 };
        known.of.get(identity).copied().unwrap_or(first)
    }

    fn record(&self, identity: &Identity, version: Version) {
        let mut known = self.lock();
        if let Some(last) = known.of.get_mut(identity) {
            *last = version;
            return;
        }
        if known.of.len() >= self.max {
            known.of.clear();
            known.generation += 1;
        }
        // A count that ran over its half has begun a generation of its own.
        known.generation = known.generation.max(version.generation);
        known.of.insert(identity.clone(), version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_never_comes_back_though_only_some_are_remembered() {
        let versions = MemoryVersions::new(4, UNIX_EPOCH);
        let of = |n| Identity::of_handle(1, 1, &[n]);
        let mut last: HashMap<u8, Version> = HashMap::new();
        for step in 0..200_u32 {
            let file = (step * 7 % 11) as u8;
            let next = versions.load(&of(file)).next();
            assert!(last.insert(file, next).is_none_or(|before| before < next), "step {step}");
            versions.record(&of(file), next);
        }
    }

    #[test]
    fn what_is_remembered_rises_by_one() {
        let versions = MemoryVersions::new(4, UNIX_EPOCH);
        let file = Identity::of_handle(1, 1, &[1]);
        let first = versions.load(&file);
        versions.record(&file, first.next());
        assert_eq!(versions.load(&file), Version { count: first.count + 1, ..first });
        assert!(Version { generation: 2, count: 0 } > Version { generation: 1, count: u32::MAX });
    }
}
