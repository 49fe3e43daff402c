//! Watches of clients: events in a directory, or anywhere beneath it, told as they happen: names that come
//! and go, and files that change, whichever lane and whichever service does it. Without a watch, a change
//! looks at one number.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use budget::{Books, Consumer, Shares};
use index::{Kind, Number};
use lane::fs::EntryChange;

use super::queued_events::{DueEvent, NoticedEvent, NoticedQueue as Noticing, OwnNameChange, QueuedEvent};
use super::{Object, Place, SharedVolume};
use crate::name::{Name, RelPath, RelPathBuf};

/// Options of a client's watch.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// Set if everything beneath the directory is watched, not its own names alone.
    pub beneath: bool,
    /// Kinds of events that are reported.
    pub kinds: EventMask,
}

/// A set of kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventMask(u8);

impl EventMask {
    /// A mask of no kinds of events.
    pub const NONE: Self = Self(0);
    /// Names of files come and go.
    pub const FILES: Self = Self(1);
    /// Names of directories come and go.
    pub const DIRECTORIES: Self = Self(2);
    /// Content or length becomes another.
    pub const CONTENT: Self = Self(4);
    /// Attributes, times and extended attributes become others.
    pub const ATTRIBUTES: Self = Self(8);
    /// Access lists become others.
    pub const RIGHTS: Self = Self(16);
    /// A file has got another name: reported once more, for the new one.
    pub const MOVED: Self = Self(32);

    /// Returns whether it has any of these.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the kind of events of names of an object with this number.
    pub(crate) fn of_name(number: Number) -> Self {
        match number.kind() {
            Kind::Root | Kind::Directory => Self::DIRECTORIES,
            Kind::File => Self::FILES,
        }
    }
}

impl std::ops::BitOr for EventMask {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Event of a name, or of what has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The name has come.
    Added,
    /// The name has gone.
    Removed,
    /// The name was given up for another one of the directory, which is reported next.
    RenamedFrom,
    /// See [`EventKind::RenamedFrom`].
    RenamedTo,
    /// The file with the name has changed.
    Modified,
}

/// One thing that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Kind of the event.
    pub what: EventKind,
    /// Path of the name, from the watched directory on.
    pub path: RelPathBuf,
}

/// Report of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchReport {
    /// Events since the last report, in order; never none.
    Events(Vec<Event>),
    /// Events were lost: more than are kept, or something unknown. Look anew.
    Lost,
    /// The directory is removed, or is about to be.
    Going,
}

/// A directory that is watched, until this is dropped. Any lane may ask.
#[derive(Debug)]
pub struct Watch(Arc<Watched>);

#[derive(Debug)]
struct Watched {
    directory: Arc<Object>,
    how: WatchOptions,
    consumer: Consumer,
    queue: Mutex<EventQueue>,
    /// Number of times that directories have come or gone beneath.
    grown: AtomicU32,
    /// Set if the kernel's watch reports what others do in the directory.
    is_kernel_watched: AtomicBool,
}

/// Handle that shows whether a client still watches.
pub(crate) struct WatchAlive(Weak<Watched>);

/// Attributes of a file whose change the kernel reports.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileLook {
    /// The file was changed last at this time.
    Changed(SystemTime),
    /// Nothing has the name any more, or there was no look.
    Unknown,
}

/// A change of this server, of one name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnChange<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) what: EventKind,
    pub(crate) kinds: EventMask,
    pub(crate) echo: Echo,
}

/// Event of the kernel's watch that a change of this server causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    /// The same event that is reported.
    Same,
    /// An event that the name came: another file has come to have it in one step.
    Came,
    /// No event of its own.
    None,
}

impl OwnChange<'_> {
    fn heard_as(&self) -> Option<KernelChange> {
        match self.echo {
            Echo::Same => Some(self.what.into()),
            Echo::Came => Some(KernelChange::Came),
            Echo::None => None,
        }
    }
}

/// Report on a name.
struct NameReport<'a> {
    directory: &'a Arc<Object>,
    name: &'a [u8],
    what: EventKind,
    kinds: EventMask,
    is_own: bool,
    until: SystemTime,
    heard: u64,
}

