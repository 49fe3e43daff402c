//! Leases and oplocks, one rule each.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use budget::{Consumer, UserNumber};

use super::{Bench, request, with_lease, with_oplock};
use crate::conflict::FileOperation;
use crate::{
    Access, BadAcknowledgement, Caching, CachingRequest, Change, Event, ExemptHolder, GrantResult, Holder,
    LeaseKey, LeaseOfOtherFile, Leases, Limits, NameEnd, OpenId, Refused, Request, Share, StatOpen, Wait,
};

const RWH: Caching = Caching::RWH;
const RH: Caching = Caching::RH;
const R: Caching = Caching::R;
const NONE: Caching = Caching::NONE;

#[test]
fn a_second_open_waits_until_the_first_has_written_back() {
    let mut bench = Bench::new();
    assert_eq!(bench.granted(with_lease(1, 11, RWH)).caching, RWH);
    let GrantResult::Wait(Wait { ticket, until }) = bench.open(with_lease(2, 12, RWH)) else { panic!() };
    assert_eq!(until, bench.now + Duration::from_secs(35));
    assert_eq!(bench.breaks(), [(11, RH, true)]);
    // Asked again meanwhile, it waits on, and no holder is told twice.
    assert!(matches!(bench.open_again(with_lease(2, 12, RWH), Some(ticket)), GrantResult::Wait(_)));
    assert_eq!(bench.breaks(), []);
    bench.object.acknowledge(bench.now, Holder(11), RH, &mut bench.events).unwrap();
    assert_eq!(bench.events, [Event::Wake(ticket)]);
    let opened = bench.open_again(with_lease(2, 12, RWH), Some(ticket));
    assert!(matches!(opened, GrantResult::Granted(opened) if opened.caching == RH));
    bench.object.leave(ticket);
}

#[test]
fn who_opens_beside_a_break_waits_for_its_end_and_what_follows_an_answer_is_of_the_same_break() {
    let mut bench = Bench::new();
    bench.granted(with_lease(1, 11, RWH));
    let GrantResult::Wait(Wait { ticket: opens, .. }) = bench.open(with_lease(2, 12, R)) else { panic!() };
    let overwriting = || Request { overwrites: true, ..with_lease(3, 13, R) };
    let GrantResult::Wait(Wait { ticket: overwrites, .. }) = bench.open(overwriting()) else { panic!() };
    assert_eq!(bench.breaks(), [(11, RH, true)]);
    let epoch = bench.object.standing(Holder(11)).epoch;
    for (keeps, then, acknowledges) in [(RH, R, true), (R, NONE, false)] {
        bench.object.acknowledge(bench.now, Holder(11), keeps, &mut bench.events).unwrap();
        assert_eq!(bench.breaks(), [(11, then, acknowledges)]);
        assert_eq!(bench.object.standing(Holder(11)).epoch, epoch);
        let opened = bench.open_again(with_lease(2, 12, R), Some(opens));
        assert_eq!(matches!(opened, GrantResult::Wait(_)), acknowledges, "{opened:?}");
    }
    bench.object.leave(opens);
    assert!(matches!(bench.open_again(overwriting(), Some(overwrites)), GrantResult::Granted(_)));
}

#[test]
fn opens_with_the_key_of_the_lease_break_nothing_and_raise_it_only_all_the_way() {
    let mut bench = Bench::new();
    assert_eq!(bench.granted(with_lease(1, 11, R)).caching, R);
    assert_eq!(bench.granted(with_lease(2, 11, RH)).caching, RH);
    assert_eq!(bench.granted(with_lease(3, 11, R)).caching, RH, "never down");
    bench.granted(with_lease(4, 12, R));
    let opened = bench.granted(with_lease(5, 11, RWH));
    assert_eq!(opened.caching, RH, "another open is in the way of writing, so nothing rises");
    assert_eq!(bench.breaks(), []);
    assert_eq!(opened.epoch, 2, "one for the first grant, one for the second");
}

