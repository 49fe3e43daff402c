//! SetLock, ExtendLock, ReleaseLock (156 to 158, and 143 to 145 of old): locks of whole files, which end by
//! themselves after five minutes. They bind no client's reads and writes. A lock is the host's: AFS names no
//! other owner.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use afs_wire::code::{EACCES, EINVAL, EWOULDBLOCK, VBUSY};
use afs_wire::{Fid, LOCK_READ, LOCK_WRITE};
use grants::{AdvisoryLock, Range, RangeLock};
use identity::Rights;
use smallvec::SmallVec;
use vfs::{Holder, Number, Object, OpenError};

use super::call_context::CallContext;
use super::lock_board::{Board, FileKey, Noted};
use super::{Call, CallFailure, ServedCall};

/// The locks of all lanes' hosts: what keeps a locked file's object. One for a process.
#[derive(Clone, Default)]
pub struct Locks {
    shared: Arc<LocksShared>,
}

#[derive(Default)]
struct LocksShared {
    books: Mutex<LockBooks>,
    board: Board,
}

/// Locks by file, and which files each host has locked.
#[derive(Default)]
struct LockBooks {
    files: HashMap<FileKey, SmallVec<[HeldLocks; 1]>>,
    hosts: HashMap<Holder, HashSet<FileKey>>,
    count: usize,
}

/// Host and file of a lock.
type LockKey = (Holder, FileKey);

struct HeldLocks {
    holder: Holder,
    object: Arc<Object>,
    exclusive: bool,
    until: Instant,
}

impl Locks {
    /// Has a host's lock on its books, or on in place of the one it has.
    fn keep(&self, held: HeldLocks) -> bool {
        let (board, mut books) = (&self.shared.board, self.books());
        let (holder, file) = (held.holder, file_of(&held.object));
        books.remove((holder, file), board);
        let of_host = |books: &LockBooks| books.hosts.get(&holder).map_or(0, HashSet::len);
        if books.count >= LOCKS_MAX {
            let hosts: Vec<Holder> = books.hosts.keys().copied().collect();
            hosts.into_iter().for_each(|host| books.sweep(host, board));
        } else if of_host(&books) >= HOST_LOCKS_MAX {
            books.sweep(holder, board);
        }
        let has_room = books.count < LOCKS_MAX && of_host(&books) < HOST_LOCKS_MAX;
        if has_room {
            books.add(held, board);
        }
        has_room
    }

    /// Returns a host's lock, if its time is not over.
    fn find(&self, (holder, file): LockKey) -> Option<(Arc<Object>, bool)> {
        let books = self.books();
        let held = books.files.get(&file)?.iter().find(|held| held.holder == holder)?;
        (held.until > lane::time::now()).then(|| (Arc::clone(&held.object), held.exclusive))
    }

    fn forget(&self, key: LockKey) {
        self.books().remove(key, &self.shared.board);
    }

    /// Returns what a status says of a file's locks: how many read it, or -1 where one writes it. Where one
    /// has ended since the last look, and where files share their place on the board, the books say it.
    pub(super) fn count(&self, object: &Object) -> i32 {
        let (file, now) = (file_of(object), lane::time::now());
        if let Some(lock_count) = self.shared.board.lock_count(file, now) {
            return lock_count;
        }
        match self.books().note(file, &self.shared.board) {
            Some(Noted { exclusive: true, .. }) => -1,
            noted => i32::try_from(noted.map_or(0, |noted| noted.count)).unwrap_or(i32::MAX),
        }
    }

    fn books(&self) -> MutexGuard<'_, LockBooks> {
        self.shared.books.lock().expect("nobody panics while holding it")
    }
}

impl LockBooks {
    fn add(&mut self, held: HeldLocks, board: &Board) {
        let (holder, file) = (held.holder, file_of(&held.object));
        let of_file = self.files.entry(file).or_default();
        if of_file.is_empty() {
            board.comes(file);
        }
        of_file.push(held);
        self.hosts.entry(holder).or_default().insert(file);
        self.count += 1;
        self.note(file, board);
    }

    fn remove(&mut self, (holder, file): LockKey, board: &Board) {
        let Some(of_file) = self.files.get_mut(&file) else { return };
        let Some(at) = of_file.iter().position(|held| held.holder == holder) else { return };
        of_file.swap_remove(at);
        if of_file.is_empty() {
            self.files.remove(&file);
            board.goes(file);
        }
        self.count -= 1;
        if let Some(of_host) = self.hosts.get_mut(&holder) {
            of_host.remove(&file);
            if of_host.is_empty() {
                self.hosts.remove(&holder);
            }
        }
        self.note(file, board);
    }

    /// Has the board say what a file's locks come to now, if it has any. One that has ended counts for nothing.
    fn note(&self, file: FileKey, board: &Board) -> Option<Noted> {
        let (held, now) = (self.files.get(&file)?, lane::time::now());
        let lasting = || held.iter().filter(|held| held.until > now);
        let (exclusive, count) = (lasting().any(|held| held.exclusive), lasting().count());
        // Without any it is so until it is locked again, which is noted.
        let until = lasting().map(|held| held.until).min().unwrap_or(now + LOCK_LASTS);
        let noted = Noted { until, exclusive, count };
        board.note(file, noted);
        Some(noted)
    }

