//! What one lane remembers of its volumes: open files and directories, absent names and listings, each
//! bounded and found by borrowed path bytes; and the task that hears of changes.
//!
//! A cached answer is used while its [`Validity`] holds. Change events drop answers by name; a moved or
//! removed directory, or lost events, make the vantage of all that depends on it fail; and after the time to
//! live every vantage fails, so that a change nobody told of is found by opening the name anew. Absent names
//! have a cache of their own: a scan for names that do not exist evicts no open file.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::CString;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use budget::Consumer;
use index::Number;
use lane::Task;
use lane::backend::Watch;
use lane::fs::FileKind;
use quick_cache::Weighter;

pub use self::coherence_peer::{ClientNotification, InvalidationListener};
pub(crate) use self::coherence_peer::{CoherencePeer, staging_process};
use self::key::Key;
pub(crate) use self::key::{KeyRef, OpeningId};
pub(crate) use self::validity::Validity;
pub(crate) use self::watches::{WatchedDir, Watches};
use crate::attributes::FileId;
use crate::callback::Invalidation;
use crate::counters::VfsCounters;
use crate::directory::OpenDirectory;
use crate::error::Error;
use crate::file::OpenFile;
use crate::grant::BreaksToSend;
use crate::listing::CachedListing;
use crate::listing_budget::{ListingBudget, ListingCharge};
use crate::name::RelPathBuf;
use crate::object::{Object, Objects};
use crate::root::Root;
use crate::volume::WeakVolume;
use crate::withheld::Withheld;

mod clients;
mod coherence_peer;
mod external_events;
mod folded_images;
mod kernel_events;
mod key;
mod moved_directories;
mod pinned_watches;
mod revalidation;
mod suspended_watches;
mod validity;
mod watched_files;
mod watches;

/// Bounds of a lane's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Files and directories kept open. Each costs a descriptor.
    pub open_files_max: usize,
    /// Absent names remembered.
    pub absent_names_max: usize,
    /// Entries of all remembered listings together.
    pub listing_entries_max: usize,
    /// Directories watched for changes. The kernel has a limit of its own per user.
    pub watches_max: usize,
    /// Time for which a name is valid before it is opened anew, whatever change notification says.
    pub ttl: Duration,
    /// Time for which the attributes in a listing of a watched directory are valid. Nothing reports what other
    /// programs do to a file by a name in another directory, which it has just got. Every use checks which names there
    /// are, and looks at the files that had several. A listing that takes long to read is valid for a hundred times as
    /// long, 10 s at most.
    pub listing_ttl: Duration,
    /// Time for which an unused answer is kept that holds no descriptor.
    pub idle_max: Duration,
    /// Time for which an unused file or directory is kept open: it is closed after once to twice this time. While it
    /// is open, a removed file takes space and its file system is busy for `umount`.
    pub open_idle_max: Duration,
}

/// Cache of one lane: open files and directories, absent names and listings of its volumes. Make one per lane: it is
/// the one reader of the lane's change events.
#[derive(Clone)]
pub struct Cache {
    inner: Rc<Inner>,
}

/// A file or directory kept open.
#[derive(Clone)]
pub(crate) enum Node {
    File(Rc<OpenFile>),
    Directory(Rc<OpenDirectory>),
}

struct Inner {
    options: CacheOptions,
    open: RefCell<Cached<(Node, Validity)>>,
    absent: RefCell<Cached<Validity>>,
    /// Directories in which something was changed lately: the lane goes on caching them when it has forgotten all that
    /// it knew in them.
    changed: RefCell<Cached<Validity>>,
    /// Paths of files that clients named by their numbers.
    numbers: OnceCell<RefCell<Numbers>>,
    /// Real paths of directories that are reached through symbolic links, on volumes without objects.
    routes: RefCell<Cached<Route>>,
    listings: RefCell<quick_cache::unsync::Cache<Key, Rc<CachedListing>, EntryWeight>>,
    images: folded_images::Images,
    watches: Rc<Watches>,
    /// Coherence with the caches of other lanes; empty where there are no writable volumes.
    peer: OnceCell<Rc<CoherencePeer>>,
    counters: Arc<VfsCounters>,
    /// Budget of entries of listings in memory, remembered or not.
    entry_budget: Rc<ListingBudget>,
    /// Budget of bytes of pages of names.
    page_budget: Rc<ListingBudget>,
    next_opening: Cell<u32>,
    /// Objects that change notification reported and that wait for a look.
    pending_revalidation: RefCell<revalidation::PendingRevalidation>,
    moved_directories: RefCell<moved_directories::MovedDirectories>,
    /// Changes of other programs in directories that clients watch.
    external_events: RefCell<external_events::ExternalEvents>,
    suspended: RefCell<suspended_watches::SuspendedWatches>,
    listener: RefCell<Option<Task<()>>>,
    sweeper: RefCell<Option<Task<()>>>,
    /// Task that answers other lanes.
    request_server: RefCell<Option<Task<()>>>,
}