#[test]
fn a_lease_lasts_as_long_as_an_open_with_its_key() {
    let mut bench = Bench::new();
    bench.granted(with_lease(1, 11, RWH));
    bench.granted(with_lease(2, 11, RWH));
    bench.close(1);
    assert_eq!(bench.object.held(Holder(11)), Some(RWH));
    bench.close(2);
    assert_eq!(bench.object.held(Holder(11)), None);
    assert!(bench.object.is_empty());
}

#[test]
fn who_does_not_answer_in_time_has_nothing_left() {
    let mut bench = Bench::new();
    bench.granted(with_lease(1, 11, RWH));
    let GrantResult::Wait(Wait { ticket, until }) = bench.open(with_lease(2, 12, R)) else { panic!() };
    assert_eq!(bench.object.next_timeout(), Some(until));
    bench.events.clear();
    bench.pass(Duration::from_secs(35));
    assert_eq!(bench.events, [Event::Expired(Holder(11)), Event::Wake(ticket)]);
    assert_eq!(bench.object.held(Holder(11)), Some(NONE));
    let late = bench.object.acknowledge(bench.now, Holder(11), RH, &mut bench.events);
    assert_eq!(late, Err(BadAcknowledgement::NotAsked));
    let opened = bench.open_again(with_lease(2, 12, R), Some(ticket));
    assert!(matches!(opened, GrantResult::Granted(opened) if opened.caching == R));
}

#[test]
fn an_answer_may_keep_less_than_is_left_and_never_more() {
    let mut bench = Bench::new();
    bench.granted(with_lease(1, 11, RWH));
    let _ = bench.open(request(2));
    let mut keeps = |caching| bench.object.acknowledge(bench.now, Holder(11), caching, &mut bench.events);
    assert_eq!(keeps(RWH), Err(BadAcknowledgement::KeepsMore));
    assert_eq!(keeps(R), Ok(R));
    assert_eq!(keeps(R), Err(BadAcknowledgement::NotAsked));
    let nobody = bench.object.acknowledge(bench.now, Holder(99), R, &mut bench.events);
    assert_eq!(nobody, Err(BadAcknowledgement::NoHolder));
}

#[test]
fn what_is_asked_during_a_break_is_told_after_the_answer() {
    let mut bench = Bench::new();
    bench.granted(with_lease(1, 11, RWH));
    let _ = bench.open(request(2));
    assert_eq!(bench.breaks(), [(11, RH, true)]);
    let overwriting = Request { overwrites: true, ..request(3) };
    assert!(matches!(bench.open(overwriting), GrantResult::Wait(_)));
    assert_eq!(bench.breaks(), []);
    bench.object.acknowledge(bench.now, Holder(11), RH, &mut bench.events).unwrap();
    assert_eq!(bench.breaks(), [(11, R, true)], "opens before reads");
    bench.object.acknowledge(bench.now, Holder(11), R, &mut bench.events).unwrap();
    assert_eq!(bench.breaks(), [(11, NONE, false)]);
    assert!(matches!(bench.open(overwriting), GrantResult::Granted(_)));
}

#[test]
fn who_closes_what_goes_with_his_open_has_others_give_back_theirs_and_waits_for_nobody() {
    let mut bench = Bench::new();
    bench.granted(with_lease(1, 11, RH));
    bench.granted(request(2));
    bench.object.delete_on_close(OpenId(2), Some(NameEnd::LastClose)).unwrap();
    assert_eq!(bench.breaks(), []);
    bench.close(2);
    assert_eq!(bench.breaks(), [(11, R, true)]);
    assert_eq!(bench.open(request(3)), GrantResult::Refused(Refused::DeletePending));
}

#[test]
fn an_open_for_more_than_attributes_is_no_look_though_no_share_mode_minds_it() {
    let mut bench = Bench::new();
    bench.granted(with_lease(1, 11, RWH));
    let sees = Request { access: Access::NONE, share: Share::NONE, ..request(2) };
    assert!(matches!(bench.open(Request { looks: StatOpen::Attributes, ..sees }), GrantResult::Granted(_)));
    assert!(matches!(bench.open(sees), GrantResult::Wait(_)));
    assert_eq!(bench.breaks(), [(11, RH, true)]);
}

