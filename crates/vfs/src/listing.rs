//! Listings: what a directory held at one moment, what it takes to believe it later, and who reads it now.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use lane::fs::FileKind;

use crate::attributes::{Attributes, ChangeToken};
use crate::cache::{CacheOptions, Validity};
use crate::error::Error;
use crate::fold::{FoldedNames, fold};
use crate::listing_budget::ListingCharge;
use crate::object::ListedAt;

/// The entries of a directory, sorted by the bytes of their names. Shared: cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Listing {
    cached: Rc<CachedListing>,
}

/// One name of a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name, as the file system keeps it.
    pub name: Box<[u8]>,
    /// Attributes; of the link's far end if `symlink`, but among [`Listing::links`].
    pub attributes: Attributes,
    /// The name is a symbolic link that leads to a file or directory of the volume.
    pub symlink: bool,
}

/// A listing and the conditions under which it is valid later.
pub(crate) struct CachedListing {
    entries: Box<[Entry]>,
    links: Box<[Entry]>,
    /// Indices of files that have other names: changes by those names are not reported in this directory.
    linked: Box<[u32]>,
    /// Number of entries found, those that are not served among them.
    found: usize,
    /// Change token of the directory from before the entries were read.
    token: ChangeToken,
    validity: Validity,
    /// Reading that tells whether this server changed something since; `None` on a volume without objects.
    listed: Option<ListedAt>,
    /// Time that the reading took.
    took: Duration,
    derived: OnceCell<Rc<dyn Any>>,
    folded: OnceCell<FoldedNames>,
    _charge: ListingCharge,
}

/// Readings of a directory under way, so that a crowd of clients makes the file system read it once.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    reading: Cell<usize>,
    finished: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

/// One reading; it ends when this is dropped, come to its end or given up.
pub(crate) struct Reading<'a> {
    readers: &'a Readers,
}

impl Listing {
    pub(crate) fn new(cached: Rc<CachedListing>) -> Self {
        Self { cached }
    }

    pub(crate) fn within(self, max: usize) -> Result<Self, Error> {
        if self.cached.found > max { Err(Error::TooLarge { max }) } else { Ok(self) }
    }

    /// Returns what a service derives from this very listing, such as orders to show it in. It begins empty, and is
    /// kept and shared for as long as the listing is. A lane has one type of it; another type gets a new value each
    /// time.
    pub fn derived<T: Default + 'static>(&self) -> Rc<T> {
        let kept = self.cached.derived.get_or_init(|| Rc::new(T::default()));
        Rc::clone(kept).downcast().unwrap_or_default()
    }

    /// Finds the first name that is `name` in any case, and returns it as it is stored.
    pub(crate) async fn find_folded(&self, name: &[u8]) -> Option<Box<[u8]>> {
        if self.cached.folded.get().is_none() {
            let folded = FoldedNames::of(self).await;
            // Somebody else may have been faster.
            let _ = self.cached.folded.set(folded);
        }
        let wanted = fold(name);
        let mut found = self.cached.folded.get().expect("set above").find(&wanted);
        let at = found.find(|&at| fold(&self[at].name) == wanted)?;
        Some(self[at].name.clone())
    }

    /// Returns the symbolic links with their own attributes, sorted by the bytes of their names; also those that lead
    /// nowhere.
    pub fn links(&self) -> &[Entry] {
        &self.cached.links
    }

    /// Returns a number that tells this listing from any other that is alive.
    pub fn identity(&self) -> usize {
        Rc::as_ptr(&self.cached).addr()
    }
}

impl Deref for Listing {
    type Target = [Entry];

    fn deref(&self) -> &[Entry] {
        &self.cached.entries
    }
}

impl CachedListing {
    pub(crate) fn new(
        (entries, links): (Box<[Entry]>, Box<[Entry]>),
        found: usize,
        token: ChangeToken,
        (validity, listed): (Validity, Option<ListedAt>),
        took: Duration,
        charge: ListingCharge,
    ) -> Self {
        let has_others = |entry: &Entry| {
            !entry.symlink && entry.attributes.kind == FileKind::File && entry.attributes.nlink > 1
        };
        let linked = (0_u32..).zip(&entries).filter(|(_, entry)| has_others(entry)).map(|(at, _)| at);
        Self {
            linked: linked.collect(),
            entries,
            links,
            found,
            token,
            validity,
            listed,
            took,
            derived: OnceCell::new(),
            folded: OnceCell::new(),
            _charge: charge,
        }
    }

    /// Returns whether the listing is still valid for a directory whose token is `now`.
    pub(crate) fn holds(&self, now: ChangeToken, options: &CacheOptions) -> bool {
        let ttl = if self.validity.is_watched() { ttl(options, self.took) } else { options.ttl };
        self.token == now
            && self.validity.holds_for_all(ttl)
            && self.listed.as_ref().is_none_or(ListedAt::holds)
    }

    /// Returns the files of the listing that have other names.
    pub(crate) fn linked(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.linked.iter().map(|&at| &self.entries[at as usize])
    }

    pub(crate) fn age(&self) -> Duration {
        self.validity.age()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() + self.links.len()
    }
}

impl std::fmt::Debug for CachedListing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.entries).finish()
    }
}

impl Readers {
    pub(crate) fn begin(&self) -> Reading<'_> {
        self.reading.set(self.reading.get() + 1);
        Reading { readers: self }
    }

    /// Waits until a reading that is under way has ended; `false` at once when there is none.
    pub(crate) async fn wait_for_one(&self) -> bool {
        if self.reading.get() == 0 {
            return false;
        }
        let seen = self.finished.get();
        std::future::poll_fn(|cx| {
            if self.finished.get() != seen {
                return Poll::Ready(true);
            }
            self.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.readers.reading.set(self.readers.reading.get() - 1);
        self.readers.finished.set(self.readers.finished.get() + 1);
        let waiting = self.readers.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Returns the time for which the listing of a watched directory is valid that took so long to read.
fn ttl(options: &CacheOptions, took: Duration) -> Duration {
    options.listing_ttl.max(TTL_MAX.min(took.saturating_mul(RESTS)))
}

/// Time for which a listing is valid, as a multiple of the time that it took to read. It bounds the share of a lane's
/// time that goes into reading again what nothing reports.
const RESTS: u32 = 100;
/// Largest time for which a listing is valid because it took long to read.
const TTL_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_that_takes_long_to_read_is_believed_for_longer() {
        let options = CacheOptions::default();
        let believed = |took_ms| ttl(&options, Duration::from_millis(took_ms)).as_millis();
        assert_eq!([0, 10, 11, 50, 100, 60_000].map(believed), [1_000, 1_000, 1_100, 5_000, 10_000, 10_000]);
        let day = Duration::from_secs(86_400);
        let patient = CacheOptions { listing_ttl: day, ..CacheOptions::default() };
        assert_eq!(ttl(&patient, Duration::from_secs(60)), day);
        assert_eq!(ttl(&options, Duration::MAX), TTL_MAX);
    }
}
