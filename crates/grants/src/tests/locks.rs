//! Locked ranges, one rule each.

use std::time::Duration;

use super::{Bench, request, with_lease, with_oplock};
use crate::conflict::RangeUse;
use crate::{
    AdvisoryLock, Caching, Event, GrantResult, Limits, Lock, OpenId, Range, RangeLock, Refused, Ticket,
};

fn lock(offset: u64, len: u64, exclusive: bool) -> RangeLock {
    RangeLock { range: Range { offset, len }, exclusive }
}

impl Bench {
    fn lock(&mut self, open: u64, locks: &[RangeLock], waits: bool) -> GrantResult<Lock> {
        self.object.lock(self.now, OpenId(open), locks, waits, None, &mut self.events)
    }

    fn unlock(&mut self, open: u64, offset: u64, len: u64) -> Result<(), Refused> {
        self.object.unlock(OpenId(open), &[Range { offset, len }], &mut self.events)
    }

    fn waits(&mut self, open: u64, it: RangeLock) -> Ticket {
        match self.lock(open, &[it], true) {
            GrantResult::Granted(Lock::Waits(ticket)) => ticket,
            other => panic!("{other:?}"),
        }
    }

    fn advise(&mut self, owner: u64, exclusive: bool, seconds: u64) -> GrantResult<Lock> {
        let lock = RangeLock { range: Range::WHOLE, exclusive };
        let until = Some(self.now + Duration::from_secs(seconds));
        let advisory = AdvisoryLock { owner, lock, until };
        self.object.lock_advisory(self.now, b"", advisory, None, &mut self.events)
    }
}

const HELD: GrantResult<Lock> = GrantResult::Granted(Lock::Held);
const LOCKED: GrantResult<Lock> = GrantResult::Refused(Refused::Locked);

fn two_opens() -> Bench {
    let mut bench = Bench::new();
    bench.granted(request(1));
    bench.granted(request(2));
    bench
}

#[test]
fn exclusive_ranges_stand_alone_and_shared_ones_beside_each_other() {
    let mut bench = two_opens();
    assert_eq!(bench.lock(1, &[lock(0, 10, true)], false), HELD);
    assert_eq!(bench.lock(2, &[lock(9, 5, false)], false), LOCKED);
    assert_eq!(bench.lock(2, &[lock(10, 5, false)], false), HELD);
    assert_eq!(bench.lock(1, &[lock(12, 5, false)], false), HELD);
    // The same open: shared upon exclusive, nothing upon shared but shared, exclusive upon nothing.
    assert_eq!(bench.lock(1, &[lock(0, 10, false)], false), HELD);
    assert_eq!(bench.lock(1, &[lock(0, 10, true)], false), LOCKED);
}

#[test]
fn a_range_of_no_bytes_meets_what_it_lies_inside() {
    let mut bench = two_opens();
    assert_eq!(bench.lock(1, &[lock(10, 10, true)], false), HELD);
    for (offset, expected) in [(9, HELD), (10, HELD), (11, LOCKED), (19, LOCKED), (20, HELD), (0, HELD)] {
        assert_eq!(bench.lock(2, &[lock(offset, 0, true)], false), expected, "{offset}");
    }
    assert_eq!(bench.lock(1, &[lock(9, 0, true)], false), HELD, "two of no bytes never meet");
    assert_eq!(bench.lock(1, &[lock(u64::MAX, 1, true)], false), HELD);
    assert_eq!(bench.lock(1, &[lock(u64::MAX, 2, true)], false), GrantResult::Refused(Refused::BadRange));
}

#[test]
fn locks_bind_reads_and_writes_and_advisory_ones_do_not() {
    let mut bench = two_opens();
    assert_eq!(bench.lock(1, &[lock(0, 10, true), lock(20, 10, false)], false), HELD);
    let check =
        |open, offset, wants| bench.object.check(OpenId(open), Range { offset, len: 5 }, wants).is_ok();
    assert!(check(1, 0, RangeUse::Writing) && check(1, 0, RangeUse::Reading));
    assert!(!check(2, 0, RangeUse::Writing) && !check(2, 0, RangeUse::Reading));
    assert!(
        !check(1, 20, RangeUse::Writing)
            && check(2, 20, RangeUse::Reading)
            && !check(2, 20, RangeUse::Writing)
    );
    assert!(bench.object.check(OpenId(2), Range { offset: 5, len: 0 }, RangeUse::Writing).is_ok());
    let mut bench = two_opens();
    assert_eq!(bench.advise(7, true, 300), HELD);
    assert!(bench.object.check(OpenId(1), Range { offset: 0, len: 5 }, RangeUse::Writing).is_ok());
    assert_eq!(bench.lock(1, &[lock(0, 1, false)], false), LOCKED);
}

#[test]
fn several_are_locked_all_or_none() {
    let mut bench = two_opens();
    assert_eq!(bench.lock(1, &[lock(5, 1, true)], false), HELD);
    assert_eq!(bench.lock(2, &[lock(0, 1, true), lock(5, 1, true)], false), LOCKED);
    assert_eq!(bench.lock(1, &[lock(0, 1, true)], false), HELD, "nothing of it is left");
}

