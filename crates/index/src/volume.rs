//! Records of volumes, and their answers on opening.

use crate::codec::Fields;
use crate::volume_id::VolumeId;
use crate::{Error, Mark, Version};

/// Tree that is to be opened as a volume.
#[derive(Clone, Copy, Debug)]
pub struct Tree<'t> {
    /// Name of the volume; at most 80 bytes.
    pub name: &'t str,
    /// Path of the tree; at most 4,096 bytes.
    pub path: &'t str,
    /// Mark that the tree's root has.
    pub mark: Option<&'t [u8]>,
    /// Random UUID for the volume, if it is a new one.
    pub uuid_if_new: [u8; 16],
}

/// Record of a volume in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// UUID of the volume, made once.
    pub uuid: [u8; 16],
    /// Name of the volume; at most 80 bytes.
    pub name: String,
    /// Path of the tree when the volume was last opened.
    pub path: String,
    /// Time of creation, in seconds since 1970.
    pub created: i64,
    /// Generation that the volume was last opened with.
    pub generation: u32,
    /// Usage, as last counted.
    pub usage: Usage,
    /// Set if this server has not changed the volume since `usage` was counted at an orderly close.
    pub usage_is_settled: bool,
    /// Quota of the volume.
    pub quota: Quota,
    /// Set if access lists or descriptors have lain in the volume.
    pub has_rights: bool,
    /// False when no file of the volume has extended attributes that count as usage.
    pub has_attributes: bool,
    /// Generation from which on versions count on by one, over stops after which nothing can have been set
    /// back; 0 makes the next opening begin a generation.
    pub(crate) counts_from: u32,
    /// Generation before which records are not believed.
    pub(crate) distrusts_before: u32,
    /// Generation of the last mark on the root: a root with an earlier one was set back.
    pub(crate) marked: u32,
    /// Set if all files that exist at the next opening are distrusted.
    pub(crate) distrust_all: bool,
    /// Counters below which numbers of directories may have been given out.
    pub(crate) directories_to: u64,
    pub(crate) files_to: u64,
}

/// Usage of a volume, as counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Sum of the lengths of the volume's files and of their extended attributes, in bytes.
    pub bytes: u64,
    /// Number of files, directories and links.
    pub files: u64,
}

/// Quota of a volume; a part of `None` has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Most bytes, as [`Usage::bytes`] counts them.
    pub bytes: Option<u64>,
    /// Most files, directories and links.
    pub files: Option<u64>,
}

/// Answer of [`crate::Index::open_volume`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedVolume {
    /// Number of the volume.
    pub volume: VolumeId,
    /// Mark for the caller to write to the root and sync, then pass to [`crate::Index::marked`], before
    /// anything is served.
    pub mark: Mark,
    /// Least version that a change brings, and that of a new file.
    pub first: Version,
    /// Set if the mark was ahead of the index's record, or had none: numbers and versions go on above the
    /// mark.
    pub index_was_behind: bool,
    /// Set if the root had a later mark before: the tree was set back. Its files have other numbers now,
    /// as the file system may have given what named one file of then to another since.
    pub tree_was_behind: bool,
    /// Usage at the volume's last orderly close, if it was counted then. From here on the recorded one no
    /// longer counts.
    pub usage: Option<Usage>,
    /// Generation of the first opening since the machine lost power or the index was lost; 0 if neither ever
    /// happened. Of content that is older the disk may have the time without the bytes, or the bytes without
    /// the time.
    pub distrusts_before: u32,
    /// Generation of the opening before this one, where index and tree agree on it: that server was the last
    /// to have the volume.
    pub generation_before: Option<u32>,
}

/// Relation of a volume's record and the mark on its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Mark and index agree.
    Agrees,
    /// The mark is another volume's.
    Another,
    /// The mark is ahead: the index was set back. The next opening goes on above the mark.
    IndexBehind,
    /// The root had a later mark: the tree was set back. The next opening gives its files new numbers.
    TreeBehind,
}

