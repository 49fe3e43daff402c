//! Content of a file: what readers see at once, and what a loss of power may leave.
//!
//! A disk writes sectors, each whole or not at all, in any order and whenever it likes. So each sector that was changed
//! since the last sync keeps what it was before each change, and after a loss of power any of these may be what it is.
//! The size is one more thing that may be old or new: a sector inside it that never came to the disk reads as zeros.
//! Setting the size is different from growing by a write: it is a change of the inode, which the journal knows, and while
//! it has not come to the disk nothing that was written later in room it gave back has either.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use rand::Rng;

use super::pages::{PAGE, Page, Space};
use crate::backend::file::SeekTo;
use crate::backend::sim::engine::Engine;

/// Content of a file, with the states that may come back.
pub(super) struct Content {
    space: Rc<Space>,
    len: usize,
    /// Pages by number; a missing one is a hole.
    pages: BTreeMap<usize, Rc<Page>>,
    /// Sectors changed since the last sync, with their histories.
    changed: BTreeMap<usize, History>,
    /// Sizes since the last sync; the first is the disk's.
    sizes: Vec<Size>,
    /// Number of changes so far.
    event: u64,
    /// Number of the last set size that is on the disk.
    committed: u64,
}

/// Earlier states of a sector, which may come back.
struct History {
    versions: Vec<Version>,
    /// Change since which readers see the present state; `None` when the disk has refused it and will not be
    /// asked again.
    live_since: Option<u64>,
}

struct Version {
    since: u64,
    /// Bytes of the sector; `None` for zeros.
    bytes: Option<Box<[u8; SECTOR]>>,
}

#[derive(Clone, Copy)]
struct Size {
    since: u64,
    len: usize,
    /// True for a size that was set, not grown by a write.
    is_set: bool,
}

/// Amount of unsafe data that a loss of power leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    Anything,
    Everything,
}

impl Left {
    pub(super) fn draw(engine: &mut Engine) -> Self {
        match engine.rng.random_range(0..4) {
            0 => Self::Nothing,
            1 => Self::Everything,
            _ => Self::Anything,
        }
    }

    /// Picks one of `n` states, of which the oldest is first.
    pub(super) fn pick(self, n: usize, engine: &mut Engine) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Everything => n - 1,
            Self::Anything => engine.rng.random_range(0..n),
        }
    }
}

