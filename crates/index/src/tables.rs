//! The tables of the file (`docs/design/index.md`, "The file").

use std::ops::RangeInclusive;

use redb::TableDefinition;

/// Name to bytes: `format`, `run`, `volumes`, `commits`.
pub(crate) const STATE: TableDefinition<&str, &[u8]> = TableDefinition::new("state");
/// Volume to its record.
pub(crate) const VOLUMES: TableDefinition<u32, &[u8]> = TableDefinition::new("volumes");
/// Volume and vnode to the object's record.
pub(crate) const OBJECTS: TableDefinition<(u32, u32), &[u8]> = TableDefinition::new("objects");
/// Volume and identity to vnode.
pub(crate) const IDENTITIES: TableDefinition<(u32, &[u8]), u32> = TableDefinition::new("identities");
/// Volume and path to what is known of a directory that has a list of its own.
pub(crate) const LISTS: TableDefinition<(u32, &[u8]), &[u8]> = TableDefinition::new("lists");
/// Entries of [`LISTS`] whose lists the disk may not have yet, to the boot in which they were told.
pub(crate) const LISTS_UNSYNCED: TableDefinition<(u32, &[u8]), &[u8; 16]> =
    TableDefinition::new("lists_unsynced");
/// A host's uuid to its record.
pub(crate) const HOSTS: TableDefinition<&[u8; 16], &[u8]> = TableDefinition::new("hosts");

/// Keys of [`STATE`].
pub(crate) const FORMAT_KEY: &str = "format";
pub(crate) const RUN_KEY: &str = "run";
pub(crate) const NEXT_VOLUME_KEY: &str = "volumes";
pub(crate) const COMMITS_KEY: &str = "commits";

/// The layout that this program writes.
pub(crate) const FORMAT: u32 = 2;
/// Formats that this version reads: what is of an earlier one is written anew as it is opened.
pub(crate) const FORMATS: RangeInclusive<u32> = 1..=FORMAT;
