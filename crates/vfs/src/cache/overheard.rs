//! What other programs do in directories that clients watch is told to them as what this server does is. The kernel's watches tell of both:
//! an event that this server has told of itself is its own. Each lane keeps watched what its own clients watch, and where several lanes hear
//! of one thing the first tells it.

use std::ffi::CString;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use identity::{Accounts, Rights};
use lane::Task;
use lane::fs::EntryChange;

use super::key::Key;
use super::watches::WatchedDir;
use super::{Cache, Inner};
use crate::caller::Caller;
use crate::name::{Name, RelPathBuf};
use crate::object::{Behind, Happened, Kinds, Object, Watch, WatchAlive};
use crate::volume::{Volume, WeakVolume};

/// Of one lane.
#[derive(Default)]
pub(super) struct Overheard {
    noticed: Vec<Noticed>,
    telling: Option<Task<()>>,
    kept: Vec<Kept>,
    keeping: Option<Task<()>>,
}

/// An entry of a watched directory has changed, by whomever.
struct Noticed {
    directory: Arc<Object>,
    key: Key,
    name: Box<[u8]>,
    what: EntryChange,
    kinds: Kinds,
}

/// A client's watch, and the directories that are kept watched for it.
struct Kept {
    watch: WatchAlive,
    volume: WeakVolume,
    held: Vec<Rc<WatchedDir>>,
    /// How often directories had come or gone beneath it when they were looked for.
    grown: u32,
}

impl Cache {
    /// Keeps a directory watched, and those beneath it where that is asked for, as long as the client watches.
    pub(crate) fn keep_watched(&self, volume: &Volume, watch: &Watch) {
        let kept = Kept { watch: watch.alive(), volume: volume.downgrade(), held: Vec::new(), grown: 0 };
        let mut overheard = self.inner.overheard.borrow_mut();
        overheard.kept.push(kept);
        if overheard.keeping.as_ref().is_none_or(Task::is_finished) {
            overheard.keeping = Some(lane::spawn(keep(Rc::downgrade(&self.inner))));
        }
    }
}

impl Inner {
    /// An entry of a directory has changed, by whomever.
    pub(super) fn overhear(
        self: &Rc<Self>,
        watched: &WatchedDir,
        name: &[u8],
        what: EntryChange,
        is_directory: bool,
    ) {
        let Some(directory) = watched.object() else { return };
        let watches = directory.volume().watches();
        // What the server makes under names of its own is told when it is published.
        if Name::parse(name).is_ok_and(Name::is_reserved) || !watches.concern(directory) {
            return;
        }
        let mut overheard = self.overheard.borrow_mut();
        if overheard.noticed.len() >= NOTICED_MAX {
            return watches.tell_lost(directory);
        }
        let kinds = match (what, is_directory) {
            (EntryChange::Modified, _) => Kinds::CONTENT | Kinds::ATTRIBUTES | Kinds::RIGHTS,
            (_, true) => Kinds::DIRECTORIES,
            (_, false) => Kinds::FILES,
        };
        let (directory, key) = (Arc::clone(directory), watched.key().to_key());
        overheard.noticed.push(Noticed { directory, key, name: name.into(), what, kinds });
        if overheard.telling.as_ref().is_none_or(Task::is_finished) {
            overheard.telling = Some(lane::spawn(tell(Rc::downgrade(self))));
        }
    }
}

/// Tells what was noticed a while ago, by when this server has told what it does itself.
async fn tell(inner: Weak<Inner>) {
    loop {
        lane::time::sleep(OWN_FIRST).await;
        let Some(inner) = inner.upgrade() else { return };
        let noticed = std::mem::take(&mut inner.overheard.borrow_mut().noticed);
        if noticed.is_empty() {
            return;
        }
        let Some(lane) = inner.joined.get().map(|joined| joined.member().index()) else { return };
        let mut rest = &noticed[..];
        while let [first, more @ ..] = rest {
            rest = more;
            // Somebody writes to it still, or it has gone: what comes later says so.
            let is_last = |later: &Noticed| later.is_of(first);
            if first.what == EntryChange::Modified && more.iter().any(is_last) {
                continue;
            }
            match more {
                [second, after @ ..] if first.is_moved_to(second) => {
                    rest = after;
                    first.tell_moved_to(second, lane);
                }
                _ => first.tell(&inner, lane).await,
            }
        }
    }
}

