//! Deletion on close, by name.

use super::{Bench, request, with_lease};
use crate::conflict::Asks;
use crate::{
    Access, Asked, By, Caching, Change, Closed, Event, Holder, OpenId, Refused, Request, Share, Ticket,
};

fn dispose(bench: &mut Bench, open: u64, deletes: bool) -> Asked<()> {
    bench.object.set_deletion(bench.now, OpenId(open), deletes, None, &mut bench.events)
}

#[test]
fn the_last_close_takes_the_name_away_and_nobody_opens_it_meanwhile() {
    let mut bench = Bench::new();
    bench.granted(request(1));
    bench.granted(request(2));
    bench.object.delete_on_close(OpenId(1), true).unwrap();
    bench.granted(request(3));
    assert_eq!(bench.close(1), Closed::Stays);
    assert_eq!(bench.open(request(4)), Asked::Refused(Refused::DeletePending));
    assert_eq!(bench.close(2), Closed::Stays);
    assert_eq!(bench.close(3), Closed::DeleteName { link: "page", parent: None });
    // Until it is done.
    assert_eq!(bench.open(request(5)), Asked::Refused(Refused::DeletePending));
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
    assert_eq!(dispose(&mut bench, 1, true), Asked::Granted(()));
    assert_eq!(bench.open(request(3)), Asked::Refused(Refused::DeletePending));
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
    assert_eq!(dispose(&mut bench, 2, true), Asked::Refused(Refused::Access));
    assert_eq!(bench.object.delete_on_close(OpenId(2), true), Err(Refused::Access));
    assert_eq!(dispose(&mut bench, 1, true), Asked::Granted(()));
    assert!(bench.object.is_deleted(&"page"));
    assert_eq!(dispose(&mut bench, 1, false), Asked::Granted(()));
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
    assert!(matches!(stream(&mut bench, reading(1, unshared)), Asked::Granted(_)));
    assert_eq!(bench.open(request(2)), Asked::Refused(Refused::Sharing));
    bench.granted(reading(3, Share::ALL));
    bench.close(1);
    assert!(matches!(stream(&mut bench, reading(4, Share::ALL)), Asked::Granted(_)));
    bench.granted(request(5));
    assert_eq!(stream(&mut bench, reading(6, unshared)), Asked::Refused(Refused::Sharing));
    let looking = Request { access: Access::NONE, ..reading(7, unshared) };
    assert!(
        matches!(stream(&mut bench, looking), Asked::Granted(_)),
        "who only looks keeps nobody from anything"
    );
    bench.close(5);
    assert!(matches!(stream(&mut bench, reading(8, unshared)), Asked::Granted(_)));
    for open in [3, 4, 7, 8] {
        assert_eq!(bench.close(open), Closed::Stays);
    }
    assert!(bench.object.is_empty());
}

#[test]
fn a_renamed_file_is_deleted_by_its_new_name() {
    let mut bench = Bench::new();
    bench.granted(request(1));
    assert_eq!(dispose(&mut bench, 1, true), Asked::Granted(()));
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
        assert_eq!(dispose(&mut bench, set_by, true), Asked::Granted(()));
        assert_eq!(bench.close(1), Closed::Stays);
        assert_eq!(bench.close(2), Closed::DeleteName { link: "page", parent: kept });
    }
    // Set by CREATE, it is set when that open is closed.
    let mut bench = Bench::new();
    bench.granted(with_parent(1, 1));
    bench.object.delete_on_close(OpenId(1), true).unwrap();
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
    assert!(matches!(open(&mut bench, 2), Asked::Granted(_)));
    assert_eq!(dispose(&mut bench, 2, true), Asked::Granted(()));
    assert_eq!(open(&mut bench, 3), Asked::Refused(Refused::DeletePending));
    bench.granted(request(4));
    assert_eq!(bench.close(2), Closed::DeleteStream);
    assert_eq!([1, 4].map(|open| bench.close(open)), [Closed::Stays; 2]);
}

#[test]
fn who_keeps_opens_is_asked_for_them_before_a_deletion() {
    let mut bench = Bench::new();
    bench.granted(with_lease(1, 11, Caching::RH));
    bench.granted(request(2));
    assert!(matches!(dispose(&mut bench, 2, true), Asked::Wait(_)));
    assert_eq!(bench.breaks(), [(11, Caching::R, true)]);
    bench.object.acknowledge(bench.now, Holder(11), Caching::R, &mut bench.events).unwrap();
    assert_eq!(dispose(&mut bench, 2, true), Asked::Granted(()));
}

/// The share mode that kept others from it ends with the open, and the name a moment later.
#[test]
fn who_writes_or_renames_without_an_open_waits_while_the_name_goes() {
    let mut bench = Bench::new();
    let ask = |bench: &mut Bench, asks, by: Option<u64>, ticket: Option<Ticket>| {
        let change = Change { asks, by: by.map(|by| By::Holder(Holder(by))) };
        bench.object.change(bench.now, b"", change, ticket, &mut bench.events)
    };
    for asks in [Asks::Write, Asks::Overwrite, Asks::Rename] {
        bench.granted(Request { share: Share::NONE, ..request(1) });
        bench.object.delete_on_close(OpenId(1), true).unwrap();
        let before = ask(&mut bench, asks, None, None);
        assert_eq!(
            before,
            if asks == Asks::Overwrite { Asked::Granted(()) } else { Asked::Refused(Refused::Sharing) }
        );
        assert_eq!(bench.close(1), Closed::DeleteName { link: "page", parent: None });
        let Asked::Wait(wait) = ask(&mut bench, asks, None, None) else { panic!("{asks:?} goes on") };
        // By another name that stays, and the deletion itself.
        bench.granted(Request { link: "other", ..request(2) });
        assert_eq!(ask(&mut bench, asks, Some(2), None), Asked::Granted(()));
        assert_eq!(ask(&mut bench, Asks::Remove, Some(1), None), Asked::Granted(()));
        assert_eq!(bench.close(2), Closed::Stays);
        assert!(matches!(ask(&mut bench, asks, None, Some(wait.ticket)), Asked::Wait(_)), "woken for that");
        bench.events.clear();
        bench.object.deleted(&"page", &mut bench.events);
        assert_eq!(bench.events, [Event::Wake(wait.ticket)]);
        assert_eq!(ask(&mut bench, asks, None, Some(wait.ticket)), Asked::Granted(()));
        bench.object.leave(wait.ticket);
        assert!(bench.object.is_empty());
    }
}
