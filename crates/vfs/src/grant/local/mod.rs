//! Locks of clients, as other programs on the server's machine see it (fcntl(2), "Open file description
//! locks"), and what those have locked, as clients do.
//!
//! One open of the file, which is on no lane, has all that the server's clients have locked of it: among them [`grants`]
//! decides. A lock is on the books of `grants` first; where another program is in the way it is taken off again.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use budget::Consumer;
use futures_util::future::LocalBoxFuture;
use grants::{RangeLock, Refused};
use lane::DetachOnDrop;
use lane::fs::{File, FileKind, LockKeeper, LockKind};

use self::places::LocalLockFile;
pub(super) use self::spans::Span;
use self::spans::{apply, changes, spans};
use super::OpenError;
use super::requests::at_once;
use super::slot::Grants;
use crate::error::Error;
use crate::object::{By, Object, identity_of};
use crate::volume::Volume;

pub(crate) use self::places::LocalLockFiles;

mod places;
mod spans;

/// The open file that has the locks, as long as a client holds anything of the file.
pub(crate) struct LocalLocks {
    state: Mutex<LocalLockState>,
    /// The file's place among those of all files.
    _place: LocalLockFile,
}

struct LocalLockState {
    keeper: Arc<LockKeeper>,
    /// Set if exclusive locks can be had.
    is_writable: bool,
    set: Vec<Span>,
    /// A task changes the locks.
    is_busy: bool,
    waiting: Vec<Waker>,
    /// Time when a task ends advisory locks, if one waits for that.
    ends: Option<Instant>,
    /// Waker of that task, which ends when no client holds anything of the file any more.
    ending: Option<Waker>,
}

/// The right to change what is set. Dropped, the next has it.
struct LocalLockTurn {
    local: Arc<LocalLocks>,
}

impl LocalLocks {
    fn new(keeper: LockKeeper, is_writable: bool, place: LocalLockFile) -> Self {
        let (set, waiting) = (Vec::new(), Vec::new());
        let (ends, ending) = (None, None);
        let state = LocalLockState {
            keeper: Arc::new(keeper),
            is_writable,
            set,
            is_busy: false,
            waiting,
            ends,
            ending,
        };
        Self { state: Mutex::new(state), _place: place }
    }

    /// Returns whether more is set than clients hold.
    pub(super) fn has_more_than(&self, grants: &Grants) -> bool {
        let set = self.lock().set.clone();
        changes(&set, &wanted(grants)).iter().any(|change| change.is_less())
    }

    /// Returns whether no task waits for this moment or an earlier one; the caller then has a task wait for
    /// it.
    fn waits_no_task_until(&self, until: Instant) -> bool {
        let mut state = self.lock();
        let is_first = state.ends.is_none_or(|at| until < at);
        if is_first {
            state.ends = Some(until);
        }
        is_first
    }

    async fn turn(self: &Arc<Self>) -> LocalLockTurn {
        std::future::poll_fn(|cx| {
            let mut state = self.lock();
            if std::mem::replace(&mut state.is_busy, true) {
                state.waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(LocalLockTurn { local: Arc::clone(self) })
        })
        .await
    }

    fn lock(&self) -> MutexGuard<'_, LocalLockState> {
        self.state.lock().expect("nobody panics while holding it")
    }
}

/// A task that waits for the end of advisory locks. Its lane may end before.
struct Waits {
    local: Weak<LocalLocks>,
}

impl Waits {
    /// Waits until then, or until no client holds anything of the file any more.
    async fn until(&self, until: Instant) {
        let mut sleep = pin!(lane::time::sleep_until(until));
        std::future::poll_fn(|cx| {
            let Some(local) = self.local.upgrade() else { return Poll::Ready(()) };
            local.lock().ending = Some(cx.waker().clone());
            sleep.as_mut().poll(cx)
        })
        .await;
    }
}

impl Drop for LocalLocks {
    fn drop(&mut self) {
        let ending = self.lock().ending.take();
        ending.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        if let Some(local) = self.local.upgrade() {
            local.lock().ends = None;
        }
    }
}