/// The real path of a directory, and what it rests on.
pub(crate) type Route = (Rc<RelPathBuf>, Validity);
type Cached<T> = quick_cache::unsync::Cache<Key, T>;
type Numbers = quick_cache::unsync::Cache<(OpeningId, Number), Rc<RelPathBuf>>;

/// A cached answer to a look-up.
pub(crate) enum CachedLookup {
    Open(Node),
    Absent,
}

impl Cache {
    /// Makes an empty cache for the current lane, for volumes without objects.
    pub fn new(options: CacheOptions) -> Self {
        let counters = Arc::new(VfsCounters::default());
        let listings_estimate = options.listing_entries_max / LISTING_ENTRIES_TYPICAL;
        Self {
            inner: Rc::new(Inner {
                options,
                open: RefCell::new(Cached::new(options.open_files_max)),
                absent: RefCell::new(Cached::new(options.absent_names_max)),
                changed: RefCell::new(Cached::new(CHANGED_MAX)),
                numbers: OnceCell::new(),
                routes: RefCell::new(Cached::new(ROUTES_MAX)),
                listings: RefCell::new(quick_cache::unsync::Cache::with_weighter(
                    listings_estimate,
                    options.listing_entries_max as u64,
                    EntryWeight,
                )),
                images: folded_images::Images::new(options.listing_entries_max),
                watches: Watches::new(options.watches_max, options.ttl, Arc::clone(&counters)),
                peer: OnceCell::new(),
                counters,
                entry_budget: ListingBudget::new(ALIVE_TIMES * options.listing_entries_max),
                page_budget: ListingBudget::new(PAGE_BYTES_ALIVE_MAX),
                next_opening: Cell::new(0),
                pending_revalidation: RefCell::default(),
                moved_directories: RefCell::default(),
                external_events: RefCell::default(),
                suspended: RefCell::default(),
                listener: RefCell::new(None),
                sweeper: RefCell::new(None),
                request_server: RefCell::new(None),
            }),
        }
    }

    /// Makes an empty cache for the current lane that takes part in the objects of its process: for writable volumes.
    ///
    /// # Panics
    /// As [`Cache::join`].
    pub fn sharing(options: CacheOptions, objects: &Objects) -> Self {
        let cache = Self::new(options);
        cache.join(objects);
        cache
    }

    /// Has it take part in the objects of its process from now on. Volumes that it has open stay as they are; nothing
    /// happens when it takes part already.
    ///
    /// # Panics
    /// When another cache of this lane takes part, or the lane's number is beyond [`ObjectsOptions::lanes_max`].
    ///
    /// [`ObjectsOptions::lanes_max`]: crate::ObjectsOptions::lanes_max
    pub fn join(&self, objects: &Objects) {
        let inner = &self.inner;
        if inner.peer.get().is_some() {
            return;
        }
        let peer = inner.peer.get_or_init(|| Rc::new(CoherencePeer::new(objects, &inner.counters)));
        inner.watches.join(peer);
        let (weak, objects, me) = (Rc::downgrade(inner), objects.clone(), peer.member());
        let answer = move || coherence_peer::serve_requests(weak.clone(), objects.clone(), me);
        inner.request_server.replace(Some(lane::spawn_restarting("answers to changes", answer)));
    }

    /// Withholds this set from all clients from now on. The first call counts.
    pub fn withhold(&self, withheld: &Arc<Withheld>) {
        self.inner.watches.withhold(withheld);
    }

