//! Names of a large directory, a page at a time in the order of their bytes: a page holds the first names behind another one that fit
//! its memory, and nothing of what they name. Each page is a reading of its own, so that a directory of any size is listed in bounded
//! memory, and a name that stays is on one page alone whatever comes and goes beside it.

use std::cell::Cell;

use budget::Consumer;
use futures_util::future::LocalBoxFuture;
use lane::fs::{FileKind, NameStat};
use lane::offload::offload;

use crate::caller::Caller;
use crate::change::{EntryExtended, c_name, stored_attribute};
use crate::directory::{Directory, LINKS_PER_TURN};
use crate::error::Error;
use crate::guarded::LinkBudget;
use crate::listing::Entry;
use crate::listing_budget::ListingCharge;
use crate::name::Name;

/// Page of a directory's names, sorted by their bytes: all names behind the page before it, up to its last.
#[derive(Debug)]
pub struct NamePage {
    names: Packed,
    /// Last name of the pages before.
    after: Option<Box<[u8]>>,
    is_last: bool,
    /// Cost that looks through links may still spend.
    link_budget: Cell<usize>,
    _charge: ListingCharge,
}

/// Bounds of one reading of a directory.
#[derive(Clone, Copy, Debug)]
pub struct PageLimits {
    /// Names that the directory may have.
    pub names_max: usize,
    /// Bytes of memory that a page takes, 32 MiB at most: a name takes five beside its own.
    pub bytes_max: usize,
}

/// Entry of a page as clients see it.
#[derive(Clone, Debug)]
pub struct PageEntry {
    /// The entry as a listing has it.
    pub entry: Entry,
    /// The attributes with the extended attribute that was asked for; `None` for a symbolic link.
    pub extended: Option<EntryExtended>,
}

/// Names in one piece of memory.
#[derive(Debug, Default)]
struct Packed {
    /// Names, each behind its length.
    bytes: Vec<u8>,
    /// Offsets of the names in `bytes`.
    starts: Vec<u32>,
}

/// A page that is being read.
struct PageReading {
    names: Packed,
    after: Option<Box<[u8]>>,
    /// Last name of the page; those behind it did not fit. `None` while all fit.
    ceiling: Option<Box<[u8]>>,
    bytes_max: usize,
}

impl Directory {
    /// Reads the names behind `after`, or from the first on, as many as a page holds. Names that no look-up would find
    /// are among them until [`Directory::look_at`]. Takes [`Rights::LOOKUP`](identity::Rights::LOOKUP).
    ///
    /// # Errors
    /// [`Error::TooLarge`] for a directory of more names; [`Error::Overloaded`] where pages of the caller's client
    /// hold too much memory for ten seconds; as [`Directory::entries_as`].
    pub fn page_after<'a>(
        &'a self,
        caller: &'a Caller,
        after: Option<&'a [u8]>,
        limits: PageLimits,
    ) -> LocalBoxFuture<'a, Result<NamePage, Error>> {
        Box::pin(async move {
            self.may_list(caller).await?;
            let read = self.read_page(caller.consumer, after, limits).await;
            self.volume().report_listing_failure(self.path(), read)
        })
    }

    async fn read_page(
        &self,
        consumer: Consumer,
        after: Option<&[u8]>,
        limits: PageLimits,
    ) -> Result<NamePage, Error> {
        let PageLimits { names_max, bytes_max } = limits;
        let mut charge = self.volume().cache().charge_page(consumer, bytes_max).await?;
        let bytes_max = charge.held();
        self.volume().counters().listings.increment();
        let dir = self.opened_to_list().await?;
        let mut reading = PageReading::new(after, bytes_max);
        let (mut found, mut position) = (0, 0);
        loop {
            let part = dir.names_part(position, PART_BYTES).await?;
            for name in part.iter() {
                found += 1;
                if found > names_max {
                    return Err(Error::TooLarge { max: names_max });
                }
                while reading.wants(name) && !reading.has_room(name) {
                    reading = on_helper(move || reading.halved()).await?;
                }
                if reading.wants(name) {
                    reading.names.push(name);
                }
            }
            let Some(next) = part.next else { break };
            position = next;
        }
        let PageReading { names, after, ceiling, .. } = reading;
        let names = on_helper(move || names.sorted()).await?;
        charge.settle(names.memory());
        Ok(NamePage {
            names,
            after,
            is_last: ceiling.is_none(),
            link_budget: Cell::new(LinkBudget::new().left()),
            _charge: charge,
        })
    }

    /// Reads the attributes of `names` of a page, and the attribute `attribute` of each, of at most `max` bytes, by
    /// one look. An element is `None` for a name that is gone or withheld. Symbolic links are themselves where
    /// `as_links` is set, else what they lead to.
    ///
    /// # Errors
    /// [`Error::Reserved`], [`Error::Name`]; [`Error::Overloaded`].
    pub fn look_at<'a>(
        &'a self,
        page: &'a NamePage,
        names: &'a [&'a [u8]],
        as_links: bool,
        (attribute, max): (&'a [u8], usize),
    ) -> LocalBoxFuture<'a, Result<Vec<Option<PageEntry>>, Error>> {
        Box::pin(async move {
            let parsed: Vec<_> = names.iter().map(|name| Name::parse(name)).collect::<Result<_, _>>()?;
            let c_names = parsed.iter().map(|name| c_name(*name)).collect();
            let found = self.dir().stat_names(c_names, &stored_attribute(attribute)?, max).await?;
            let is_link = |found: &&NameStat| found.stat.kind == FileKind::Symlink;
            let budget = LinkBudget::with(page.link_budget.get());
            budget.add_links(found.iter().flatten().filter(is_link).count());
            let (mut looked, mut links) = (Vec::with_capacity(names.len()), 0);
            for (name, found) in parsed.into_iter().zip(found) {
                let Some(found) = found else {
                    looked.push(None);
                    continue;
                };
                links += usize::from(is_link(&&found));
                if is_link(&&found) && links % LINKS_PER_TURN == 0 {
                    lane::yield_if_due().await;
                }
                looked.push(self.looked(name, found, as_links, &budget).await);
            }
            page.link_budget.set(budget.left());
            Ok(looked)
        })
    }

    async fn looked(
        &self,
        name: Name<'_>,
        found: NameStat,
        as_links: bool,
        budget: &LinkBudget,
    ) -> Option<PageEntry> {
        let NameStat { stat, statx_extra, xattr } = found;
        let path = self.path().join(name).ok()?;
        if self.volume().hides(path.as_path()) || self.withholds(name.as_bytes(), &stat) {
            return None;
        }
        let symlink = stat.kind == FileKind::Symlink;
        let attributes = match stat.kind {
            FileKind::File | FileKind::Directory => stat.into(),
            FileKind::Symlink if as_links => stat.into(),
            FileKind::Symlink => self.far_end(path.as_path(), &stat, budget).await?,
            FileKind::Other => return None,
        };
        let extended = (!symlink).then_some(EntryExtended { attributes, statx_extra, value: xattr });
        Some(PageEntry { entry: Entry { name: name.as_bytes().into(), attributes, symlink }, extended })
    }
}

