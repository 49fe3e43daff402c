//! Volumes as commands and the console show them.

use std::path::PathBuf;

use index::{VolumeId, VolumeRecord};
use serde::{Deserialize, Serialize};
use vfs::{Space, SpaceState, Usage};

/// Volume as the index knows it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct VolumeShown {
    /// Name of the volume.
    pub name: String,
    /// Number of the volume, for ever; 0 for one that no index can keep.
    pub id: u32,
    /// Path of the directory when it was last opened.
    pub path: PathBuf,
    /// Time of creation, in seconds since 1970.
    pub created: i64,
    /// Generation, which rises each time the volume is opened.
    pub generation: u32,
    /// Set if a server serves the volume.
    pub served: bool,
    /// Set if a server serves the volume to users that may change it, but for [`trouble`](Self::trouble).
    pub writable: bool,
    /// Trouble that prevents changes of the volume, or with its mark.
    pub trouble: Option<String>,
    /// Usage of the volume, where it was ever counted.
    pub usage: Option<UsageShown>,
}

/// Usage and quota of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageShown {
    /// Sum of the lengths of the volume's files, in bytes.
    pub bytes: u64,
    /// Number of files, directories and links.
    pub files: u64,
    /// Most bytes; absent for no limit.
    pub quota_bytes: Option<u64>,
    /// Most files, directories and links; absent for no limit.
    pub quota_files: Option<u64>,
    /// State of the count.
    pub state: UsageState,
}

/// State of counting a volume's usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageState {
    /// The figures are the present usage.
    Counted,
    /// The figures are those of the last count; something may have changed since.
    Earlier,
    /// The figures are those of a count under way, after so many directories.
    Counting {
        /// Number of directories counted.
        directories: u64,
    },
    /// The figures are in doubt, and are to be counted again.
    InDoubt,
}

impl VolumeShown {
    /// Converts a record, without a look at the tree.
    pub(crate) fn of(id: VolumeId, record: &VolumeRecord) -> Self {
        Self {
            name: record.name.clone(),
            id: id.0,
            path: record.path.clone().into(),
            created: record.created,
            generation: record.generation,
            served: false,
            writable: false,
            trouble: None,
            usage: UsageShown::of_record(record),
        }
    }
}

impl UsageShown {
    /// Makes the usage of a served volume.
    pub(crate) fn of_served(space: Space) -> Self {
        let Space { used: Usage { bytes, files }, quota, state } = space;
        let state = match state {
            SpaceState::Counted => UsageState::Counted,
            SpaceState::Counting { directories } => UsageState::Counting { directories },
            SpaceState::InDoubt => UsageState::InDoubt,
        };
        Self { bytes, files, quota_bytes: quota.bytes, quota_files: quota.files, state }
    }

    /// Makes the usage that the index remembers; `None` for a volume that was never counted.
    fn of_record(record: &VolumeRecord) -> Option<Self> {
        let Usage { bytes, files } = record.usage;
        let state = if record.usage_is_settled { UsageState::Counted } else { UsageState::Earlier };
        let is_known = record.usage_is_settled || record.usage != Usage::default();
        is_known.then_some(Self { bytes, files, quota_bytes: None, quota_files: None, state })
    }
}