impl Content {
    pub(super) fn empty(space: &Rc<Space>) -> Self {
        Self {
            space: Rc::clone(space),
            len: 0,
            pages: BTreeMap::new(),
            changed: BTreeMap::new(),
            sizes: Vec::new(),
            event: 0,
            committed: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes of the content's pages.
    pub(super) fn allocated(&self) -> u64 {
        (self.pages.len() * PAGE) as u64
    }

    /// Returns the pages of the content, of which shared ones are the same.
    pub(super) fn pages(&self) -> impl Iterator<Item = &Rc<Page>> {
        self.pages.values()
    }

    /// Fills `into` from `offset` on, inside the file.
    pub(super) fn read(&self, offset: usize, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            let (page, start) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let n = (PAGE - start).min(into.len() - done);
            match self.pages.get(&page) {
                Some(page) => into[done..done + n].copy_from_slice(&page.bytes[start..start + n]),
                None => into[done..done + n].fill(0),
            }
            done += n;
        }
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.read(0, &mut bytes);
        bytes
    }

    /// Returns the pages that writing a range would need room for: holes, and those shared with another file.
    pub(super) fn needs(&self, range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        pages.filter(|page| self.pages.get(page).is_none_or(|page| Rc::strong_count(page) > 1))
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        self.change(offset..end);
        self.put(offset, bytes);
        if end > self.len {
            self.set_len(end, false);
        }
    }

    /// Sets the size. Data beyond is dropped, and new bytes read as zeros. Returns the number by which the
    /// journal may [commit](Content::commit) it.
    pub(super) fn resize(&mut self, len: usize) -> u64 {
        self.event += 1;
        if len <= self.len {
            for sector in self.sectors_with_room(len..LEN_MAX) {
                self.remember(sector);
            }
            self.clear(len..LEN_MAX);
        }
        self.set_len(len, true);
        self.event
    }

    /// Sets a size beyond the end. Returns the number that [`Content::resize`] does.
    pub(super) fn grow(&mut self, len: usize) -> u64 {
        self.event += 1;
        self.set_len(len, true);
        self.event
    }

    /// Makes a range inside the file read as zeros, and frees its room.
    pub(super) fn punch(&mut self, range: Range<usize>) {
        self.event += 1;
        for sector in self.sectors_with_room(range.clone()) {
            self.remember(sector);
        }
        self.clear(range);
    }

    /// Allocates room for a range, whose content stays.
    pub(super) fn allocate(&mut self, range: Range<usize>) {
        for page in range.start / PAGE..range.end.div_ceil(PAGE) {
            self.pages.entry(page).or_insert_with(|| Page::zeroed(&self.space));
        }
    }

    /// Shares all of `other`, in place of the present content.
    pub(super) fn reflink(&mut self, other: &Self) -> u64 {
        self.event += 1;
        let mut sectors: Vec<_> = self.sectors_with_room(0..LEN_MAX).collect();
        sectors.extend(other.sectors_with_room(0..LEN_MAX));
        sectors.sort_unstable();
        sectors.dedup();
        sectors.into_iter().for_each(|sector| self.remember(sector));
        self.pages.clone_from(&other.pages);
        self.set_len(other.len, true);
        self.event
    }

    /// Returns the next data or hole from `offset` on; `None` when there is none before the end of the file.
    pub(super) fn seek(&self, offset: usize, to: SeekTo) -> Option<usize> {
        if offset >= self.len {
            return None;
        }
        let first = offset / PAGE;
        match to {
            SeekTo::Data => {
                let (&page, _) = self.pages.range(first..).next()?;
                Some((page * PAGE).max(offset)).filter(|&at| at < self.len)
            }
            SeekTo::Hole => {
                let hole = (first..).find(|page| !self.pages.contains_key(page)).unwrap_or(first);
                Some((hole * PAGE).max(offset).min(self.len))
            }
        }
    }

    /// Replaces the whole content, synced.
    pub(super) fn replace(&mut self, bytes: &[u8]) {
        self.pages.clear();
        self.put(0, bytes);
        self.len = bytes.len();
        self.sync();
    }

    /// Makes all written data safe, but for what the disk has refused.
    pub(super) fn sync(&mut self) {
        self.changed.retain(|_, history| history.live_since.is_none());
        self.sizes.clear();
        self.committed = self.event;
    }

    /// Notes that the disk has refused some of the data, sizes that were set being safe. The kernel keeps
    /// showing what it could not write, and never writes it again.
    pub(super) fn fail_sync(&mut self, engine: &mut Engine) {
        for (sector, history) in std::mem::take(&mut self.changed) {
            let refused = match history.live_since {
                None => Some(history),
                Some(_) => {
                    let allowed = self.allowed(sector, &self.sizes);
                    let left = history.draw(allowed, Left::Anything, engine);
                    left.map(|bytes| History {
                        versions: vec![Version { since: 0, bytes }],
                        live_since: None,
                    })
                }
            };
            if let Some(refused) = refused {
                self.changed.insert(sector, refused);
            }
        }
    }

    /// Returns whether it is time that the kernel writes back, as it does after half a minute or so.
    pub(super) fn is_overdue(&self) -> bool {
        self.changed.len() > CHANGED_MAX || self.event - self.committed > EVENTS_MAX
    }

    /// Notes that the journal has a size that was set, and all that were set before it.
    pub(super) fn commit(&mut self, resize: u64) {
        self.committed = self.committed.max(resize);
    }

    /// Commits a size where nothing orders changes of the inode: any size that was set may have come to the
    /// disk.
    pub(super) fn commit_any(&mut self, left: Left, engine: &mut Engine) {
        let set: Vec<_> = self.sizes.iter().filter(|s| s.is_set && s.since > self.committed).collect();
        let chosen = left.pick(set.len() + 1, engine);
        if let Some(size) = chosen.checked_sub(1).map(|n| set[n].since) {
            self.committed = size;
        }
    }

    /// Drops pages from memory: those that the disk has refused come back as it has them.
    pub(super) fn forget(&mut self, range: Range<usize>) {
        let sectors = range.start / SECTOR..range.end.div_ceil(SECTOR);
        let refused: Vec<_> =
            self.changed.range(sectors).filter(|(_, h)| h.live_since.is_none()).map(|(&s, _)| s).collect();
        for sector in refused {
            let history = self.changed.remove(&sector).expect("found above");
            self.put_sector(sector, history.versions[0].bytes.as_deref());
        }
        self.clear(self.len..self.len.next_multiple_of(PAGE));
    }

    /// Leaves of every changed sector, and of the size, some version since the last sync.
    pub(super) fn lose_power(&mut self, left: Left, engine: &mut Engine) {
        let sizes = std::mem::take(&mut self.sizes);
        let changed = std::mem::take(&mut self.changed);
        if !sizes.is_empty() {
            self.len = self.draw_size(&sizes, left, engine);
        }
        for (sector, history) in changed {
            let allowed = self.allowed(sector, &sizes);
            if let Some(bytes) = history.draw(allowed, left, engine) {
                self.put_sector(sector, bytes.as_deref());
            }
        }
        self.pages.retain(|&page, _| page < self.len.div_ceil(PAGE));
        self.clear(self.len..self.len.next_multiple_of(PAGE));
        self.sync();
    }

    /// Returns the least that a loss of power leaves of the file: nothing that need not have come to the
    /// disk.
    pub(super) fn on_disk(&self) -> Vec<u8> {
        let set = self.sizes.iter().rfind(|size| size.is_set && size.since <= self.committed);
        let len = set.or(self.sizes.first()).map_or(self.len, |size| size.len);
        let mut bytes = vec![0; len.next_multiple_of(PAGE)];
        for (page, found) in self.pages.range(..len.div_ceil(PAGE)) {
            bytes[page * PAGE..][..PAGE].copy_from_slice(&found.bytes);
        }
        for (sector, history) in self.changed.range(..bytes.len() / SECTOR) {
            let allowed = self.allowed(*sector, &self.sizes);
            let ends = history.versions.iter().skip(1).map(|version| version.since);
            let ends = ends.chain([history.live_since.unwrap_or(u64::MAX)]);
            let first = history.versions.iter().zip(ends).find(|(_, end)| *end > allowed.start);
            if let Some((version, _)) = first {
                let into = &mut bytes[sector * SECTOR..][..SECTOR];
                match &version.bytes {
                    Some(bytes) => into.copy_from_slice(&**bytes),
                    None => into.fill(0),
                }
            }
        }
        bytes.truncate(len);
        bytes
    }

    /// Frees the content's room, as it is no longer visible, though a loss of power may bring it back.
    pub(super) fn discount(&mut self) {
        for page in self.pages.values_mut() {
            if Rc::strong_count(page) > 1 {
                // A content that shared the page has it alone now.
                *page = Rc::new(Page::clone(page));
            }
            page.discount();
        }
    }

    /// Takes room for the content, which is visible again.
    pub(super) fn count(&self) {
        self.pages.values().for_each(|page| page.count());
    }

    /// Returns the changes between which a sector's versions may be on the disk. They lie behind the last
    /// size set that cut the sector and is there, before the first that cut it and is not.
    fn allowed(&self, sector: usize, sizes: &[Size]) -> Range<u64> {
        let cuts = sizes.iter().filter(|size| size.is_set && size.len < (sector + 1) * SECTOR);
        let mut allowed = 0..u64::MAX;
        for cut in cuts {
            if cut.since <= self.committed {
                allowed.start = cut.since;
            } else {
                allowed.end = allowed.end.min(cut.since);
            }
        }
        allowed
    }

    fn draw_size(&self, sizes: &[Size], left: Left, engine: &mut Engine) -> usize {
        let is_there = |size: &Size| size.since <= self.committed;
        let from = sizes.iter().rposition(|size| size.is_set && is_there(size)).unwrap_or(0);
        let grown = sizes[from + 1..].iter().take_while(|size| !size.is_set).count();
        let chosen = from + left.pick(grown + 1, engine);
        let len = sizes[chosen].len;
        let before = if chosen > from { sizes[chosen - 1].len } else { len };
        // Written back page by page: the size may be that of any of them.
        let first = before / PAGE + 1;
        if left == Left::Anything && first * PAGE < len && engine.chance(0.5) {
            return engine.rng.random_range(first..len.div_ceil(PAGE)) * PAGE;
        }
        len
    }

    /// Begins a change of a range by writing.
    fn change(&mut self, range: Range<usize>) {
        self.event += 1;
        for sector in range.start / SECTOR..range.end.div_ceil(SECTOR) {
            self.remember(sector);
        }
    }

    /// Keeps the version of a sector that is about to change.
    fn remember(&mut self, sector: usize) {
        let now = self.sector(sector);
        let history = self
            .changed
            .entry(sector)
            .or_insert_with(|| History { versions: Vec::with_capacity(1), live_since: Some(0) });
        if let Some(since) = history.live_since {
            history.versions.push(Version { since, bytes: now });
        }
        history.live_since = Some(self.event);
    }

    fn set_len(&mut self, len: usize, is_set: bool) {
        if self.sizes.is_empty() {
            self.sizes.push(Size { since: 0, len: self.len, is_set: false });
        }
        self.sizes.push(Size { since: self.event, len, is_set });
        self.len = len;
    }

    fn sector(&self, sector: usize) -> Option<Box<[u8; SECTOR]>> {
        let page = self.pages.get(&(sector * SECTOR / PAGE))?;
        let bytes = &page.bytes[sector * SECTOR % PAGE..][..SECTOR];
        bytes.iter().any(|&byte| byte != 0).then(|| Box::new(bytes.try_into().expect("a sector's length")))
    }

    fn put_sector(&mut self, sector: usize, bytes: Option<&[u8; SECTOR]>) {
        match bytes {
            Some(bytes) => self.put(sector * SECTOR, bytes),
            None => self.zero(sector * SECTOR..(sector + 1) * SECTOR),
        }
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let (page, start) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let n = (PAGE - start).min(bytes.len() - done);
            let page = self.pages.entry(page).or_insert_with(|| Page::zeroed(&self.space));
            Rc::make_mut(page).bytes[start..start + n].copy_from_slice(&bytes[done..done + n]);
            done += n;
        }
    }

