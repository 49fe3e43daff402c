//! Deletion on close, by name.

use super::{Bench, request, with_lease};
use crate::conflict::FileOperation;
use crate::{
    Access, Caching, Change, Closed, Event, ExemptHolder, GrantResult, Holder, NameEnd, OpenId, Refused,
    Request, Share, Ticket,
};

fn dispose(bench: &mut Bench, open: u64, deletes: bool) -> GrantResult<()> {
    dispose_with(bench, open, deletes.then_some(NameEnd::LastClose))
}

fn dispose_with(bench: &mut Bench, open: u64, deletes: Option<NameEnd>) -> GrantResult<()> {
    bench.object.set_deletion(bench.now, OpenId(open), deletes, None, &mut bench.events)
}

#[test]
fn a_name_goes_with_the_open_that_has_it_deleted_as_posix_has_it() {
    let gone = Closed::DeleteName { link: "page", parent: None };
    let three = || {
        let mut bench = Bench::new();
        for open in 1..=3 {
            bench.granted(request(open));
        }
        bench
    };
    let mut bench = three();
    assert_eq!(dispose_with(&mut bench, 1, Some(NameEnd::OwnClose)), GrantResult::Granted(()));
    assert_eq!(bench.close(2), Closed::Stays, "another's close takes nothing away");
    assert_eq!(bench.open(request(4)), GrantResult::Refused(Refused::DeletePending));
    assert_eq!(bench.close(1), gone, "though the third has it open");
    bench.object.deleted(&"page", &mut bench.events);
    assert!(!bench.object.is_deleting(OpenId(3)));
    assert_eq!(bench.close(3), Closed::Stays);
    // Taken back, by whichever open, it stays, and goes with the last where that is said then.
    let mut bench = three();
    assert_eq!(dispose_with(&mut bench, 1, Some(NameEnd::OwnClose)), GrantResult::Granted(()));
    assert_eq!(dispose_with(&mut bench, 2, None), GrantResult::Granted(()));
    assert_eq!(dispose_with(&mut bench, 2, Some(NameEnd::LastClose)), GrantResult::Granted(()));
    assert_eq!([1, 2].map(|open| bench.close(open)), [Closed::Stays; 2]);
    assert_eq!(bench.close(3), gone);
    // What is said last of an open counts.
    let mut bench = three();
    assert_eq!(dispose_with(&mut bench, 1, Some(NameEnd::OwnClose)), GrantResult::Granted(()));
    assert_eq!(dispose_with(&mut bench, 1, Some(NameEnd::LastClose)), GrantResult::Granted(()));
    assert_eq!([1, 2].map(|open| bench.close(open)), [Closed::Stays; 2]);
    assert_eq!(bench.close(3), gone);
    // One that deletes on close.
    let mut bench = three();
    bench.object.delete_on_close(OpenId(2), Some(NameEnd::OwnClose)).unwrap();
    bench.granted(request(4));
    assert_eq!(bench.close(2), gone);
    bench.object.deleted(&"page", &mut bench.events);
    assert_eq!([1, 3, 4].map(|open| bench.close(open)), [Closed::Stays; 3]);
}

#[test]
fn the_last_close_takes_the_name_away_and_nobody_opens_it_meanwhile() {
    let mut bench = Bench::new();
    bench.granted(request(1));
    bench.granted(request(2));
    bench.object.delete_on_close(OpenId(1), Some(NameEnd::LastClose)).unwrap();
    bench.granted(request(3));
    assert_eq!(bench.close(1), Closed::Stays);
    assert_eq!(bench.open(request(4)), GrantResult::Refused(Refused::DeletePending));
    assert_eq!(bench.close(2), Closed::Stays);
    assert_eq!(bench.close(3), Closed::DeleteName { link: "page", parent: None });
    // Until it is done.
    assert_eq!(bench.open(request(5)), GrantResult::Refused(Refused::DeletePending));
    bench.object.deleted(&"page", &mut bench.events);
    assert!(bench.object.is_empty());
    bench.granted(request(5));
}