/// Recent report on a name, so that the kernel's word of it is known.
#[derive(Debug)]
struct Recent {
    directory: usize,
    name: Box<[u8]>,
    change: KernelChange,
    /// Set if the change is this server's.
    is_own: bool,
    at: Instant,
    /// Time until which the file was changed.
    until: SystemTime,
    /// Lanes whose watch has reported it too, each as the bit of its number modulo 64.
    heard: u64,
}

/// Change of a name, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelChange {
    Came,
    Went,
    Other,
}

#[derive(Debug, Default)]
struct EventQueue {
    events: VecDeque<Event>,
    is_lost: bool,
    goes: bool,
    waiting: Option<Waker>,
}

#[derive(Debug)]
struct AllWatches {
    /// Watches by the directory's object, which each of them keeps alive.
    by_directory: HashMap<usize, Vec<Arc<Watched>>>,
    /// Numbers of watches by client.
    books: Books,
    recent: VecDeque<Recent>,
    noticed: Noticing,
}

/// The watches of clients in one volume.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    count: AtomicUsize,
    all: Mutex<AllWatches>,
    /// Events that all of them keep.
    kept: AtomicUsize,
}

impl Watch {
    /// Polls for events. Without an event, the waker is called when one comes; one at a time is.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<WatchReport> {
        let mut queue = self.0.lock();
        if queue.goes {
            return Poll::Ready(WatchReport::Going);
        }
        if std::mem::take(&mut queue.is_lost) {
            return Poll::Ready(WatchReport::Lost);
        }
        if queue.events.is_empty() {
            queue.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let events = std::mem::take(&mut queue.events);
        let kept = self.0.watches().kept.fetch_sub(events.len(), Ordering::Relaxed);
        debug_assert!(kept >= events.len(), "events that are read were counted");
        Poll::Ready(WatchReport::Events(events.into()))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.watches().remove(&self.0);
    }
}

impl Watched {
    fn watches(&self) -> &Watches {
        self.directory.volume().watches()
    }

    fn lock(&self) -> MutexGuard<'_, EventQueue> {
        self.queue.lock().expect("nobody panics while holding it")
    }

    fn add(&self, event: Event) -> Option<Waker> {
        let mut queue = self.lock();
        if queue.is_lost
            || queue.goes
            || queue.events.back() == Some(&event) && event.what == EventKind::Modified
        {
            return None;
        }
        if queue.events.len() == EVENTS_MAX {
            return self.lose(&mut queue);
        }
        queue.events.push_back(event);
        self.watches().kept.fetch_add(1, Ordering::Relaxed);
        queue.waiting.take()
    }

    fn lose(&self, queue: &mut EventQueue) -> Option<Waker> {
        let lost = std::mem::take(&mut queue.events);
        let kept = self.watches().kept.fetch_sub(lost.len(), Ordering::Relaxed);
        debug_assert!(kept >= lost.len(), "events that are lost were counted");
        queue.is_lost = true;
        queue.waiting.take()
    }
}

impl Default for AllWatches {
    fn default() -> Self {
        let books = Books::new(WATCHES_MAX, Shares::THRICE);
        Self { by_directory: HashMap::new(), books, recent: VecDeque::new(), noticed: Noticing::default() }
    }
}

impl AllWatches {
    /// Keeps a report that is made now.
    fn note(&mut self, recent: Recent) {
        let is_old = |kept: &Recent| recent.at.saturating_duration_since(kept.at) > RECENT_FOR;
        while self.recent.len() >= RECENT_MAX || self.recent.front().is_some_and(is_old) {
            self.recent.pop_front();
        }
        self.recent.push_back(recent);
    }

    /// Returns the recent reports of a name about which the kernel reports.
    fn recent_of(&mut self, of: &NoticedEvent) -> impl Iterator<Item = &mut Recent> {
        let (directory, name) = (key(&of.directory), &*of.name);
        self.recent.iter_mut().filter(move |recent| recent.directory == directory && *recent.name == *name)
    }

    /// Returns whether the change was reported before the lane noticed it: that counts once.
    fn was_reported(&mut self, waiting: &QueuedEvent) -> bool {
        let (change, bit) = (waiting.change(), waiting.bit());
        // Of how a file looks this server tells as often as it likes.
        let is_it =
            |recent: &Recent| recent.change == change && (change != KernelChange::Other || !recent.is_own);
        let mut of_name: Vec<_> = self.recent_of(&waiting.noticed).collect();
        let told = of_name.iter().position(|recent| is_it(recent) && recent.heard & bit == 0);
        // The lane hears things in their order: it hears of nothing before this any more.
        if let Some(told) = told {
            of_name[..=told].iter_mut().for_each(|recent| recent.heard |= bit);
        }
        told.is_some()
    }