    /// Returns the set of what is withheld from all clients; `None` if nothing is.
    pub(crate) fn withheld(&self) -> Option<&Arc<Withheld>> {
        self.inner.watches.withheld()
    }

    /// Returns the cache's counters; other threads read them.
    pub fn counters(&self) -> &Arc<VfsCounters> {
        &self.inner.counters
    }

    /// Returns the cache's bounds.
    pub fn options(&self) -> &CacheOptions {
        &self.inner.options
    }

    /// Closes the files and directories that are not in use, so that their file systems can be unmounted. What else is
    /// remembered stays.
    pub fn close_unused(&self) {
        self.inner.open.borrow_mut().clear();
        self.inner.gauge();
    }

    /// Lets go of everything remembered. Files in use stay open with their users.
    pub fn clear(&self) {
        self.inner.open.borrow_mut().clear();
        self.inner.absent.borrow_mut().clear();
        self.inner.changed.borrow_mut().clear();
        if let Some(numbers) = self.inner.numbers.get() {
            numbers.borrow_mut().clear();
        }
        self.inner.routes.borrow_mut().clear();
        self.inner.listings.borrow_mut().clear();
        self.inner.images.clear();
        self.inner.watches.pinned().clear();
        self.inner.gauge();
    }

    /// Adds a service's listener, for as long as it lives: it receives invalidations before the changes are made.
    ///
    /// # Panics
    /// For a cache that does not [share](Cache::sharing).
    pub fn add_invalidation_listener(&self, listener: &Rc<dyn InvalidationListener>) {
        let peer = self.peer().expect("only what lanes share is changed");
        peer.add_invalidation_listener(listener);
    }

    /// Returns the objects that it shares with other lanes' caches; `None` where it shares none.
    pub fn objects(&self) -> Option<&Objects> {
        self.peer().map(|peer| &peer.objects)
    }

    /// Returns its coherence with other lanes' caches; `None` where it shares nothing with them.
    pub(crate) fn peer(&self) -> Option<&CoherencePeer> {
        self.inner.peer.get().map(|peer| &**peer)
    }

    /// Returns the validity of looks in the directory `key`, if the lane is a sharer of it and it is `object`.
    pub(crate) fn coherent_validity(&self, key: KeyRef<'_>, object: &Arc<Object>) -> Option<Validity> {
        self.inner.watches.coherent_validity(key, object)
    }

    /// Returns the answer remembered for `key`, if it still holds, and the directory in which it was seen, if it rests
    /// on that.
    pub(crate) fn find_seen(&self, key: KeyRef<'_>) -> Option<(CachedLookup, Option<Rc<WatchedDir>>)> {
        self.remembered(key, |found, validity| (found, validity.watched().cloned()))
    }

    /// Returns the answer remembered for `key`, if it still holds.
    pub(crate) fn find(&self, key: KeyRef<'_>) -> Option<CachedLookup> {
        self.remembered(key, |found, _| found)
    }

    fn remembered<T>(&self, key: KeyRef<'_>, give: impl FnOnce(CachedLookup, &Validity) -> T) -> Option<T> {
        let inner = &*self.inner;
        if let Some((node, validity)) = inner.open.borrow().get(&key) {
            let holds = validity.holds_for_name(inner.options.ttl);
            return holds.then(|| give(CachedLookup::Open(node.clone()), validity));
        }
        let absent = inner.absent.borrow();
        let validity = absent.get(&key)?;
        validity.holds_for_name(inner.options.ttl).then(|| give(CachedLookup::Absent, validity))
    }

    /// Returns the directory `key` as the lane caches it.
    pub(crate) fn known(&self, key: KeyRef<'_>) -> Option<Rc<WatchedDir>> {
        self.inner.watches.known(&key.to_key())
    }

    /// Returns the node remembered for `key`, if it still holds.
    pub(crate) fn find_open(&self, key: KeyRef<'_>) -> Option<Node> {
        match self.find(key)? {
            CachedLookup::Open(node) => Some(node),
            CachedLookup::Absent => None,
        }
    }

    pub(crate) fn peer_rc(&self) -> Option<&Rc<CoherencePeer>> {
        self.inner.peer.get()
    }

