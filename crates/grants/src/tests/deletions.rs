//! Deletion on close, by name.

use super::{Bench, request, with_lease};
use crate::{Access, Asked, Caching, Closed, Holder, OpenId, Refused, Request};

fn dispose(bench: &mut Bench, open: u64, deletes: bool) -> Asked<()> {
    bench.object.set_deletion(bench.now, OpenId(open), deletes, None, &mut bench.events)
}

#[test]
fn the_last_close_takes_the_name_away_and_nobody_opens_it_meanwhile() {
    let mut bench = Bench::new();
    bench.granted(request(1));
    bench.granted(request(2));
    bench.object.delete_on_close(OpenId(1)).unwrap();
    bench.granted(request(3));
    assert_eq!(bench.close(1), Closed::Stays);
    assert_eq!(bench.open(request(4)), Asked::Refused(Refused::DeletePending));
    assert_eq!(bench.close(2), Closed::Stays);
    assert_eq!(bench.close(3), Closed::DeleteName("page"));
    // Until it is done.
    assert_eq!(bench.open(request(5)), Asked::Refused(Refused::DeletePending));
    bench.object.deleted(&"page");
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
    assert_eq!(bench.close(1), Closed::DeleteName("page"), "whoever has it open by the other");
    assert_eq!(bench.close(2), Closed::Stays);
    assert_eq!(bench.close(3), Closed::Stays);
}

#[test]
fn a_deletion_is_taken_back_and_needs_the_right() {
    let mut bench = Bench::new();
    bench.granted(request(1));
    bench.granted(Request { access: Access::READ, ..request(2) });
    assert_eq!(dispose(&mut bench, 2, true), Asked::Refused(Refused::Access));
    assert_eq!(bench.object.delete_on_close(OpenId(2)), Err(Refused::Access));
    assert_eq!(dispose(&mut bench, 1, true), Asked::Granted(()));
    assert!(bench.object.is_deleted(&"page"));
    assert_eq!(dispose(&mut bench, 1, false), Asked::Granted(()));
    bench.granted(request(3));
    assert_eq!([1, 2, 3].map(|open| bench.close(open)), [Closed::Stays; 3]);
}

#[test]
fn a_renamed_file_is_deleted_by_its_new_name() {
    let mut bench = Bench::new();
    bench.granted(request(1));
    assert_eq!(dispose(&mut bench, 1, true), Asked::Granted(()));
    bench.object.renamed(&"page", &"moved");
    assert_eq!(bench.close(1), Closed::DeleteName("moved"));
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