impl NamePage {
    /// Returns the number of names on the page.
    pub fn len(&self) -> usize {
        self.names.starts.len()
    }

    /// Returns whether the page has no names.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name at an index.
    ///
    /// # Panics
    /// For an index beyond the page's names.
    pub fn name(&self, at: usize) -> &[u8] {
        self.names.name(self.names.starts[at])
    }

    /// Returns the index of the first name behind `name`; 0 for `None`.
    pub fn first_after(&self, name: Option<&[u8]>) -> usize {
        let Some(name) = name else { return 0 };
        self.names.starts.partition_point(|start| self.names.name(*start) <= name)
    }

    /// Returns whether the first name of the directory behind `name` is on this page, or none is left on the last
    /// page.
    pub fn covers(&self, name: Option<&[u8]>) -> bool {
        let begins_before = self.after.as_deref().is_none_or(|after| name.is_some_and(|name| name >= after));
        begins_before && (self.is_last || self.first_after(name) < self.len())
    }

    /// Returns whether this is the directory's last page.
    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// Returns the bytes of memory that its names take.
    pub fn memory(&self) -> usize {
        self.names.memory()
    }
}

impl PageReading {
    fn new(after: Option<&[u8]>, bytes_max: usize) -> Self {
        // Where a name begins is told by 32 bits, and beside one name there is room for another.
        let bytes_max = bytes_max.clamp(4 * (Name::BYTES_MAX + NAME_EXTRA), 1 << 30);
        // Room that is not written to takes no memory, and nothing is copied as the names become more.
        let names = Packed {
            bytes: Vec::with_capacity(bytes_max),
            starts: Vec::with_capacity(bytes_max / size_of::<u32>()),
        };
        Self { names, after: after.map(Into::into), ceiling: None, bytes_max }
    }

    /// Returns whether a name belongs on this page, as far as is known.
    fn wants(&self, name: &[u8]) -> bool {
        name.len() <= Name::BYTES_MAX
            && self.after.as_deref().is_none_or(|after| name > after)
            && self.ceiling.as_deref().is_none_or(|ceiling| name <= ceiling)
    }

    fn has_room(&self, name: &[u8]) -> bool {
        self.names.memory() + name.len() + NAME_EXTRA <= self.bytes_max
    }

    /// Drops the upper half of the names: they are for the pages behind.
    fn halved(mut self) -> Self {
        self.ceiling = self.names.keep_lower_half().or(self.ceiling);
        self
    }
}