    /// Returns a number for a writer, which no other of the process has.
    pub(crate) fn number_writer(&self) -> u64 {
        self.peer().expect("only what lanes share is changed").number_writer()
    }

    /// Returns a name of the server's own for something that clients do not see yet.
    pub(crate) fn new_staged_name(&self) -> CString {
        let peer = self.peer().expect("only what lanes share is changed");
        peer.new_staged_name()
    }

    /// Invalidates these objects on every lane and breaks their clients' callbacks. The caller holds their change
    /// locks.
    pub(crate) async fn invalidate_everywhere(&self, all: &[Invalidation]) {
        self.inner.invalidate_everywhere(all).await;
    }

    /// Sends lease and oplock breaks to their holders.
    pub(crate) fn send_breaks(&self, breaks: BreaksToSend) {
        self.inner.send_breaks(breaks);
    }

    /// Returns the lane as the home of holders whose connections it has: breaks are sent from there.
    pub(crate) fn home(&self) -> grants::Home {
        self.peer().expect("only what lanes share is opened so").home()
    }

    pub(crate) fn note_volume(&self, volume: WeakVolume) {
        self.inner.note_volume(volume);
    }

    pub(crate) fn new_opening(&self) -> OpeningId {
        let id = self.inner.next_opening.get();
        self.inner.next_opening.set(id + 1);
        OpeningId(id)
    }

    /// Returns the node remembered for `key`, whether or not it still holds.
    pub(crate) fn peek(&self, key: KeyRef<'_>) -> Option<Node> {
        self.inner.open.borrow().peek(&key).map(|(node, _)| node.clone())
    }

    /// Keeps `node` open for `key`, and gives what its users share: where another look was faster and found the same,
    /// that one's node.
    pub(crate) fn keep_open(&self, key: KeyRef<'_>, node: Node, validity: Validity) -> Node {
        let inner = &*self.inner;
        inner.absent.borrow_mut().remove(&key);
        let faster = self.peek(key).filter(|kept| kept.is_same(&node));
        let node = faster.unwrap_or(node);
        // A change heard of during the look may be the one that the look missed.
        if validity.keeps(inner.options.ttl) {
            inner.open.borrow_mut().insert(key.to_key(), (node.clone(), validity));
        } else {
            inner.open.borrow_mut().remove(&key);
        }
        self.after_insert();
        node
    }

    pub(crate) fn keep_absent(&self, key: KeyRef<'_>, validity: Validity) {
        let inner = &*self.inner;
        inner.open.borrow_mut().remove(&key);
        if validity.keeps(inner.options.ttl) {
            inner.absent.borrow_mut().insert(key.to_key(), validity);
        }
        self.after_insert();
    }

    /// Keeps the directory `key`, in which something is about to change: more may be soon.
    pub(crate) fn keep_changed(&self, key: KeyRef<'_>, validity: &Validity) {
        if validity.watched().is_none_or(|watched| watched.keep_for(KEPT_ANEW)) {
            return;
        }
        self.inner.changed.borrow_mut().insert(key.to_key(), validity.clone());
        self.after_insert();
    }

    /// Pins a directory's watch until then: a client holds a callback in it, and other programs may change it as
    /// well.
    pub(crate) fn pin_watch(&self, watched: &Rc<WatchedDir>, until: Instant) {
        // Without a watch there is nothing to keep, but for one that rests.
        if watched.watch().is_none() && !watched.change_rate().is_suspended() {
            return;
        }
        if self.inner.watches.pinned().keep(watched, until) {
            self.inner.counters.pinned_watches_evicted.increment();
        }
    }

    /// Begins to watch a file itself for as long as clients rely on it; says whether it does.
    pub(crate) fn watch_file(&self, object: &Arc<Object>, watch: impl FnOnce() -> io::Result<Watch>) -> bool {
        self.inner.watches.watch_file(object, watch)
    }

    /// Pins the watch of a directory in which clients have something open that they may cache, for as long as it is
    /// open: other programs may change it too.
    pub(crate) fn pin_for_opens(&self, watched: &Rc<WatchedDir>) {
        self.pin_watch(watched, lane::time::now());
    }

    /// Notes that what is open by a name looks as another program has left it. It is revalidated soon, and clients
    /// that cache it are notified.
    pub(crate) fn revalidate_open(&self, key: KeyRef<'_>) {
        self.inner.revalidate_open(Some(key.to_key()));
    }

