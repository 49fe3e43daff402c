//! Directories as AFS clients read them: names in pages, found by hash chains, edited in place.
//!
//! A directory's content is an array of pages of 2,048 bytes, each of 64 *slots* of 32 bytes. A slot's number counts through all
//! pages. Numbers of more than one byte have their high byte first. Source: OpenAFS `src/dir/dir.h`; Linux `fs/afs/xdr_fs.h`.
//!
//! ```text
//! page                              first page only                    entry, 1 to 9 slots
//! slot 0   header                   slots 1 to 4   map                 +0   1
//!   +0  u16  pages in all (first)     free slots of each of the        +1   0
//!   +2  u16  1234                     first 128 pages, a byte each;    +2   u16  next slot of the chain, 0: none
//!   +4  u8   free at first            64: no page yet                  +4   u32  vnode
//!   +5  [8]  a bit a slot in use    slots 5 to 12  hash table          +8   u32  uniquifier
//!   +13      0                        first slot of each of the        +12  name and a zero, on into
//! slots 1 to 63                       128 chains, u16 each                  the slots that follow
//! ```
//!
//! `.` is in slot 13 and `..` in slot 14. A new entry takes the first slots in a row that are free, and goes to the
//! head of its chain. So do servers, and so do clients with their own copy after a change of theirs, if the version
//! shows that nothing else has changed. Pages are never given back.

mod check;
mod hash;
mod page;

use std::sync::Arc;

pub use self::check::BadDirectory;
use self::hash::bucket;
pub use self::page::{PAGE_SIZE, Target};
use self::page::{Page, SLOTS};

//@ limit: a directory
//@ section: Clients of AFS
//@ unit: page of 2 KiB
//@ connection: {}; each name once, none with a slash
//@ all: process: one at a time
//@ empty: refused as broken
//@ counter: none
//@ attack: none, a client's own limit, against servers
//@ reach: server
/// Most pages of a directory: slots are numbered by 16 bits (`BIGMAXPAGES`), and Linux's client reads no more
/// than 2 MiB.
pub const PAGES_MAX: usize = 1023;
/// Most bytes of a name: salvagers before OpenAFS 1.9 refuse 256, and file systems hold 255.
pub const NAME_MAX: usize = 255;

/// Directory in the form that AFS clients fetch. A clone shares its pages until one of the two changes them.
#[derive(Clone)]
pub struct Directory {
    pages: Vec<Arc<Page>>,
    /// Numbers of the first pages that may have room for an entry, by its number of slots. Only a removal
    /// makes room.
    full_below: [u16; NAME_SLOTS_MAX + 1],
}

/// Reason why a name cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// The directory has the name already.
    #[error("the name is taken")]
    Exists,
    /// No page has as many free slots in a row, and there are [`PAGES_MAX`] pages.
    #[error("the directory is full")]
    Full,
    /// The name is empty, holds a zero byte, or is longer than [`NAME_MAX`].
    #[error("an AFS directory takes no such name")]
    BadName,
}

impl Directory {
    /// Makes a directory with no names but `.` and `..`.
    pub fn new(own: Target, parent: Target) -> Self {
        let mut directory =
            Self { pages: vec![Arc::new(Page::first())], full_below: [0; NAME_SLOTS_MAX + 1] };
        directory.add(b".", own).expect("the first page has room");
        directory.add(b"..", parent).expect("the first page has room");
        directory
    }

    /// Builds a directory with `names`, each of which comes once. The same names in another order make other
    /// pages.
    ///
    /// # Errors
    /// [`AddError::Full`], [`AddError::BadName`].
    pub fn build<'n>(
        own: Target,
        parent: Target,
        entries: impl IntoIterator<Item = (&'n [u8], Target)>,
    ) -> Result<Self, AddError> {
        let mut directory = Self::new(own, parent);
        for (name, target) in entries {
            directory.insert(name, target)?;
        }
        Ok(directory)
    }

    /// Returns the length in bytes: whole pages.
    pub fn size(&self) -> usize {
        self.pages.len() * PAGE_SIZE
    }

    /// Copies the bytes from `offset` on into `into`, and returns how many.
    pub fn read_at(&self, offset: usize, into: &mut [u8]) -> usize {
        let mut filled = 0;
        while let Some(rest) = self.rest_of_page(offset + filled).filter(|_| filled < into.len()) {
            let count = rest.len().min(into.len() - filled);
            into[filled..filled + count].copy_from_slice(&rest[..count]);
            filled += count;
        }
        filled
    }

    fn rest_of_page(&self, offset: usize) -> Option<&[u8]> {
        self.pages.get(offset / PAGE_SIZE).map(|page| &page.bytes()[offset % PAGE_SIZE..])
    }

    /// Returns the target of a name.
    pub fn lookup(&self, name: &[u8]) -> Option<Target> {
        self.find(name).map(|found| self.target_at(found.slot))
    }

    /// Returns whether [`add`](Self::add) would find room for a name.
    pub fn has_room(&self, name: &[u8]) -> bool {
        is_good(name) && self.room_for(slots_of(name)).is_some()
    }

    /// Adds a name where a client adds it to its copy.
    ///
    /// # Errors
    /// [`AddError`]; the directory is as it was.
    pub fn add(&mut self, name: &[u8], target: Target) -> Result<(), AddError> {
        if self.find(name).is_some() {
            return Err(AddError::Exists);
        }
        self.insert(name, target)
    }