impl Packed {
    fn push(&mut self, name: &[u8]) {
        self.starts.push(u32::try_from(self.bytes.len()).expect("a page is bounded far below 4 GiB"));
        self.bytes.push(u8::try_from(name.len()).expect("a name has at most 255 bytes"));
        self.bytes.extend_from_slice(name);
    }

    fn name(&self, start: u32) -> &[u8] {
        name_at(&self.bytes, start)
    }

    fn memory(&self) -> usize {
        self.bytes.len() + self.starts.len() * size_of::<u32>()
    }

    /// Removes the names behind the middle one, which it returns.
    fn keep_lower_half(&mut self) -> Option<Box<[u8]>> {
        let middle = self.starts.len().checked_sub(1)? / 2;
        let bytes = &self.bytes;
        self.starts.select_nth_unstable_by(middle, |a, b| name_at(bytes, *a).cmp(name_at(bytes, *b)));
        self.starts.truncate(middle + 1);
        let last = self.name(self.starts[middle]).into();
        // From the first on in memory, each moves down.
        self.starts.sort_unstable();
        let mut end = 0;
        for start in &mut self.starts {
            let from = *start as usize;
            let until = from + 1 + usize::from(self.bytes[from]);
            self.bytes.copy_within(from..until, end);
            *start = end as u32;
            end += until - from;
        }
        self.bytes.truncate(end);
        Some(last)
    }

    /// Sorts the names and removes duplicates: a name that went and came while they were read may have shown twice.
    fn sorted(mut self) -> Self {
        let bytes = &self.bytes;
        self.starts.sort_unstable_by(|a, b| name_at(bytes, *a).cmp(name_at(bytes, *b)));
        self.starts.dedup_by(|a, b| name_at(bytes, *a) == name_at(bytes, *b));
        self.bytes.shrink_to_fit();
        self.starts.shrink_to_fit();
        self
    }
}

fn name_at(bytes: &[u8], start: u32) -> &[u8] {
    let start = start as usize;
    &bytes[start + 1..][..usize::from(bytes[start])]
}

/// Runs `work` on a helper, as sorting a page takes longer than a lane may be held up.
async fn on_helper<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    offload(None, work).await.map_err(|_| Error::Overloaded)
}

/// Bytes that a name takes beside its own.
const NAME_EXTRA: usize = 1 + size_of::<u32>();
/// Bytes of names that one helper reads before it serves others: some 1,600 names.
const PART_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(names: &[String], after: Option<&[u8]>, bytes_max: usize) -> (Vec<String>, bool) {
        let mut reading = PageReading::new(after, bytes_max);
        for name in names {
            while reading.wants(name.as_bytes()) && !reading.has_room(name.as_bytes()) {
                reading = reading.halved();
            }
            if reading.wants(name.as_bytes()) {
                reading.names.push(name.as_bytes());
            }
            assert!(reading.names.memory() <= reading.bytes_max);
        }
        let is_last = reading.ceiling.is_none();
        let names = reading.names.sorted();
        let name = |start: &u32| String::from_utf8(names.name(*start).to_vec()).unwrap();
        (names.starts.iter().map(name).collect(), is_last)
    }

    #[test]
    fn pages_one_behind_the_other_hold_each_name_once_in_order_whatever_order_they_are_read_in() {
        let sorted: Vec<_> = (0..5000).map(|n| format!("{}{n:05}", "x".repeat(n % 200))).collect();
        let mut expected = sorted.clone();
        expected.sort();
        let mut rising = expected.clone();
        // One that went and came again meanwhile.
        rising.push(expected[17].clone());
        let falling: Vec<_> = expected.iter().rev().cloned().collect();
        for names in [sorted, rising, falling] {
            for bytes_max in [0, 10_000, 100_000, 10_000_000] {
                let (mut found, mut pages) = (Vec::<String>::new(), 0);
                loop {
                    let after = found.last().map(|name| name.as_bytes().to_vec());
                    let (page, is_last) = page_of(&names, after.as_deref(), bytes_max);
                    assert!(!page.is_empty());
                    found.extend(page);
                    pages += 1;
                    if is_last {
                        break;
                    }
                }
                assert_eq!(found, expected, "{bytes_max}");
                assert_eq!(pages == 1, bytes_max == 10_000_000, "{pages} pages of {bytes_max}");
            }
        }
    }

    #[test]
    fn a_million_names_of_twenty_bytes_take_twenty_five_each() {
        let mut names = Packed::default();
        for n in 0..1_000_000 {
            names.push(format!("name of file {n:07}").as_bytes());
        }
        let names = names.sorted();
        assert_eq!(names.memory(), 25_000_000);
        assert!(names.bytes.capacity() + 4 * names.starts.capacity() < 26_000_000);
    }
}