#[test]
fn an_open_to_see_rights_is_a_look_to_leases_that_are_held_and_an_open_to_all_else() {
    let sees = |open| Request { access: Access::NONE, looks: StatOpen::ReadControl, ..request(open) };
    let mut leased = Bench::new();
    leased.granted(with_lease(1, 11, RWH));
    leased.granted(sees(2));
    assert_eq!(leased.breaks(), []);
    leased.close(1);
    assert_eq!(
        leased.granted(with_lease(3, 13, RWH)).caching,
        RH,
        "a lease that is new has no writes beside it"
    );
    let mut kept = Bench::new();
    kept.granted(with_oplock(1, RWH));
    assert!(matches!(kept.open(sees(2)), GrantResult::Wait(_)));
    assert_eq!(kept.breaks(), [(1, R, true)]);
    let mut beside = Bench::new();
    beside.granted(sees(1));
    assert_eq!(beside.granted(with_oplock(2, RWH)).caching, R);
}

#[test]
fn a_reader_who_was_left_his_reads_is_told_before_a_write_goes_on() {
    let mut bench = Bench::new();
    bench.granted(with_lease(1, 11, RH));
    let alone = Request { share: Share::NONE, ..request(2) };
    assert!(matches!(bench.open(alone), GrantResult::Wait(_)));
    assert_eq!(bench.breaks(), [(11, R, true)]);
    // The holder reads what it has until it answers: a write has to wait, though it would not for RH.
    let write = Change { operation: FileOperation::Write, by: None };
    let GrantResult::Wait(Wait { ticket, .. }) =
        bench.object.change(bench.now, b"", write, None, &mut bench.events)
    else {
        panic!()
    };
    bench.object.acknowledge(bench.now, Holder(11), R, &mut bench.events).unwrap();
    assert_eq!(bench.breaks(), [(11, NONE, false)]);
    let written = bench.object.change(bench.now, b"", write, Some(ticket), &mut bench.events);
    assert_eq!(written, GrantResult::Granted(()));
}

#[test]
fn an_overwriting_open_does_not_wait_for_who_keeps_opens() {
    let mut bench = Bench::new();
    bench.granted(with_lease(1, 11, RH));
    let overwriting = Request { overwrites: true, ..request(2) };
    assert!(matches!(bench.open(overwriting), GrantResult::Granted(_)));
    assert_eq!(bench.breaks(), [(11, NONE, true)]);
}

#[test]
fn a_share_mode_asks_for_kept_opens_first_and_then_refuses() {
    let mut bench = Bench::new();
    let closed_to_all = Request { share: Share::NONE, ..with_lease(1, 11, RWH) };
    bench.granted(closed_to_all);
    let GrantResult::Wait(Wait { ticket, .. }) = bench.open(request(2)) else { panic!() };
    assert_eq!(bench.breaks(), [(11, Caching::RW, true)]);
    bench.object.acknowledge(bench.now, Holder(11), Caching::RW, &mut bench.events).unwrap();
    assert_eq!(bench.open_again(request(2), Some(ticket)), GrantResult::Refused(Refused::Sharing));
    bench.close(1);
    assert!(matches!(bench.open_again(request(2), Some(ticket)), GrantResult::Granted(_)));
}

#[test]
fn an_exclusive_oplock_does_not_hide_a_share_mode_but_a_batch_oplock_does() {
    let mut bench = Bench::new();
    bench.granted(Request { share: Share::NONE, ..with_oplock(1, Caching::RW) });
    assert_eq!(bench.open(request(2)), GrantResult::Refused(Refused::Sharing));
    assert_eq!(bench.breaks(), []);
    bench.close(1);
    bench.granted(Request { share: Share::NONE, ..with_oplock(1, RWH) });
    assert!(matches!(bench.open(request(2)), GrantResult::Wait(_)));
    assert_eq!(bench.breaks(), [(1, R, true)]);
}