#[test]
fn another_name_of_the_same_file_stays() {
    let mut bench = Bench::new();
    bench.granted(request(1));
    let by_other = |open| Request { link: "other", ..request(open) };
    bench.granted(by_other(2));
    assert_eq!(dispose(&mut bench, 1, true), GrantResult::Granted(()));
    assert_eq!(bench.open(request(3)), GrantResult::Refused(Refused::DeletePending));
    bench.granted(by_other(3));
    assert_eq!(
        bench.close(1),
        Closed::DeleteName { link: "page", parent: None },
        "whoever has it open by the other"
    );
    assert_eq!(bench.close(2), Closed::Stays);
    assert_eq!(bench.close(3), Closed::Stays);
}

#[test]
fn a_deletion_is_taken_back_and_needs_the_right() {
    let mut bench = Bench::new();
    bench.granted(request(1));
    bench.granted(Request { access: Access::READ, ..request(2) });
    assert_eq!(dispose(&mut bench, 2, true), GrantResult::Refused(Refused::Access));
    assert_eq!(bench.object.delete_on_close(OpenId(2), Some(NameEnd::LastClose)), Err(Refused::Access));
    assert_eq!(dispose(&mut bench, 1, true), GrantResult::Granted(()));
    assert!(bench.object.is_deleted(&"page"));
    assert_eq!(dispose(&mut bench, 1, false), GrantResult::Granted(()));
    bench.granted(request(3));
    assert_eq!([1, 2, 3].map(|open| bench.close(open)), [Closed::Stays; 3]);
}

#[test]
fn a_file_is_opened_to_be_deleted_only_beside_streams_that_bear_it_and_the_other_way_round() {
    let mut bench = Bench::new();
    let reading = |open, share| Request { access: Access::READ, share, ..request(open) };
    let unshared = Share::from_bits(3);
    let stream = |bench: &mut Bench, request| {
        bench.object.open(bench.now, b"stream", request, None, &mut bench.events)
    };
    assert!(matches!(stream(&mut bench, reading(1, unshared)), GrantResult::Granted(_)));
    assert_eq!(bench.open(request(2)), GrantResult::Refused(Refused::Sharing));
    bench.granted(reading(3, Share::ALL));
    bench.close(1);
    assert!(matches!(stream(&mut bench, reading(4, Share::ALL)), GrantResult::Granted(_)));
    bench.granted(request(5));
    assert_eq!(stream(&mut bench, reading(6, unshared)), GrantResult::Refused(Refused::Sharing));
    let looking = Request { access: Access::NONE, ..reading(7, unshared) };
    assert!(
        matches!(stream(&mut bench, looking), GrantResult::Granted(_)),
        "who only looks keeps nobody from anything"
    );
    bench.close(5);
    assert!(matches!(stream(&mut bench, reading(8, unshared)), GrantResult::Granted(_)));
    for open in [3, 4, 7, 8] {
        assert_eq!(bench.close(open), Closed::Stays);
    }
    assert!(bench.object.is_empty());
}

#[test]
fn a_renamed_file_is_deleted_by_its_new_name() {
    let mut bench = Bench::new();
    bench.granted(request(1));
    assert_eq!(dispose(&mut bench, 1, true), GrantResult::Granted(()));
    bench.object.renamed(&"page", &"moved");
    assert_eq!(bench.close(1), Closed::DeleteName { link: "moved", parent: None });
}

#[test]
fn a_deletion_spares_the_directorys_lease_only_if_who_set_it_and_who_closes_last_name_the_same() {
    let with_parent = |open, parent| Request { parent: Some([parent; 16]), ..request(open) };
    for (set_by, kept) in [(1, None), (2, Some([2; 16]))] {
        let mut bench = Bench::new();
        bench.granted(with_parent(1, 1));
        bench.granted(with_parent(2, 2));
        assert_eq!(dispose(&mut bench, set_by, true), GrantResult::Granted(()));
        assert_eq!(bench.close(1), Closed::Stays);
        assert_eq!(bench.close(2), Closed::DeleteName { link: "page", parent: kept });
    }
    // Set by CREATE, it is set when that open is closed.
    let mut bench = Bench::new();
    bench.granted(with_parent(1, 1));
    bench.object.delete_on_close(OpenId(1), Some(NameEnd::LastClose)).unwrap();
    bench.granted(request(2));
    assert_eq!(bench.close(1), Closed::Stays);
    assert_eq!(bench.close(2), Closed::DeleteName { link: "page", parent: None });
}

