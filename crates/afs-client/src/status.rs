//! A file's status in the terms of its users.

use afs_wire::{
    FILE_TYPE_DIRECTORY, FILE_TYPE_FILE, FILE_TYPE_SYMBOLIC_LINK, Fid, SET_MOD_TIME, SET_MODE, Status,
    StoreStatus,
};

/// Type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// A file with bytes.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A mount point: a link by its type, without any right to execute, whose text names a volume.
    MountPoint,
    /// A type that the protocol does not know.
    Other(u32),
}

/// A file's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Type of the file.
    pub kind: FileType,
    /// The file's length in bytes; of a directory those of its pages.
    pub length: u64,
    /// Higher with every change of its content.
    pub data_version: u64,
    /// Names that it has.
    pub links: u32,
    /// AFS id of its owner.
    pub owner: u32,
    /// AFS id of its group.
    pub group: u32,
    /// Permission bits.
    pub mode: u32,
    /// Time when a client last changed it, in seconds since 1970.
    pub modified: u32,
    /// Rights of the caller: bits of `rlidwka`, r the lowest but for lookup.
    pub rights: u32,
}

impl Metadata {
    /// Reads what a server sent.
    pub fn of(status: &Status) -> Self {
        let mode = status.unix_mode_bits & 0o7777;
        Self {
            kind: match status.file_type {
                FILE_TYPE_FILE => FileType::File,
                FILE_TYPE_DIRECTORY => FileType::Directory,
                FILE_TYPE_SYMBOLIC_LINK if mode & 0o111 == 0 => FileType::MountPoint,
                FILE_TYPE_SYMBOLIC_LINK => FileType::Link,
                other => FileType::Other(other),
            },
            length: u64::from(status.length_high) << 32 | u64::from(status.length_low),
            data_version: status.data_version(),
            links: status.link_count,
            owner: status.owner,
            group: status.group,
            mode,
            modified: status.client_mod_time,
            rights: status.caller_access,
        }
    }

    /// Returns whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == FileType::Directory
    }
}

/// Returns the status of a new file: permission bits and, if given, the time of its last change.
pub fn of_new(mode: u32, modified: Option<u32>) -> StoreStatus {
    let time = if modified.is_some() { SET_MOD_TIME } else { 0 };
    StoreStatus {
        mask: SET_MODE | time,
        client_mod_time: modified.unwrap_or_default(),
        unix_mode_bits: mode & 0o7777,
        ..StoreStatus::default()
    }
}

/// Returns the root directory of a volume.
pub(crate) fn root_of(volume: u32) -> Fid {
    Fid { volume, vnode: 1, uniquifier: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_links_that_nobody_may_execute() {
        let link = |mode| {
            Metadata::of(&Status {
                file_type: FILE_TYPE_SYMBOLIC_LINK,
                unix_mode_bits: mode,
                ..Status::default()
            })
        };
        assert_eq!(link(0o755).kind, FileType::Link);
        assert_eq!(link(0o644).kind, FileType::MountPoint);
    }

    #[test]
    fn lengths_and_versions_have_64_bits() {
        let status = Status {
            length_low: 1,
            length_high: 2,
            data_version_low: 3,
            data_version_high: 4,
            ..Status::default()
        };
        let found = Metadata::of(&status);
        assert_eq!((found.length, found.data_version), ((2 << 32) + 1, (4 << 32) + 3));
    }
}