impl Drop for LocalLockTurn {
    fn drop(&mut self) {
        let mut state = self.local.lock();
        state.is_busy = false;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Gives up what is set and clients hold no longer.
pub(crate) async fn release(object: Arc<Object>, local: Arc<LocalLocks>) {
    for _ in 0..RELEASES_MAX {
        if local.turn().await.release(&object).await {
            return;
        }
        // The helpers have too much to do.
        lane::time::sleep(PAUSE).await;
    }
}

impl LocalLockTurn {
    /// Says whether all could be given up.
    async fn release(&self, object: &Object) -> bool {
        let Some(wanted) = object.grants().locked_by(&self.local) else { return true };
        let (set, keeper) = self.seen();
        for change in changes(&set, &wanted).into_iter().filter(|change| change.is_less()) {
            if keeper.set(change.from, change.len(), kind(change.after)).await.is_err() {
                return false;
            }
            apply(&mut self.local.lock().set, change, change.after);
        }
        true
    }

    /// Sets what clients hold of these bytes. `None` where no client holds anything of the file by this any
    /// more.
    async fn acquire(
        &self,
        volume: &Volume,
        object: &Arc<Object>,
        mine: &[Span],
    ) -> Option<Result<(), OpenError>> {
        let wanted = object.grants().locked_by(&self.local)?;
        let (set, mut keeper) = self.seen();
        for change in
            changes(&set, &wanted).into_iter().filter(|change| !change.is_less() && change.meets(mine))
        {
            let mut after = change.after;
            if after == Some(true) && !self.local.lock().is_writable {
                match self.make_writable(volume, object).await {
                    Ok(true) => keeper = self.seen().1,
                    // What the server may not write it can only keep others from writing.
                    Ok(false) if change.before.is_some() => continue,
                    Ok(false) => after = Some(false),
                    Err(error) => return Some(Err(error)),
                }
            }
            if let Err(error) = keeper.set(change.from, change.len(), kind(after)).await {
                let is_held = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES));
                let refused = if is_held { Refused::Locked.into() } else { Error::from(error).into() };
                return Some(Err(refused));
            }
            apply(&mut self.local.lock().set, change, after);
        }
        Some(Ok(()))
    }

    /// Has another open take over what is set, all of it shared, which stands beside itself: so nothing is given up
    /// meanwhile.
    async fn make_writable(&self, volume: &Volume, object: &Arc<Object>) -> Result<bool, OpenError> {
        let Some((file, true)) = volume.open_to_lock(object, true).await? else { return Ok(false) };
        let keeper = file.into_keeper().map_err(Error::from)?;
        for change in changes(&[], &self.seen().0) {
            let set = keeper.set(change.from, change.len(), kind(change.after)).await;
            set.map_err(Error::from)?;
        }
        let mut state = self.local.lock();
        let before = std::mem::replace(&mut state.keeper, Arc::new(keeper));
        state.is_writable = true;
        drop(state);
        drop(before);
        Ok(true)
    }

    fn seen(&self) -> (Vec<Span>, Arc<LockKeeper>) {
        let state = self.local.lock();
        (state.set.clone(), Arc::clone(&state.keeper))
    }
}

impl Volume {
    /// Has other programs on this machine see what a client was granted just now. What has begun goes on when this is
    /// dropped.
    ///
    /// # Errors
    /// [`Refused::Locked`] where one of them has a lock in the way, [`Refused::TooMany`]; those of the file system.
    /// What is on the books of `grants` stays there.
    pub(super) async fn lock_for_others(
        &self,
        object: &Arc<Object>,
        consumer: Consumer,
        locks: &[RangeLock],
    ) -> Result<(), OpenError> {
        let mine = spans(locks.iter().copied());
        if !self.root().locks_locally() || mine.is_empty() {
            return Ok(());
        }
        let (volume, object) = (self.clone(), Arc::clone(object));
        let locking = lane::spawn(async move {
            for _ in 0..ATTEMPTS_MAX {
                let Some(local) = volume.local(&object, consumer, &mine).await? else { return Ok(()) };
                let turn = local.turn().await;
                turn.release(&object).await;
                let acquired = turn.acquire(&volume, &object, &mine).await;
                // What was given up meanwhile.
                turn.release(&object).await;
                if let Some(acquired) = acquired {
                    return acquired;
                }
            }
            let path = volume.path_of(&object).unwrap_or_default();
            Err(volume.unsettled(path.as_path(), "locking a range where other programs see it").into())
        });
        let locked: Result<(), OpenError> = DetachOnDrop::from(locking).await;
        locked.inspect_err(|error| match error {
            OpenError::Refused(Refused::Locked) => self.counters().grants_refused_local.increment(),
            OpenError::Refused(_) => self.counters().grants_refused_limit.increment(),
            OpenError::LeaseOfOtherFile(_) | OpenError::Failed(_) => {}
        })
    }

