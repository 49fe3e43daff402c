//! Check that bytes are a directory: all that OpenAFS's salvager asks of one (`DirOK`), and what our own
//! walks rely on.

use std::sync::Arc;

use super::hash::{BUCKETS, bucket};
use super::page::{ENTRY, FIRST_RESERVED, MAPPED, NO_PAGE, Page, SLOTS, row};
use super::{Directory, NAME_SLOTS_MAX, PAGE_SIZE, PAGES_MAX, at, slots_of};

/// Reason why bytes are no directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDirectory {
    /// The length is no multiple of a page, 0, or more than [`PAGES_MAX`] pages.
    #[error("{0} bytes are no directory: it has 1 to {PAGES_MAX} pages of {PAGE_SIZE} bytes")]
    Size(usize),
    /// The page of this number lacks the magic number.
    #[error("page {0} has not the number of a directory page")]
    Magic(usize),
    /// The header's count of pages or the map differs from the length.
    #[error("the header tells of {told} pages, and there are {there}")]
    Pages {
        /// Number of pages by header and map.
        told: usize,
        /// Number of pages by the length.
        there: usize,
    },
    /// The slots marked as in use in this page are not those of its header and entries.
    #[error("slots of page {0} are in use by nobody, or free and in use, or counted wrongly")]
    Slots(usize),
    /// A chain leads out of the directory, into the middle of another entry, or in a circle.
    #[error("chain {0} leads nowhere")]
    Chain(usize),
    /// An entry has an empty name, an unterminated one, or a name of another chain.
    #[error("the name in slot {0} cannot be")]
    Name(u16),
    /// The entries `.` and `..` are not in their places.
    #[error("the directory has not its own name and its parent's where they belong")]
    Dots,
}

impl Directory {
    /// Parses a directory's bytes, as a server sent them.
    ///
    /// # Errors
    /// [`BadDirectory`].
    pub fn parse(bytes: &[u8]) -> Result<Self, BadDirectory> {
        let (pages, rest) = bytes.as_chunks::<PAGE_SIZE>();
        if pages.is_empty() || pages.len() > PAGES_MAX || !rest.is_empty() {
            return Err(BadDirectory::Size(bytes.len()));
        }
        let pages: Vec<Arc<Page>> = pages.iter().map(|page| Arc::new(Page::from_bytes(page))).collect();
        let directory = Self { pages, full_below: [0; NAME_SLOTS_MAX + 1] };
        directory.check_pages()?;
        directory.check_chains()?;
        Ok(directory)
    }

    fn check_pages(&self) -> Result<(), BadDirectory> {
        let first = &self.pages[0];
        let there = self.pages.len();
        if let Some(bad) = self.pages.iter().position(|page| !page.has_magic()) {
            return Err(BadDirectory::Magic(bad));
        }
        let mapped = (0..MAPPED).position(|page| first.mapped(page) == NO_PAGE).unwrap_or(MAPPED);
        let is_map_whole = (mapped..MAPPED).all(|page| first.mapped(page) == NO_PAGE);
        let told = if first.pages() == 0 { mapped } else { first.pages() };
        if told != there || mapped != there.min(MAPPED) || !is_map_whole {
            return Err(BadDirectory::Pages { told, there });
        }
        let is_counted =
            |page: usize| u32::from(first.mapped(page)) == self.pages[page].bitmap().count_zeros();
        match (0..mapped).find(|page| !is_counted(*page)) {
            Some(page) => Err(BadDirectory::Slots(page)),
            None => Ok(()),
        }
    }

    /// Walks all chains; a slot met twice is an error, so that none goes in a circle.
    fn check_chains(&self) -> Result<(), BadDirectory> {
        let mut used: Vec<u64> = vec![row(0, 1); self.pages.len()];
        used[0] = row(0, FIRST_RESERVED);
        for chain in 0..BUCKETS {
            let mut slot = self.pages[0].head(chain);
            while slot != 0 {
                self.check_entry(chain, slot, &mut used)?;
                slot = self.next_of(slot);
            }
        }
        let is_as_told = |page: &usize| self.pages[*page].bitmap() == used[*page];
        if let Some(bad) = (0..self.pages.len()).find(|page| !is_as_told(page)) {
            return Err(BadDirectory::Slots(bad));
        }
        let is_at =
            |name: &[u8], slot: usize| self.find(name).is_some_and(|found| usize::from(found.slot) == slot);
        match is_at(b".", FIRST_RESERVED) && is_at(b"..", FIRST_RESERVED + 1) {
            true => Ok(()),
            false => Err(BadDirectory::Dots),
        }
    }

    fn check_entry(&self, chain: usize, slot: u16, used: &mut [u64]) -> Result<(), BadDirectory> {
        let (number, start) = (usize::from(slot) / SLOTS, at(slot));
        let page = self.pages.get(number).ok_or(BadDirectory::Chain(chain))?;
        if page.flag(start) != ENTRY {
            return Err(BadDirectory::Chain(chain));
        }
        let name = page.name(start).filter(|name| !name.is_empty() && bucket(name) == chain);
        let name = name.ok_or(BadDirectory::Name(slot))?;
        let count = slots_of(name);
        // A name may end in the page, and the slots that it is said to have beyond it.
        if start + count > SLOTS {
            return Err(BadDirectory::Name(slot));
        }
        let slots = row(start, count);
        if used[number] & slots != 0 {
            return Err(BadDirectory::Chain(chain));
        }
        used[number] |= slots;
        Ok(())
    }
}
