//! What happens in a directory, or anywhere beneath it, told as it happens: names that come and go, and files that change, whichever lane
//! and whichever service does it. Where nobody watches, a change looks at one number.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use budget::{Books, Consumer, Shares};
use index::{Kind, Number};

use super::{Object, Place, SharedVolume};
use crate::name::{Name, RelPath, RelPathBuf};

/// What is to be told.
#[derive(Clone, Copy, Debug)]
pub struct WatchHow {
    /// Of everything beneath the directory, not of its own names alone.
    pub beneath: bool,
    /// Of what kinds.
    pub kinds: Kinds,
}

/// Kinds of what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// None of them.
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
    /// A file has got another name: told once more, of the new one.
    pub const MOVED: Self = Self(32);

    /// Whether it has any of these.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Of the name of what has this number.
    pub(crate) fn of_name(number: Number) -> Self {
        match number.kind() {
            Kind::Root | Kind::Directory => Self::DIRECTORIES,
            Kind::File => Self::FILES,
        }
    }
}

impl std::ops::BitOr for Kinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What has happened to a name, or to what has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It has come.
    Added,
    /// It has gone.
    Removed,
    /// It was given up for another one of the directory, which is told next.
    RenamedFrom,
    /// See [`Happened::RenamedFrom`].
    RenamedTo,
    /// What has it has changed.
    Modified,
}

/// One thing that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub what: Happened,
    /// To which name, from the watched directory on.
    pub path: RelPathBuf,
}

/// What a watch has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// What has happened since it was asked last, in order; never nothing.
    Events(Vec<Event>),
    /// More than is kept, or something of which nobody knows what it was: look anew.
    Lost,
    /// The directory is taken away, or is to be.
    Going,
}

/// A directory that is watched, until this is dropped. Any lane may ask.
#[derive(Debug)]
pub struct Watch(Arc<Watched>);

#[derive(Debug)]
struct Watched {
    directory: Arc<Object>,
    how: WatchHow,
    consumer: Consumer,
    queue: Mutex<Queue>,
    /// How often directories have come or gone beneath.
    grown: AtomicU32,
}

/// Whether somebody still watches.
pub(crate) struct WatchAlive(Weak<Watched>);

/// What somebody else has done to a name, as the kernel's watch tells it on one lane.
pub(crate) struct Behind<'a> {
    pub(crate) directory: &'a Arc<Object>,
    pub(crate) name: &'a [u8],
    pub(crate) what: Happened,
    pub(crate) kinds: Kinds,
    pub(crate) lane: usize,
}

/// What was told of a name lately, so that the kernel's word of it is known.
#[derive(Debug)]
struct Recent {
    directory: usize,
    name: Box<[u8]>,
    change: Change,
    at: Instant,
    /// It was changed until then.
    until: SystemTime,
    /// Lanes whose watch has told of it too, each counted by its number in 64.
    heard: u64,
}

/// How a name changed, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Came,
    Went,
    Other,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    is_lost: bool,
    goes: bool,
    waiting: Option<Waker>,
}

#[derive(Debug)]
struct All {
    /// By the directory's object, which each of them keeps alive.
    by_directory: HashMap<usize, Vec<Arc<Watched>>>,
    /// Who has how many.
    books: Books,
    recent: VecDeque<Recent>,
}

/// Who watches in one volume.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    count: AtomicUsize,
    all: Mutex<All>,
    /// Events that all of them keep.
    kept: AtomicUsize,
}

impl Watch {
    /// What has happened. Without anything, who asks is woken when something does; one at a time is.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<Told> {
        let mut queue = self.0.lock();
        if queue.goes {
            return Poll::Ready(Told::Going);
        }
        if std::mem::take(&mut queue.is_lost) {
            return Poll::Ready(Told::Lost);
        }
        if queue.events.is_empty() {
            queue.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let events = std::mem::take(&mut queue.events);
        self.0.watches().kept.fetch_sub(events.len(), Ordering::Relaxed);
        Poll::Ready(Told::Events(events.into()))
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

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nobody panics while holding it")
    }