#[test]
fn opens_for_attributes_break_nothing_and_are_in_nobodys_way() {
    let mut bench = Bench::new();
    bench.granted(Request { share: Share::NONE, ..with_lease(1, 11, RWH) });
    let look = Request {
        access: Access::NONE,
        looks: StatOpen::Attributes,
        share: Share::NONE,
        ..with_lease(2, 12, R)
    };
    assert_eq!(bench.granted(look).caching, NONE, "the first may hold what is not written yet");
    assert_eq!(bench.breaks(), []);
    bench.close(1);
    assert_eq!(bench.granted(with_lease(3, 13, RWH)).caching, RWH);
}

#[test]
fn oplocks_and_leases_that_keep_opens_do_not_meet() {
    let mut bench = Bench::new();
    bench.granted(with_lease(1, 11, RH));
    assert_eq!(bench.granted(with_oplock(2, RWH)).caching, NONE);
    bench.close(1);
    assert_eq!(bench.granted(with_oplock(3, RWH)).caching, R);
    assert_eq!(bench.granted(with_lease(4, 12, RWH)).caching, R);
    assert_eq!(bench.granted(with_oplock(5, RWH)).caching, R);
}

#[test]
fn level_two_goes_by_its_own_holders_write_and_a_lease_does_not() {
    let mut bench = Bench::new();
    bench.granted(with_oplock(1, R));
    bench.granted(with_lease(2, 12, R));
    bench.events.clear();
    let write = |by| Change { operation: FileOperation::Write, by: Some(ExemptHolder::Holder(Holder(by))) };
    let mut change = |by| bench.object.change(bench.now, b"", write(by), None, &mut bench.events);
    assert_eq!(change(1), GrantResult::Granted(()));
    assert_eq!(bench.breaks(), [(1, NONE, false), (12, NONE, false)]);
    bench.granted(with_lease(3, 13, R));
    let own = bench.object.change(bench.now, b"", write(13), None, &mut bench.events);
    assert_eq!(own, GrantResult::Granted(()));
    assert_eq!(bench.object.held(Holder(13)), Some(R));
}

#[test]
fn a_directory_lease_goes_with_a_name_unless_it_is_the_parents_own() {
    let mut bench = Bench::new();
    let directory = |open, lease| Request { is_directory: true, ..with_lease(open, lease, RWH) };
    assert_eq!(bench.granted(directory(1, 11)).caching, RH);
    assert_eq!(bench.granted(directory(2, 12)).caching, RH);
    let names = Change { operation: FileOperation::Names, by: Some(ExemptHolder::ParentKey([12; 16])) };
    let changed = bench.object.change(bench.now, b"", names, None, &mut bench.events);
    assert_eq!(changed, GrantResult::Granted(()), "nobody waits for a lease of a directory");
    assert_eq!(bench.breaks(), [(11, NONE, true)]);
    assert_eq!(bench.object.held(Holder(12)), Some(RH));
}

#[test]
fn the_parents_key_spares_every_clients_lease_with_it_and_no_holder_by_its_number() {
    let mut bench = Bench::new();
    let lease = |open, holder, key| {
        let request = with_lease(open, holder, RH);
        let want = request.want.map(|want| CachingRequest { key: Some([key; 16]), ..want });
        Request { is_directory: true, want, ..request }
    };
    // Two clients have chosen the same key; a third has another.
    for (open, holder, key) in [(1, 11, 7), (2, 12, 7), (3, 13, 8)] {
        bench.granted(lease(open, holder, key));
    }
    let names = |by| Change { operation: FileOperation::Names, by: Some(by) };
    let by_key = names(ExemptHolder::ParentKey([7; 16]));
    assert_eq!(
        bench.object.change(bench.now, b"", by_key, None, &mut bench.events),
        GrantResult::Granted(())
    );
    assert_eq!(bench.breaks(), [(13, NONE, true)]);
    let by_number = names(ExemptHolder::Holder(Holder(11)));
    assert_eq!(
        bench.object.change(bench.now, b"", by_number, None, &mut bench.events),
        GrantResult::Granted(())
    );
    assert_eq!(bench.breaks(), [(12, NONE, true)]);
}

