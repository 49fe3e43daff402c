//! Findings of a walk through a tree without changes: by the same rules as the count of one that is served.

use std::collections::HashSet;

use index::Usage;
use lane::fs::FileKind;

use super::CountedFile;
use crate::attributes::Attributes;

/// Findings so far.
#[derive(Debug, Default)]
pub(crate) struct UsageTally {
    used: Usage,
    /// Inodes that have several names, one of which was found.
    linked: HashSet<u64>,
}

impl UsageTally {
    /// Counts something that has a name. Returns whether it is counted by this one.
    pub(crate) fn add(&mut self, found: Attributes) -> bool {
        // A directory's links are its own entries.
        let is_directory = found.kind == FileKind::Directory;
        let CountedFile { inode, links, size, .. } = found.into();
        let is_counted = is_directory || links <= 1 || self.linked.insert(inode);
        if is_counted {
            self.used.files += 1;
            self.used.bytes += size;
        }
        is_counted
    }

    /// Something has so many bytes of attributes.
    pub(crate) fn add_attributes(&mut self, bytes: u64) {
        self.used.bytes += bytes;
    }

    /// Returns the usage of all that was counted.
    pub(crate) fn used(&self) -> Usage {
        self.used
    }
}
