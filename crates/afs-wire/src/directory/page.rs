//! Directory page: its header, its slots, and the map and hash table of the first one.

use super::hash::BUCKETS;

/// Bytes of a directory page.
pub const PAGE_SIZE: usize = 2048;
/// Bytes of a slot.
pub(super) const SLOT: usize = 32;
pub(super) const SLOTS: usize = PAGE_SIZE / SLOT;
/// Slots of the first page that hold its header, map and hash table; every other page has one slot of header.
pub(super) const FIRST_RESERVED: usize = 13;
/// Pages whose free slots are counted in the map.
pub(super) const MAPPED: usize = 128;
/// Value in the map for a page that does not exist.
pub(super) const NO_PAGE: u8 = SLOTS as u8;
/// Magic number in each page's header.
pub(super) const MAGIC: u16 = 1234;
/// First byte of an entry.
pub(super) const ENTRY: u8 = 1;

const PAGES_AT: usize = 0;
const MAGIC_AT: usize = 2;
const FREE_AT: usize = 4;
const BITMAP_AT: usize = 5;
const MAP_AT: usize = SLOT;
const HASH_TABLE_AT: usize = MAP_AT + MAPPED;

const NEXT_AT: usize = 2;
const VNODE_AT: usize = 4;
const UNIQUIFIER_AT: usize = 8;
const NAME_AT: usize = 12;

/// Target of a name: a file in the directory's volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Target {
    /// Vnode number of the file.
    pub vnode: u32,
    /// Uniquifier, which distinguishes the files that have had the vnode.
    pub uniquifier: u32,
}

/// Page of a directory, 64 slots.
#[derive(Clone)]
pub(super) struct Page([u8; PAGE_SIZE]);

impl Page {
    /// Makes a first page without entries.
    pub(super) fn first() -> Self {
        let mut page = Self::with_reserved(FIRST_RESERVED);
        page.set_u16(PAGES_AT, 1);
        page.0[MAP_AT] = (SLOTS - FIRST_RESERVED) as u8;
        page.0[MAP_AT + 1..MAP_AT + MAPPED].fill(NO_PAGE);
        page
    }

    /// Makes a page other than the first, without entries.
    pub(super) fn further() -> Self {
        Self::with_reserved(1)
    }

    fn with_reserved(reserved: usize) -> Self {
        let mut page = Self([0; PAGE_SIZE]);
        page.set_u16(MAGIC_AT, MAGIC);
        page.0[FREE_AT] = (SLOTS - reserved) as u8;
        page.set_bitmap(row(0, reserved));
        page
    }

    pub(super) fn from_bytes(bytes: &[u8; PAGE_SIZE]) -> Self {
        Self(*bytes)
    }

    pub(super) fn bytes(&self) -> &[u8; PAGE_SIZE] {
        &self.0
    }

    pub(super) fn has_magic(&self) -> bool {
        self.u16(MAGIC_AT) == MAGIC
    }

    /// Returns a bit for each slot in use, the first slot's lowest.
    pub(super) fn bitmap(&self) -> u64 {
        u64::from_le_bytes(*self.0[BITMAP_AT..].first_chunk().expect("the page goes on"))
    }

    fn set_bitmap(&mut self, bitmap: u64) {
        self.0[BITMAP_AT..BITMAP_AT + 8].copy_from_slice(&bitmap.to_le_bytes());
    }

    /// Returns the first of `count` free slots in a row.
    pub(super) fn room_for(&self, count: usize) -> Option<usize> {
        let free = !self.bitmap();
        // What is left has a bit for each slot that begins such a row.
        let starts = (1..count).fold(free, |starts, at| starts & (free >> at));
        (starts != 0).then(|| starts.trailing_zeros() as usize)
    }