#[test]
fn names_are_moved_beside_opens_that_may_delete_the_directory_only_once_those_are_closed() {
    let mut bench = Bench::new();
    let directory = |request| Request { is_directory: true, ..request };
    let moves =
        |bench: &mut Bench, ticket| bench.object.move_names(bench.now, None, ticket, &mut bench.events);
    bench.granted(directory(Request { access: Access::READ, ..request(1) }));
    assert_eq!(moves(&mut bench, None), GrantResult::Granted(()));
    bench.granted(directory(with_lease(2, 12, RH)));
    assert!(bench.object.is_open_to_stay(), "the first keeps nothing for later");
    bench.close(1);
    assert!(!bench.object.is_open_to_stay());
    let GrantResult::Wait(Wait { ticket, .. }) = moves(&mut bench, None) else { panic!() };
    assert_eq!(bench.breaks(), [(12, R, true)]);
    // The holder keeps it open.
    bench.object.acknowledge(bench.now, Holder(12), R, &mut bench.events).unwrap();
    assert!(bench.object.is_open_to_stay());
    assert_eq!(moves(&mut bench, Some(ticket)), GrantResult::Refused(Refused::Sharing));
    bench.close(2);
    assert_eq!(moves(&mut bench, Some(ticket)), GrantResult::Granted(()));
}

#[test]
fn who_writes_without_an_open_is_refused_by_share_modes_and_waits_for_leases() {
    let mut bench = Bench::new();
    bench.granted(Request { share: Share::from_bits(1), ..request(1) });
    let ask = |bench: &mut Bench, operation, by| {
        let change = Change { operation, by };
        bench.object.change(bench.now, b"", change, None, &mut bench.events)
    };
    assert_eq!(ask(&mut bench, FileOperation::Write, None), GrantResult::Refused(Refused::Sharing));
    assert_eq!(ask(&mut bench, FileOperation::Remove, None), GrantResult::Refused(Refused::Sharing));
    assert_eq!(ask(&mut bench, FileOperation::Read, None), GrantResult::Granted(()));
    assert_eq!(
        ask(&mut bench, FileOperation::Write, Some(ExemptHolder::Holder(Holder(1)))),
        GrantResult::Granted(()),
        "he has it open"
    );
    bench.close(1);
    bench.granted(with_lease(2, 12, RWH));
    for operation in [FileOperation::Write, FileOperation::Remove, FileOperation::Read] {
        assert!(matches!(ask(&mut bench, operation, None), GrantResult::Wait(_)));
    }
    assert_eq!(bench.breaks(), [(12, NONE, true)]);
}

#[test]
fn while_somebody_waits_nobody_is_granted_what_he_would_ask_back() {
    let mut bench = Bench::new();
    bench.granted(with_lease(1, 11, RWH));
    let write = Change { operation: FileOperation::Write, by: None };
    let GrantResult::Wait(Wait { ticket, .. }) =
        bench.object.change(bench.now, b"", write, None, &mut bench.events)
    else {
        panic!()
    };
    bench.object.acknowledge(bench.now, Holder(11), NONE, &mut bench.events).unwrap();
    bench.close(1);
    assert_eq!(bench.granted(with_lease(2, 12, RWH)).caching, NONE);
    assert_eq!(
        bench.object.change(bench.now, b"", write, Some(ticket), &mut bench.events),
        GrantResult::Granted(())
    );
    bench.object.leave(ticket);
    assert_eq!(bench.granted(with_lease(3, 12, RWH)).caching, RWH, "nobody waits any more");
}

