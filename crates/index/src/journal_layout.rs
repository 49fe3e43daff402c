//! Layout of the journal of uncommitted changes, in words.

use std::sync::atomic::AtomicU64;

use crate::CleanShutdownMarker;

/// Words of memory that outlive the process but not the boot, written by the journal's holder alone.
pub trait Words: Send + Sync + 'static {
    /// Returns the words that can be read and written now.
    fn words(&self) -> &[AtomicU64];

    /// Grows the memory to at least `len` words; returns false on failure.
    fn grow(&self, len: usize) -> bool;
}

/// Slot of a file in the journal, from the first uncommitted change until its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub(crate) u32);

impl Slot {
    /// Slot of an index without a journal.
    pub const NONE: Self = Self(u32::MAX);
    /// Slot of a file that found no room: until its commit the journal is incomplete.
    pub(crate) const LACKING: Self = Self(u32::MAX - 1);

    pub(crate) fn at(self) -> Option<usize> {
        (self.0 < Self::LACKING.0).then(|| HEADER_LEN + self.0 as usize * SLOT_LEN)
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::NONE
    }
}

pub(crate) fn halves(marker: &CleanShutdownMarker) -> (u64, u64) {
    let half = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    (half(&marker[..8]), half(&marker[8..]))
}

/// Words of the header, and its page for the storage's use.
pub(crate) const FORMAT_AT: usize = 0;
pub(crate) const NOTE_AT: usize = 1;
pub(crate) const BOOTED_AT: usize = 3;
pub(crate) const BEGUN_AT: usize = 4;
pub(crate) const DONE_AT: usize = 5;
pub(crate) const LACKING_AT: usize = 6;
pub(crate) const ALIVE_AT: usize = 7;
pub(crate) const PATH_AT: usize = 8;
pub(crate) const HEADER_LEN: usize = 512;

/// Words of a slot, the first of which is a checksum of the constant ones, 0 in a free slot.
pub(crate) const SLOT_LEN: usize = 32;
pub(crate) const SERIAL: usize = 1;
pub(crate) const VNODE: usize = 2;
pub(crate) const UNIQUIFIER: usize = 3;
pub(crate) const VERSION: usize = 4;
pub(crate) const FROM: usize = 5;
pub(crate) const TO: usize = 6;
/// Word with the checksum of the place; 0 where the place is unknown.
pub(crate) const PLACE: usize = 7;
pub(crate) const PARENT: usize = 8;
/// First word of the identity; the name begins at the next word behind it.
pub(crate) const BYTES: usize = 9;

/// Version of a file that is gone, which no real version reaches. None comes so far.
pub(crate) const GONE: u64 = u64::MAX;

/// Format word: "LRJ", and the layout's number.
pub(crate) const FORMAT: u64 = u64::from_le_bytes(*b"LRJ\x02\0\0\0\0");