    fn add(&self, event: Event) -> Option<Waker> {
        let mut queue = self.lock();
        if queue.is_lost
            || queue.goes
            || queue.events.back() == Some(&event) && event.what == Happened::Modified
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

    fn lose(&self, queue: &mut Queue) -> Option<Waker> {
        let lost = std::mem::take(&mut queue.events);
        self.watches().kept.fetch_sub(lost.len(), Ordering::Relaxed);
        queue.is_lost = true;
        queue.waiting.take()
    }
}

impl Default for All {
    fn default() -> Self {
        let books = Books::new(WATCHES_MAX, Shares::THRICE);
        Self { by_directory: HashMap::new(), books, recent: VecDeque::new() }
    }
}

impl All {
    /// Something is told now.
    fn note(&mut self, recent: Recent) {
        let is_old = |kept: &Recent| recent.at.saturating_duration_since(kept.at) > RECENT_FOR;
        while self.recent.len() >= RECENT_MAX || self.recent.front().is_some_and(is_old) {
            self.recent.pop_front();
        }
        self.recent.push_back(recent);
    }

    /// What was told of a name lately.
    fn recent_of(&mut self, directory: usize, name: &[u8]) -> impl Iterator<Item = &mut Recent> {
        self.recent.iter_mut().filter(move |recent| recent.directory == directory && *recent.name == *name)
    }
}

impl From<Happened> for Change {
    fn from(what: Happened) -> Self {
        match what {
            Happened::Added | Happened::RenamedTo => Self::Came,
            Happened::Removed | Happened::RenamedFrom => Self::Went,
            Happened::Modified => Self::Other,
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

    /// What is watched.
    pub(crate) fn directory(&self) -> Option<Arc<Object>> {
        self.0.upgrade().map(|watched| Arc::clone(&watched.directory))
    }

    /// Whether all that is beneath it is watched too.
    pub(crate) fn is_of_all_beneath(&self) -> bool {
        self.0.upgrade().is_some_and(|watched| watched.how.beneath)
    }

    /// How often directories have come or gone beneath.
    pub(crate) fn grown(&self) -> u32 {
        self.0.upgrade().map_or(0, |watched| watched.grown.load(Ordering::Relaxed))
    }
}

impl Watches {
    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) != 0
    }