    /// Removes a name, as a client does from its copy, and returns its target, if it was there.
    pub fn remove(&mut self, name: &[u8]) -> Option<Target> {
        let Found { slot, before } = self.find(name)?;
        let (target, next) = (self.target_at(slot), self.next_of(slot));
        match before {
            Some(before) => self.page_mut(before).set_next(at(before), next),
            None => self.first_mut().set_head(bucket(name), next),
        }
        let count = slots_of(name);
        self.page_mut(slot).clear(at(slot), count);
        let page = usize::from(slot) / SLOTS;
        self.first_mut().note_freed(page, count);
        for full_below in &mut self.full_below {
            *full_below = (*full_below).min(page as u16);
        }
        Some(target)
    }

    /// Returns all names but `.` and `..` with their targets, in the order of their slots.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], Target)> {
        let chain = |head: u16| {
            std::iter::successors(Some(head).filter(|slot| *slot != 0), |slot| {
                Some(self.next_of(*slot)).filter(|next| *next != 0)
            })
        };
        let mut slots: Vec<u16> =
            (0..hash::BUCKETS).flat_map(|bucket| chain(self.pages[0].head(bucket))).collect();
        slots.sort_unstable();
        let entry = |slot| (self.name_at(slot), self.target_at(slot));
        slots.into_iter().map(entry).filter(|(name, _)| *name != b"." && *name != b"..")
    }

    /// Adds a name that the directory does not have.
    fn insert(&mut self, name: &[u8], target: Target) -> Result<(), AddError> {
        if !is_good(name) {
            return Err(AddError::BadName);
        }
        let count = slots_of(name);
        let (page, slot) = self.room_for(count).ok_or(AddError::Full)?;
        if page == self.pages.len() {
            self.pages.push(Arc::new(Page::further()));
            self.first_mut().note_page(page);
        }
        self.full_below[count] = page as u16;
        let bucket = bucket(name);
        let head = self.pages[0].head(bucket);
        Arc::make_mut(&mut self.pages[page]).put(slot, count, head, target, name);
        let first = self.first_mut();
        first.set_head(bucket, (page * SLOTS + slot) as u16);
        first.note_used(page, count);
        Ok(())
    }

    /// Returns the first page, and the slot in it, with `count` free slots in a row; the page may be one to
    /// append.
    fn room_for(&self, count: usize) -> Option<(usize, usize)> {
        let from = usize::from(self.full_below[count]);
        let in_page = |page: usize| self.pages[page].room_for(count).map(|slot| (page, slot));
        let found = (from..self.pages.len()).find_map(in_page);
        found.or_else(|| (self.pages.len() < PAGES_MAX).then_some((self.pages.len(), 1)))
    }

    fn find(&self, name: &[u8]) -> Option<Found> {
        let (mut before, mut slot) = (None, self.pages[0].head(bucket(name)));
        while slot != 0 {
            if self.page_of(slot).is_name(at(slot), name) {
                return Some(Found { slot, before });
            }
            (before, slot) = (Some(slot), self.next_of(slot));
        }
        None
    }

    fn name_at(&self, slot: u16) -> &[u8] {
        self.page_of(slot).name(at(slot)).expect("names end within their page: made so, or checked")
    }

    fn target_at(&self, slot: u16) -> Target {
        self.page_of(slot).target(at(slot))
    }

    fn next_of(&self, slot: u16) -> u16 {
        self.page_of(slot).next(at(slot))
    }

    fn page_of(&self, slot: u16) -> &Page {
        &self.pages[usize::from(slot) / SLOTS]
    }

    fn page_mut(&mut self, slot: u16) -> &mut Page {
        Arc::make_mut(&mut self.pages[usize::from(slot) / SLOTS])
    }

    fn first_mut(&mut self) -> &mut Page {
        Arc::make_mut(&mut self.pages[0])
    }
}

/// Slot of a name's entry, with the entry before.
struct Found {
    slot: u16,
    /// Entry before this one in its chain; `None` when it is the first.
    before: Option<u16>,
}

/// Returns the index of a slot in its page.
fn at(slot: u16) -> usize {
    usize::from(slot) % SLOTS
}

/// Returns the slots of an entry: 12 bytes, the name and a zero. The first slot has room for 16 bytes of the
/// name, each other one for 32; what is left of the first is not used.
fn slots_of(name: &[u8]) -> usize {
    1 + (name.len() + 1 + 15) / page::SLOT
}

fn is_good(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= NAME_MAX && !name.contains(&0)
}

/// Slots of the longest name that is read, one of [`crate::NAME_MAX`] bytes.
const NAME_SLOTS_MAX: usize = 1 + (crate::NAME_MAX as usize + 1 + 15) / page::SLOT;

impl PartialEq for Directory {
    fn eq(&self, other: &Self) -> bool {
        self.pages.len() == other.pages.len()
            && self.pages.iter().zip(&other.pages).all(|(one, other)| one.bytes() == other.bytes())
    }
}

impl Eq for Directory {}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").field("pages", &self.pages.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_slots_for_its_name_and_a_zero() {
        for (len, slots) in [(1, 1), (15, 1), (16, 2), (47, 2), (48, 3), (255, 9), (256, 9)] {
            assert_eq!(slots_of(&vec![b'n'; len]), slots, "{len}");
        }
        assert_eq!(NAME_SLOTS_MAX, 9);
    }
}