#[test]
fn beyond_the_limits_opens_and_waits_are_refused() {
    let small = Limits { opens: 4, waiting: 1, streams: 2, ..Limits::DEFAULT };
    let mut bench = Bench::new();
    bench.object = crate::Object::new(Box::leak(Box::new(small)));
    let of_client = |open, client| Request { consumer: super::client(client), ..request(open) };
    bench.granted(of_client(1, 1));
    bench.granted(of_client(2, 1));
    bench.granted(of_client(3, 1));
    assert_eq!(bench.open(of_client(4, 1)), GrantResult::Refused(Refused::TooMany), "three quarters");
    bench.granted(of_client(4, 2));
    assert_eq!(bench.open(of_client(5, 3)), GrantResult::Refused(Refused::TooMany));
    assert_eq!([1, 2, 3, 4].map(|open| bench.close(open)), [crate::Closed::Stays; 4]);
    bench.granted(with_lease(1, 11, RWH));
    assert!(matches!(bench.open(request(2)), GrantResult::Wait(_)));
    assert_eq!(bench.open(request(3)), GrantResult::Refused(Refused::TooMany));
    let mut stream =
        |name: &[u8], open| bench.object.open(bench.now, name, request(open), None, &mut bench.events);
    assert!(matches!(stream(b"one", 2), GrantResult::Granted(_)));
    assert_eq!(stream(b"two", 3), GrantResult::Refused(Refused::TooMany));
}

#[test]
fn opens_of_one_file_are_left_to_others_by_who_has_many_addresses() {
    let small = Limits { opens: 70, ..Limits::DEFAULT };
    let v6 = |high: u128| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 64 | 1));
    let user = Some(UserNumber(7));
    let crowds: [(Vec<Consumer>, usize); 4] = [
        (vec![v6(0).into(); 100], 53),
        ((0..100).map(|high| v6(high).into()).collect(), 56),
        ((0..100).map(|high| v6(high << 8).into()).collect(), 60),
        ((0..100).map(|high| Consumer { address: v6(high << 16), user }).collect(), 53),
    ];
    for (crowd, share) in crowds {
        let mut bench = Bench::new();
        bench.object = crate::Object::new(Box::leak(Box::new(small)));
        let mut open = |number: usize, consumer| bench.open(Request { consumer, ..request(number as u64) });
        let opens = crowd.into_iter().enumerate();
        let granted =
            opens.filter(|(n, consumer)| matches!(open(*n, *consumer), GrantResult::Granted(_))).count();
        assert_eq!(granted, share);
        let other = Consumer { address: IpAddr::from([198, 51, 100, 7]), user: Some(UserNumber(8)) };
        assert!(matches!(open(200, other), GrantResult::Granted(_)));
    }
}

#[test]
fn a_key_is_one_lease_of_one_file_per_client() {
    let leases = Leases::new(2);
    let key = |client: u8, key: u8| LeaseKey { client: [client; 16], key: [key; 16] };
    let mut first = leases.name(key(1, 1)).unwrap();
    let mut again = leases.name(key(1, 1)).unwrap();
    let other = leases.name(key(2, 1)).unwrap();
    assert_eq!(first.holder(), again.holder());
    assert_ne!(first.holder(), other.holder());
    assert_eq!(leases.find(&key(1, 1)), None, "named, and of no file yet");
    first.bind("page").unwrap();
    assert_eq!(again.bind("other"), Err(LeaseOfOtherFile));
    again.bind("page").unwrap();
    drop(first);
    assert_eq!(leases.find(&key(1, 1)), Some((again.holder(), "page")));
    let second = leases.name(key(1, 2)).unwrap();
    assert!(leases.name(key(1, 3)).is_err(), "as many as a client may");
    drop(second);
    drop(again);
    let mut anew = leases.name(key(1, 1)).unwrap();
    anew.bind("other").unwrap();
    drop((anew, other));
    assert!(leases.is_empty());
    assert_eq!(Arc::strong_count(&leases), 1);
}