    /// Writes an entry into free slots.
    pub(super) fn put(&mut self, slot: usize, count: usize, next: u16, target: Target, name: &[u8]) {
        let at = slot * SLOT;
        self.0[at..at + count * SLOT].fill(0);
        self.0[at] = ENTRY;
        self.set_u16(at + NEXT_AT, next);
        self.set_u32(at + VNODE_AT, target.vnode);
        self.set_u32(at + UNIQUIFIER_AT, target.uniquifier);
        self.0[at + NAME_AT..at + NAME_AT + name.len()].copy_from_slice(name);
        self.set_bitmap(self.bitmap() | row(slot, count));
    }

    /// Zeroes the slots of an entry, and marks them as free.
    pub(super) fn clear(&mut self, slot: usize, count: usize) {
        self.0[slot * SLOT..(slot + count) * SLOT].fill(0);
        self.set_bitmap(self.bitmap() & !row(slot, count));
    }

    pub(super) fn flag(&self, slot: usize) -> u8 {
        self.0[slot * SLOT]
    }

    /// Returns the name of the entry that begins in a slot; `None` when no zero ends it within the page and
    /// [`crate::NAME_MAX`].
    pub(super) fn name(&self, slot: usize) -> Option<&[u8]> {
        let rest = &self.0[slot * SLOT + NAME_AT..];
        let rest = &rest[..rest.len().min(crate::NAME_MAX as usize + 1)];
        rest.iter().position(|byte| *byte == 0).map(|len| &rest[..len])
    }

    /// Compares the name of the entry in a slot with `name`, without a search for its end, as chains are long
    /// in large directories.
    pub(super) fn is_name(&self, slot: usize, name: &[u8]) -> bool {
        let rest = &self.0[slot * SLOT + NAME_AT..];
        rest.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&0))
    }

    pub(super) fn target(&self, slot: usize) -> Target {
        let at = slot * SLOT;
        Target { vnode: self.u32(at + VNODE_AT), uniquifier: self.u32(at + UNIQUIFIER_AT) }
    }

    pub(super) fn next(&self, slot: usize) -> u16 {
        self.u16(slot * SLOT + NEXT_AT)
    }

    pub(super) fn set_next(&mut self, slot: usize, next: u16) {
        self.set_u16(slot * SLOT + NEXT_AT, next);
    }

    /// Returns the page count of a first page; 0 from servers of long ago, which leave the count to the map.
    pub(super) fn pages(&self) -> usize {
        usize::from(self.u16(PAGES_AT))
    }

    /// Returns the free slots of a page by the map of a first page.
    pub(super) fn mapped(&self, page: usize) -> u8 {
        self.0[MAP_AT + page]
    }

    /// Counts another page in a first page's header and map.
    pub(super) fn note_page(&mut self, page: usize) {
        self.set_u16(PAGES_AT, page as u16 + 1);
        if page < MAPPED {
            self.0[MAP_AT + page] = NO_PAGE - 1;
        }
    }

    /// Counts `count` slots of a page as used in a first page's map.
    pub(super) fn note_used(&mut self, page: usize, count: usize) {
        if page < MAPPED {
            self.0[MAP_AT + page] -= count as u8;
        }
    }

    /// Counts `count` slots of a page as free in a first page's map.
    pub(super) fn note_freed(&mut self, page: usize, count: usize) {
        if page < MAPPED {
            self.0[MAP_AT + page] += count as u8;
        }
    }

    /// Returns the first slot of a chain from a first page, 0 for an empty chain.
    pub(super) fn head(&self, bucket: usize) -> u16 {
        debug_assert!(bucket < BUCKETS);
        self.u16(HASH_TABLE_AT + 2 * bucket)
    }

    pub(super) fn set_head(&mut self, bucket: usize, slot: u16) {
        self.set_u16(HASH_TABLE_AT + 2 * bucket, slot);
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(*self.0[at..].first_chunk().expect("within the page"))
    }

    fn set_u16(&mut self, at: usize, value: u16) {
        self.0[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(*self.0[at..].first_chunk().expect("within the page"))
    }

    fn set_u32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
}

/// Returns a mask of `count` slots from `slot` on.
pub(super) fn row(slot: usize, count: usize) -> u64 {
    (u64::MAX >> (SLOTS - count)) << slot
}