impl VolumeRecord {
    pub(crate) fn mark(&self, volume: VolumeId) -> Mark {
        Mark {
            volume,
            generation: self.generation,
            uuid: self.uuid,
            directories_to: self.directories_to,
            files_to: self.files_to,
            rights: None,
        }
    }

    /// Returns the least version that a change brings since the last opening.
    pub(crate) fn first(&self) -> Version {
        Version { generation: self.counts_from, count: 0 }
    }

    /// Returns whether the mark is ahead of the record.
    pub(crate) fn is_behind(&self, mark: &Mark) -> bool {
        mark.generation > self.generation
            || mark.directories_to > self.directories_to
            || mark.files_to > self.files_to
    }

    /// Returns whether the root had a later mark than this.
    pub(crate) fn is_ahead_of(&self, mark: &Mark) -> bool {
        mark.generation < self.marked
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(99 + self.name.len() + self.path.len());
        value.extend(self.uuid);
        value.extend(self.generation.to_le_bytes());
        value.extend(self.counts_from.to_le_bytes());
        value.extend(self.distrusts_before.to_le_bytes());
        value.extend(self.marked.to_le_bytes());
        value.extend(self.directories_to.to_le_bytes());
        value.extend(self.files_to.to_le_bytes());
        value.extend(self.usage.bytes.to_le_bytes());
        value.extend(self.usage.files.to_le_bytes());
        value.extend(self.quota.bytes.unwrap_or(NO_LIMIT).to_le_bytes());
        value.extend(self.quota.files.unwrap_or(NO_LIMIT).to_le_bytes());
        value.extend(self.created.to_le_bytes());
        value.push(
            u8::from(self.distrust_all)
                | u8::from(self.usage_is_settled) << 1
                | u8::from(self.has_rights) << 2
                | COUNTS_ATTRIBUTES
                | u8::from(self.has_attributes) << 4,
        );
        value
            .extend(u16::try_from(self.name.len()).expect("names were checked when they came").to_le_bytes());
        value.extend(self.name.as_bytes());
        value.extend(self.path.as_bytes());
        value
    }

    pub(crate) fn decode(value: &[u8], format: u32) -> Result<Self, Error> {
        let mut fields = Fields::of(value, "a volume's record");
        let uuid = fields.array()?;
        let generation = fields.u32()?;
        // Of an index that did not say, every opening began a generation.
        let counts_from = if format < 2 { 0 } else { fields.u32()? };
        let distrusts_before = fields.u32()?;
        let marked = fields.u32()?;
        let (directories_to, files_to) = (fields.u64()?, fields.u64()?);
        let usage = Usage { bytes: fields.u64()?, files: fields.u64()? };
        let mut limit = || fields.u64().map(|limit| (limit != NO_LIMIT).then_some(limit));
        let quota = Quota { bytes: limit()?, files: limit()? };
        let created = fields.i64()?;
        let flags = fields.u8()?;
        let (distrust_all, has_rights) = (flags & 1 != 0, flags & 4 != 0);
        // Earlier servers counted no attributes, and did not look for them.
        let counts_attributes = flags & COUNTS_ATTRIBUTES != 0;
        let usage_is_settled = counts_attributes && flags & 2 != 0;
        let has_attributes = !counts_attributes || flags & 16 != 0;
        let len = fields.u16()?;
        let name = Fields::text(fields.bytes(len.into())?, "a volume's name")?;
        let path = Fields::text(fields.rest(), "a volume's path")?;
        Ok(Self {
            uuid,
            name,
            path,
            created,
            generation,
            usage,
            usage_is_settled,
            quota,
            has_rights,
            has_attributes,
            counts_from,
            distrusts_before,
            marked,
            distrust_all,
            directories_to,
            files_to,
        })
    }
}

const NO_LIMIT: u64 = u64::MAX;
/// Flag of records whose usage counts extended attributes.
const COUNTS_ATTRIBUTES: u8 = 8;
