//! Watched directories: which clients hear of a change in one, and whether what was learnt in it still holds.
//!
//! On a writable volume a watched directory also rests on a promise: changes made by this server are told before they are
//! made, whatever the kernel's watches tell, and where there are none.
//!
//! A [`WatchedDir`] lives as long as cached answers refer to it, so evicting answers frees watches. It keeps
//! its upper directories watched too, because a rename there moves everything beneath. A directory is watched by
//! its real path alone: what is reached through symbolic links rests on the directories of the links as well
//! ([`routes`](crate::routes)).

mod rights;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use coherence::PresenceToken;
use index::{Number, Version};
use lane::backend::Watch;
use lane::fs::{Dir, unwatch};
use lane::time;

use super::coherence_peer::CoherencePeer;
use super::key::{Key, KeyRef};
use super::pinned_watches::PinnedWatches;
use super::suspended_watches::ChangeRate;
use super::validity::Validity;
use super::watched_files::WatchedFiles;
use crate::access::Access;
use crate::attributes::Attributes;
use crate::callback::SharerGuard;
use crate::counters::VfsCounters;
use crate::object::{At, By, Log, Object, Place, RevalidationOwner};
use crate::root::Root;
use crate::withheld::{Withheld, WithheldHere};

/// The watches of one lane.
pub(crate) struct Watches {
    limit: usize,
    /// Time for which the rights of a directory that nothing watches are valid.
    ttl: Duration,
    by_key: RefCell<HashMap<Key, Weak<WatchedDir>>>,
    /// The kernel knows one watch per directory; overlapping volumes know a directory by several paths.
    by_watch: RefCell<HashMap<Watch, Vec<Weak<WatchedDir>>>>,
    /// Directories on the way to a sharer's guard: changes concern them already.
    arriving: RefCell<Vec<Weak<WatchedDir>>>,
    by_object: RefCell<HashMap<*const Object, Vec<Weak<WatchedDir>>>>,
    pinned: PinnedWatches,
    files: WatchedFiles,
    /// Set before the first writable volume is opened.
    peer: OnceCell<Rc<CoherencePeer>>,
    /// Names and files that are withheld from all clients, where any are.
    withheld: OnceCell<Arc<Withheld>>,
    /// Time before which no watch is tried, as the kernel refused one.
    refused_until: Cell<Option<Instant>>,
    counters: Arc<VfsCounters>,
}

/// A directory that is watched, or of which the lane is a sharer, or both, under one of its paths.
pub(crate) struct WatchedDir {
    watches: Weak<Watches>,
    watch: Cell<Option<Watch>>,
    change_rate: ChangeRate,
    /// Time until which its rights are valid, where no watch reports changes of them or of those of a directory above.
    believed_until: Cell<Option<Instant>>,
    /// Number of times that rights were [doubted](crate::Objects::revalidate_rights) when they were looked
    /// at.
    doubted: u64,
    /// Time when it was last kept for what was changed in it.
    kept: Cell<Option<Instant>>,
    /// Time until which it is kept for clients that rely on something in it.
    pinned_until: Cell<Option<Instant>>,
    /// Log of the changes of its names, for as long as clients rely on them.
    log: RefCell<Option<Arc<Log>>>,
    /// Ownership of the revalidation of its names, for as long as this lane vouches for them to other lanes.
    own_revalidation: RefCell<Option<RevalidationOwner>>,
    /// Set once a look has shown the directory as this server left it: its watch reports what others change
    /// afterwards.
    is_validated: Cell<bool>,
    promise: OnceCell<SharerGuard>,
    /// Rights, where the lane is a sharer.
    access: OnceCell<Access>,
    /// Part of the directory that is withheld from all clients, where it is watched.
    withheld: OnceCell<WithheldHere>,
    key: Key,
    current: Cell<bool>,
    changes: Cell<u64>,
    renames: Cell<u64>,
    /// Keeps the way to the root watched.
    upper: Option<Rc<WatchedDir>>,
    /// Makes a change of the directory's name ask this lane, where the directory above is watched.
    _mark: Option<PresenceToken>,
}

/// Reason why the lane cannot be a sharer of a directory: the object that is changing, or nothing that could
/// be waited for.
type BlockingChange = Option<Arc<Object>>;

