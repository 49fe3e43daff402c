//! Tables of the file (`docs/design/index.md`, "The file").

use std::ops::RangeInclusive;

use redb::TableDefinition;

/// Table of the index's state, from name to bytes: `format`, `run`, `volumes`, `commits`.
pub(crate) const STATE: TableDefinition<&str, &[u8]> = TableDefinition::new("state");
/// Table of volume records by volume.
pub(crate) const VOLUMES: TableDefinition<u32, &[u8]> = TableDefinition::new("volumes");
/// Table of object records by volume and vnode.
pub(crate) const OBJECTS: TableDefinition<(u32, u32), &[u8]> = TableDefinition::new("objects");
/// Table of vnodes by volume and identity.
pub(crate) const IDENTITIES: TableDefinition<(u32, &[u8]), u32> = TableDefinition::new("identities");
/// Table of directories with lists of their own, by volume and path.
pub(crate) const LISTS: TableDefinition<(u32, &[u8]), &[u8]> = TableDefinition::new("lists");
/// Table of the entries of [`LISTS`] that the disk may not have yet, each with the boot of its change.
pub(crate) const LISTS_UNSYNCED: TableDefinition<(u32, &[u8]), &[u8; 16]> =
    TableDefinition::new("lists_unsynced");
/// Table of host records by UUID.
pub(crate) const HOSTS: TableDefinition<&[u8; 16], &[u8]> = TableDefinition::new("hosts");

/// Key of the format in [`STATE`].
pub(crate) const FORMAT_KEY: &str = "format";
pub(crate) const RUN_KEY: &str = "run";
pub(crate) const NEXT_VOLUME_KEY: &str = "volumes";
pub(crate) const COMMITS_KEY: &str = "commits";

/// Layout that this program writes.
pub(crate) const FORMAT: u32 = 2;
/// Layouts that this program reads: an earlier one is rewritten as it is opened.
pub(crate) const FORMATS: RangeInclusive<u32> = 1..=FORMAT;