#[test]
fn a_range_is_unlocked_as_it_was_locked_the_exclusive_one_first() {
    let mut bench = two_opens();
    assert_eq!(bench.lock(1, &[lock(0, 10, true)], false), HELD);
    assert_eq!(bench.lock(1, &[lock(0, 10, false)], false), HELD);
    assert_eq!(bench.unlock(1, 0, 5), Err(Refused::NotLocked));
    assert_eq!(bench.unlock(2, 0, 10), Err(Refused::NotLocked));
    assert_eq!(bench.unlock(1, 0, 10), Ok(()));
    assert_eq!(bench.lock(2, &[lock(0, 10, false)], false), HELD);
    assert_eq!(bench.unlock(1, 0, 10), Ok(()));
    assert_eq!(bench.unlock(1, 0, 10), Err(Refused::NotLocked));
}

#[test]
fn who_waits_gets_it_in_turn_by_unlock_close_and_time() {
    let mut bench = two_opens();
    bench.granted(request(3));
    assert_eq!(bench.lock(1, &[lock(0, 10, true)], false), HELD);
    let second = bench.waits(2, lock(0, 10, true));
    let third = bench.waits(3, lock(5, 10, true));
    bench.unlock(1, 0, 10).unwrap();
    assert_eq!(bench.events, [Event::Locked(second)]);
    bench.events.clear();
    bench.close(2);
    assert_eq!(bench.events, [Event::Locked(third)]);
    bench.events.clear();
    let cancelled = bench.waits(1, lock(0, 10, true));
    assert!(bench.object.cancel(cancelled) && !bench.object.cancel(cancelled));
    let closed = bench.waits(1, lock(0, 10, true));
    bench.close(1);
    assert_eq!(bench.events, [Event::Cancelled(closed)]);
    bench.close(3);
    bench.events.clear();
    bench.granted(request(4));
    assert_eq!(bench.advise(7, true, 300), HELD);
    let fourth = bench.waits(4, lock(0, 1, true));
    bench.pass(Duration::from_secs(300));
    assert_eq!(bench.events, [Event::Locked(fourth)]);
}

#[test]
fn advisory_locks_last_until_their_time_unless_extended() {
    let mut bench = Bench::new();
    assert_eq!(bench.advise(7, false, 300), HELD);
    assert_eq!(bench.advise(8, false, 300), HELD);
    assert_eq!(bench.advise(9, true, 300), LOCKED);
    let later = bench.now + Duration::from_secs(500);
    bench.object.extend_advisory(bench.now, b"", 7, later, &mut bench.events).unwrap();
    bench.pass(Duration::from_secs(300));
    assert_eq!(bench.advise(9, true, 300), LOCKED);
    bench.object.unlock_advisory(b"", 7, Range::WHOLE, &mut bench.events).unwrap();
    assert_eq!(bench.advise(9, true, 300), HELD);
    let gone = bench.object.extend_advisory(bench.now, b"", 8, later, &mut bench.events);
    assert_eq!(gone, Err(Refused::NotLocked));
    bench.pass(Duration::from_secs(300));
    assert!(bench.object.is_empty());
}

#[test]
fn a_lock_ends_what_others_read_ahead_and_its_own_level_two() {
    let mut bench = Bench::new();
    bench.granted(with_oplock(1, Caching::R));
    bench.granted(with_lease(2, 12, Caching::R));
    assert_eq!(bench.lock(1, &[lock(0, 1, false)], false), HELD);
    assert_eq!(bench.breaks(), [(1, Caching::NONE, false), (12, Caching::NONE, false)]);
    assert_eq!(bench.granted(with_lease(3, 13, Caching::RH)).caching, Caching::NONE);
}

#[test]
fn a_lock_from_outside_waits_for_who_keeps_locks_to_himself() {
    let mut bench = Bench::new();
    bench.granted(with_lease(1, 11, Caching::RWH));
    assert!(matches!(bench.advise(7, true, 300), GrantResult::Wait(_)));
    assert_eq!(bench.breaks(), [(11, Caching::NONE, true)]);
}

#[test]
fn beyond_the_limits_locks_are_refused() {
    let small = Limits {
        ranges: 3,
        ranges_per_owner: 2,
        waiting_locks: 2,
        waiting_locks_per_owner: 1,
        ..Limits::DEFAULT
    };
    let mut bench = Bench::new();
    bench.object = crate::Object::new(Box::leak(Box::new(small)));
    for open in 1..=4 {
        bench.granted(request(open));
    }
    let full = GrantResult::Refused(Refused::TooMany);
    assert_eq!(bench.lock(1, &[lock(0, 1, true), lock(1, 1, true)], false), HELD);
    assert_eq!(bench.lock(1, &[lock(2, 1, true)], false), full);
    assert_eq!(bench.lock(2, &[lock(2, 1, true), lock(3, 1, true)], false), full);
    bench.waits(2, lock(0, 1, true));
    assert_eq!(bench.lock(2, &[lock(0, 1, true)], true), full);
    bench.waits(3, lock(0, 1, true));
    assert_eq!(bench.lock(4, &[lock(0, 1, true)], true), full);
}
