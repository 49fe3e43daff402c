//! Watched directories: who hears of a change in one, and whether what was learnt in it still holds.
//!
//! A [`WatchedDir`] lives as long as cached answers refer to it, so evicting answers frees watches. It keeps
//! its upper directories watched too, because a rename there moves everything beneath. A directory reached
//! through a symbolic link is never watched: nothing would tell of the link's far end being moved.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lane::backend::Watch;
use lane::fs::unwatch;
use lane::time;

use super::key::{Key, KeyRef};
use crate::counters::VfsCounters;
use crate::root::Root;

/// The watches of one lane.
pub(crate) struct Watches {
    limit: usize,
    by_key: RefCell<HashMap<Key, Weak<WatchedDir>>>,
    /// The kernel knows one watch per directory; overlapping volumes know a directory by several paths.
    by_watch: RefCell<HashMap<Watch, Vec<Weak<WatchedDir>>>>,
    /// After the kernel refused a watch, no other is tried before this moment.
    refused_until: Cell<Option<Instant>>,
    counters: Arc<VfsCounters>,
}

/// A directory that is watched, under one of its paths.
pub(crate) struct WatchedDir {
    watches: Weak<Watches>,
    watch: Watch,
    key: Key,
    current: Cell<bool>,
    changes: Cell<u64>,
    /// Keeps the way to the root watched.
    _upper: Option<Rc<WatchedDir>>,
}

/// When and under whose watch something was learnt from the file system. Taken before the look, so that a
/// change during the look counts as one after it.
#[derive(Clone)]
pub(crate) struct Vantage {
    at: Instant,
    watched: Option<Rc<WatchedDir>>,
    changes: u64,
}

impl Watches {
    pub(super) fn new(limit: usize, counters: Arc<VfsCounters>) -> Rc<Self> {
        Rc::new(Self {
            limit,
            by_key: RefCell::default(),
            by_watch: RefCell::default(),
            refused_until: Cell::new(None),
            counters,
        })
    }

    /// Watches the directory `key` names and all above it, as far as they exist and limits allow, and
    /// returns the point of view for looking at what lies in it.
    pub(super) async fn vantage(self: &Rc<Self>, root: &Root, key: KeyRef<'_>) -> Vantage {
        let watched = self.watch_down_to(root, key).await;
        self.vantage_of(watched)
    }

    /// A point of view without a watch: what is seen from it is good for the time to live only.
    pub(super) fn unwatched_vantage(&self) -> Vantage {
        self.vantage_of(None)
    }

    /// The directories an event is about.
    pub(super) fn of_event(&self, watch: Watch) -> Vec<Rc<WatchedDir>> {
        let by_watch = self.by_watch.borrow();
        by_watch.get(&watch).into_iter().flatten().filter_map(Weak::upgrade).collect()
    }

