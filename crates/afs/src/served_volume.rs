//! Volumes as AFS knows them: their types, numbers and names.

use std::rc::Rc;

use vfs::Volume;

/// The type of a volume as AFS counts them: read-write, read-only or backup. Only the first can be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VolumeType {
    /// The tree.
    #[default]
    ReadWrite,
    /// The tree as its read-only copy: nothing of it can be changed.
    ReadOnly,
    /// A copy under the volume's backup number.
    Backup,
}

/// A volume as the location and volume servers list it: one that is served, or a synthetic one ([`roots`](crate::roots)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeEntry {
    /// The volume's name for AFS.
    pub name: Rc<str>,
    /// Type that clients see.
    pub kind: VolumeType,
    /// The number of the tree; the copies' follow.
    pub first: u32,
    /// The file system it lies on, as of [`ServedVolume`].
    pub partition: u8,
}

/// A volume of the lane.
#[derive(Debug)]
pub struct ServedVolume {
    /// The volume's name for AFS.
    pub name: Rc<str>,
    /// The tree.
    pub volume: Volume,
    /// Type that clients see.
    pub kind: VolumeType,
    /// The number of the tree; the copies' follow.
    pub first: u32,
    /// The file system it lies on, counted from 0: what AFS calls a partition.
    pub partition: u8,
}

impl VolumeType {
    /// All, by their numbers' order.
    pub const ALL: [Self; 3] = [Self::ReadWrite, Self::ReadOnly, Self::Backup];

    /// Returns the distance from the volume's first number, which is also how AFS's interfaces number kinds.
    pub fn index(self) -> u32 {
        match self {
            Self::ReadWrite => 0,
            Self::ReadOnly => 1,
            Self::Backup => 2,
        }
    }

    /// Returns the suffix of the volume's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::ReadWrite => "",
            Self::ReadOnly => ".readonly",
            Self::Backup => ".backup",
        }
    }

    /// Splits a name into what stands before its suffix, and the type that the suffix names.
    pub fn of_name(name: &str) -> (&str, Self) {
        let ends = [Self::ReadOnly, Self::Backup].into_iter();
        let mut found = ends.filter_map(|kind| Some((name.strip_suffix(kind.suffix())?, kind)));
        found.next().filter(|(stem, _)| !stem.is_empty()).unwrap_or((name, Self::ReadWrite))
    }
}

impl ServedVolume {
    /// Returns the number of the type that clients see.
    pub fn id(&self) -> u32 {
        self.first + self.kind.index()
    }

    /// Returns the entry that clients get.
    pub fn known(&self) -> VolumeEntry {
        let Self { ref name, kind, first, partition, .. } = *self;
        VolumeEntry { name: Rc::clone(name), kind, first, partition }
    }
}

impl VolumeEntry {
    /// Returns the number of the type that clients see.
    pub fn id(&self) -> u32 {
        self.first + self.kind.index()
    }

    /// Returns the volume's name with the suffix of a copy, as tools show it.
    pub fn full_name(&self) -> String {
        format!("{}{}", self.name, self.kind.suffix())
    }
}