    /// Does what [`Cache::revalidate_open`] does for all that is open by names in a directory.
    pub(crate) fn revalidate_all_open_in(&self, validity: &Validity) {
        self.inner.revalidate_all_open_in(validity.watched().map(|watched| &**watched));
    }

    /// Returns the path at which the file of this number was, in the volume of `key`. The caller checks that the file
    /// is still there.
    pub(crate) fn path_of_number(&self, key: KeyRef<'_>, number: Number) -> Option<Rc<RelPathBuf>> {
        self.inner.numbers.get()?.borrow().get(&(key.volume, number)).cloned()
    }

    /// Remembers the path of `key` as that of the file of this number.
    pub(crate) fn keep_number(&self, key: KeyRef<'_>, number: Number) {
        let max = self.inner.options.open_files_max;
        let numbers = self.inner.numbers.get_or_init(|| RefCell::new(Numbers::new(max)));
        numbers.borrow_mut().insert((key.volume, number), Rc::new(key.path.into()));
    }

    /// Remembers the path of a new file, if clients name files by their numbers.
    pub(crate) fn keep_new_number(&self, key: KeyRef<'_>, number: Number) {
        if self.inner.numbers.get().is_some() {
            self.keep_number(key, number);
        }
    }

    /// Forgets what is remembered for `key`; says whether there was something.
    pub(crate) fn forget(&self, key: KeyRef<'_>) -> bool {
        self.inner.forget(key)
    }

    /// Forgets what is remembered at and beneath `key`, as it is something else by now.
    pub(crate) fn forget_at(&self, key: KeyRef<'_>) {
        self.inner.forget_at(key);
    }

    /// Lets go of all open files because the process has no descriptor left.
    pub(crate) fn shed(&self) {
        let count = self.inner.open.borrow().len() as u64;
        self.inner.counters.invalidated_shed.add(count);
        self.close_unused();
    }

    /// Charges the entries of a listing to the client that is to read it, for as long as anything uses it.
    ///
    /// # Errors
    /// [`Error::Overloaded`] where listings of the client hold too many for ten seconds.
    pub(crate) async fn charge_entries(
        &self,
        consumer: Consumer,
        max: usize,
    ) -> Result<ListingCharge, Error> {
        self.charge(&self.inner.entry_budget, consumer, max).await
    }

    /// Charges the bytes of a page of names to the client that is to read it, for as long as anything uses it.
    ///
    /// # Errors
    /// [`Error::Overloaded`] where pages of the client hold too much for ten seconds.
    pub(crate) async fn charge_page(&self, consumer: Consumer, bytes: usize) -> Result<ListingCharge, Error> {
        self.charge(&self.inner.page_budget, consumer, bytes).await
    }

    async fn charge(
        &self,
        budget: &Rc<ListingBudget>,
        consumer: Consumer,
        count: usize,
    ) -> Result<ListingCharge, Error> {
        budget.charge(consumer, count).await.map_err(|_| {
            self.inner.counters.listings_refused.increment();
            Error::Overloaded
        })
    }

    /// Returns the bytes of the pages of names that the lane holds.
    pub fn page_bytes(&self) -> usize {
        self.inner.page_budget.held()
    }

    /// Returns the real path of the directory `key`, and what that rests on, if it still holds.
    pub(crate) fn find_route(&self, key: KeyRef<'_>) -> Option<Route> {
        let routes = self.inner.routes.borrow();
        let route = routes.get(&key)?;
        route.1.holds_for_name(self.inner.options.ttl).then(|| route.clone())
    }

    pub(crate) fn keep_route(&self, key: KeyRef<'_>, route: Route) {
        if route.1.keeps(self.inner.options.ttl) {
            self.inner.routes.borrow_mut().insert(key.to_key(), route);
            self.after_insert();
        }
    }

    pub(crate) fn find_listing(&self, key: KeyRef<'_>) -> Option<Rc<CachedListing>> {
        self.inner.listings.borrow().get(&key).cloned()
    }

    pub(crate) fn keep_listing(&self, key: KeyRef<'_>, listing: Rc<CachedListing>) {
        self.inner.listings.borrow_mut().insert(key.to_key(), listing);
        self.after_insert();
    }

