//! Reports changes by other programs to clients that watch directories, as the server's own changes. The
//! kernel's watches tell of both: an event that this server has told of itself is its own. Each lane keeps
//! watched what its own clients watch, and where several lanes hear of one thing the first tells it.

use std::ffi::CString;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use identity::Rights;
use lane::Task;
use lane::fs::EntryChange;

use super::watches::WatchedDir;
use super::{Cache, Inner};
use crate::caller::Caller;
use crate::name::{Name, RelPathBuf};
use crate::object::{DueEvent, EventMask, FileLook, NoticedEvent, Object, SharedVolume, Watch, WatchAlive};
use crate::volume::{Volume, WeakVolume};
use crate::which_name::WhichName;

/// Kernel events of one lane in directories that clients watch.
#[derive(Default)]
pub(super) struct ExternalEvents {
    /// Volumes in which this lane, as it is numbered there, has noticed events that are not reported yet.
    noticing: Vec<(Arc<SharedVolume>, usize)>,
    telling: Option<Task<()>>,
    kept: Vec<WatchedForClient>,
    keeping: Option<Task<()>>,
}

/// A client's watch, and the directories that are kept watched for it.
struct WatchedForClient {
    watch: WatchAlive,
    volume: WeakVolume,
    held: Vec<Rc<WatchedDir>>,
    /// Number of times that directories had come or gone beneath it when they were looked for.
    grown: u32,
}

impl Cache {
    /// Keeps a directory watched, and those beneath it where that is asked for, from now on and as long as the client
    /// watches.
    pub(crate) fn keep_watched(&self, volume: &Volume, watch: &Watch) {
        let mut kept =
            WatchedForClient { watch: watch.alive(), volume: volume.downgrade(), held: Vec::new(), grown: 0 };
        let inner = Rc::downgrade(&self.inner);
        lane::spawn(async move {
            let Some(strong) = inner.upgrade() else { return };
            kept.refresh(&strong).await;
            let mut external_events = strong.external_events.borrow_mut();
            external_events.kept.push(kept);
            if external_events.keeping.as_ref().is_none_or(Task::is_finished) {
                external_events.keeping = Some(lane::spawn(keep(inner)));
            }
        })
        .detach();
    }
}

impl Inner {
    /// Queues a kernel event of an entry, whether this server or another program caused it.
    pub(super) fn note_external_event(
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
        let Some(lane) = self.peer.get().map(|peer| peer.member().index()) else { return };
        let kinds = match (what, is_directory) {
            (EntryChange::Modified, _) => EventMask::CONTENT | EventMask::ATTRIBUTES | EventMask::RIGHTS,
            (_, true) => EventMask::DIRECTORIES,
            (_, false) => EventMask::FILES,
        };
        let noticed = NoticedEvent { directory: Arc::clone(directory), name: name.into(), what, kinds, lane };
        if !watches.notice(noticed) {
            return watches.report_lost(directory);
        }
        let mut external_events = self.external_events.borrow_mut();
        external_events.is_noticing(Arc::clone(directory.volume()), lane);
        if external_events.telling.as_ref().is_none_or(Task::is_finished) {
            external_events.telling = Some(lane::spawn(report_events(Rc::downgrade(self))));
        }
    }
}

/// Reports events that were noticed a while ago: by then this server has reported what it does itself.
async fn report_events(inner: Weak<Inner>) {
    loop {
        let next = {
            let Some(inner) = inner.upgrade() else { return };
            let volumes = std::mem::take(&mut inner.external_events.borrow_mut().noticing);
            let mut next = None;
            for (volume, lane) in volumes {
                if let Some(due) = inner.report_due(&volume, lane).await {
                    next = next.into_iter().chain([due]).min();
                    inner.external_events.borrow_mut().is_noticing(volume, lane);
                }
            }
            if next.is_none() && inner.external_events.borrow().noticing.is_empty() {
                return;
            }
            next
        };
        // Whatever came meanwhile is due later.
        let pause = next.map_or(PAUSE_MIN, |due| due.saturating_duration_since(lane::time::now()));
        lane::time::sleep(pause.max(PAUSE_MIN)).await;
    }
}

impl ExternalEvents {
    fn is_noticing(&mut self, volume: Arc<SharedVolume>, lane: usize) {
        if !self.noticing.iter().any(|(known, _)| Arc::ptr_eq(known, &volume)) {
            self.noticing.push((volume, lane));
        }
    }
}

impl Inner {
    /// Reports the noticed events that are due. Returns when the next is, if there is any.
    async fn report_due(&self, volume: &Arc<SharedVolume>, lane: usize) -> Option<Instant> {
        let watches = volume.watches();
        loop {
            let DueEvent { serial, due, modified } = watches.next_noticed(lane)?;
            if due > lane::time::now() {
                return Some(due);
            }
            let looks = match modified {
                Some((directory, name)) => self.looks(&directory, &name).await,
                None => FileLook::Unknown,
            };
            watches.report_noticed(serial, looks);
        }
    }