    fn lock(&self) -> MutexGuard<'_, All> {
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
            self.count.fetch_sub(1, Ordering::Release);
        }
        self.kept.fetch_sub(watched.lock().events.len(), Ordering::Relaxed);
    }

    /// Whether anybody is told what happens to names of a directory.
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

    /// Whether a name that came or went is one that was told already, and of which the lane had not heard yet: that counts once.
    pub(crate) fn has_told(&self, behind: &Behind<'_>) -> bool {
        let (change, bit) = (Change::from(behind.what), 1u64 << (behind.lane % 64));
        let mut all = self.lock();
        let told = all
            .recent_of(key(behind.directory), behind.name)
            .find(|recent| recent.change == change && recent.heard & bit == 0);
        told.map(|recent| recent.heard |= bit).is_some()
    }

    /// Whether something was told of a name since it was changed last.
    pub(crate) fn has_told_until(&self, behind: &Behind<'_>, changed: SystemTime) -> bool {
        self.lock().recent_of(key(behind.directory), behind.name).any(|recent| recent.until >= changed)
    }

    /// Somebody else has done something to a name, `changed` when.
    pub(crate) fn tell_behind(&self, behind: &Behind<'_>, changed: Option<SystemTime>) {
        let until = changed.unwrap_or_else(lane::time::wall_clock);
        self.tell_noted(
            behind.directory,
            behind.name,
            (behind.what, behind.kinds),
            (until, 1 << (behind.lane % 64)),
        );
    }

    /// Something has happened to a name of a directory.
    pub(crate) fn tell(&self, directory: &Arc<Object>, name: &[u8], what: Happened, kinds: Kinds) {
        self.tell_noted(directory, name, (what, kinds), (lane::time::wall_clock() + TICK_MAX, 0));
    }

    fn tell_noted(
        &self,
        directory: &Arc<Object>,
        name: &[u8],
        (what, kinds): (Happened, Kinds),
        (until, heard): (SystemTime, u64),
    ) {
        let mut all = self.lock();
        let (at, change) = (lane::time::now(), what.into());
        all.note(Recent { directory: key(directory), name: name.into(), change, at, until, heard });
        let mut woken = Vec::new();
        let mut names = vec![Box::from(name)];
        let mut at = Arc::clone(directory);
        while names.len() <= DEPTH_MAX {
            let beside = all.by_directory.get(&key(&at)).into_iter().flatten();
            let wants = |watched: &&Arc<Watched>| {
                watched.how.kinds.meets(kinds) && (watched.how.beneath || names.len() == 1)
            };
            for watched in beside.clone().filter(|_| kinds.meets(Kinds::DIRECTORIES)) {
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
            // Nobody knows where it is, so anybody may have to hear.
            let beneath = all.by_directory.values().flatten().filter(|watched| watched.how.beneath);
            woken.extend(beneath.filter_map(|watched| watched.lose(&mut watched.lock())));
        }
        if self.kept.load(Ordering::Relaxed) > KEPT_MAX {
            // Who keeps most gives way.
            let most = all.by_directory.values().flatten().max_by_key(|watched| watched.lock().events.len());
            woken.extend(most.and_then(|watched| watched.lose(&mut watched.lock())));
        }
        drop(all);
        woken.into_iter().for_each(Waker::wake);
    }

    /// What has the object's name has changed.
    pub(crate) fn tell_modified(&self, object: &Object, kinds: Kinds) {
        if let Some(Place { directory, name }) = object.place() {
            self.tell(&directory, &name, Happened::Modified, kinds);
        }
    }

    /// Names of the directory have changed, nobody knows which.
    pub(crate) fn tell_lost(&self, directory: &Arc<Object>) {
        self.each_of(directory, Watched::lose);
    }

    /// The directory is taken away, or is to be.
    pub(crate) fn tell_going(&self, directory: &Arc<Object>) {
        self.each_of(directory, |watched, queue| {
            queue.goes = true;
            watched.lose(queue)
        });
    }

    fn each_of(&self, directory: &Arc<Object>, tell: impl Fn(&Watched, &mut Queue) -> Option<Waker>) {
        let all = self.lock();
        let beside = all.by_directory.get(&key(directory)).into_iter().flatten();
        let woken: Vec<_> = beside.filter_map(|watched| tell(watched, &mut watched.lock())).collect();
        drop(all);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl SharedVolume {
    /// Watches a directory from now on; `None` where the client, or one of those that it shares an address, a network or
    /// a user with, has its share.
    pub(crate) fn watch(&self, directory: &Arc<Object>, how: WatchHow, consumer: Consumer) -> Option<Watch> {
        let watches = self.watches();
        let mut all = watches.lock();
        all.books.take(consumer, 1).ok()?;
        let (directory_of, queue) = (Arc::clone(directory), Mutex::default());
        let watched = Watched { directory: directory_of, how, consumer, queue, grown: AtomicU32::new(0) };
        let watched = Arc::new(watched);
        all.by_directory.entry(key(directory)).or_default().push(Arc::clone(&watched));
        watches.count.fetch_add(1, Ordering::AcqRel);
        Some(Watch(watched))
    }
}

impl Object {
    /// Who watches this directory is told that it is to be taken away.
    pub fn announce_end(self: &Arc<Self>) {
        if self.volume().watches().any() {
            self.volume().watches().tell_going(self);
        }
    }
}

fn key(directory: &Arc<Object>) -> usize {
    Arc::as_ptr(directory) as usize
}

/// From the outermost name, which is last, to the innermost.
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
//@ address: three times what is free, and a user from all addresses together; an IPv6 /56 four times, a /48 six times
//@ all: process: {} of a volume
//@ empty: STATUS_INSUFFICIENT_RESOURCES; others feel nothing
//@ counter: smb_notify_refused, smb_waiting
//@ attack: smb-hoards
/// Of one volume.
const WATCHES_MAX: usize = 65_536;
/// Events that one watch keeps; beyond them all are lost, and who watches is told so.
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
//@ limit: changes told to clients that watch, known again when the kernel tells of them
//@ section: SMB
//@ unit: change
//@ all: process: {} of a volume, for three seconds
//@ empty: one that is older is told twice; others feel nothing
//@ counter: none
//@ attack: smb-pools
/// What was told lately.
const RECENT_MAX: usize = 4096;
/// How long the kernel's word of it may take.
const RECENT_FOR: Duration = Duration::from_secs(3);
/// Longest tick of the clock that file systems stamp with.
const TICK_MAX: Duration = Duration::from_millis(20);
/// Directories above one another: places may form a circle while directories move.
const DEPTH_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_meet_where_they_have_one_in_common() {
        let names = Kinds::FILES | Kinds::DIRECTORIES;
        assert!(names.meets(Kinds::FILES) && !names.meets(Kinds::CONTENT) && !Kinds::NONE.meets(names));
        let path = path_of(&[b"c"[..].into(), b"b"[..].into(), b"a"[..].into()]).unwrap();
        assert_eq!(
            path.as_path().components().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>(),
            [b"a", b"b", b"c"]
        );
    }
}
