//! Contents of a listing: the entries of a directory, shared with the cache, and the few that were added to
//! them.

use std::rc::Rc;

use super::row::Row;
use super::{Order, Orders};

/// The name of a mount point, which no directory's listing holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Name of the entry ([`Row::name`]).
    pub name: Vec<u8>,
    /// Set for a directory ([`Row::directory`]).
    pub directory: bool,
    /// Size of the entry ([`Row::size`]).
    pub size: u64,
    /// Time of the last change ([`Row::modified_s`]).
    pub modified_s: Option<i64>,
}

/// A directory to be shown. It holds no copy of the directory's entries.
#[derive(Clone, Debug)]
pub struct Listing {
    path: Box<[u8]>,
    order: Order,
    listed: Option<ListedRow>,
    /// Added entries in order. Each takes the place of an entry with its name.
    added: Vec<MountEntry>,
}

#[derive(Clone, Debug)]
struct ListedRow {
    entries: vfs::Listing,
    order: Rc<[u32]>,
}

/// A place between two rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowPosition {
    listed: usize,
    added: usize,
}

impl Listing {
    /// Shows `added` alone, at `path`: below the root, decoded, without slashes at its ends, empty for the root.
    pub fn of_entries(path: &[u8], order: Order, mut added: Vec<MountEntry>) -> Self {
        added.sort_by(|a, b| order.compare(a.into(), b.into()));
        Self { path: path.into(), order, listed: None, added }
    }

    /// Shows a directory, with `added` in the places of the entries of those names.
    pub async fn of_directory(
        path: &[u8],
        order: Order,
        entries: vfs::Listing,
        added: Vec<MountEntry>,
    ) -> Self {
        let sorted = entries.derived::<Orders>().get(&entries, order).await;
        let listed = Some(ListedRow { entries, order: sorted });
        Self { listed, ..Self::of_entries(path, order, added) }
    }

    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    pub(super) fn order(&self) -> Order {
        self.order
    }

    /// Returns the next row, behind which `place` then is.
    pub(super) fn next(&self, place: &mut RowPosition) -> Option<Row<'_>> {
        let added = self.added.get(place.added).map(Row::from);
        let listed = self.listed(place);
        let is_added = match (listed, added) {
            (Some(listed), Some(added)) => self.order.compare(added, listed).is_lt(),
            (listed, _) => listed.is_none(),
        };
        if is_added {
            place.added += usize::from(added.is_some());
            return added;
        }
        place.listed += 1;
        listed
    }

    /// Returns the next of the directory's own entries that nothing was put in the place of.
    fn listed(&self, place: &mut RowPosition) -> Option<Row<'_>> {
        let ListedRow { entries, order } = self.listed.as_ref()?;
        loop {
            let row = Row::from(&entries[*order.get(place.listed)? as usize]);
            if !self.added.iter().any(|added| added.name == row.name) {
                return Some(row);
            }
            place.listed += 1;
        }
    }
}

impl<'a> From<&'a MountEntry> for Row<'a> {
    fn from(entry: &'a MountEntry) -> Self {
        let MountEntry { name, directory, size, modified_s } = entry;
        Self { name, directory: *directory, size: *size, modified_s: *modified_s }
    }
}