    /// Waits until other programs on this machine find unlocked what was unlocked just now; of a volume whose locks
    /// they do not see, not at all.
    pub fn unlocked_for_others<'a>(&'a self, object: &'a Arc<Object>) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            if self.root().locks_locally()
                && let Some(local) = object.grants().local()
            {
                release(Arc::clone(object), local).await;
            }
        })
    }

    /// Has what an advisory lock holds end with it, though no client asks for anything any more. One task
    /// waits for the locks of a file, however often they are taken and extended.
    pub(super) fn end_in_time(&self, object: &Arc<Object>, until: Instant) {
        let Some(local) = object.grants().local().filter(|local| local.waits_no_task_until(until)) else {
            return;
        };
        let (cache, object) = (self.cache().clone(), Arc::downgrade(object));
        let waits = Waits { local: Arc::downgrade(&local) };
        lane::spawn(async move {
            let mut next = until;
            loop {
                waits.until(next).await;
                let (Some(object), Some(local)) = (object.upgrade(), waits.local.upgrade()) else { return };
                local.lock().ends = None;
                let left = at_once(&cache, &object, |grants, now, events| {
                    grants.handle_timeout(now, events);
                    grants.next_timeout()
                });
                match left {
                    Some(until) if local.waits_no_task_until(until) => next = until,
                    _ => return,
                }
            }
        })
        .detach();
    }

    /// Returns the holder of a file's locks; `None` where no client holds anything of it, or it is none whose
    /// bytes are locked.
    async fn local(
        &self,
        object: &Arc<Object>,
        consumer: Consumer,
        mine: &[Span],
    ) -> Result<Option<Arc<LocalLocks>>, OpenError> {
        if let Some(local) = object.grants().local() {
            return Ok(Some(local));
        }
        let place = object.volume().objects().local_lock_files().take(consumer)?;
        let write = mine.iter().any(|span| span.exclusive);
        let Some((file, is_writable)) = self.open_to_lock(object, write).await? else { return Ok(None) };
        let keeper = file.into_keeper().map_err(Error::from)?;
        self.counters().locked_for_others.increment();
        Ok(object.grants().keep_local(Arc::new(LocalLocks::new(keeper, is_writable, place))))
    }

    /// Opens the file for reading, or if wanted and it can be for writing too; `None` for what is no regular file.
    async fn open_to_lock(
        &self,
        object: &Arc<Object>,
        write: bool,
    ) -> Result<Option<(File, bool)>, OpenError> {
        for _ in 0..ATTEMPTS_MAX {
            let path = self.path_of(object).ok_or(Error::Stale)?;
            let opened = match self.root().open_to_lock(path.as_path(), write).await {
                Ok(file) => Ok((file, write)),
                Err(error) if write && is_not_writable(&error) => {
                    self.root().open_to_lock(path.as_path(), false).await.map(|file| (file, false))
                }
                Err(error) => Err(error),
            };
            let (file, is_writable) = match opened {
                Ok(opened) => opened,
                // It moves.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
                Err(error) => return Err(Error::from(error).into()),
            };
            let stat = file.stat().map_err(Error::from)?;
            if identity_of(By::Open(&file), &stat).await? == *object.identity() {
                return Ok((stat.kind == FileKind::File).then_some((file, is_writable)));
            }
        }
        Err(Error::Stale.into())
    }
}

/// Returns how all that clients hold of the file's own data has it locked.
pub(super) fn wanted(grants: &Grants) -> Vec<Span> {
    spans(grants.locked())
}

fn kind(exclusive: Option<bool>) -> Option<LockKind> {
    exclusive.map(|exclusive| if exclusive { LockKind::Exclusive } else { LockKind::Shared })
}

/// Returns whether it may still be read.
fn is_not_writable(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EACCES | libc::EPERM | libc::EROFS | libc::ETXTBSY | libc::EISDIR)
    )
}

//@ limit: locks that another program is in the way of
//@ section: Files and listings
//@ unit: lock
//@ connection: as its locks
//@ empty: refused; a waiting request is tried again every {}
//@ counter: vfs_grants_refused{reason="local"}
//@ attack: none, only other programs of the machine hold such locks
//@ reach: server
/// Time between two tries to give something up, or to get what another program has locked.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
const RELEASES_MAX: u32 = 64;
const ATTEMPTS_MAX: u32 = 8;
