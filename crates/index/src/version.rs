//! Versions of contents and of directories.

/// A generation and a count of changes in it. What had a version never has it again with another content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Rises each time the volume is opened, and is at least the time of day in seconds then.
    pub generation: u32,
    /// Changes in this generation.
    pub count: u32,
}

impl Version {
    /// The one after it: a change adds exactly 1.
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
