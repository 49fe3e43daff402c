//! Locks of open file descriptions on ranges of a file (fcntl(2), "Open file description locks").

use std::io;
use std::ops::Range;
use std::rc::Rc;

use super::{Inode, OpenFile, errno};
use crate::backend::file::LockKind;

/// The locks on one file.
#[derive(Default)]
pub(super) struct Locks {
    held: Vec<Lock>,
}

#[derive(Clone)]
struct Lock {
    owner: u64,
    range: Range<u64>,
    kind: LockKind,
}

/// A lock that another process of the host holds, until the value is dropped.
pub struct ForeignLock {
    inode: Rc<Inode>,
    owner: u64,
}

impl ForeignLock {
    pub(super) fn set(inode: Rc<Inode>, owner: u64, range: Range<u64>, kind: LockKind) -> io::Result<Self> {
        inode.locks.borrow_mut().set(owner, range, kind)?;
        Ok(Self { inode, owner })
    }
}

impl Drop for ForeignLock {
    fn drop(&mut self) {
        self.inode.locks.borrow_mut().release(self.owner);
    }
}

impl OpenFile {
    /// Locks a range, whatever the same description had locked there before.
    ///
    /// # Errors
    /// `EAGAIN` while another has a lock that it cannot share; `EBADF` where the file was not opened for what the lock is.
    pub(crate) fn lock(&self, range: Range<u64>, kind: LockKind) -> io::Result<()> {
        if kind == LockKind::Exclusive && !self.is_writable() {
            return Err(errno(libc::EBADF));
        }
        self.inode.locks.borrow_mut().set(self.owner(), range, kind)
    }

    pub(crate) fn unlock(&self, range: &Range<u64>) {
        self.inode.locks.borrow_mut().clear(self.owner(), range);
    }

    /// Returns a lock of another owner that this one would have to wait for.
    pub(crate) fn lock_in_the_way(
        &self,
        range: &Range<u64>,
        kind: LockKind,
    ) -> Option<(Range<u64>, LockKind)> {
        let locks = self.inode.locks.borrow();
        locks.in_the_way(self.owner(), range, kind).map(|lock| (lock.range.clone(), lock.kind))
    }
}

impl Locks {
    /// Releases all of an owner's locks, as the description is closed.
    pub(super) fn release(&mut self, owner: u64) {
        self.held.retain(|lock| lock.owner != owner);
    }

    fn set(&mut self, owner: u64, range: Range<u64>, kind: LockKind) -> io::Result<()> {
        if range.is_empty() {
            return Err(errno(libc::EINVAL));
        }
        if self.in_the_way(owner, &range, kind).is_some() {
            return Err(errno(libc::EAGAIN));
        }
        self.clear(owner, &range);
        self.held.push(Lock { owner, range, kind });
        Ok(())
    }

    fn clear(&mut self, owner: u64, range: &Range<u64>) {
        let mut kept = Vec::with_capacity(self.held.len());
        for lock in self.held.drain(..) {
            if lock.owner != owner || !overlap(&lock.range, range) {
                kept.push(lock);
                continue;
            }
            let parts = [lock.range.start..range.start, range.end..lock.range.end];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            kept.extend(parts.map(|range| Lock { range, ..lock.clone() }));
        }
        self.held = kept;
    }

    fn in_the_way(&self, owner: u64, range: &Range<u64>, kind: LockKind) -> Option<&Lock> {
        let excludes = |lock: &&Lock| lock.kind == LockKind::Exclusive || kind == LockKind::Exclusive;
        let others = self.held.iter().filter(|lock| lock.owner != owner && overlap(&lock.range, range));
        others.filter(excludes).min_by_key(|lock| lock.range.start)
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