    /// Returns the time until which a file was changed that looks so, if that was not reported yet. Closing what this
    /// server has written raises an event as well, and changes nothing.
    fn changed_until(&mut self, waiting: &QueuedEvent, looks: FileLook) -> Option<SystemTime> {
        let mut is_told = false;
        for recent in self.recent_of(&waiting.noticed) {
            let is_it = match looks {
                FileLook::Changed(changed) => recent.until >= changed,
                FileLook::Unknown => recent.is_own && recent.until + OWN_CLOSE >= waiting.seen,
            };
            match (recent.is_own, recent.change) {
                // Of the file that had the name then, if the lane has not heard yet that it went.
                (_, KernelChange::Went) => is_told = recent.heard & waiting.bit() == 0,
                (false, KernelChange::Came) => is_told = false,
                (true, KernelChange::Came) => is_told = is_it,
                (_, KernelChange::Other) => is_told |= is_it,
            }
        }
        match looks {
            FileLook::Changed(changed) => (!is_told).then_some(changed),
            FileLook::Unknown => (!is_told && !self.was_reported(waiting)).then_some(waiting.seen),
        }
    }
}

impl From<EventKind> for KernelChange {
    fn from(what: EventKind) -> Self {
        match what {
            EventKind::Added | EventKind::RenamedTo => Self::Came,
            EventKind::Removed | EventKind::RenamedFrom => Self::Went,
            EventKind::Modified => Self::Other,
        }
    }
}

impl Watch {
    pub(crate) fn alive(&self) -> WatchAlive {
        WatchAlive(Arc::downgrade(&self.0))
    }
}

impl WatchAlive {
    pub(crate) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Returns what is watched.
    pub(crate) fn directory(&self) -> Option<Arc<Object>> {
        self.0.upgrade().map(|watched| Arc::clone(&watched.directory))
    }

    /// Returns whether all that is beneath it is watched too.
    pub(crate) fn is_of_all_beneath(&self) -> bool {
        self.0.upgrade().is_some_and(|watched| watched.how.beneath)
    }

    /// Returns how often directories have come or gone beneath.
    pub(crate) fn grown(&self) -> u32 {
        self.0.upgrade().map_or(0, |watched| watched.grown.load(Ordering::Relaxed))
    }

    /// Checks whether the kernel's watch reports what other programs do in the directory.
    pub(crate) fn is_kernel_watched(&self, is_kernel_watched: bool) {
        if let Some(watched) = self.0.upgrade() {
            watched.is_kernel_watched.store(is_kernel_watched, Ordering::Relaxed);
        }
    }
}