impl Watches {
    pub(super) fn new(limit: usize, ttl: Duration, counters: Arc<VfsCounters>) -> Rc<Self> {
        Rc::new(Self {
            limit,
            ttl,
            by_key: RefCell::default(),
            by_watch: RefCell::default(),
            arriving: RefCell::default(),
            by_object: RefCell::default(),
            pinned: PinnedWatches::new(limit / 2),
            files: WatchedFiles::default(),
            peer: OnceCell::new(),
            withheld: OnceCell::new(),
            refused_until: Cell::new(None),
            counters,
        })
    }

    /// Has the cache take part in what lanes share.
    pub(super) fn join(&self, peer: &Rc<CoherencePeer>) {
        let _ = self.peer.set(Rc::clone(peer));
    }

    /// Withholds these from all clients from now on.
    pub(super) fn withhold(&self, withheld: &Arc<Withheld>) {
        let _ = self.withheld.set(Arc::clone(withheld));
    }

    /// Returns what is withheld from all clients.
    pub(super) fn withheld(&self) -> Option<&Arc<Withheld>> {
        self.withheld.get()
    }

    /// Watches the directory `key` names and all above it, as far as they exist and limits allow, and
    /// returns the point of view for looking at what lies in it.
    pub(super) async fn validity(self: &Rc<Self>, root: &Root, key: KeyRef<'_>) -> Validity {
        match self.watch_down_to(root, key).await {
            Ok(watched) => Validity::of(watched, None),
            Err(blocking_change) => Validity::blocked_by(blocking_change),
        }
    }

    /// Returns the validity for a look at one name, the last of `key`, whose answer may be kept.
    pub(super) async fn validity_above(self: &Rc<Self>, root: &Root, key: KeyRef<'_>) -> Validity {
        let (Some(parent), Some(name)) = (key.path.parent(), key.path.file_name()) else {
            return Validity::unwatched();
        };
        match self.watch_down_to(root, key.with_path(parent)).await {
            Ok(watched) => {
                let mark = watched.count_in(name.as_bytes());
                Validity::of(watched, mark)
            }
            Err(blocking_change) => Validity::blocked_by(blocking_change),
        }
    }

    /// Returns the directories that an event is about.
    pub(super) fn of_event(&self, watch: Watch) -> Vec<Rc<WatchedDir>> {
        let by_watch = self.by_watch.borrow();
        by_watch.get(&watch).into_iter().flatten().filter_map(Weak::upgrade).collect()
    }

    /// Returns the validity of looks in the directory `key`, if the lane is a sharer of it and it is `object`.
    pub(super) fn coherent_validity(&self, key: KeyRef<'_>, object: &Arc<Object>) -> Option<Validity> {
        let known = self.known(&key.to_key())?;
        let is_it = known.object().is_some_and(|promised| Arc::ptr_eq(promised, object));
        is_it.then(|| Validity::of(known, None))
    }

    /// Returns the directory under each path by which this lane knows it; where it once was, something else may be by
    /// now.
    pub(super) fn of_object(&self, object: &Arc<Object>) -> Vec<Rc<WatchedDir>> {
        let mut known = self.all_of_object(object);
        known.retain(|watched| watched.current.get());
        known
    }

    /// Returns all watches of an object, also those that are retired.
    fn all_of_object(&self, object: &Arc<Object>) -> Vec<Rc<WatchedDir>> {
        let by_object = self.by_object.borrow();
        by_object.get(&Arc::as_ptr(object)).into_iter().flatten().filter_map(Weak::upgrade).collect()
    }

    /// Directories whose watches are pinned.
    pub(super) fn pinned(&self) -> &PinnedWatches {
        &self.pinned
    }

    /// Returns the files that are watched themselves.
    pub(super) fn files(&self) -> &WatchedFiles {
        &self.files
    }

    /// Begins to watch a file itself; says whether it does, and was not watched already.
    pub(super) fn watch_file(&self, object: &Arc<Object>, watch: impl FnOnce() -> io::Result<Watch>) -> bool {
        let is_full = || self.files.len() >= self.limit / FILES_PART;
        if self.files.contains(object) || is_full() || self.is_refused() {
            return false;
        }
        match watch() {
            Ok(watch) => {
                self.files.add(watch, object);
                self.gauge();
                true
            }
            Err(_) => {
                self.note_refused();
                false
            }
        }
    }