    /// Makes the validity of looks at entries of the directory `key`; watches it where that can be.
    pub(crate) async fn validity(&self, root: &Root, key: KeyRef<'_>) -> Validity {
        let validity = self.inner.watches.validity(root, key).await;
        if validity.is_watched() {
            self.listen();
        }
        validity
    }

    /// Makes the validity of a look at the name `key`: its directory's, or none for a volume's own.
    pub(crate) async fn validity_above(&self, root: &Root, key: KeyRef<'_>) -> Validity {
        let validity = self.inner.watches.validity_above(root, key).await;
        if validity.is_watched() {
            self.listen();
        }
        validity
    }

    /// Brings the gauges up to date once something is remembered, and sees that it will be forgotten in time.
    fn after_insert(&self) {
        self.inner.gauge();
        let mut sweeper = self.inner.sweeper.borrow_mut();
        if sweeper.as_ref().is_none_or(Task::is_finished) && !self.inner.is_empty() {
            let CacheOptions { idle_max, open_idle_max, .. } = self.inner.options;
            *sweeper = Some(lane::spawn(sweep(Rc::downgrade(&self.inner), idle_max.min(open_idle_max))));
        }
    }
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            //@ limit: files kept open, and paths of files asked for by number
            //@ section: Writable volumes
            //@ unit: file
            //@ all: lane: {}
            //@ empty: the least used goes; others wait for a search by the index
            //@ counter: vfs_open_cached, vfs_reopened
            //@ attack: http2-resets
            open_files_max: 4096,
            absent_names_max: 8192,
            //@ limit: entries of listings
            //@ section: Files and listings
            //@ unit: entry
            //@ connection: `listing_sorted` (10,000) of each directory; a larger one is read while it is sent
            //@ address: three times what is free, and a user likewise
            //@ all: lane: {} cached, twice that while they are read
            //@ empty: the least used is forgotten; whoever has its share waits 10 s for some, then 503; others wait for the disk
            //@ counter: vfs_listing_entries_cached, vfs_listings_refused
            //@ attack: http-stalled-listings
            listing_entries_max: 262_144,
            //@ limit: directories watched because clients rely on something in them
            //@ section: Files and listings
            //@ unit: directory
            //@ all: lane: half of {}
            //@ empty: the one whose promises end first is watched no more; its clients hear at the next look
            //@ counter: vfs_pinned_watches_evicted, vfs_watches
            //@ attack: afs-pools
            watches_max: 8192,
            ttl: Duration::from_secs(1),
            listing_ttl: Duration::from_secs(1),
            idle_max: Duration::from_secs(30),
            open_idle_max: Duration::from_secs(5),
        }
    }
}

impl Node {
    pub(crate) fn id(&self) -> FileId {
        match self {
            Self::File(file) => file.id(),
            Self::Directory(directory) => directory.id(),
        }
    }

    pub(crate) fn object(&self) -> Option<&Arc<Object>> {
        match self {
            Self::File(file) => file.object(),
            Self::Directory(directory) => directory.object(),
        }
    }

    pub(crate) fn into_file(self) -> Option<Rc<OpenFile>> {
        match self {
            Self::File(file) => Some(file),
            Self::Directory(_) => None,
        }
    }

    /// Returns whether both are the same file or directory.
    fn is_same(&self, other: &Self) -> bool {
        let same_object = match (self.object(), other.object()) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        self.kind() == other.kind() && self.id() == other.id() && same_object
    }

    pub(crate) fn kind(&self) -> FileKind {
        match self {
            Self::File(_) => FileKind::File,
            Self::Directory(_) => FileKind::Directory,
        }
    }
}

impl Inner {
    /// Forgets all that lies in a directory, as it may be something else now.
    fn forget_within(&self, top: KeyRef<'_>) {
        let stays =
            |key: &Key| key.as_ref().path.as_bytes() == top.path.as_bytes() || !key.as_ref().is_within(top);
        self.open.borrow_mut().retain(|key, _| stays(key));
        self.absent.borrow_mut().retain(|key, _| stays(key));
        self.watches.forget_beneath(top);
        self.gauge();
    }

