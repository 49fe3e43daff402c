//! Tests of restored opens, one rule each.

use super::{Bench, request, with_lease, with_oplock};
use crate::conflict::RangeUse;
use crate::{
    Access, Caching, CachingRequest, Event, GrantResult, Holder, Kind, OpenId, Range, RangeLock, Refused,
    Request, Share,
};

fn lock(offset: u64, len: u64, exclusive: bool) -> RangeLock {
    RangeLock { range: Range { offset, len }, exclusive }
}

impl Bench {
    fn restore(&mut self, request: Request<&'static str>, locks: &[RangeLock]) -> Result<(), Refused> {
        self.object.restore(b"", request, locks)
    }
}

/// Returns a request to restore a lease with its last epoch.
fn at_epoch(epoch: u16, request: Request<&'static str>) -> Request<&'static str> {
    let want = request.want.map(|want| CachingRequest { kind: Kind::Lease { epoch: Some(epoch) }, ..want });
    Request { want, ..request }
}

#[test]
fn an_open_is_put_back_with_its_lease_epoch_share_mode_and_locks_and_nobody_is_asked() {
    let mut bench = Bench::new();
    let held = Request { share: Share::NONE, ..at_epoch(7, with_lease(1, 9, Caching::RWH)) };
    let locks = [lock(4, 4, false), lock(0, 16, true)];
    bench.restore(held, &locks).unwrap();
    let standing = bench.object.standing(Holder(9));
    assert_eq!((standing.caching, standing.epoch, standing.is_breaking), (Caching::RWH, 7, false));
    assert_eq!(bench.object.locked_by(OpenId(1)).len(), 2, "a shared lock within an exclusive one");
    assert!(bench.events.is_empty());
    // From here on it is as if it had never been away.
    let other = bench.open(request(2));
    assert!(matches!(other, GrantResult::Wait(_)), "{other:?}");
    assert!(matches!(&bench.events[..], [Event::Break(told)] if told.holder == Holder(9) && told.epoch == 8));
}

#[test]
fn opens_of_one_lease_are_put_back_one_by_one_and_a_lease_that_says_otherwise_is_refused() {
    let mut bench = Bench::new();
    for open in [1, 2] {
        bench.restore(at_epoch(3, with_lease(open, 9, Caching::RWH)), &[]).unwrap();
    }
    let elsewise = [
        at_epoch(4, with_lease(3, 9, Caching::RWH)),
        at_epoch(3, with_lease(3, 9, Caching::RH)),
        with_oplock(9, Caching::RWH),
    ];
    for wrong in elsewise {
        assert_eq!(bench.restore(wrong, &[]), Err(Refused::Sharing), "{wrong:?}");
    }
    bench.close(1);
    assert_eq!(bench.object.held(Holder(9)), Some(Caching::RWH));
    bench.close(2);
    assert!(bench.object.is_empty());
}

#[test]
fn what_the_tables_would_not_have_granted_is_refused_and_leaves_nothing() {
    let mut bench = Bench::new();
    bench.restore(with_lease(1, 1, Caching::RH), &[]).unwrap();
    let reads = Request { share: Share::from_bits(1), ..with_lease(2, 2, Caching::RH) };
    let refused = [
        (with_lease(2, 2, Caching::RWH), vec![], Refused::Sharing),
        (with_oplock(2, Caching::RWH), vec![], Refused::Sharing),
        (with_lease(2, 2, Caching::NONE), vec![], Refused::Sharing),
        (reads, vec![], Refused::Sharing),
        (request(2), vec![], Refused::NotOpen),
        (with_lease(2, 2, Caching::RH), vec![lock(0, 2, true), lock(1, 2, true)], Refused::Locked),
        (with_lease(2, 2, Caching::RH), vec![lock(9, u64::MAX, true)], Refused::BadRange),
    ];
    for (wrong, locks, why) in refused {
        assert_eq!(bench.restore(wrong, &locks), Err(why), "{wrong:?}");
        assert!(!bench.object.has_ranges(), "{wrong:?}");
        assert_eq!(bench.object.held(Holder(2)), None, "{wrong:?}");
    }
    bench.close(1);
    assert!(bench.object.is_empty(), "what was refused is not there");
    let mut empty = Bench::new();
    assert_eq!(empty.restore(request(1), &[]), Err(Refused::NotOpen));
    assert!(empty.object.is_empty());
}

#[test]
fn a_stream_that_bears_no_deletion_is_not_put_back_beside_who_may_delete_the_file() {
    let mut bench = Bench::new();
    bench.restore(Request { access: Access::DELETE, ..with_lease(1, 1, Caching::RH) }, &[]).unwrap();
    let reading = Request { access: Access::READ, ..with_lease(2, 2, Caching::RH) };
    let unshared = Request { share: Share::from_bits(3), ..reading };
    assert_eq!(bench.object.restore(b"stream", unshared, &[]), Err(Refused::Sharing));
    bench.object.restore(b"stream", reading, &[]).unwrap();
    bench.close(1);
    bench.close(2);
    assert!(bench.object.is_empty(), "what was refused is not there");
}

#[test]
fn locks_that_were_put_back_bind_others() {
    let mut bench = Bench::new();
    let held = Request { access: Access::READ, ..with_oplock(1, Caching::RWH) };
    bench.restore(held, &[lock(10, 5, true)]).unwrap();
    bench.granted(Request { want: None, ..with_lease(2, 1, Caching::NONE) }.of_the_holder(1));
    for (offset, bound) in [(9, false), (10, true), (14, true), (15, false)] {
        let range = Range { offset, len: 1 };
        let allowed = bench.object.check(OpenId(2), range, RangeUse::Reading);
        assert_eq!(allowed == Err(Refused::Locked), bound, "{offset}");
        assert_eq!(bench.object.check(OpenId(1), range, RangeUse::Writing), Ok(()));
    }
}

impl Request<&'static str> {
    /// Makes an open of the holder of another's oplock, so that nothing is broken for it.
    fn of_the_holder(self, holder: u64) -> Self {
        let want = CachingRequest {
            holder: Holder(holder),
            kind: Kind::Oplock,
            caching: Caching::NONE,
            home: crate::Home(3),
            key: None,
        };
        Self { want: Some(want), ..self }
    }
}