    /// Returns the time until which the watch of a directory is pinned, or that of what is known by its path now.
    pub(super) fn pinned_until(&self, watched: &WatchedDir) -> Option<Instant> {
        watched.pinned_until().or_else(|| self.known(&watched.key)?.pinned_until())
    }

    /// Returns whether `key` is a watched directory itself.
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.by_key.borrow().contains_key(key) || !self.arriving.borrow().is_empty()
    }

    /// Forgets what lies at and beneath `top`, as it is no longer there, or can no longer be reached.
    pub(super) fn forget_subtree(&self, top: KeyRef<'_>) {
        self.forget_all_but(top, |_| false);
    }

    /// Forgets what lies beneath `top`, as it may be something else now.
    pub(super) fn forget_beneath(&self, top: KeyRef<'_>) {
        self.forget_all_but(top, |key| key.as_ref().path.as_bytes() == top.path.as_bytes());
    }

    /// Forgets what is within `top`, but for some.
    fn forget_all_but(&self, top: KeyRef<'_>, but: impl Fn(&Key) -> bool) {
        self.by_key.borrow_mut().retain(|key, watched| {
            let stays = !key.as_ref().is_within(top) || but(key);
            if let (false, Some(watched)) = (stays, watched.upgrade()) {
                watched.retire();
            }
            stays
        });
        for arriving in self.arriving.borrow().iter().filter_map(Weak::upgrade) {
            if arriving.key().is_within(top) && !but(&arriving.key) {
                arriving.retire();
            }
        }
    }

    /// Forgets a watch that the kernel dropped, or whose directory has moved away.
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
                watched.retire();
            }
        }
        self.arriving.borrow().iter().filter_map(Weak::upgrade).for_each(|one| one.retire());
    }

    pub(super) async fn watch_down_to(
        self: &Rc<Self>,
        root: &Root,
        key: KeyRef<'_>,
    ) -> Result<Rc<WatchedDir>, BlockingChange> {
        if let Some(known) = self.current(&key.to_key()) {
            return Ok(known);
        }
        let mut upper = None;
        for path in key.path.prefixes() {
            let key = key.with_path(path).to_key();
            let watched = match (self.current(&key), root.shared().is_some()) {
                (Some(known), _) => known,
                (None, true) => self.begin_coherent(root, key, upper).await?,
                (None, false) => self.begin(root, key, upper).await.ok_or(None)?,
            };
            upper = Some(watched);
        }
        Ok(upper.expect("the root is a prefix of every path"))
    }

    pub(super) fn known(&self, key: &Key) -> Option<Rc<WatchedDir>> {
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
        let watched = self.unknown(&key, upper);
        if !self.try_watch(&watched, &dir) {
            return None;
        }
        self.enter(&watched);
        Some(watched)
    }

    /// Begins the watch of a directory whose changes this server makes ([`Watches::begin`]). What is learnt of it
    /// rests on two guards of a sharer: the directory above has this name for it, and the directory itself keeps its
    /// place and its rights.
    async fn begin_coherent(
        self: &Rc<Self>,
        root: &Root,
        key: Key,
        upper: Option<Rc<WatchedDir>>,
    ) -> Result<Rc<WatchedDir>, BlockingChange> {
        // From here on a change of the name, or of one above, finds it.
        let watched = self.unknown(&key, upper);
        self.arriving.borrow_mut().push(Rc::downgrade(&watched));
        let promised = self.promise(root, &watched).await;
        self.arriving.borrow_mut().retain(|one| !std::ptr::eq(one.as_ptr(), Rc::as_ptr(&watched)));
        promised?;
        if !watched.is_unmoved() {
            return Err(None);
        }
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        self.enter(&watched);
        Ok(watched)
    }

    async fn promise(&self, root: &Root, watched: &Rc<WatchedDir>) -> Result<(), BlockingChange> {
        let peer = self.peer.get().expect("writable volumes are opened in caches that share");
        let shared = root.shared().expect("what is promised lies on a writable volume");
        let path = watched.key().path;
        if let (Some(above), Some(name)) = (watched.upper_object(), path.file_name())
            && above.is_changing_name(name.as_bytes())
        {
            return Err(Some(Arc::clone(above)));
        }
        let dir = root.open_real_directory(path).await.map_err(|_| None)?;
        let stat = dir.stat().map_err(|_| None)?;
        let above = watched.upper_object().zip(path.file_name());
        let at = above.map(|(directory, name)| At { directory, name: name.as_bytes() });
        let by = By::Open(dir.as_file());
        let object = shared.object_of(root.dir(), by, &stat, at).await.map_err(|_| None)?;
        if path.is_root() {
            root.keep_object(&object);
        }
        watched.promise.set(peer.callbacks.add_sharer(&object)).ok().expect("it is new");
        self.by_object.borrow_mut().entry(Arc::as_ptr(&object)).or_default().push(Rc::downgrade(watched));
        if object.is_moving() {
            return Err(Some(object));
        }
        // Before its rights are looked at: what others change of them from here on is told.
        let unsent = (!self.try_watch(watched, &dir)).then(|| time::now() + self.ttl);
        let untold_above = watched.upper.as_ref().and_then(|upper| upper.believed_until.get());
        watched.believed_until.set(unsent.into_iter().chain(untold_above).min());
        // Looked at again: what was seen before the promise may have changed untold.
        let stat = dir.stat().map_err(|_| None)?;
        let list = root.access_list(&dir, &object, path).await.map_err(|_| None)?;
        let upper = watched.upper.as_ref();
        if let Some(withheld) = self.withheld.get() {
            let above = upper.and_then(|upper| upper.withheld.get());
            let above = above.zip(path.file_name().map(|name| name.as_bytes()));
            let here = withheld.of_directory(Attributes::from(stat).id, above);
            watched.withheld.set(here).expect("it is new");
        }
        let above = upper.and_then(|upper| upper.access.get());
        watched.access.set(Access::new(&stat, list.as_deref(), &object, above)).ok().expect("it is new");
        // Changed meanwhile, it may be of before or after: it is looked at anew.
        if !watched.is_unmoved() {
            return Err(None);
        }
        if let (Some(above), Some(name)) = (watched.upper_object(), path.file_name()) {
            object.set_place(Place { directory: Arc::clone(above), name: name.as_bytes().into() });
        }
        Ok(())
    }

    /// Makes the entry of a directory of which nothing is known yet.
    fn unknown(self: &Rc<Self>, key: &Key, upper: Option<Rc<WatchedDir>>) -> Rc<WatchedDir> {
        let name = key.as_ref().path.file_name();
        let mark = upper.as_ref().zip(name).and_then(|(upper, name)| upper.count_in(name.as_bytes()));
        Rc::new(WatchedDir {
            watches: Rc::downgrade(self),
            watch: Cell::new(None),
            change_rate: ChangeRate::new(time::now()),
            believed_until: Cell::new(None),
            doubted: self.peer.get().map_or(0, |peer| peer.objects.rights_generation()),
            kept: Cell::new(None),
            pinned_until: Cell::new(None),
            log: RefCell::default(),
            own_revalidation: RefCell::default(),
            is_validated: Cell::new(false),
            promise: OnceCell::new(),
            access: OnceCell::new(),
            withheld: OnceCell::new(),
            key: key.clone(),
            current: Cell::new(true),
            changes: Cell::new(0),
            renames: Cell::new(0),
            upper,
            _mark: mark,
        })
    }

    /// Puts a directory on the books. A client that relied on it where it was before does so by this from now on.
    fn enter(&self, watched: &Rc<WatchedDir>) {
        for before in watched.object().map(|object| self.all_of_object(object)).into_iter().flatten() {
            if !before.current.get() {
                self.pinned.pass_on(&before, watched);
            }
        }
        self.by_key.borrow_mut().insert(watched.key.clone(), Rc::downgrade(watched));
        self.gauge();
    }

    /// Watches a directory that has no watch yet, which reports its events from here on, whether or not the table has
    /// it. Returns whether it does.
    fn try_watch(&self, watched: &Rc<WatchedDir>, dir: &Dir) -> bool {
        if self.is_refused() {
            return false;
        }
        let Ok(watch) = dir.watch() else {
            self.note_refused();
            return false;
        };
        watched.watch.set(Some(watch));
        self.by_watch.borrow_mut().entry(watch).or_default().push(Rc::downgrade(watched));
        true
    }

    /// Notes that the kernel has refused a watch: no other is tried for a while.
    fn note_refused(&self) {
        self.counters.watches_refused.increment();
        self.refused_until.set(Some(time::now() + REFUSED_PAUSE));
    }

    /// Returns how many watches there are.
    fn len(&self) -> usize {
        self.by_watch.borrow().len() + self.files.len()
    }

    fn is_refused(&self) -> bool {
        if self.len() >= self.limit {
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
        let Some(watch) = watched.watch.get() else { return };
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

    /// Returns whether nothing else is known by its watch, but for what was known by the same path before.
    pub(super) fn is_alone_in(&self, watch: Watch, watched: &WatchedDir) -> bool {
        let by_watch = self.by_watch.borrow();
        by_watch.get(&watch).is_some_and(|sharers| {
            let mut sharers = sharers.iter().filter_map(Weak::upgrade);
            sharers.all(|one| std::ptr::eq(&*one, watched) || one.key == watched.key && !one.current.get())
        })
    }

    /// Removes a watch from the table, and from the directory that has it.
    pub(super) fn forget_watch_of(&self, watch: Watch) {
        let sharers = self.by_watch.borrow_mut().remove(&watch).into_iter().flatten();
        for sharer in sharers.filter_map(|sharer| sharer.upgrade()) {
            sharer.watch.set(None);
            sharer.own_revalidation.take();
        }
        self.gauge();
    }

    pub(super) fn counters(&self) -> &VfsCounters {
        &self.counters
    }

    pub(super) fn gauge(&self) {
        self.counters.watches.set(self.len() as u64);
    }
}

impl WatchedDir {
    /// Notes that an entry changed.
    pub(super) fn note_change(&self) {
        self.changes.set(self.changes.get() + 1);
    }

    /// Notes that a name came, went or leads to something else.
    pub(super) fn note_rename(&self) {
        self.renames.set(self.renames.get() + 1);
    }

    /// Returns how often a name came, went or came to lead to something else.
    pub(super) fn renames(&self) -> u64 {
        self.renames.get()
    }

    /// Returns how often an entry changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes.get()
    }

    pub(super) fn key(&self) -> KeyRef<'_> {
        self.key.as_ref()
    }

    /// Returns the kernel's watch of it, where there is one.
    pub(super) fn watch(&self) -> Option<Watch> {
        self.watch.get()
    }

    /// Returns whether the kernel reports what happens to it and in it.
    pub(crate) fn is_watched(&self) -> bool {
        self.watch.get().is_some()
    }

    /// Returns whether it was kept within this time; if not it is now.
    pub(super) fn keep_for(&self, a_while: Duration) -> bool {
        let now = time::now();
        let is_kept = self.kept.get().is_some_and(|kept| now.saturating_duration_since(kept) < a_while);
        if !is_kept {
            self.kept.set(Some(now));
        }
        is_kept
    }

    /// Returns the time until which its watch is [pinned](super::pinned_watches).
    pub(super) fn pinned_until(&self) -> Option<Instant> {
        self.pinned_until.get()
    }

    pub(super) fn pin_until(&self, until: Option<Instant>) {
        self.pinned_until.set(until);
        if until.is_none() {
            self.log.take();
            self.own_revalidation.take();
        }
    }

    /// Keeps a log of what this server changes of its names, on which clients rely, for as long as it is kept for
    /// clients. So changes of others are known by comparison.
    pub(crate) fn keep_log(&self, object: &Arc<Object>) {
        let mut log = self.log.borrow_mut();
        if log.is_none() && self.pinned_until.get().is_some() {
            *log = self.object().filter(|own| Arc::ptr_eq(own, object)).map(|own| own.keep_log());
        }
    }

    /// Returns whether what this server changes of its names is put down.
    pub(super) fn keeps_log(&self) -> bool {
        self.log.borrow().is_some()
    }

    /// Returns whether it was known to be as this server left it once it was watched. Of one that rests that
    /// is found at the end of the rest.
    pub(crate) fn is_validated(&self) -> bool {
        self.is_validated.get() || self.change_rate.is_suspended()
    }

    /// Notes that a look has shown the directory as this server left it.
    pub(crate) fn validate(&self) {
        self.is_validated.set(true);
    }

    /// Returns how often it was changed by this server, where lanes share that.
    pub(super) fn version(&self) -> Option<Version> {
        Some(self.object()?.version())
    }

    /// Returns how often it was changed lately.
    pub(super) fn change_rate(&self) -> &ChangeRate {
        &self.change_rate
    }

    /// Returns the object of which the lane is a sharer.
    pub(crate) fn object(&self) -> Option<&Arc<Object>> {
        self.promise.get().map(|promise| promise.object())
    }

    /// Counts the lane in for one name in the directory, where the lane is a sharer of it.
    pub(super) fn count_in(&self, name: &[u8]) -> Option<PresenceToken> {
        let watches = self.watches.upgrade()?;
        Some(watches.peer.get()?.count_in(self.object()?, name))
    }

    /// Returns the number of the directory that holds an object which was found by way of this one: in it, or as
    /// itself. Takes no lock. Returns `None` for a volume's own directory, and where the lane is no sharer.
    pub(crate) fn number_above(&self, object: &Arc<Object>) -> Option<Number> {
        let here = self.object()?;
        let above = if Arc::ptr_eq(here, object) { self.upper_object()? } else { here };
        Some(above.number())
    }

    fn upper_object(&self) -> Option<&Arc<Object>> {
        self.upper.as_ref()?.object()
    }

    /// Returns whether neither it nor anything above has moved.
    fn is_unmoved(&self) -> bool {
        self.current.get() && self.upper.as_ref().is_none_or(|upper| upper.current.get())
    }

    /// Returns whether the lane is a sharer of the directory.
    pub(crate) fn is_coherent(&self) -> bool {
        self.promise.get().is_some()
    }

    /// Returns whether the directory, or what has this name in it, is withheld from all clients.
    pub(crate) fn withholds(&self, name: Option<&[u8]>) -> bool {
        self.withheld.get().is_some_and(|withheld| match name {
            Some(name) => withheld.has(name),
            None => withheld.is_all(),
        })
    }

    /// Returns whether more of it may be withheld by now.
    pub(super) fn withholds_more_than(&self, now: Option<&Arc<Withheld>>) -> bool {
        now.zip(self.withheld.get()).is_some_and(|(now, here)| here.is_of_before(now))
    }

    /// Returns whether its rights were looked at too long ago for a directory of which nothing is reported. What is
    /// done while a watch is suspended is looked for then.
    pub(super) fn is_stale(&self) -> bool {
        let is_doubted = |object: &Arc<Object>| object.volume().objects().rights_generation() != self.doubted;
        self.believed_until.get().is_some_and(|until| time::now() >= until)
            || self.object().is_some_and(is_doubted)
    }

    /// Returns whether it is still where it was, and what it was.
    pub(crate) fn is_current(&self) -> bool {
        self.current.get() && !self.is_stale()
    }

    /// Retires the watch: the directory is no longer where it was, or no longer what it was.
    pub(super) fn retire(&self) {
        self.current.set(false);
        self.own_revalidation.take();
    }

    /// Makes this lane a revalidation owner of the directory's names: it is watched, and earlier external changes
    /// were reported.
    pub(crate) fn own_revalidation(&self) {
        if self.watch.get().is_some() && self.current.get() {
            *self.own_revalidation.borrow_mut() =
                self.log.borrow().as_ref().map(|log| log.own_revalidation());
        }
    }

    /// Notes that this lane is no longer a revalidation owner of the directory's names.
    pub(crate) fn release_revalidation(&self) {
        self.own_revalidation.take();
    }

    pub(super) fn is_changing(&self) -> bool {
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

//@ limit: files of several names that are watched themselves because clients rely on them
//@ section: Writable volumes
//@ unit: file
//@ all: lane: a quarter of 8,192, within them
//@ empty: what other programs do by a name in an unwatched directory is told at the next look
//@ counter: vfs_watches
//@ attack: afs-pools
/// Part of a lane's watches that may be of files.
const FILES_PART: usize = 4;
/// Time for which the kernel is left alone after it refused a watch (its limits are the system's).
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
