//! Locked byte ranges of one stream (MS-FSA 2.1.4.10, 2.1.5.8), and requests that wait for one. Locks of an
//! open bind reads and writes of other opens; advisory ones (AFS's of whole files, other processes') conflict
//! with locks only.

use std::collections::VecDeque;
use std::time::Instant;

use crate::OpenId;
use crate::conflict::{RangeUse, overlaps_well};
use crate::event::{Event, Refused, Ticket};
use crate::limits::Limits;

/// Bytes from `offset` on. A range of no bytes overlaps those that begin before it and end behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// Byte range with the mode of its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLock {
    /// Range of bytes.
    pub range: Range,
    /// Set for an exclusive lock.
    pub exclusive: bool,
}

/// Owner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// Open of an SMB client.
    Open(OpenId),
    /// Owner without an open, by a number of its service. Its locks bind no reads and writes.
    AdvisoryLock(u64),
}

/// Locks of one stream, held and waiting.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    held: Vec<HeldRange>,
    /// Waiting locks, granted in order among those that overlap.
    waiting: VecDeque<WaitingRange>,
}

#[derive(Debug)]
struct HeldRange {
    owner: Owner,
    lock: RangeLock,
    /// Time when an advisory lock ends by itself.
    until: Option<Instant>,
}

#[derive(Debug)]
struct WaitingRange {
    ticket: Ticket,
    owner: Owner,
    lock: RangeLock,
}

impl Range {
    /// Range of all bytes that a file has or can have.
    pub const WHOLE: Self = Self { offset: 0, len: u64::MAX };

    /// Returns the offset behind the last byte.
    fn end(self) -> u128 {
        u128::from(self.offset) + u128::from(self.len)
    }

    /// Returns whether the range ends at 2^64 at the latest.
    pub fn is_valid(self) -> bool {
        self.end() <= 1 << 64
    }

    /// Returns whether the ranges overlap.
    pub fn overlaps(self, other: Self) -> bool {
        u128::from(self.offset) < other.end() && u128::from(other.offset) < self.end()
    }
}

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    pub(crate) fn any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Locks all of `locks`, or none.
    pub(crate) fn lock(
        &mut self,
        owner: Owner,
        locks: &[RangeLock],
        until: Option<Instant>,
        limits: &Limits,
    ) -> Result<(), Refused> {
        if locks.iter().any(|lock| !lock.range.is_valid()) {
            return Err(Refused::BadRange);
        }
        let own = self.held.iter().filter(|held| held.owner == owner).count();
        if own + locks.len() > limits.ranges_per_owner || self.held.len() + locks.len() > limits.ranges {
            return Err(Refused::TooMany);
        }
        let before = self.held.len();
        for &lock in locks {
            if !self.is_free(owner, lock) {
                self.held.truncate(before);
                return Err(Refused::Locked);
            }
            self.held.push(HeldRange { owner, lock, until });
        }
        Ok(())
    }

    /// Queues one lock until it can be granted.
    pub(crate) fn wait(
        &mut self,
        ticket: Ticket,
        owner: Owner,
        lock: RangeLock,
        limits: &Limits,
    ) -> Result<(), Refused> {
        let own = self.waiting.iter().filter(|waiting| waiting.owner == owner).count();
        if own >= limits.waiting_locks_per_owner || self.waiting.len() >= limits.waiting_locks {
            return Err(Refused::TooMany);
        }
        self.waiting.push_back(WaitingRange { ticket, owner, lock });
        Ok(())
    }

    /// Removes one lock with exactly the bounds given: an exclusive one before a shared one.
    pub(crate) fn unlock(&mut self, owner: Owner, range: Range) -> Result<(), Refused> {
        let is_it = |held: &HeldRange| held.owner == owner && held.lock.range == range;
        let exclusive = self.held.iter().position(|held| is_it(held) && held.lock.exclusive);
        let at = exclusive.or_else(|| self.held.iter().position(is_it)).ok_or(Refused::NotLocked)?;
        self.held.remove(at);
        Ok(())
    }

    /// Extends an owner's advisory locks. Returns whether it has any.
    pub(crate) fn extend(&mut self, owner: Owner, until: Instant) -> bool {
        let mut own =
            self.held.iter_mut().filter(|held| held.owner == owner && held.until.is_some()).peekable();
        let any = own.peek().is_some();
        own.for_each(|held| held.until = Some(until));
        any
    }

    /// Returns whether the locks allow an open to use a range.
    pub(crate) fn allows(&self, open: OpenId, range: Range, range_use: RangeUse) -> bool {
        let owner = Owner::Open(open);
        let binds =
            |held: &&HeldRange| matches!(held.owner, Owner::Open(_)) && held.lock.range.overlaps(range);
        range.len == 0
            || self
                .held
                .iter()
                .filter(binds)
                .all(|held| overlaps_well(held.lock.exclusive, held.owner == owner, range_use))
    }

    /// Cancels a lock that waits. Returns whether it still waited.
    pub(crate) fn cancel(&mut self, ticket: Ticket) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.ticket != ticket);
        self.waiting.len() < before
    }

    /// Removes the locks of an owner, held and waiting.
    pub(crate) fn close(&mut self, owner: Owner, events: &mut Vec<Event>) {
        self.held.retain(|held| held.owner != owner);
        self.waiting.retain(|waiting| {
            let stays = waiting.owner != owner;
            if !stays {
                events.push(Event::Cancelled(waiting.ticket));
            }
            stays
        });
    }

    /// Removes advisory locks that have expired, and returns whether there were any.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let before = self.held.len();
        self.held.retain(|held| held.until.is_none_or(|until| until > now));
        self.held.len() < before
    }

    /// Returns the next time at which an advisory lock expires.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.held.iter().filter_map(|held| held.until).min()
    }

    /// Grants waiting locks that an unlock made possible.
    pub(crate) fn give(&mut self, limits: &Limits, events: &mut Vec<Event>) {
        let mut at = 0;
        while let Some(waiting) = self.waiting.get(at) {
            let (ticket, owner, lock) = (waiting.ticket, waiting.owner, waiting.lock);
            if self.lock(owner, &[lock], None, limits).is_ok() {
                self.waiting.remove(at);
                events.push(Event::Locked(ticket));
            } else {
                at += 1;
            }
        }
    }

    fn is_free(&self, owner: Owner, lock: RangeLock) -> bool {
        let range_use = if lock.exclusive { RangeUse::Exclusive } else { RangeUse::Shared };
        self.held
            .iter()
            .filter(|held| held.lock.range.overlaps(lock.range))
            .all(|held| overlaps_well(held.lock.exclusive, held.owner == owner, range_use))
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = (Owner, RangeLock)> + '_ {
        self.held.iter().map(|held| (held.owner, held.lock))
    }

    #[cfg(test)]
    pub(crate) fn has_waiting_that_could_be_had(&self) -> bool {
        self.waiting.iter().any(|waiting| self.is_free(waiting.owner, waiting.lock))
    }
}