    /// Whether `key` is a watched directory itself.
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.by_key.borrow().contains_key(key)
    }

    /// What lies at and beneath `top` is no longer where it was, or can no longer be reached.
    pub(super) fn forget_subtree(&self, top: KeyRef<'_>) {
        self.by_key.borrow_mut().retain(|key, watched| {
            let stays = !key.is_within(top);
            if let (false, Some(watched)) = (stays, watched.upgrade()) {
                watched.current.set(false);
            }
            stays
        });
    }

    /// The kernel dropped a watch, or what it watches has moved away.
    pub(super) fn forget_watch(&self, watch: Watch) -> bool {
        let gone = self.of_event(watch);
        for watched in &gone {
            self.forget_subtree(watched.key.as_ref());
        }
        // Moved directories are watched on; this one's next watch must be a new one.
        if self.by_watch.borrow_mut().remove(&watch).is_some() {
            unwatch(watch);
            self.gauge();
        }
        !gone.is_empty()
    }

    /// Events were lost: no watch vouches for anything learnt so far, and any may have ended unheard.
    pub(super) fn forget_all(&self) {
        for (_, watched) in self.by_key.borrow_mut().drain() {
            if let Some(watched) = watched.upgrade() {
                watched.current.set(false);
            }
        }
    }

    fn vantage_of(&self, watched: Option<Rc<WatchedDir>>) -> Vantage {
        let changes = watched.as_ref().map_or(0, |watched| watched.changes.get());
        Vantage { at: time::now(), watched, changes }
    }

    async fn watch_down_to(self: &Rc<Self>, root: &Root, key: KeyRef<'_>) -> Option<Rc<WatchedDir>> {
        if let Some(known) = self.known(&key.to_key()) {
            return Some(known);
        }
        let mut upper = None;
        for path in key.path.prefixes() {
            let key = key.with_path(path).to_key();
            let watched = match self.known(&key) {
                Some(known) => known,
                None => self.begin(root, key, upper).await?,
            };
            upper = Some(watched);
        }
        upper
    }

    fn known(&self, key: &Key) -> Option<Rc<WatchedDir>> {
        self.by_key.borrow().get(key)?.upgrade()
    }

    async fn begin(
        self: &Rc<Self>,
        root: &Root,
        key: Key,
        upper: Option<Rc<WatchedDir>>,
    ) -> Option<Rc<WatchedDir>> {
        if self.is_refused() {
            return None;
        }
        let dir = root.open_real_directory(key.as_ref().path).await.ok()?;
        // Another task may have watched it while this one waited for the disk.
        if let Some(known) = self.known(&key) {
            return Some(known);
        }
        // A directory above that moved during the wait makes the path just opened doubtful.
        if upper.as_ref().is_some_and(|upper| !upper.current.get()) {
            return None;
        }
        let watch = match dir.watch() {
            Ok(watch) => watch,
            Err(_) => {
                self.counters.watches_refused.increment();
                self.refused_until.set(Some(time::now() + REFUSED_PAUSE));
                return None;
            }
        };
        let watched = Rc::new(WatchedDir {
            watches: Rc::downgrade(self),
            watch,
            key: key.clone(),
            current: Cell::new(true),
            changes: Cell::new(0),
            _upper: upper,
        });
        self.by_key.borrow_mut().insert(key, Rc::downgrade(&watched));
        self.by_watch.borrow_mut().entry(watch).or_default().push(Rc::downgrade(&watched));
        self.gauge();
        Some(watched)
    }

    fn is_refused(&self) -> bool {
        if self.by_watch.borrow().len() >= self.limit {
            self.counters.watches_refused.increment();
            return true;
        }
        self.refused_until.get().is_some_and(|until| time::now() < until)
    }

    /// Takes a directory that nothing refers to any more off the books.
    fn end(&self, watched: &WatchedDir) {
        let is_it = |weak: &Weak<WatchedDir>| std::ptr::eq(weak.as_ptr(), watched);
        let mut by_key = self.by_key.borrow_mut();
        if by_key.get(&watched.key).is_some_and(is_it) {
            by_key.remove(&watched.key);
        }
        drop(by_key);
        let mut by_watch = self.by_watch.borrow_mut();
        let Some(sharers) = by_watch.get_mut(&watched.watch) else { return };
        let before = sharers.len();
        sharers.retain(|weak| !is_it(weak));
        if sharers.is_empty() && before > 0 {
            by_watch.remove(&watched.watch);
            unwatch(watched.watch);
        }
        drop(by_watch);
        self.gauge();
    }

    fn gauge(&self) {
        self.counters.watches.set(self.by_watch.borrow().len() as u64);
    }
}

impl WatchedDir {
    /// Notes that an entry changed.
    pub(super) fn note_change(&self) {
        self.changes.set(self.changes.get() + 1);
    }

    pub(super) fn key(&self) -> KeyRef<'_> {
        self.key.as_ref()
    }
}

impl Drop for WatchedDir {
    fn drop(&mut self) {
        if let Some(watches) = self.watches.upgrade() {
            watches.end(self);
        }
    }
}

impl Vantage {
    /// Whether an answer about one name is still good: events drop such answers by name, so only its age
    /// and upper directories that moved speak against it.
    pub(crate) fn holds_for_name(&self, ttl: Duration) -> bool {
        self.watched.as_ref().is_none_or(|watched| watched.current.get()) && self.age() < ttl
    }

    /// Whether nothing at all has changed in the directory since.
    pub(crate) fn holds_for_all(&self, ttl: Duration) -> bool {
        self.holds_for_name(ttl)
            && self.watched.as_ref().is_none_or(|watched| watched.changes.get() == self.changes)
    }

    /// Time since the look.
    pub(crate) fn age(&self) -> Duration {
        time::now().saturating_duration_since(self.at)
    }

    /// Whether changes are told, as against found out when the time to live is over.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.is_some()
    }
}

/// How long the kernel is left alone after it refused a watch (its limits are the system's).
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
