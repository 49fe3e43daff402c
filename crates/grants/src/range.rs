//! Locked ranges of bytes of one stream (MS-FSA 2.1.4.10, 2.1.5.8), and requests that wait for one. An open's
//! locks bind reads and writes of other opens; advisory ones (AFS's of whole files, other processes') meet
//! them only as locks.

use std::collections::VecDeque;
use std::time::Instant;

use crate::OpenId;
use crate::conflict::{RangeUse, overlaps_well};
use crate::event::{Event, Refused};
use crate::limits::Limits;
use crate::waiting::Ticket;

/// Bytes from `offset` on. A range of no bytes overlaps those that begin before it and end behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// A range, and how it is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLock {
    /// Range of bytes.
    pub range: Range,
    /// For one alone.
    pub exclusive: bool,
}

/// Owner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// An SMB open's.
    Open(OpenId),
    /// An owner without an open, by a number of its service. Its lock binds no reads and writes.
    AdvisoryLock(u64),
}

/// The locks of one stream.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    held: Vec<HeldRange>,
    /// First come first served among those that overlap; others pass.
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
    /// All there is, and will be.
    pub const WHOLE: Self = Self { offset: 0, len: u64::MAX };

    /// Returns the offset behind the last byte.
    fn end(self) -> u128 {
        u128::from(self.offset) + u128::from(self.len)
    }

    /// Returns whether it ends at 2^64 at the latest.
    pub fn is_valid(self) -> bool {
        self.end() <= 1 << 64
    }

    /// Returns whether the two meet.
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

    /// Has one lock wait until it can be had.
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

    /// Unlocks one range that was locked just so: an exclusive lock before a shared one.
    pub(crate) fn unlock(&mut self, owner: Owner, range: Range) -> Result<(), Refused> {
        let is_it = |held: &HeldRange| held.owner == owner && held.lock.range == range;
        let exclusive = self.held.iter().position(|held| is_it(held) && held.lock.exclusive);
        let at = exclusive.or_else(|| self.held.iter().position(is_it)).ok_or(Refused::NotLocked)?;
        self.held.remove(at);
        Ok(())
    }

    /// Has an owner's advisory locks last longer. Says whether there are any.
    pub(crate) fn extend(&mut self, owner: Owner, until: Instant) -> bool {
        let mut own =
            self.held.iter_mut().filter(|held| held.owner == owner && held.until.is_some()).peekable();
        let any = own.peek().is_some();
        own.for_each(|held| held.until = Some(until));
        any
    }

    /// Returns whether an open may read or write there.
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

    /// A lock that waits is no longer wanted. Says whether it still waited.
    pub(crate) fn cancel(&mut self, ticket: Ticket) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.ticket != ticket);
        self.waiting.len() < before
    }

    /// Drops all that an owner has locked, and the locks that it waits for.
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

    /// Advisory locks whose time is over go.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let before = self.held.len();
        self.held.retain(|held| held.until.is_none_or(|until| until > now));
        self.held.len() < before
    }

    /// Returns when the next of them ends.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.held.iter().filter_map(|held| held.until).min()
    }

    /// Something was unlocked: gives what waits and can be had.
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

    /// Returns the locked ranges and their owners.
    pub(crate) fn held(&self) -> impl Iterator<Item = (Owner, RangeLock)> + '_ {
        self.held.iter().map(|held| (held.owner, held.lock))
    }

    #[cfg(test)]
    pub(crate) fn has_waiting_that_could_be_had(&self) -> bool {
        self.waiting.iter().any(|waiting| self.is_free(waiting.owner, waiting.lock))
    }
}
