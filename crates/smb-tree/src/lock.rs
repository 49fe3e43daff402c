//! LOCK (MS-SMB2 3.3.5.14): ranges of bytes are locked and unlocked.

use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use grants::{Range, RangeLock, Refused};
use identity::Rights;
use smb_wire::body::lock::{LockElement, LockRequest, flags};
use smb_wire::create::access::rights::{APPEND_DATA, EXECUTE, READ_DATA, WRITE_DATA};
use smb_wire::{Dialect, Status};
use vfs::OpenError;

use crate::access::Allowed;
use crate::by_name::NamedOpen;
use crate::lock_sequences::LockSequenceGuard;
use crate::open::Open;
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;

/// The action of a LOCK request: all of its ranges are locked, or all are unlocked.
#[derive(Debug, PartialEq, Eq)]
enum LockAction {
    Locks {
        locks: Vec<RangeLock>,
        waits: bool,
    },
    /// Valid unlocks before the first invalid one, if there is such.
    Unlocks {
        ranges: Vec<Range>,
        is_whole: bool,
    },
}

impl Share {
    /// Locks all ranges of the request, or none; or unlocks them one after another. A single lock waits for its turn, unless it is to
    /// fail at once: dropped meanwhile, it waits no more. `channel_sequence` is that of the request's header.
    ///
    /// # Errors
    /// `STATUS_LOCK_NOT_GRANTED`, `STATUS_RANGE_NOT_LOCKED`, `STATUS_INVALID_LOCK_RANGE`; `STATUS_FILE_CLOSED` when the open is closed
    /// while it waits; `STATUS_INVALID_PARAMETER` for ranges that are not of one kind; `STATUS_CANCELLED` where it came again by another
    /// channel, `STATUS_FILE_NOT_AVAILABLE` where it comes later than that.
    pub fn lock<'a>(
        &'a self,
        ctx: &'a RequestContext,
        open: &'a Arc<Open>,
        request: &'a LockRequest<'a>,
        channel_sequence: u16,
    ) -> LocalBoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if open.is_directory() {
                return Err(Status::INVALID_DEVICE_REQUEST);
            }
            let sequence = (ctx.dialect >= Dialect::Smb300).then(|| request.fixed.sequence());
            //= MS-SMB2 3.3.5.14
            //# A request whose sequence number is that of its entry was done: it is answered with success, and nothing else.
            let Some(sequence_guard) = LockSequenceGuard::begin(open, sequence, channel_sequence).await?
            else {
                return Ok(());
            };
            match lock_action(request.locks)? {
                LockAction::Unlocks { ranges, is_whole } => {
                    // One by one, to know how many were.
                    let unlocked: Result<(), OpenError> = ranges.iter().try_for_each(|range| {
                        open.grants().unlock(self.volume(), &[*range])?;
                        open.room.give_ranges(1);
                        Ok(())
                    });
                    // Nothing is waited for in between: a client that loses its channel now has it done, and
                    // does it by no other again.
                    if unlocked.is_ok() && is_whole {
                        sequence_guard.done();
                    }
                    // Also where one of them was not locked: those before it are unlocked.
                    self.volume().unlocked_for_others(open.grants().object()).await;
                    unlocked.map_err(status::of_open)?;
                    if !is_whole {
                        return Err(Status::INVALID_PARAMETER);
                    }
                }
                LockAction::Locks { locks, waits } => {
                    //= MS-SMB2 3.3.5.14
                    //# An open that may neither read nor write locks nothing.
                    if !open.may(READ_DATA | EXECUTE | WRITE_DATA | APPEND_DATA) {
                        return Err(Status::ACCESS_DENIED);
                    }
                    // Shared ranges keep writers out as well.
                    if !self.may_lock(ctx, open).await? {
                        return Err(Status::ACCESS_DENIED);
                    }
                    let room = RangesRoom::take(open, locks.len())
                        .inspect_err(|_| self.counters().ranges_refused.increment())?;
                    let mut locked =
                        sequence_guard.unless_called_off(self.lock_in_steps(open, &locks, waits)).await;
                    // Other programs see a lock by a name of the file, which one of them may have moved.
                    if let Ok(Err(OpenError::Failed(vfs::Error::Stale))) = &locked {
                        let handle = self.handle(ctx, open).await?;
                        self.follow(NamedOpen::of_file(open, &handle)).await?;
                        locked =
                            sequence_guard.unless_called_off(self.lock_in_steps(open, &locks, waits)).await;
                    }
                    locked?.map_err(|error| match error {
                        //= MS-SMB2 3.3.5.10
                        //# A lock that waits when its open is closed fails with STATUS_RANGE_NOT_LOCKED.
                        OpenError::Refused(Refused::NotOpen) => Status::RANGE_NOT_LOCKED,
                        error => status::of_open(error),
                    })?;
                    room.keep();
                    sequence_guard.done();
                }
            }
            Ok(())
        })
    }

    /// Locks all these ranges, or none. Among many of them other tasks of the lane have their turn, and a CANCEL takes effect.
    async fn lock_in_steps(
        &self,
        open: &Arc<Open>,
        locks: &[RangeLock],
        waits: bool,
    ) -> Result<(), OpenError> {
        if locks.len() <= RANGES_PER_TURN {
            return open.grants().lock(self.volume(), locks, waits).await;
        }
        if locks.iter().any(|lock| !lock.range.is_valid()) {
            return Err(Refused::BadRange.into());
        }
        // One after another, as in MS-SMB2 3.3.5.14.2; where one fails those before it are unlocked.
        let mut taken = LockedRanges { share: self, open, ranges: Vec::with_capacity(locks.len()) };
        for some in locks.chunks(RANGES_PER_TURN) {
            if let Err(error) = open.grants().lock(self.volume(), some, false).await {
                drop(taken);
                self.volume().unlocked_for_others(open.grants().object()).await;
                return Err(error);
            }
            taken.ranges.extend(some.iter().map(|lock| lock.range));
            lane::yield_if_due().await;
        }
        taken.ranges.clear();
        Ok(())
    }

    /// Returns whether an open may keep others from what it locks: it was opened to write, or its user has
    /// the right to lock now.
    async fn may_lock(&self, ctx: &RequestContext, open: &Arc<Open>) -> Result<bool, Status> {
        if open.may(WRITE_DATA | APPEND_DATA) {
            return Ok(true);
        }
        let handle = self.handle(ctx, open).await?;
        let path = self.present_path(open, &handle).await.ok_or(Status::FILE_DELETED)?;
        let found = self.volume().lookup_with_rights(&ctx.caller, path.as_path(), Rights::NONE).await;
        let (found, who) = (found.map_err(status::of)?, &ctx.caller.principal);
        let allowed = Allowed::of(who, &found, None, false);
        Ok(allowed.locks())
    }
}