    /// Takes away those of a host whose time is over.
    fn sweep(&mut self, holder: Holder, board: &Board) {
        let now = lane::time::now();
        let is_over = |file: &&FileKey| {
            let held = self.files.get(*file).into_iter().flatten().find(|held| held.holder == holder);
            held.is_none_or(|held| held.until <= now)
        };
        let over: Vec<FileKey> =
            self.hosts.get(&holder).into_iter().flatten().filter(is_over).copied().collect();
        over.into_iter().for_each(|file| self.remove((holder, file), board));
    }
}

fn file_of(object: &Object) -> FileKey {
    (object.volume().id(), object.number())
}

impl std::fmt::Debug for Locks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locks").finish_non_exhaustive()
    }
}

impl ServedCall {
    /// Locks a file, or says at once that another has it.
    pub(super) async fn lock(&self, call: &Call, fid: Fid, kind: i32) -> Result<(), CallFailure> {
        let exclusive = match kind {
            _ if kind == LOCK_READ as i32 => false,
            _ if kind == LOCK_WRITE as i32 => true,
            _ => return Err(EINVAL.into()),
        };
        // Also of a copy: what is read there may be locked.
        let context = self.call_context(call, fid).await?;
        let object = self.lockable(&context, fid, exclusive).await?;
        let address = call.remote().ok_or(rx::abort::CALL_DEAD)?.ip();
        self.take_lock(&context, address, object, exclusive).await
    }

    /// Has a lock last for its whole time again.
    pub(super) async fn extend(&self, call: &Call, fid: Fid) -> Result<(), CallFailure> {
        let context = self.call_context(call, fid).await?;
        let held = self.server.inner.locks.find(key(&context, context.number(fid)?)?);
        let (object, exclusive) = held.ok_or(EINVAL)?;
        // Not let go of meanwhile.
        let (holder, until) = (context.host.holder(), lane::time::now() + LOCK_LASTS);
        context.volume.volume.extend_advisory(&object, holder.0, until).map_err(|_| EINVAL)?;
        // It is on the books, so there is room.
        self.server.inner.locks.keep(HeldLocks { holder, object, exclusive, until });
        Ok(())
    }

    pub(super) async fn release(&self, call: &Call, fid: Fid) -> Result<(), CallFailure> {
        let context = self.call_context(call, fid).await?;
        let key = key(&context, context.number(fid)?)?;
        let (object, _) = self.server.inner.locks.find(key).ok_or(EINVAL)?;
        // Its time may be just over.
        let _ = context.volume.volume.unlock_advisory(&object, key.0.0, WHOLE);
        context.volume.volume.unlocked_for_others(&object).await;
        self.server.inner.locks.forget(key);
        Ok(())
    }

    /// Finds the object of a FID that the caller may lock. The right to lock or to write is needed, as clients learn
    /// by [`afs_wire::CAPABILITY_WRITE_LOCKS`]; for a read lock the right to read is enough.
    async fn lockable(
        &self,
        context: &CallContext,
        fid: Fid,
        exclusive: bool,
    ) -> Result<Arc<Object>, CallFailure> {
        let (volume, number) = (&context.volume.volume, context.number(fid)?);
        let rights: &[Rights] = match exclusive {
            false => &[Rights::LOCK, Rights::WRITE, Rights::READ],
            true => &[Rights::LOCK, Rights::WRITE],
        };
        for right in rights {
            match volume.find(&context.caller, number, *right).await {
                Ok(found) => return Ok(Arc::clone(found.object().ok_or(vfs::Error::ReadOnly)?)),
                Err(vfs::Error::Denied(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(EACCES.into())
    }

    async fn take_lock(
        &self,
        context: &CallContext,
        address: IpAddr,
        object: Arc<Object>,
        exclusive: bool,
    ) -> Result<(), CallFailure> {
        let holder = context.host.holder();
        let (volume, until) = (&context.volume.volume, lane::time::now() + LOCK_LASTS);
        // One that it has is taken anew: for another time, or another way.
        let _ = volume.unlock_advisory(&object, holder.0, WHOLE);
        let lock = RangeLock { range: WHOLE, exclusive };
        let advisory = AdvisoryLock { owner: holder.0, lock, until: Some(until) };
        match volume.lock_advisory(&object, address.into(), advisory).await {
            Ok(()) => {}
            Err(OpenError::Failed(error)) => return Err(error.into()),
            Err(OpenError::Refused(_) | OpenError::LeaseOfOtherFile(_)) => return Err(EWOULDBLOCK.into()),
        }
        let held = HeldLocks { holder, object: Arc::clone(&object), exclusive, until };
        if !self.server.inner.locks.keep(held) {
            let _ = volume.unlock_advisory(&object, holder.0, WHOLE);
            self.server.inner.counters.locks_refused.increment();
            return Err(VBUSY.into());
        }
        self.server.inner.counters.locks_taken.increment();
        Ok(())
    }
}

fn key(context: &CallContext, number: Number) -> Result<LockKey, CallFailure> {
    let shared = context.volume.volume.shared().ok_or(vfs::Error::ReadOnly)?;
    Ok((context.host.holder(), (shared.id(), number)))
}

const WHOLE: Range = Range { offset: 0, len: u64::MAX };
/// AFS_LOCKWAIT.
const LOCK_LASTS: Duration = Duration::from_secs(5 * 60);
//@ limit: locks of files
//@ section: AFS file server
//@ unit: lock
//@ connection: one on a file
//@ address: {HOST_LOCKS_MAX} of a host
//@ all: process: {}
//@ empty: VBUSY; others feel nothing
//@ counter: afs_locks_taken, afs_locks_refused
//@ attack: afs-pools
/// Locks of all hosts, and of one.
const LOCKS_MAX: usize = 65_536;
const HOST_LOCKS_MAX: usize = 1024;
