//! A directory that is too large to be sorted: its entries come part by part, in the order of the file system.

use std::fmt;
use std::rc::Rc;

use lane::budget::Share;
use service::memory::{Account, Charge};

use super::contents::MountEntry;
use super::row::Row;

/// Entries that were read and are not rendered yet.
#[derive(Default)]
struct ListingPart {
    entries: Vec<vfs::Entry>,
    shown: usize,
    /// Charge of their memory, where there are many.
    _held: Option<Charge>,
}

/// Part of a large directory that is shown from a position on. It holds a descriptor, and of the entries one
/// part.
#[derive(Debug)]
pub struct Streamed {
    path: Box<[u8]>,
    parts: vfs::DirectoryParts,
    /// Shown first, each in the place of an entry with its name.
    added: Vec<MountEntry>,
    added_shown: usize,
    part: ListingPart,
    has_ended: bool,
    /// Entries that it may have.
    entries_max: usize,
    entries: usize,
    /// Descriptor, counted in the client's share.
    _descriptor: Share,
}

impl Streamed {
    /// Shows `parts` of the directory at `path` (as [`Listing::of_entries`](super::Listing::of_entries)). `added` is shown where they
    /// begin at the directory's start, and hides entries with its names everywhere.
    ///
    /// More than `entries_max` entries are an error once that many were shown.
    pub fn new(
        path: &[u8],
        parts: vfs::DirectoryParts,
        added: Vec<MountEntry>,
        entries_max: usize,
        descriptor: Share,
    ) -> Self {
        let added_shown = if parts.position() == 0 { 0 } else { added.len() };
        Self {
            path: path.into(),
            parts,
            added,
            added_shown,
            part: ListingPart::default(),
            has_ended: false,
            entries_max,
            entries: 0,
            _descriptor: descriptor,
        }
    }

    /// Reads the next entries, or finds that there are no more. It reads many where `account` has memory for them.
    ///
    /// # Errors
    /// As [`vfs::DirectoryParts::next`]; [`vfs::Error::TooLarge`].
    pub(super) async fn prepare(&mut self, account: Option<&Rc<Account>>) -> Result<(), vfs::Error> {
        while self.part.is_shown() && !self.has_ended {
            self.part = ListingPart::default();
            let held = account.and_then(|account| account.try_charge(PART_MEMORY_MOST));
            let bytes = if held.is_some() { PART_BYTES_MOST } else { PART_BYTES_LEAST };
            match self.parts.next(bytes).await? {
                Some(entries) => {
                    self.entries += entries.len();
                    if self.entries > self.entries_max {
                        return Err(vfs::Error::TooLarge { max: self.entries_max });
                    }
                    let mut entries = entries.into_vec();
                    entries.retain(|entry| !self.added.iter().any(|added| *added.name == *entry.name));
                    self.part = ListingPart { entries, shown: 0, _held: held };
                }
                None => self.has_ended = true,
            }
        }
        Ok(())
    }

    /// Gives the next row that is at hand to `show`; `false` where there is none.
    pub(super) fn show_next(&mut self, show: impl FnOnce(Row<'_>)) -> bool {
        if let Some(added) = self.added.get(self.added_shown) {
            self.added_shown += 1;
            show(added.into());
            return true;
        }
        let Some(entry) = self.part.entries.get(self.part.shown) else {
            self.part = ListingPart::default();
            return false;
        };
        self.part.shown += 1;
        show(entry.into());
        true
    }

    /// Returns whether all is shown.
    pub(super) fn is_done(&self) -> bool {
        self.has_ended && self.part.is_shown() && self.added_shown == self.added.len()
    }

    /// Returns whether a page may end here: what follows begins at [`Streamed::position`].
    pub(super) fn is_between_parts(&self) -> bool {
        self.part.is_shown() && self.added_shown == self.added.len()
    }

    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns where the next part begins.
    pub(super) fn position(&self) -> u64 {
        self.parts.position()
    }
}

impl ListingPart {
    fn is_shown(&self) -> bool {
        self.shown == self.entries.len()
    }
}

impl fmt::Debug for ListingPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListingPart")
            .field("entries", &self.entries.len())
            .field("shown", &self.shown)
            .finish_non_exhaustive()
    }
}

/// Bytes of a part's names in the file system's own form, at least. The least are some 50 names.
const PART_BYTES_LEAST: usize = 2048;
//@ limit: a listing that is being sent
//@ section: HTTP
//@ unit: byte
//@ connection: a piece of {:b}; of a large directory a position and some 50 entries, or 680 on the books of memory of replies
//@ address: on the books of memory of replies
//@ empty: it is made as far as the client takes it; others feel nothing
//@ counter: http_reply_memory_bytes, http_aborted{cause="listing"}
//@ attack: http-stalled-listings
const PART_BYTES_MOST: usize = 16 * 1024;
/// Memory of the most entries of such a part: each name has 24 bytes at least beside itself.
const PART_MEMORY_MOST: usize = PART_BYTES_MOST / 24 * (size_of::<vfs::Entry>() + 32);