/// Room for ranges that are about to be locked. Dropped unused, it is given back.
struct RangesRoom<'a>(&'a Open, usize);

impl<'a> RangesRoom<'a> {
    fn take(open: &'a Open, count: usize) -> Result<Self, Status> {
        open.room.take_ranges(count).map(|()| Self(open, count))
    }

    fn keep(mut self) {
        self.1 = 0;
    }
}

impl Drop for RangesRoom<'_> {
    fn drop(&mut self) {
        self.0.room.give_ranges(self.1);
    }
}

/// The ranges that a request has locked so far. Dropped before all are locked, it unlocks them.
struct LockedRanges<'a> {
    share: &'a Share,
    open: &'a Arc<Open>,
    ranges: Vec<Range>,
}

impl Drop for LockedRanges<'_> {
    fn drop(&mut self) {
        if !self.ranges.is_empty() {
            // It may be closed by now, with all its locks.
            let _ = self.open.grants().unlock(self.share.volume(), &self.ranges);
        }
    }
}

/// Ranges that are locked before other tasks of the lane have a turn.
const RANGES_PER_TURN: usize = 64;

//= MS-SMB2 3.3.5.14.1
//# The first element says whether the request unlocks; in one that does, those before the first with another flag are unlocked.
//= MS-SMB2 3.3.5.14.2
//# Elements that lock are SHARED or EXCLUSIVE; more than one of them must all fail at once.
fn lock_action(elements: &[LockElement]) -> Result<LockAction, Status> {
    let bits = |element: &LockElement| element.flags.get();
    let range = |element: &LockElement| Range { offset: element.offset.get(), len: element.length.get() };
    if elements.first().is_some_and(|first| bits(first) == flags::UNLOCK) {
        let sound = elements.iter().take_while(|element| bits(element) == flags::UNLOCK);
        let ranges: Vec<_> = sound.map(range).collect();
        let is_whole = ranges.len() == elements.len();
        return Ok(LockAction::Unlocks { ranges, is_whole });
    }
    let mut locks = Vec::with_capacity(elements.len());
    let mut waits = false;
    for element in elements {
        let exclusive = match bits(element) & !flags::FAIL_IMMEDIATELY {
            flags::SHARED => false,
            flags::EXCLUSIVE => true,
            _ => return Err(Status::INVALID_PARAMETER),
        };
        let fails_at_once = bits(element) & flags::FAIL_IMMEDIATELY != 0;
        if elements.len() > 1 && !fails_at_once {
            return Err(Status::INVALID_PARAMETER);
        }
        waits |= !fails_at_once;
        locks.push(RangeLock { range: range(element), exclusive });
    }
    Ok(LockAction::Locks { locks, waits })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(offset: u64, length: u64, bits: u32) -> LockElement {
        LockElement { offset: offset.into(), length: length.into(), flags: bits.into(), reserved: 0.into() }
    }

    #[test]
    fn a_request_locks_or_unlocks_and_only_a_single_lock_waits() {
        use flags::{EXCLUSIVE, FAIL_IMMEDIATELY, SHARED, UNLOCK};
        let of = |bits: &[u32]| {
            lock_action(&bits.iter().map(|bits| element(1, 2, *bits)).collect::<Vec<_>>()).map(
                |lock_action| match lock_action {
                    LockAction::Locks { locks, waits } => (locks.len(), waits),
                    LockAction::Unlocks { ranges, is_whole } => (ranges.len() + 100, is_whole),
                },
            )
        };
        for (bits, expected) in [
            (&[SHARED][..], Ok((1, true))),
            (&[EXCLUSIVE | FAIL_IMMEDIATELY], Ok((1, false))),
            (&[SHARED | FAIL_IMMEDIATELY, EXCLUSIVE | FAIL_IMMEDIATELY], Ok((2, false))),
            (&[SHARED, EXCLUSIVE], Err(Status::INVALID_PARAMETER)),
            (&[UNLOCK, UNLOCK], Ok((102, true))),
            (&[UNLOCK, SHARED], Ok((101, false))),
            (&[UNLOCK | FAIL_IMMEDIATELY], Err(Status::INVALID_PARAMETER)),
            (&[SHARED | FAIL_IMMEDIATELY, UNLOCK], Err(Status::INVALID_PARAMETER)),
            (&[SHARED | EXCLUSIVE], Err(Status::INVALID_PARAMETER)),
            (&[0], Err(Status::INVALID_PARAMETER)),
            (&[0x20], Err(Status::INVALID_PARAMETER)),
        ] {
            assert_eq!(of(bits), expected, "{bits:?}");
        }
    }
}
