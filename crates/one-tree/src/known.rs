//! Defects that are known: a run can look past them for others.

/// A defect, by what is seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Removed files stay open.
    RemovedFiles,
    /// The version of a file rises when a local program changes its names or mode alone.
    LocalVersions,
    /// Listings tell an old length.
    ListedLengths,
    /// Removed files are found by their numbers.
    FoundWhenGone,
    /// AFS clients are not told of what changes a status alone (names and mode), nor that a file is gone.
    UntoldStatus,
    /// The index has records of files that are gone.
    Records,
    /// The index has records of removed files that were open when the server was killed.
    RecordsOfOpens,
    /// After a loss of power a strong entity tag may stand for other bytes: of an unsynced write the disk may have the time alone, or the
    /// bytes alone.
    TagsAfterPower,
}

impl Known {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::RemovedFiles,
        Self::LocalVersions,
        Self::ListedLengths,
        Self::FoundWhenGone,
        Self::UntoldStatus,
        Self::Records,
        Self::RecordsOfOpens,
        Self::TagsAfterPower,
    ];

    /// As command lines have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RemovedFiles => "removed-files",
            Self::LocalVersions => "local-versions",
            Self::ListedLengths => "listed-lengths",
            Self::FoundWhenGone => "found-when-gone",
            Self::UntoldStatus => "untold-status",
            Self::Records => "records",
            Self::RecordsOfOpens => "records-of-opens",
            Self::TagsAfterPower => "tags-after-power",
        }
    }
}