    fn forget(&self, key: KeyRef<'_>) -> bool {
        let open = self.open.borrow_mut().remove(&key);
        let absent = self.absent.borrow_mut().remove(&key);
        let found = open.is_some() || absent.is_some();
        if found {
            self.gauge();
        }
        found
    }

    /// Drops what has not been used lately: use makes an answer's vantage young again.
    fn sweep(self: &Rc<Self>) {
        let CacheOptions { idle_max, open_idle_max, .. } = self.options;
        let elsewhere = self.watches.pinned().sweep();
        self.revalidate_all_open_in(elsewhere.iter().map(|watched| &**watched));
        self.sweep_files();
        self.open.borrow_mut().retain(|_, (_, validity)| validity.age() < open_idle_max);
        self.absent.borrow_mut().retain(|_, validity| validity.age() < idle_max);
        self.changed.borrow_mut().retain(|_, validity| validity.age() < idle_max);
        self.routes.borrow_mut().retain(|_, (_, validity)| validity.age() < idle_max);
        self.listings.borrow_mut().retain(|_, listing| listing.age() < idle_max);
        self.images.sweep(idle_max);
        self.gauge();
    }

    fn is_empty(&self) -> bool {
        self.open.borrow().is_empty()
            && self.absent.borrow().is_empty()
            && self.changed.borrow().is_empty()
            && self.routes.borrow().is_empty()
            && self.listings.borrow().is_empty()
            && self.images.is_empty()
            && self.watches.pinned().is_empty()
            && self.watches.files().len() == 0
    }

    fn gauge(&self) {
        self.counters.open_cached.set(self.open.borrow().len() as u64);
        self.counters.absent_cached.set(self.absent.borrow().len() as u64);
        self.counters.listing_entries_cached.set(self.listings.borrow().weight());
        if let Some(peer) = self.peer.get() {
            self.counters.objects_shared.set(peer.callbacks.object_count() as u64);
        }
    }
}

/// Forgets what is not in use, until nothing is left or the cache is gone.
async fn sweep(inner: Weak<Inner>, every: Duration) {
    loop {
        lane::time::sleep(every).await;
        let Some(inner) = inner.upgrade() else { return };
        inner.sweep();
        if inner.is_empty() {
            return;
        }
    }
}

/// A listing weighs its entries; an empty one still takes a place.
#[derive(Clone)]
struct EntryWeight;

impl Weighter<Key, Rc<CachedListing>> for EntryWeight {
    fn weight(&self, _: &Key, listing: &Rc<CachedListing>) -> u64 {
        listing.len() as u64 + 1
    }
}

/// Entries in memory, cached or still being read, as a multiple of those that may be cached.
const ALIVE_TIMES: usize = 2;
//@ limit: names of large directories that are being listed
//@ section: Files and listings
//@ unit: byte, five beside each name
//@ connection: a page of 32 MiB at a time; what does not fit is read when its turn comes
//@ address: three times what is free, and a user likewise
//@ all: lane: {:b}
//@ empty: whoever has its share waits 10 s for some, then STATUS_INSUFFICIENT_RESOURCES; others feel nothing
//@ counter: vfs_listings_refused
//@ attack: smb-patterns
/// Bytes of pages of names, read or being read.
const PAGE_BYTES_ALIVE_MAX: usize = 128 << 20;
/// Time for which a changed directory is kept before another use is noted.
const KEPT_ANEW: Duration = Duration::from_secs(1);
//@ limit: directories relied on because something was changed there
//@ section: Files and listings
//@ unit: directory, for 30 s
//@ all: lane: {}
//@ empty: the one changed least is relied on for as long as something in it is remembered
//@ counter: vfs_objects_shared
//@ attack: http-edges
/// Directories that are relied on because something was changed in them lately.
const CHANGED_MAX: usize = 256;
//@ limit: ways through links that are remembered
//@ section: Files and listings
//@ unit: directory
//@ all: lane: {}
//@ empty: the least used go; others wait for a way that is followed again
//@ counter: vfs_link_routes
//@ attack: http-link-chains
/// Directories reached through symbolic links whose real paths are remembered.
const ROUTES_MAX: usize = 1024;
/// Sizes the table of listings.
const LISTING_ENTRIES_TYPICAL: usize = 64;

#[cfg(test)]
mod tests;