impl Noticed {
    fn is_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.directory, &other.directory) && self.name == other.name
    }

    /// Whether both are a rename within the directory.
    fn is_moved_to(&self, next: &Self) -> bool {
        (self.what, next.what) == (EntryChange::MovedAway, EntryChange::MovedHere)
            && Arc::ptr_eq(&self.directory, &next.directory)
    }

    fn behind(&self, what: Happened, lane: usize) -> Behind<'_> {
        Behind { directory: &self.directory, name: &self.name, what, kinds: self.kinds, lane }
    }

    fn tell_moved_to(&self, to: &Self, lane: usize) {
        let watches = self.directory.volume().watches();
        let (from, to) = (self.behind(Happened::RenamedFrom, lane), to.behind(Happened::RenamedTo, lane));
        // Each half by itself is what it was where the other is this server's.
        if !watches.has_told(&from) && !watches.has_told(&to) {
            watches.tell_behind(&from, None);
            watches.tell_behind(&to, None);
        }
    }

    async fn tell(&self, inner: &Inner, lane: usize) {
        let watches = self.directory.volume().watches();
        let happened = match self.what {
            EntryChange::Added | EntryChange::MovedHere => Happened::Added,
            EntryChange::Removed | EntryChange::MovedAway => Happened::Removed,
            EntryChange::Modified => Happened::Modified,
        };
        let behind = self.behind(happened, lane);
        if self.what != EntryChange::Modified {
            if !watches.has_told(&behind) {
                watches.tell_behind(&behind, None);
            }
            return;
        }
        // Closing what this server has written raises an event as well, and changes nothing.
        if let Some(changed) = self.changed(inner).await
            && !watches.has_told_until(&behind, changed)
        {
            watches.tell_behind(&behind, Some(changed));
        }
    }

    /// When what has the name was changed last; `None` where nothing has it.
    async fn changed(&self, inner: &Inner) -> Option<std::time::SystemTime> {
        let volume = inner.volume_of(self.key.as_ref())?;
        let directory = volume.root().open_real_directory(self.key.as_ref().path).await.ok()?;
        let stat = directory.stat_at(&CString::new(&self.name[..]).ok()?).await.ok()?;
        Some(stat.ctime.to_system_time())
    }
}

/// Keeps watched what clients watch, until none of them does.
async fn keep(inner: Weak<Inner>) {
    loop {
        let Some(strong) = inner.upgrade() else { return };
        let mut kept = std::mem::take(&mut strong.overheard.borrow_mut().kept);
        kept.retain(|kept| kept.watch.is_alive());
        for one in &mut kept {
            one.hold(&strong).await;
        }
        let is_over = {
            // Others may have come meanwhile.
            let mut overheard = strong.overheard.borrow_mut();
            overheard.kept.append(&mut kept);
            overheard.kept.is_empty()
        };
        drop(strong);
        if is_over {
            return;
        }
        lane::time::sleep(KEEP_EVERY).await;
    }
}

impl Kept {
    async fn hold(&mut self, inner: &Rc<Inner>) {
        let (Some(volume), Some(directory)) = (self.volume.upgrade(), self.watch.directory()) else {
            return self.held.clear();
        };
        let grown = self.watch.grown();
        let holds = self.held.first().is_some_and(|_| self.held.iter().all(|held| held.is_current()));
        if holds && grown == self.grown {
            return;
        }
        let Some(top) = volume.path_of(&directory) else { return self.held.clear() };
        let mut held = Vec::new();
        let mut waiting = vec![top];
        while let Some(path) = waiting.pop() {
            let key = volume.key(path.as_path());
            let Ok(watched) = inner.watches.watch_down_to(volume.root(), key).await else { continue };
            held.push(watched);
            if !self.watch.is_of_all_beneath() || held.len() >= BENEATH_MAX {
                break;
            }
            waiting.extend(beneath(&volume, &path).await);
        }
        (self.held, self.grown) = (held, grown);
    }
}

/// The directories in one.
async fn beneath(volume: &Volume, path: &RelPathBuf) -> Vec<RelPathBuf> {
    let operator = Caller::new(Accounts::none().local_administrator());
    let found = volume.lookup_as(&operator, path.as_path(), Rights::NONE).await;
    let Ok((directory, _)) = found.and_then(crate::volume::Resolved::into_directory) else {
        return Vec::new();
    };
    let Ok(entries) = directory.entries(ENTRIES_MAX).await else { return Vec::new() };
    let directories = entries.iter().filter(|entry| entry.attributes.is_directory());
    let below = |entry: &crate::Entry| path.as_path().child(&entry.name);
    directories.filter_map(below).collect()
}

/// By when this server has told what it does itself.
const OWN_FIRST: Duration = Duration::from_millis(100);
/// Between two looks whether what clients watch is still watched.
const KEEP_EVERY: Duration = Duration::from_millis(500);
//@ limit: changes by other programs in directories that clients watch
//@ section: SMB
//@ unit: change
//@ all: lane: {} in a tenth of a second
//@ empty: STATUS_NOTIFY_ENUM_DIR: the client looks for itself
//@ counter: smb_notify_overflows
//@ attack: none, only other programs of the machine cause it
//@ reach: server
/// Noticed, and not told yet.
const NOTICED_MAX: usize = 4096;
//@ limit: directories beneath one that a client watches with all that is beneath
//@ section: SMB
//@ unit: directory
//@ connection: {} by each watch, of which one with more than {ENTRIES_MAX} names has none
//@ empty: what other programs do in further ones is told as far as they are in use; others feel nothing
//@ counter: none
//@ attack: smb-hoards
/// Kept watched for one client's watch.
const BENEATH_MAX: usize = 1024;
/// Names of a directory in which directories are looked for.
const ENTRIES_MAX: usize = 10_000;