    /// Takes whole pages away, and makes the rest of the range zeros.
    fn clear(&mut self, range: Range<usize>) {
        let whole = range.start.div_ceil(PAGE)..range.end / PAGE;
        let gone: Vec<_> = match whole.is_empty() {
            true => Vec::new(),
            false => self.pages.range(whole).map(|(&page, _)| page).collect(),
        };
        for page in gone {
            self.pages.remove(&page);
        }
        self.zero(range);
    }

    fn zero(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let (first, last) = (range.start / PAGE, (range.end - 1) / PAGE);
        for page in [first, last] {
            let Some(found) = self.pages.get_mut(&page) else { continue };
            let start = range.start.max(page * PAGE) - page * PAGE;
            let end = range.end.min((page + 1) * PAGE) - page * PAGE;
            Rc::make_mut(found).bytes[start..end].fill(0);
        }
    }

    /// Returns the sectors of a range that lie in pages; the others are zeros already.
    fn sectors_with_room(&self, range: Range<usize>) -> impl Iterator<Item = usize> + use<> {
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        let in_range =
            move |sector: &usize| (sector + 1) * SECTOR > range.start && sector * SECTOR < range.end;
        let pages: Vec<_> = self.pages.range(pages).map(|(&page, _)| page).collect();
        pages.into_iter().flat_map(|page| page * SECTORS..(page + 1) * SECTORS).filter(in_range)
    }
}

