//! Versions of directories whose pages clients may have: one table for all lanes.
//!
//! A client edits its copy of a directory when a reply has the version after its own. It takes all contents of one
//! version for the same, whenever they come. So a version has one image: all readers of the directory at that version
//! look at the same bytes, and an image of the next is the one before with the change made in it. An image of names
//! alone, in their order, is *compact*: the same names give the same bytes on each lane and after each start. One that
//! changes were made in is not: where no image of it is left, it cannot be made again. Then the directory gets another
//! version, which no client has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use vfs::{History, Number, Version, VolumeId};

/// The volume and number of a directory.
pub(super) type DirKey = (VolumeId, Number);

/// Records for each directory which pages clients may have fetched. One for a process; clones are handles to the same.
#[derive(Clone, Default)]
pub struct DirPageVersions {
    known: Arc<Mutex<HashMap<DirKey, PublishedPages>>>,
}

/// The latest pages of one directory that were published to clients.
struct PublishedPages {
    /// The latest version of which there is or was an image, but for those that edits have led to and that are still kept: of these the log
    /// of the directory knows ([`History::may_be_another`]), which is there as long as one is kept.
    version: Version,
    /// The image of that version was compact.
    is_compact: bool,
    /// Images that lanes keep.
    kept: u32,
}

/// Reason why a compact image cannot be that of the version of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionConflict {
    /// Clients may have another image of that version, or one of the version before that they edit.
    Published,
    /// An image of a later version exists.
    Superseded,
}

/// Registration of the pages that a lane keeps of a directory, until it is dropped.
pub(super) struct RegisteredPages {
    dir_page_versions: DirPageVersions,
    key: DirKey,
    /// The version that the image has come to.
    pub(super) version: Version,
    is_compact: bool,
}

impl DirPageVersions {
    /// Returns whether a compact image of this version is sure to be refused.
    pub(super) fn is_conflicting(&self, key: DirKey, version: Version) -> bool {
        conflict(self.lock().get(&key), version, false) == Some(VersionConflict::Published)
    }

    /// Registers a compact image of these names that a lane keeps. `is_new`: no client has seen their version before.
    pub(super) fn register(
        &self,
        key: DirKey,
        history: &History,
        is_new: bool,
    ) -> Result<RegisteredPages, VersionConflict> {
        let version = history.version();
        let may_be_another = history.may_be_another();
        let mut all = self.lock();
        match conflict(all.get(&key), version, may_be_another) {
            Some(VersionConflict::Published)
                if is_new && all.get(&key).is_none_or(|known| known.version < version) => {}
            Some(conflict) => return Err(conflict),
            None => {}
        }
        if all.len() >= KNOWN_MAX && !all.contains_key(&key) {
            let mut is_kept = false;
            all.retain(|_, known| {
                is_kept = !is_kept;
                known.kept > 0 || is_kept
            });
        }
        let known = all.entry(key).or_insert(PublishedPages { version, is_compact: true, kept: 0 });
        (known.version, known.is_compact) = (version, true);
        known.kept += 1;
        drop(all);
        Ok(RegisteredPages { dir_page_versions: self.clone(), key, version, is_compact: true })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<DirKey, PublishedPages>> {
        self.known.lock().expect("nobody panics while holding it")
    }
}

/// Returns what is in the way of a compact image of a version. `may_be_another`: edits have led to the
/// version.
fn conflict(
    known: Option<&PublishedPages>,
    version: Version,
    may_be_another: bool,
) -> Option<VersionConflict> {
    let Some(known) = known else {
        // An earlier server may have published any image, but of what has not changed since it was read.
        return (!vfs::is_unchanged_since_read(version) || may_be_another)
            .then_some(VersionConflict::Published);
    };
    match known.version.cmp(&version) {
        std::cmp::Ordering::Greater => Some(VersionConflict::Superseded),
        std::cmp::Ordering::Equal => (!known.is_compact).then_some(VersionConflict::Published),
        // While an image was kept each change was put down but those behind the server's back, after which no client edits its copy.
        std::cmp::Ordering::Less if known.kept > 0 => may_be_another.then_some(VersionConflict::Published),
        // The last change may have been one that its client has made in its copy of the version before.
        std::cmp::Ordering::Less => {
            (may_be_another || known.version.next() == version).then_some(VersionConflict::Published)
        }
    }
}

impl RegisteredPages {
    /// Edits have led to this version of the image.
    pub(super) fn advance_to(&mut self, version: Version) {
        self.is_compact &= version == self.version;
        self.version = version;
    }
}

impl Drop for RegisteredPages {
    fn drop(&mut self) {
        let mut all = self.dir_page_versions.lock();
        let Some(known) = all.get_mut(&self.key) else { return };
        known.kept -= 1;
        if known.version < self.version {
            (known.version, known.is_compact) = (self.version, self.is_compact);
        } else if known.version == self.version {
            known.is_compact &= self.is_compact;
        }
    }
}

impl std::fmt::Debug for DirPageVersions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirPageVersions").finish_non_exhaustive()
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

    fn known(count: u32, is_compact: bool, kept: u32) -> PublishedPages {
        PublishedPages { version: at(count), is_compact, kept }
    }

    #[test]
    fn what_an_earlier_process_served_and_changed_may_lie_otherwise() {
        assert_eq!(conflict(None, at(0), false), None);
        assert_eq!(conflict(None, at(1), false), Some(VersionConflict::Published));
        assert_eq!(conflict(None, at(4096), false), None);
        assert_eq!(conflict(None, at(0), true), Some(VersionConflict::Published));
    }

    #[test]
    fn a_compact_image_is_made_again_and_one_that_was_edited_is_not() {
        for kept in [0, 1] {
            assert_eq!(conflict(Some(&known(5, true, kept)), at(5), false), None);
            assert_eq!(
                conflict(Some(&known(5, false, kept)), at(5), false),
                Some(VersionConflict::Published)
            );
            assert_eq!(
                conflict(Some(&known(6, true, kept)), at(5), false),
                Some(VersionConflict::Superseded)
            );
        }
    }

    #[test]
    fn a_client_that_has_the_version_before_edits_it_unless_all_changes_were_put_down() {
        assert_eq!(conflict(Some(&known(4, true, 0)), at(5), false), Some(VersionConflict::Published));
        assert_eq!(conflict(Some(&known(4, true, 1)), at(5), false), None);
        assert_eq!(conflict(Some(&known(4, true, 1)), at(5), true), Some(VersionConflict::Published));
        assert_eq!(conflict(Some(&known(3, true, 0)), at(5), false), None);
        assert_eq!(conflict(Some(&known(3, true, 0)), at(5), true), Some(VersionConflict::Published));
    }
}