    /// Returns when what has the name was changed last.
    async fn looks(&self, directory: &Arc<Object>, name: &[u8]) -> FileLook {
        let changed = async {
            let volume = self.volume_of_object(directory)?;
            let path = volume.path_of(directory)?;
            let directory = volume.root().open_real_directory(path.as_path()).await.ok()?;
            let stat = directory.stat_at(&CString::new(name).ok()?).await.ok()?;
            Some(stat.ctime.to_system_time())
        };
        changed.await.map_or(FileLook::Unknown, FileLook::Changed)
    }
}

/// Keeps watched what clients watch, until none of them does.
async fn keep(inner: Weak<Inner>) {
    loop {
        let Some(strong) = inner.upgrade() else { return };
        let mut kept = std::mem::take(&mut strong.external_events.borrow_mut().kept);
        kept.retain(|kept| kept.watch.is_alive());
        for one in &mut kept {
            one.refresh(&strong).await;
        }
        let is_over = {
            // Others may have come meanwhile.
            let mut external_events = strong.external_events.borrow_mut();
            external_events.kept.append(&mut kept);
            external_events.kept.is_empty()
        };
        drop(strong);
        if is_over {
            return;
        }
        lane::time::sleep(KEEP_EVERY).await;
    }
}

impl WatchedForClient {
    /// Returns whether the kernel's watch of the directory reports what other programs do in it.
    fn is_kernel_watched(&self) -> bool {
        let hears = |held: &Rc<WatchedDir>| {
            held.is_current() && held.is_watched() && !held.change_rate().is_suspended()
        };
        self.held.first().is_some_and(hears)
    }

    /// Holds what is to be kept watched now, and sets in the client's watch whether the kernel watches.
    async fn refresh(&mut self, inner: &Rc<Inner>) {
        self.hold(inner).await;
        self.watch.is_kernel_watched(self.is_kernel_watched());
    }

    async fn hold(&mut self, inner: &Rc<Inner>) {
        let (Some(volume), Some(directory)) = (self.volume.upgrade(), self.watch.directory()) else {
            return self.held.clear();
        };
        let grown = self.watch.grown();
        let holds = self.held.first().is_some_and(|_| self.held.iter().all(|held| held.is_current()));
        if holds && grown == self.grown {
            return;
        }
        let Some(top) = path_of_watched(inner, &volume, &directory).await else { return self.held.clear() };
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

/// Finds the path of a directory that a client watches, wherever another program has moved it.
async fn path_of_watched(inner: &Inner, volume: &Volume, directory: &Arc<Object>) -> Option<RelPathBuf> {
    let path = volume.path_of(directory)?;
    let watched = inner.watches.watch_down_to(volume.root(), volume.key(path.as_path())).await;
    let is_it = |watched: &Rc<WatchedDir>| watched.object().is_some_and(|it| Arc::ptr_eq(it, directory));
    match watched {
        Ok(watched) if is_it(&watched) => Some(path),
        // It is moved by this server just now, and looked for again soon.
        Err(Some(_)) => None,
        _ => volume.find_moved(directory, None, WhichName::Any).await.ok(),
    }
}

/// Returns the directories in a directory.
async fn beneath(volume: &Volume, path: &RelPathBuf) -> Vec<RelPathBuf> {
    let operator = Caller::operator();
    let found = volume.lookup_as(&operator, path.as_path(), Rights::NONE).await;
    let Ok((directory, _)) = found.and_then(crate::volume::Resolved::into_directory) else {
        return Vec::new();
    };
    let Ok(entries) = directory.entries(ENTRIES_MAX).await else { return Vec::new() };
    let directories = entries.iter().filter(|entry| entry.attributes.is_directory());
    let below = |entry: &crate::Entry| path.as_path().child(&entry.name);
    directories.filter_map(below).collect()
}

/// Least time between two looks at events that are due.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Time between two checks that what clients watch is still watched.
const KEEP_EVERY: Duration = Duration::from_millis(500);
//@ limit: directories beneath one that a client watches with all that is beneath
//@ section: SMB
//@ unit: directory
//@ connection: {} by each watch, of which one with more than {ENTRIES_MAX} names has none
//@ empty: what other programs do in further ones is told as far as they are in use; others feel nothing
//@ counter: none
//@ attack: smb-hoards
/// Directories beneath one that are kept watched for one client's watch.
const BENEATH_MAX: usize = 1024;
/// Names of a directory among which its directories are looked for.
const ENTRIES_MAX: usize = 10_000;
