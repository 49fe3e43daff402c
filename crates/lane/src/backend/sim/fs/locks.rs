//! Locks of open file descriptions on ranges of a file (fcntl(2), "Open file description locks").

use std::io;
use std::ops::Range;

use super::{Inode, errno};
use crate::backend::file::LockKind;

/// Those on one file.
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

impl Inode {
    /// Locks a range, whatever of it the owner had locked before; `EAGAIN` while another has one it cannot share.
    pub(crate) fn lock(&self, owner: u64, range: Range<u64>, kind: LockKind) -> io::Result<()> {
        if self.lock_in_the_way(owner, &range, kind).is_some() {
            return Err(errno(libc::EAGAIN));
        }
        self.unlock(owner, &range);
        self.locks.borrow_mut().held.push(Lock { owner, range, kind });
        Ok(())
    }

    pub(crate) fn unlock(&self, owner: u64, range: &Range<u64>) {
        let mut locks = self.locks.borrow_mut();
        for lock in std::mem::take(&mut locks.held) {
            if lock.owner != owner || !overlap(&lock.range, range) {
                locks.held.push(lock);
                continue;
            }
            let parts = [lock.range.start..range.start, range.end..lock.range.end];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            locks.held.extend(parts.map(|range| Lock { range, ..lock.clone() }));
        }
    }

    /// A lock of another that this one would have to wait for.
    pub(crate) fn lock_in_the_way(
        &self,
        owner: u64,
        range: &Range<u64>,
        kind: LockKind,
    ) -> Option<(Range<u64>, LockKind)> {
        let locks = self.locks.borrow();
        let excludes = |lock: &&Lock| lock.kind == LockKind::Exclusive || kind == LockKind::Exclusive;
        let others = locks.held.iter().filter(|lock| lock.owner != owner && overlap(&lock.range, range));
        let first = others.filter(excludes).min_by_key(|lock| lock.range.start)?;
        Some((first.range.clone(), first.kind))
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
