//! Watched directories: who hears of a change in one, and whether what was learnt in it still holds.
//!
//! On a writable volume a watched directory also rests on a promise: changes made by this server are told before they are
//! made, whatever the kernel's watches tell, and where there are none.
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
use lane::fs::{Dir, unwatch};
use lane::time;

use super::joined::Joined;
use super::key::{Key, KeyRef};
use crate::counters::VfsCounters;
use crate::object::{Object, Place};
use crate::promise::Promise;
use crate::root::Root;

/// The watches of one lane.
pub(crate) struct Watches {
    limit: usize,
    by_key: RefCell<HashMap<Key, Weak<WatchedDir>>>,
    /// The kernel knows one watch per directory; overlapping volumes know a directory by several paths.
    by_watch: RefCell<HashMap<Watch, Vec<Weak<WatchedDir>>>>,
    by_object: RefCell<HashMap<*const Object, Vec<Weak<WatchedDir>>>>,
    joined: Option<Rc<Joined>>,
    /// After the kernel refused a watch, no other is tried before this moment.
    refused_until: Cell<Option<Instant>>,
    counters: Arc<VfsCounters>,
}

/// A directory that is watched, or promised, or both, under one of its paths.
pub(crate) struct WatchedDir {
    watches: Weak<Watches>,
    watch: Option<Watch>,
    promise: Option<Rc<Promise>>,
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
    /// A change was being made: what is seen is not to be kept.
    is_doubtful: bool,
}

impl Watches {
    pub(super) fn new(limit: usize, joined: Option<Rc<Joined>>, counters: Arc<VfsCounters>) -> Rc<Self> {
        Rc::new(Self {
            limit,
            by_key: RefCell::default(),
            by_watch: RefCell::default(),
            by_object: RefCell::default(),
            joined,
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

    /// A point of view in the directory `key`, if it is promised and is `object`.
    pub(super) fn promised(&self, key: KeyRef<'_>, object: &Arc<Object>) -> Option<Vantage> {
        let known = self.known(&key.to_key())?;
        let is_it = known.object().is_some_and(|promised| Arc::ptr_eq(promised, object));
        is_it.then(|| self.vantage_of(Some(known)))
    }

    /// The paths by which this lane knows a directory.
    pub(super) fn of_object(&self, object: &Arc<Object>) -> Vec<Rc<WatchedDir>> {
        let by_object = self.by_object.borrow();
        by_object.get(&Arc::as_ptr(object)).into_iter().flatten().filter_map(Weak::upgrade).collect()
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
        let is_doubtful = watched.as_ref().is_some_and(|watched| watched.is_changing());
        Vantage { at: time::now(), watched, changes, is_doubtful }
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
        let joined = self.joined.as_ref().filter(|_| root.is_writable());
        if joined.is_none() && self.is_refused() {
            return None;
        }
        let above = self.vantage_of(upper.clone());
        let dir = root.open_real_directory(key.as_ref().path).await.ok()?;
        // Another task may have watched it while this one waited for the disk.
        if let Some(known) = self.known(&key) {
            return Some(known);
        }
        // A directory above that moved during the wait makes the path just opened doubtful.
        if !above.is_current() {
            return None;
        }
        let promise = match joined {
            Some(joined) => Some(self.promise(joined, &dir, &key, &above)?),
            None => None,
        };
        let watch = self.try_watch(&dir);
        if promise.is_none() && watch.is_none() {
            return None;
        }
        let watched = Rc::new(WatchedDir {
            watches: Rc::downgrade(self),
            watch,
            promise,
            key: key.clone(),
            current: Cell::new(true),
            changes: Cell::new(0),
            _upper: upper,
        });
        self.by_key.borrow_mut().insert(key, Rc::downgrade(&watched));
        if let Some(watch) = watch {
            self.by_watch.borrow_mut().entry(watch).or_default().push(Rc::downgrade(&watched));
        }
        if let Some(object) = watched.object() {
            let mut by_object = self.by_object.borrow_mut();
            by_object.entry(Arc::as_ptr(object)).or_default().push(Rc::downgrade(&watched));
        }
        self.gauge();
        Some(watched)
    }

    /// The lane's bit in the directory just opened. Those above had theirs before: a change of the name that led here
    /// shows in them.
    fn promise(&self, joined: &Joined, dir: &Dir, key: &Key, above: &Vantage) -> Option<Rc<Promise>> {
        let object = joined.objects.of(&dir.stat().ok()?).ok()?;
        let promise = joined.promises.hold(&object);
        if above.watched.is_some() && !above.holds_for_all(Duration::MAX) {
            return None;
        }
        if let (Some(upper), Some(name)) = (above.object(), key.as_ref().path.file_name()) {
            object.set_place(Place { directory: Arc::clone(upper), name: name.as_bytes().into() });
        }
        Some(promise)
    }

    fn try_watch(&self, dir: &Dir) -> Option<Watch> {
        if self.is_refused() {
            return None;
        }
        let watch = dir.watch();
        if watch.is_err() {
            self.counters.watches_refused.increment();
            self.refused_until.set(Some(time::now() + REFUSED_PAUSE));
        }
        watch.ok()
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
        if let Some(object) = watched.object() {
            let mut by_object = self.by_object.borrow_mut();
            if let Some(sharers) = by_object.get_mut(&Arc::as_ptr(object)) {
                sharers.retain(|weak| !is_it(weak));
                if sharers.is_empty() {
                    by_object.remove(&Arc::as_ptr(object));
                }
            }
        }
        let mut by_key = self.by_key.borrow_mut();
        if by_key.get(&watched.key).is_some_and(is_it) {
            by_key.remove(&watched.key);
        }
        drop(by_key);
        let Some(watch) = watched.watch else { return };
        let mut by_watch = self.by_watch.borrow_mut();
        let Some(sharers) = by_watch.get_mut(&watch) else { return };
        let before = sharers.len();
        sharers.retain(|weak| !is_it(weak));
        if sharers.is_empty() && before > 0 {
            by_watch.remove(&watch);
            unwatch(watch);
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

    /// The object whose promise it rests on.
    fn object(&self) -> Option<&Arc<Object>> {
        self.promise.as_ref().map(|promise| promise.object())
    }

    fn is_changing(&self) -> bool {
        self.object().is_some_and(|object| object.is_changing())
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
        self.is_current() && self.age() < ttl
    }

    /// Whether nothing at all has changed in the directory since.
    pub(crate) fn holds_for_all(&self, ttl: Duration) -> bool {
        !self.is_doubtful
            && self.holds_for_name(ttl)
            && self.watched.as_ref().is_none_or(|watched| watched.changes.get() == self.changes)
    }

    /// Time since the look.
    pub(crate) fn age(&self) -> Duration {
        time::now().saturating_duration_since(self.at)
    }

    /// Whether all changes are told, as against found out when the time to live is over.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.as_ref().is_some_and(|watched| watched.watch.is_some())
    }

    /// Whether it rests on promises: what is seen from it shows the changes that this server makes.
    pub(crate) fn is_promised(&self) -> bool {
        self.object().is_some()
    }

    /// The object of the directory that it looks into, if it rests on promises.
    pub(crate) fn object(&self) -> Option<&Arc<Object>> {
        self.watched.as_ref()?.object()
    }

    fn is_current(&self) -> bool {
        self.watched.as_ref().is_none_or(|watched| watched.current.get())
    }
}

/// How long the kernel is left alone after it refused a watch (its limits are the system's).
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
