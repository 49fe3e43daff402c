//! Locked ranges of an object's streams.

use std::time::Instant;

use super::Object;
use crate::caching_grant::BreakRequest;
use crate::conflict::{FileOperation, RangeUse};
use crate::event::{Event, GrantResult, Refused, Ticket};
use crate::range::{Owner, Range, RangeLock};
use crate::{ExemptHolder, Holder, OpenId};

/// Byte-range lock of a holder without an open, such as an AFS client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvisoryLock {
    /// Number of the owner, given by its service.
    pub owner: u64,
    /// Range to lock, and the mode.
    pub lock: RangeLock,
    /// Time when the lock ends by itself; `None` for never.
    pub until: Option<Instant>,
}

/// Request for locks.
struct Locking<'a> {
    owner: Owner,
    locks: &'a [RangeLock],
    until: Option<Instant>,
    waits: bool,
}

/// Outcome of a lock request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// The lock is held now.
    Held,
    /// The lock waits for its turn.
    Waits(Ticket),
}

impl<L: Clone + Eq> Object<L> {
    /// Locks all of `ranges` for an open, or none; with `waits` a single one waits until [`Event::Locked`] or
    /// [`Event::Cancelled`] with its ticket.
    ///
    /// [`GrantResult::Wait`] with an `until` of its own means that what another caches is in the way, as for opens;
    /// one that waits for its turn gets [`Lock::Waits`].
    pub fn lock(
        &mut self,
        now: Instant,
        open: OpenId,
        locks: &[RangeLock],
        waits: bool,
        ticket: Option<Ticket>,
        events: &mut Vec<Event>,
    ) -> GrantResult<Lock> {
        self.handle_timeout(now, events);
        match self.stream_of(open) {
            Ok(at) => {
                let wanted = Locking { owner: Owner::Open(open), locks, until: None, waits };
                self.lock_at(now, at, wanted, ticket, events)
            }
            Err(refused) => GrantResult::Refused(refused),
        }
    }

    /// Locks a range of a stream for an owner without an open, until a time: for AFS's locks, and those of
    /// other processes. Never waits.
    pub fn lock_advisory(
        &mut self,
        now: Instant,
        stream: &[u8],
        advisory: AdvisoryLock,
        ticket: Option<Ticket>,
        events: &mut Vec<Event>,
    ) -> GrantResult<Lock> {
        self.handle_timeout(now, events);
        let Some(at) = self.stream_or_new(stream) else { return GrantResult::Refused(Refused::TooMany) };
        let AdvisoryLock { owner, lock, until } = advisory;
        let wanted = Locking { owner: Owner::AdvisoryLock(owner), locks: &[lock], until, waits: false };
        let answer = self.lock_at(now, at, wanted, ticket, events);
        self.tidy();
        answer
    }

    fn lock_at(
        &mut self,
        now: Instant,
        at: usize,
        wanted: Locking<'_>,
        ticket: Option<Ticket>,
        events: &mut Vec<Event>,
    ) -> GrantResult<Lock> {
        let Locking { owner, locks, until, waits } = wanted;
        let by = match owner {
            Owner::Open(open) => {
                let holder = self.streams[at].open(open).and_then(|open| open.holder);
                Some(ExemptHolder::Holder(holder.unwrap_or(Holder(open.0))))
            }
            Owner::AdvisoryLock(_) => None,
        };
        if let Some(until) = self.streams[at]
            .ask(&BreakRequest { now, operation: FileOperation::Lock, by, limits: self.limits }, events)
        {
            return self.wait_of(at, ticket, by, FileOperation::Lock, until);
        }
        match self.streams[at].ranges.lock(owner, locks, until, self.limits) {
            Ok(()) => GrantResult::Granted(Lock::Held),
            Err(Refused::Locked) if waits && locks.len() == 1 => {
                let ticket = self.next_ticket();
                match self.streams[at].ranges.wait(ticket, owner, locks[0], self.limits) {
                    Ok(()) => GrantResult::Granted(Lock::Waits(ticket)),
                    Err(refused) => GrantResult::Refused(refused),
                }
            }
            Err(refused) => GrantResult::Refused(refused),
        }
    }

    /// Unlocks ranges of an open one after another, each with the bounds of a lock.
    ///
    /// # Errors
    /// [`Refused::NotLocked`] at the first that is not; those before are unlocked then (MS-SMB2 3.3.5.14.1).
    pub fn unlock(&mut self, open: OpenId, ranges: &[Range], events: &mut Vec<Event>) -> Result<(), Refused> {
        let at = self.stream_of(open)?;
        let stream = &mut self.streams[at];
        let unlocked = ranges.iter().try_for_each(|&range| stream.ranges.unlock(Owner::Open(open), range));
        stream.ranges.give(self.limits, events);
        self.tidy();
        unlocked
    }

    /// Unlocks the range that an owner without an open has locked.
    ///
    /// # Errors
    /// [`Refused::NotLocked`].
    pub fn unlock_advisory(
        &mut self,
        stream: &[u8],
        owner: u64,
        range: Range,
        events: &mut Vec<Event>,
    ) -> Result<(), Refused> {
        let at = self.stream(stream).ok_or(Refused::NotLocked)?;
        self.streams[at].ranges.unlock(Owner::AdvisoryLock(owner), range)?;
        self.streams[at].ranges.give(self.limits, events);
        self.tidy();
        Ok(())
    }

    /// Extends all locks of an owner without an open until the time `until`.
    ///
    /// # Errors
    /// [`Refused::NotLocked`] if the owner has nothing locked any more.
    pub fn extend_advisory(
        &mut self,
        now: Instant,
        stream: &[u8],
        owner: u64,
        until: Instant,
        events: &mut Vec<Event>,
    ) -> Result<(), Refused> {
        self.handle_timeout(now, events);
        let at = self.stream(stream).ok_or(Refused::NotLocked)?;
        let any = self.streams[at].ranges.extend(Owner::AdvisoryLock(owner), until);
        if any { Ok(()) } else { Err(Refused::NotLocked) }
    }

    /// Returns the locked ranges of the file's own data, of all owners.
    pub fn locked(&self) -> impl Iterator<Item = RangeLock> + '_ {
        let data = self.stream(b"").map(|at| &self.streams[at]);
        data.into_iter().flat_map(|data| data.ranges.held()).map(|(_, lock)| lock)
    }

    /// Returns whether an open has locked any range.
    pub fn has_locked(&self, open: OpenId) -> bool {
        let mut held = self.streams.iter().flat_map(|stream| stream.ranges.held());
        held.any(|(owner, _)| owner == Owner::Open(open))
    }

    /// Returns the ranges that an open has locked.
    pub fn locked_by(&self, open: OpenId) -> Vec<RangeLock> {
        let held = self.streams.iter().flat_map(|stream| stream.ranges.held());
        held.filter(|(owner, _)| *owner == Owner::Open(open)).map(|(_, lock)| lock).collect()
    }

    /// Cancels a lock that waits. Returns false when it no longer waits: granted, or cancelled before.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let cancelled = self.streams.iter_mut().any(|stream| stream.ranges.cancel(ticket));
        self.tidy();
        cancelled
    }

    /// Checks that the locks of others allow an open to use a byte range.
    ///
    /// # Errors
    /// [`Refused::Locked`], [`Refused::NotOpen`].
    pub fn check(&self, open: OpenId, range: Range, range_use: RangeUse) -> Result<(), Refused> {
        let stream = &self.streams[self.stream_of(open)?];
        if stream.ranges.allows(open, range, range_use) { Ok(()) } else { Err(Refused::Locked) }
    }
}