impl History {
    /// Draws one of the versions that began before the end of `allowed` and ended behind its start; the outer
    /// `None` is the version that readers see.
    #[expect(clippy::option_option, reason = "a sector of zeros has no bytes")]
    fn draw(self, allowed: Range<u64>, left: Left, engine: &mut Engine) -> Option<Option<Box<[u8; SECTOR]>>> {
        let mut ends: Vec<u64> = self.versions.iter().skip(1).map(|version| version.since).collect();
        ends.push(self.live_since.unwrap_or(u64::MAX));
        let mut candidates: Vec<_> = self
            .versions
            .into_iter()
            .zip(ends)
            .filter(|(version, end)| version.since < allowed.end && *end > allowed.start)
            .map(|(version, _)| Some(version.bytes))
            .collect();
        if self.live_since.is_some_and(|since| since < allowed.end) {
            candidates.push(None);
        }
        let chosen = left.pick(candidates.len(), engine);
        candidates.swap_remove(chosen)
    }
}

/// Unit that a disk writes whole or not at all, in bytes.
pub(super) const SECTOR: usize = 512;
const SECTORS: usize = PAGE / SECTOR;
/// Limit that no file's length reaches, in bytes.
const LEN_MAX: usize = 1 << 48;
/// Sectors changed, and changes, after which the kernel writes back of itself.
const CHANGED_MAX: usize = 1 << 17;
const EVENTS_MAX: u64 = 1 << 16;
