//! Rows of a listing, and their sums.

use service::datetime::{DateTime, UNIX_S_MAX};

/// One name that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The name as the file system has it; any bytes but `/` and NUL.
    pub name: &'a [u8],
    /// File or directory. Nothing else is ever listed.
    pub directory: bool,
    /// Bytes; 0 for a directory.
    pub size: u64,
    /// Last change, seconds since 1970; a directory that exists only as the way to a mount has none.
    pub modified_s: Option<i64>,
}

/// Sums over the rows written so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ListingTotals {
    pub(super) directories: usize,
    pub(super) files: usize,
    pub(super) bytes: u64,
}

impl Row<'_> {
    /// Returns the time that is shown: one that four digits and no sign can tell.
    pub(super) fn modified(&self) -> Option<DateTime> {
        self.modified_s.filter(|at| (0..=UNIX_S_MAX).contains(at)).map(DateTime::from_unix)
    }
}

impl<'a> From<&'a vfs::Entry> for Row<'a> {
    fn from(entry: &'a vfs::Entry) -> Self {
        let directory = entry.attributes.is_directory();
        Self {
            name: &entry.name,
            directory,
            size: if directory { 0 } else { entry.attributes.size },
            modified_s: Some(entry.attributes.mtime.secs),
        }
    }
}

impl ListingTotals {
    pub(super) fn entries(self) -> usize {
        self.directories + self.files
    }

    pub(super) fn count(&mut self, row: Row<'_>) {
        if row.directory {
            self.directories += 1;
        } else {
            self.files += 1;
        }
        self.bytes = self.bytes.saturating_add(row.size);
    }
}