impl Watches {
    /// Returns whether there are any.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) != 0
    }

    fn lock(&self) -> MutexGuard<'_, AllWatches> {
        self.all.lock().expect("nobody panics while holding it")
    }

    fn remove(&self, watched: &Arc<Watched>) {
        let mut all = self.lock();
        if let Some(beside) = all.by_directory.get_mut(&key(&watched.directory)) {
            beside.retain(|other| !Arc::ptr_eq(other, watched));
            if beside.is_empty() {
                all.by_directory.remove(&key(&watched.directory));
            }
            all.books.give_back(watched.consumer, 1);
            if self.count.fetch_sub(1, Ordering::Release) == 1 {
                all.noticed.clear();
            }
        }
        self.kept.fetch_sub(watched.lock().events.len(), Ordering::Relaxed);
    }

    /// Returns whether a client watches names of a directory.
    pub(crate) fn concern(&self, directory: &Arc<Object>) -> bool {
        let all = self.lock();
        let mut at = Arc::clone(directory);
        for depth in 0..DEPTH_MAX {
            let beside = all.by_directory.get(&key(&at)).into_iter().flatten();
            if beside.into_iter().any(|watched| depth == 0 || watched.how.beneath) {
                return true;
            }
            let Some(Place { directory, .. }) = at.place() else { return false };
            at = directory;
        }
        false
    }

    /// Queues the event of an entry of a directory that has changed, by whichever program. [`Watches::report_noticed`]
    /// reports it a while later, or a report of what this server does to the name does so before. Returns `false`
    /// where too many wait.
    #[must_use]
    pub(crate) fn notice(&self, noticed: NoticedEvent) -> bool {
        let mut all = self.lock();
        let has_room = all.noticed.len() < NOTICED_MAX;
        if has_room {
            all.noticed.push(noticed, lane::time::wall_clock());
        }
        has_room
    }

    /// Returns the event that a lane has noticed and has to report next.
    pub(crate) fn next_noticed(&self, lane: usize) -> Option<DueEvent> {
        self.lock().noticed.next_of(lane)
    }

    /// Reports a noticed event, unless it was reported meanwhile or is this server's own.
    pub(crate) fn report_noticed(&self, serial: u64, looks: FileLook) {
        let mut woken = Vec::new();
        let mut all = self.lock();
        let noticed = all.noticed.take(serial);
        self.report_each(&mut all, noticed, looks, &mut woken);
        drop(all);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Reports a change that this server has made to a name of a directory.
    pub(crate) fn report(&self, directory: &Arc<Object>, name: &[u8], what: EventKind, kinds: EventMask) {
        self.report_own(directory, &[OwnChange { name, what, kinds, echo: Echo::Same }]);
    }

    /// Reports the names of one change ([`Watches::report`]).
    pub(crate) fn report_own(&self, directory: &Arc<Object>, changes: &[OwnChange<'_>]) {
        let mut woken = Vec::new();
        let own = changes.iter().filter_map(|one| {
            let change = one.heard_as()?;
            Some(OwnNameChange { directory, name: one.name, change })
        });
        let own: Vec<_> = own.collect();
        let mut all = self.lock();
        let (before, heard) = all.noticed.take_before(&own);
        self.report_each(&mut all, before, FileLook::Unknown, &mut woken);
        let until = lane::time::wall_clock() + TICK_MAX;
        let mut heard = heard.into_iter();
        for OwnChange { name, what, kinds, echo } in changes.iter().copied() {
            let by = if echo == Echo::None { None } else { heard.next() };
            let heard = by.unwrap_or(u64::MAX);
            let telling = NameReport { directory, name, what, kinds, is_own: true, until, heard };
            self.report_one(&mut all, telling, &mut woken);
            if echo == Echo::Came {
                let (directory, at, change) = (key(directory), lane::time::now(), KernelChange::Came);
                all.note(Recent { directory, name: name.into(), change, is_own: true, at, until, heard });
            }
        }
        drop(all);
        woken.into_iter().for_each(Waker::wake);
    }

    fn report_each(
        &self,
        all: &mut AllWatches,
        noticed: Vec<QueuedEvent>,
        looks: FileLook,
        woken: &mut Vec<Waker>,
    ) {
        let mut noticed = noticed.into_iter().peekable();
        while let Some(first) = noticed.next() {
            let mut tell = |all: &mut AllWatches, of: &QueuedEvent, what, until| {
                let NoticedEvent { directory, name, kinds, .. } = &of.noticed;
                let (kinds, heard) = (*kinds, of.bit());
                let telling = NameReport { directory, name, what, kinds, is_own: false, until, heard };
                self.report_one(all, telling, woken);
            };
            let other = noticed.next_if(|next| first.is_moved_to(next));
            let is_told = |all: &mut AllWatches, of: &QueuedEvent| {
                of.change() != KernelChange::Other && all.was_reported(of)
            };
            let (known, known_other) =
                (is_told(all, &first), other.as_ref().is_some_and(|other| is_told(all, other)));
            match (first.noticed.what, &other) {
                (_, Some(other)) if !known && !known_other => {
                    tell(all, &first, EventKind::RenamedFrom, first.seen);
                    tell(all, other, EventKind::RenamedTo, other.seen);
                    continue;
                }
                (EntryChange::Modified, _) => {
                    if let Some(until) = all.changed_until(&first, looks) {
                        tell(all, &first, EventKind::Modified, until);
                    }
                }
                // Half of it is this server's.
                _ if known => {}
                (EntryChange::Added | EntryChange::MovedHere, _) => {
                    tell(all, &first, EventKind::Added, first.seen);
                }
                (EntryChange::Removed | EntryChange::MovedAway, _) => {
                    tell(all, &first, EventKind::Removed, first.seen);
                }
            }
            if let Some(other) = other.filter(|_| !known_other) {
                tell(all, &other, EventKind::Added, other.seen);
            }
        }
    }

    fn report_one(&self, all: &mut AllWatches, telling: NameReport<'_>, woken: &mut Vec<Waker>) {
        let NameReport { directory, name, what, kinds, is_own, until, heard } = telling;
        let (at, change) = (lane::time::now(), what.into());
        if !is_own && change != KernelChange::Other {
            // The lane hears of nothing any more that this server has done before.
            let before = all.recent.iter_mut().filter(|recent| recent.is_own && *recent.name == *name);
            before
                .filter(|recent| recent.directory == key(directory))
                .for_each(|recent| recent.heard |= heard);
        }
        all.note(Recent { directory: key(directory), name: name.into(), change, is_own, at, until, heard });
        let mut names = vec![Box::from(name)];
        let mut at = Arc::clone(directory);
        while names.len() <= DEPTH_MAX {
            let beside = all.by_directory.get(&key(&at)).into_iter().flatten();
            let wants = |watched: &&Arc<Watched>| {
                watched.how.kinds.meets(kinds) && (watched.how.beneath || names.len() == 1)
            };
            for watched in beside.clone().filter(|_| kinds.meets(EventMask::DIRECTORIES)) {
                watched.grown.fetch_add(1, Ordering::Relaxed);
            }
            for watched in beside.filter(wants) {
                let Some(path) = path_of(&names) else { continue };
                woken.extend(watched.add(Event { what, path }));
            }
            let Some(Place { directory, name }) = at.place() else { break };
            names.push(name);
            at = directory;
        }
        if at.number() != Number::ROOT {
            // It is not known where it is, so any watch may have to hear.
            let beneath = all.by_directory.values().flatten().filter(|watched| watched.how.beneath);
            woken.extend(beneath.filter_map(|watched| watched.lose(&mut watched.lock())));
        }
        if self.kept.load(Ordering::Relaxed) > KEPT_MAX {
            // The watch that keeps most gives way.
            let most = all.by_directory.values().flatten().max_by_key(|watched| watched.lock().events.len());
            woken.extend(most.and_then(|watched| watched.lose(&mut watched.lock())));
        }
    }

    /// Reports that an object was modified.
    pub(crate) fn report_modified(&self, object: &Object, kinds: EventMask) {
        if let Some(Place { directory, name }) = object.place() {
            self.report(&directory, &name, EventKind::Modified, kinds);
        }
    }

    /// Reports that names of the directory have changed, without knowing which.
    pub(crate) fn report_lost(&self, directory: &Arc<Object>) {
        self.each_of(directory, Watched::lose);
    }

    /// Reports a change of another program that a look has shown, where the kernel's watch reports it too.
    pub(crate) fn report_seen(&self, directory: &Arc<Object>) {
        self.each_of(directory, |watched, queue| match watched.is_kernel_watched.load(Ordering::Relaxed) {
            true => None,
            false => watched.lose(queue),
        });
    }

    /// Reports that kernel events were lost.
    pub(crate) fn report_all_lost(&self) {
        let all = self.lock();
        let each = all.by_directory.values().flatten();
        let woken: Vec<_> = each.filter_map(|watched| watched.lose(&mut watched.lock())).collect();
        drop(all);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Reports that the directory is removed, or is about to be.
    pub(crate) fn report_going(&self, directory: &Arc<Object>) {
        self.each_of(directory, |watched, queue| {
            queue.goes = true;
            watched.lose(queue)
        });
    }

    fn each_of(&self, directory: &Arc<Object>, tell: impl Fn(&Watched, &mut EventQueue) -> Option<Waker>) {
        let all = self.lock();
        let beside = all.by_directory.get(&key(directory)).into_iter().flatten();
        let woken: Vec<_> = beside.filter_map(|watched| tell(watched, &mut watched.lock())).collect();
        drop(all);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl SharedVolume {
    /// Watches a directory from now on; `None` where the client, or one of those that it shares an address, a network
    /// or a user with, has its share.
    pub(crate) fn watch(
        &self,
        directory: &Arc<Object>,
        how: WatchOptions,
        consumer: Consumer,
    ) -> Option<Watch> {
        let watches = self.watches();
        let mut all = watches.lock();
        all.books.take(consumer, 1).ok()?;
        let (directory_of, queue) = (Arc::clone(directory), Mutex::default());
        let watched = Watched {
            directory: directory_of,
            how,
            consumer,
            queue,
            grown: AtomicU32::new(0),
            is_kernel_watched: AtomicBool::new(false),
        };
        let watched = Arc::new(watched);
        all.by_directory.entry(key(directory)).or_default().push(Arc::clone(&watched));
        watches.count.fetch_add(1, Ordering::AcqRel);
        Some(Watch(watched))
    }
}

impl Object {
    /// Reports to the watches of this directory that it is about to be removed.
    pub fn announce_end(self: &Arc<Self>) {
        if self.volume().watches().any() {
            self.volume().watches().report_going(self);
        }
    }
}

fn key(directory: &Arc<Object>) -> usize {
    Arc::as_ptr(directory) as usize
}

/// Joins names into a path; the outermost name is the last.
fn path_of(names: &[Box<[u8]>]) -> Option<RelPathBuf> {
    let mut path = RelPathBuf::from(RelPath::ROOT);
    for name in names.iter().rev() {
        path.push(Name::parse(name).ok()?).ok()?;
    }
    Some(path)
}

//@ limit: directories that are watched for clients
//@ section: SMB
//@ unit: watch
//@ connection: one by each open
//@ address: three times what is free
//@ all: process: {} of a volume
//@ empty: STATUS_INSUFFICIENT_RESOURCES; others feel nothing
//@ counter: smb_notify_refused, smb_waiting
//@ attack: smb-hoards
/// Largest number of watches of clients in one volume.
const WATCHES_MAX: usize = 65_536;
/// Events that one watch keeps; beyond them all are lost, and the watching client is told to look anew.
const EVENTS_MAX: usize = 1024;
//@ limit: changes kept for clients that watch
//@ section: SMB
//@ unit: change
//@ connection: {EVENTS_MAX} of one open
//@ all: process: {} of a volume; the watch that keeps most loses its own
//@ empty: STATUS_NOTIFY_ENUM_DIR: the client looks for itself
//@ counter: smb_notify_overflows
//@ attack: smb-pools
/// Events that all watches of a volume keep; beyond them the one that keeps most loses its own.
const KEPT_MAX: usize = 131_072;
//@ limit: changes by other programs in directories that clients watch
//@ section: SMB
//@ unit: change
//@ all: process: {} of a volume in a tenth of a second, those that several lanes hear of counted for each
//@ empty: STATUS_NOTIFY_ENUM_DIR: the client looks for itself
//@ counter: smb_notify_overflows
//@ attack: none, only other programs of the machine cause it
//@ reach: server
/// Largest number of events that are noticed and not reported yet.
const NOTICED_MAX: usize = 4096;
//@ limit: changes told to clients that watch, known again when the kernel tells of them
//@ section: SMB
//@ unit: change
//@ all: process: {} of a volume, for three seconds
//@ empty: one that is older is told twice; others feel nothing
//@ counter: none
//@ attack: smb-pools
/// Largest number of recent reports that are kept.
const RECENT_MAX: usize = 4096;
/// Time within which the kernel reports what this server has reported.
const RECENT_FOR: Duration = Duration::from_secs(3);
/// Time after a change of this server in which an event may be of the closing of the file, where no look is possible
/// any more.
const OWN_CLOSE: Duration = Duration::from_secs(1);
/// Longest tick of the clock that file systems stamp with.
const TICK_MAX: Duration = Duration::from_millis(20);
/// Directories above one another: places may form a circle while directories move.
const DEPTH_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_meet_where_they_have_one_in_common() {
        let names = EventMask::FILES | EventMask::DIRECTORIES;
        assert!(
            names.meets(EventMask::FILES)
                && !names.meets(EventMask::CONTENT)
                && !EventMask::NONE.meets(names)
        );
        let path = path_of(&[b"c"[..].into(), b"b"[..].into(), b"a"[..].into()]).unwrap();
        assert_eq!(
            path.as_path().components().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>(),
            [b"a", b"b", b"c"]
        );
    }
}
