//! How directories lie in pages, as far as clients may have been told: one book for all lanes.
//!
//! A client edits its copy of a directory when a reply tells the version after the one that it has, and takes what it is told of a version
//! for the same whenever it is told. So a version has one image: whoever has the directory as that version looks at the same bytes, and an
//! image of the next is the one before with the change made in it. An image of names alone, in their order, is *compact*: the same names give
//! the same bytes on each lane and after each start. One that changes were made in is not: where nobody has it any more, nobody can make it
//! again. Then the directory gets another version, which nobody was told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use vfs::{History, Number, Version, VolumeId};

/// Which directory.
pub(super) type Key = (VolumeId, Number);

/// What clients may have been told of directories' pages. One for a process; clones are handles to the same.
#[derive(Clone, Default)]
pub struct Layouts {
    known: Arc<Mutex<HashMap<Key, Known>>>,
}

/// Of one directory.
struct Known {
    /// The latest version of which there is or was an image, but for those that edits have led to and that are still kept: of these the log
    /// of the directory knows ([`History::may_be_another`]), which is there as long as one is kept.
    version: Version,
    /// The image of that version was compact.
    is_compact: bool,
    /// Images that lanes keep.
    kept: u32,
}

/// Why a compact image cannot be that of the version of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Clients may have been told another one with that version, or with the one before and edit it.
    Told,
    /// There is an image of a later version.
    Overtaken,
}

/// An image is kept. Those who come to it later go on from it.
pub(super) struct Entered {
    layouts: Layouts,
    key: Key,
    /// The version that the image has come to.
    pub(super) version: Version,
    is_compact: bool,
}

impl Layouts {
    /// Whether a compact image of this version is sure to be refused.
    pub(super) fn doubts(&self, key: Key, version: Version) -> bool {
        doubt(self.lock().get(&key), version, false) == Some(Doubt::Told)
    }

    /// Somebody keeps a compact image of these names from here on. `is_new`: nobody was told their version before it was made.
    pub(super) fn enter(&self, key: Key, history: &History, is_new: bool) -> Result<Entered, Doubt> {
        let version = history.version();
        let may_be_another = history.may_be_another();
        let mut all = self.lock();
        match doubt(all.get(&key), version, may_be_another) {
            Some(Doubt::Told) if is_new && all.get(&key).is_none_or(|known| known.version < version) => {}
            Some(doubt) => return Err(doubt),
            None => {}
        }
        if all.len() >= KNOWN_MAX && !all.contains_key(&key) {
            let mut is_kept = false;
            all.retain(|_, known| {
                is_kept = !is_kept;
                known.kept > 0 || is_kept
            });
        }
        let known = all.entry(key).or_insert(Known { version, is_compact: true, kept: 0 });
        (known.version, known.is_compact) = (version, true);
        known.kept += 1;
        drop(all);
        Ok(Entered { layouts: self.clone(), key, version, is_compact: true })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Known>> {
        self.known.lock().expect("nobody panics while holding it")
    }
}

/// What is in the way of a compact image of a version. `may_be_another`: edits have led to the version.
fn doubt(known: Option<&Known>, version: Version, may_be_another: bool) -> Option<Doubt> {
    let Some(known) = known else {
        // Who served it before may have told anything, but of what has not changed since it was read.
        return (!vfs::is_unchanged_since_read(version) || may_be_another).then_some(Doubt::Told);
    };
    match known.version.cmp(&version) {
        std::cmp::Ordering::Greater => Some(Doubt::Overtaken),
        std::cmp::Ordering::Equal => (!known.is_compact).then_some(Doubt::Told),
        // While an image was kept each change was put down but those behind the server's back, after which no client edits its copy.
        std::cmp::Ordering::Less if known.kept > 0 => may_be_another.then_some(Doubt::Told),
        // The last change may have been one that its client has made in its copy of the version before.
        std::cmp::Ordering::Less => {
            (may_be_another || known.version.next() == version).then_some(Doubt::Told)
        }
    }
}

impl Entered {
    /// Edits have led to this version of the image.
    pub(super) fn come_to(&mut self, version: Version) {
        self.is_compact &= version == self.version;
        self.version = version;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut all = self.layouts.lock();
        let Some(known) = all.get_mut(&self.key) else { return };
        known.kept -= 1;
        if known.version < self.version {
            (known.version, known.is_compact) = (self.version, self.is_compact);
        } else if known.version == self.version {
            known.is_compact &= self.is_compact;
        }
    }
}

impl std::fmt::Debug for Layouts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Layouts").finish_non_exhaustive()
    }
}

/// Directories that are remembered; beyond that half of those of which no image is kept are forgotten.
const KNOWN_MAX: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(count: u32) -> Version {
        Version { generation: 9, count }
    }

    fn known(count: u32, is_compact: bool, kept: u32) -> Known {
        Known { version: at(count), is_compact, kept }
    }

    #[test]
    fn what_an_earlier_process_served_and_changed_may_lie_otherwise() {
        assert_eq!(doubt(None, at(0), false), None);
        assert_eq!(doubt(None, at(1), false), Some(Doubt::Told));
        assert_eq!(doubt(None, at(4096), false), None);
        assert_eq!(doubt(None, at(0), true), Some(Doubt::Told));
    }

    #[test]
    fn a_compact_image_is_made_again_and_one_that_was_edited_is_not() {
        for kept in [0, 1] {
            assert_eq!(doubt(Some(&known(5, true, kept)), at(5), false), None);
            assert_eq!(doubt(Some(&known(5, false, kept)), at(5), false), Some(Doubt::Told));
            assert_eq!(doubt(Some(&known(6, true, kept)), at(5), false), Some(Doubt::Overtaken));
        }
    }

    #[test]
    fn a_client_that_has_the_version_before_edits_it_unless_all_changes_were_put_down() {
        assert_eq!(doubt(Some(&known(4, true, 0)), at(5), false), Some(Doubt::Told));
        assert_eq!(doubt(Some(&known(4, true, 1)), at(5), false), None);
        assert_eq!(doubt(Some(&known(4, true, 1)), at(5), true), Some(Doubt::Told));
        assert_eq!(doubt(Some(&known(3, true, 0)), at(5), false), None);
        assert_eq!(doubt(Some(&known(3, true, 0)), at(5), true), Some(Doubt::Told));
    }
}
