//! Versions of contents and of directories.

/// Version of a content or directory: a generation and a count of changes in it. No two contents of a file
/// ever have the same version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Generation, which rises each time the volume is opened, to at least the time of day in seconds.
    pub generation: u32,
    /// Number of changes in the generation.
    pub count: u32,
}

impl Version {
    /// Returns the version after this one: a change adds exactly 1.
    ///
    /// # Panics
    /// After the last count of the last generation.
    #[must_use]
    pub fn next(self) -> Self {
        Self::from(u64::from(self).checked_add(1).expect("2^32 changes a second until the year 2106"))
    }
}

impl From<u64> for Version {
    fn from(word: u64) -> Self {
        Self { generation: (word >> 32) as u32, count: word as u32 }
    }
}

impl From<Version> for u64 {
    fn from(version: Version) -> Self {
        Self::from(version.generation) << 32 | Self::from(version.count)
    }
}