#[test]
fn a_named_stream_goes_alone() {
    let mut bench = Bench::new();
    bench.granted(request(1));
    let open = |bench: &mut Bench, open| {
        bench.object.open(bench.now, b"tags", request(open), None, &mut bench.events)
    };
    assert!(matches!(open(&mut bench, 2), GrantResult::Granted(_)));
    assert_eq!(dispose(&mut bench, 2, true), GrantResult::Granted(()));
    assert_eq!(open(&mut bench, 3), GrantResult::Refused(Refused::DeletePending));
    bench.granted(request(4));
    assert_eq!(bench.close(2), Closed::DeleteStream);
    assert_eq!([1, 4].map(|open| bench.close(open)), [Closed::Stays; 2]);
}

#[test]
fn who_keeps_opens_is_asked_for_them_before_a_deletion() {
    let mut bench = Bench::new();
    bench.granted(with_lease(1, 11, Caching::RH));
    bench.granted(request(2));
    assert!(matches!(dispose(&mut bench, 2, true), GrantResult::Wait(_)));
    assert_eq!(bench.breaks(), [(11, Caching::R, true)]);
    bench.object.acknowledge(bench.now, Holder(11), Caching::R, &mut bench.events).unwrap();
    assert_eq!(dispose(&mut bench, 2, true), GrantResult::Granted(()));
}

/// Checks the moment after the last open ended, with its share mode, while the name is still there.
#[test]
fn who_writes_or_renames_without_an_open_waits_while_the_name_goes() {
    let mut bench = Bench::new();
    let ask = |bench: &mut Bench, operation, by: Option<u64>, ticket: Option<Ticket>| {
        let change = Change { operation, by: by.map(|by| ExemptHolder::Holder(Holder(by))) };
        bench.object.change(bench.now, b"", change, ticket, &mut bench.events)
    };
    for operation in [FileOperation::Write, FileOperation::Overwrite, FileOperation::Rename] {
        bench.granted(Request { share: Share::NONE, ..request(1) });
        bench.object.delete_on_close(OpenId(1), Some(NameEnd::LastClose)).unwrap();
        let before = ask(&mut bench, operation, None, None);
        assert_eq!(
            before,
            if operation == FileOperation::Overwrite {
                GrantResult::Granted(())
            } else {
                GrantResult::Refused(Refused::Sharing)
            }
        );
        assert_eq!(bench.close(1), Closed::DeleteName { link: "page", parent: None });
        let GrantResult::Wait(wait) = ask(&mut bench, operation, None, None) else {
            panic!("{operation:?} goes on")
        };
        // By another name that stays, and the deletion itself.
        bench.granted(Request { link: "other", ..request(2) });
        assert_eq!(ask(&mut bench, operation, Some(2), None), GrantResult::Granted(()));
        assert_eq!(ask(&mut bench, FileOperation::Remove, Some(1), None), GrantResult::Granted(()));
        assert_eq!(bench.close(2), Closed::Stays);
        assert!(
            matches!(ask(&mut bench, operation, None, Some(wait.ticket)), GrantResult::Wait(_)),
            "woken for that"
        );
        bench.events.clear();
        bench.object.deleted(&"page", &mut bench.events);
        assert_eq!(bench.events, [Event::Wake(wait.ticket)]);
        assert_eq!(ask(&mut bench, operation, None, Some(wait.ticket)), GrantResult::Granted(()));
        bench.object.leave(wait.ticket);
        assert!(bench.object.is_empty());
    }
}
