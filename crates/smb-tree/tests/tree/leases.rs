//! Leases and oplocks of clients, and their breaks.

use std::time::Duration;

use lane::time;
use smb_tree::RequestContext;
use smb_wire::Guid;
use smb_wire::Status;
use smb_wire::create::access::rights;
use smb_wire::create::context::{ContextWriter, Contexts, tag};
use smb_wire::create::lease::{Lease, LeaseV2, flags, state};
use smb_wire::create::{Disposition, oplock_level, options};
use smb_wire::info::file::class;
use zerocopy::FromZeros;

use super::information::{renamed, set};
use super::{Side, Wish, alone, on_lanes, request_context};

fn batch() -> Wish {
    Wish { oplock: oplock_level::BATCH, ..Wish::new(Disposition::OpenIf) }
}

pub(super) fn lease(key: u8, wanted: u32, parent: Option<u8>) -> Wish {
    let mut lease = LeaseV2::new_zeroed();
    lease.lease_key = Guid::new([key; 16]);
    lease.lease_state.set(wanted);
    if let Some(parent) = parent {
        lease.lease_flags.set(flags::PARENT_LEASE_KEY_SET);
        lease.parent_lease_key = Guid::new([parent; 16]);
    }
    let mut contexts = ContextWriter::new();
    contexts.push_plain(tag::LEASE, &lease);
    let contexts = contexts.bytes().to_vec();
    Wish { oplock: oplock_level::LEASE, contexts, ..Wish::new(Disposition::OpenIf) }
}

pub(super) fn granted(contexts: &[u8]) -> u32 {
    Lease::parse(Contexts::parse(contexts).unwrap().find(tag::LEASE).unwrap()).unwrap().state()
}

const RWH: u32 = state::READ | state::WRITE | state::HANDLE;

/// Waits until something was told.
pub(super) async fn until(has: impl Fn() -> bool) {
    while !has() {
        time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_batch_oplock_falls_to_level_two_when_another_opens_and_its_client_is_waited_for() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        let first = side.create(&who, "page", &batch()).await.unwrap();
        assert_eq!(first.fixed.oplock_level, oplock_level::BATCH);
        assert_eq!(side.share.oplock_break(&who, &first.open, 1), Err(Status::INVALID_OPLOCK_PROTOCOL));
        let opening = {
            let (side, other) = (side.clone(), other.clone());
            lane::spawn(async move { side.create(&other, "page", &batch()).await.unwrap() })
        };
        until(|| !side.heard.oplocks.borrow().is_empty()).await;
        assert_eq!(*side.heard.oplocks.borrow(), [(first.open.id(), oplock_level::II)]);
        let bad = side.share.oplock_break(&who, &first.open, oplock_level::EXCLUSIVE);
        assert_eq!(bad, Err(Status::INVALID_OPLOCK_PROTOCOL));
        assert_eq!(
            side.share.oplock_break(&who, &first.open, oplock_level::LEASE),
            Err(Status::INVALID_PARAMETER)
        );
        assert_eq!(side.share.oplock_break(&who, &first.open, oplock_level::II), Ok(oplock_level::II));
        let second = opening.await;
        assert_eq!(second.fixed.oplock_level, oplock_level::II);
        // A write takes both away, and waits for no holder.
        side.share.write_bytes(&who, &first.open, 0, b"x", false).await.unwrap();
        assert_eq!(side.heard.oplocks.borrow().len(), 3);
        for (who, open) in [(&who, &first.open), (&other, &second.open)] {
            side.share.close(who, open, 0).await.unwrap();
        }
    });
}

#[test]
fn who_caches_is_told_of_an_allocation_size_also_beyond_the_end() {
    for size in [1_u64, 1 << 20] {
        alone(move |side| async move {
            let (who, other) = (request_context(1), request_context(2));
            let first = side.create(&who, "page", &batch()).await.unwrap();
            let opening = {
                let (side, other) = (side.clone(), other.clone());
                lane::spawn(async move { side.create(&other, "page", &batch()).await.unwrap() })
            };
            until(|| !side.heard.oplocks.borrow().is_empty()).await;
            side.share.oplock_break(&who, &first.open, oplock_level::II).unwrap();
            let second = opening.await;
            set(&side, &other, &second.open, class::ALLOCATION, &size.to_le_bytes()).await.unwrap();
            assert_eq!(side.heard.oplocks.borrow().len(), 3, "{size}");
            for (who, open) in [(&who, &first.open), (&other, &second.open)] {
                side.share.close(who, open, 0).await.unwrap();
            }
        });
    }
}

#[test]
fn who_does_not_answer_loses_everything_and_others_go_on() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        let first = side.create(&who, "page", &batch()).await.unwrap();
        let begun = time::now();
        let second = side.create(&other, "page", &Wish::new(Disposition::Open)).await.unwrap();
        assert_eq!(time::now().duration_since(begun).as_secs(), 35);
        assert!(first.open.caching().is_none());
        side.share.close(&who, &first.open, 0).await.unwrap();
        side.share.close(&other, &second.open, 0).await.unwrap();
    });
}

#[test]
fn a_lease_is_of_all_opens_with_its_key_and_of_one_file() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        let first = side.create(&who, "page", &lease(7, RWH, None)).await.unwrap();
        assert_eq!((first.fixed.oplock_level, granted(&first.contexts)), (oplock_level::LEASE, RWH));
        let again = side.create(&who, "page", &lease(7, RWH, None)).await.unwrap();
        assert_eq!(granted(&again.contexts), RWH, "it breaks nothing of itself");
        let elsewhere = side.create(&who, "other", &lease(7, RWH, None)).await.unwrap_err();
        assert_eq!(elsewhere.status, Status::INVALID_PARAMETER);
        let opening = {
            let (side, other) = (side.clone(), other.clone());
            lane::spawn(async move { side.create(&other, "page", &lease(8, RWH, None)).await.unwrap() })
        };
        until(|| !side.heard.leases.borrow().is_empty()).await;
        let told = side.heard.leases.borrow()[0];
        assert_eq!((told.key, told.from, told.to), (Guid::new([7; 16]), RWH, state::READ | state::HANDLE));
        assert!(told.acknowledge);
        let key = Guid::new([7; 16]);
        assert_eq!(side.share.lease_break(&other, key, told.to), Err(Status::OBJECT_NAME_NOT_FOUND));
        assert_eq!(side.share.lease_break(&who, key, RWH), Err(Status::REQUEST_NOT_ACCEPTED));
        assert_eq!(side.share.lease_break(&who, key, told.to), Ok(told.to));
        assert_eq!(side.share.lease_break(&who, key, told.to), Err(Status::UNSUCCESSFUL));
        let second = opening.await;
        assert_eq!(granted(&second.contexts), state::READ | state::HANDLE);
        for (who, open) in [(&who, &first.open), (&who, &again.open), (&other, &second.open)] {
            side.share.close(who, open, 0).await.unwrap();
        }
    });
}

/// Both lanes work on one directory of which lane 0 has a lease.
async fn directory_lease(side: Side, lane: usize) {
    let who = request_context(lane as u8 as u64 + 1);
    if lane == 0 {
        let wish = Wish { access: rights::FILE_READ, ..lease(9, state::READ | state::HANDLE, None) };
        let kept = side.create(&who, "", &wish).await.unwrap();
        assert_eq!(granted(&kept.contexts), state::READ | state::HANDLE);
        // What is made below by a client that names the lease breaks nothing.
        let own = side.create(&who, "own", &lease(5, RWH, Some(9))).await.unwrap();
        side.share.close(&who, &own.open, 0).await.unwrap();
        assert!(side.heard.leases.borrow().is_empty());
        until(|| !side.heard.leases.borrow().is_empty()).await;
        let told = side.heard.leases.borrow()[0];
        assert_eq!((told.key, told.to, told.acknowledge), (Guid::new([9; 16]), 0, true));
        side.share.close(&who, &kept.open, 0).await.unwrap();
        return;
    }
    time::sleep(Duration::from_millis(500)).await;
    side.make(&who, "from another lane", b"").await;
}

#[test]
fn a_length_that_is_set_shows_at_once_and_what_is_written_when_the_open_is_closed() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        let listing = Wish { access: rights::FILE_READ, ..lease(9, state::READ | state::HANDLE, None) };
        let told = || side.heard.leases.borrow().len();
        side.make(&who, "page", b"1").await;
        let kept = side.create(&who, "", &listing).await.unwrap();
        // Whichever client names the key as that of the directory's lease spares it.
        let named = side.create(&other, "page", &lease(5, state::READ, Some(9))).await.unwrap();
        set(&side, &other, &named.open, class::END_OF_FILE, &3u64.to_le_bytes()).await.unwrap();
        side.share.write_bytes(&other, &named.open, 0, b"x", false).await.unwrap();
        side.share.close(&other, &named.open, 0).await.unwrap();
        assert_eq!(told(), 0);
        let page = side.open(&other, "page", &Wish::new(Disposition::Open)).await;
        side.share.write_bytes(&other, &page, 0, b"x", false).await.unwrap();
        assert_eq!(told(), 0, "it is shown when the open is closed");
        set(&side, &other, &page, class::END_OF_FILE, &7u64.to_le_bytes()).await.unwrap();
        assert_eq!(told(), 1);
        let again = side.share.lease_break(&who, Guid::new([9; 16]), 0);
        assert_eq!(again, Ok(0));
        side.share.close(&other, &page, 0).await.unwrap();
        side.share.close(&who, &kept.open, 0).await.unwrap();
        // An overwriting open shows that at once too; what only has its length set shows no more when it is
        // closed.
        for disposition in [Disposition::Open, Disposition::Overwrite] {
            let before = told();
            let kept = side.create(&who, "", &listing).await.unwrap();
            assert_eq!(granted(&kept.contexts), state::READ | state::HANDLE);
            let page = side.open(&other, "page", &Wish::new(disposition)).await;
            if disposition == Disposition::Open {
                set(&side, &other, &page, class::END_OF_FILE, &9u64.to_le_bytes()).await.unwrap();
            }
            assert_eq!(told(), before + 1, "{disposition:?}");
            side.share.close(&who, &kept.open, 0).await.unwrap();
            let kept = side.create(&who, "", &listing).await.unwrap();
            side.share.close(&other, &page, 0).await.unwrap();
            assert_eq!(told(), before + 1, "{disposition:?}");
            side.share.close(&who, &kept.open, 0).await.unwrap();
        }
    });
}

#[test]
fn a_lease_of_a_directory_goes_when_another_makes_a_name_in_it() {
    on_lanes(1, 2, |lane, side| directory_lease(side, lane));
}

#[test]
fn a_link_breaks_the_lease_of_the_directory_that_gets_the_name_unless_its_key_is_named_and_not_the_files() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        for at in ["from", "to"] {
            let made = Wish::new(Disposition::Create).with(options::DIRECTORY_FILE);
            assert_eq!(side.status(&who, at, &made).await, Status::SUCCESS);
        }
        side.make(&who, "from\\page", b"1").await;
        let listing =
            |key| Wish { access: rights::FILE_READ, ..lease(key, state::READ | state::HANDLE, None) };
        for (nth, (parent, broken)) in
            [(Some(8), true), (Some(9), false), (Some(7), true), (None, true)].into_iter().enumerate()
        {
            let from = side.create(&who, "from", &listing(8)).await.unwrap();
            let to = side.create(&who, "to", &listing(9)).await.unwrap();
            for kept in [&from, &to] {
                assert_eq!(granted(&kept.contexts), state::READ | state::HANDLE);
            }
            side.heard.leases.borrow_mut().clear();
            let page = side.create(&other, "from\\page", &lease(5, RWH, parent)).await.unwrap();
            let to_name = renamed(&format!("to\\{nth}"), false);
            assert_eq!(set(&side, &other, &page.open, class::LINK, &to_name).await, Ok(()));
            let told: Vec<_> = side.heard.leases.borrow().iter().map(|told| (told.key, told.to)).collect();
            let expected = if broken { vec![(Guid::new([9; 16]), 0)] } else { Vec::new() };
            assert_eq!(told, expected, "{parent:?}");
            for (who, open) in [(&other, &page.open), (&who, &from.open), (&who, &to.open)] {
                side.share.close(who, open, 0).await.unwrap();
            }
        }
    });
}

#[test]
fn a_client_that_did_not_answer_a_break_in_time_keeps_no_others_waiting_for_minutes() {
    alone(|side| async move {
        let (silent, other, third) = (request_context(1), request_context(2), request_context(3));
        let opens = async |who: &RequestContext, name: &str, wish: &Wish| {
            let made = side.create(who, name, wish).await.unwrap();
            let level = match made.fixed.oplock_level {
                oplock_level::LEASE => granted(&made.contexts),
                level => level.into(),
            };
            side.share.close(who, &made.open, 0).await.unwrap();
            level
        };
        let held = side.create(&silent, "page", &lease(7, RWH, None)).await.unwrap();
        let begun = time::now();
        assert_eq!(opens(&other, "page", &lease(8, RWH, None)).await & state::WRITE, 0);
        assert_eq!(time::now().duration_since(begun).as_secs(), 35);
        // It is granted less of every file, by leases and by oplocks.
        for key in 20..25 {
            let name = format!("page {key}");
            assert_eq!(opens(&silent, &name, &lease(key, RWH, None)).await, state::READ);
        }
        assert_eq!(opens(&silent, "another", &batch()).await, oplock_level::II.into());
        let again = side.create(&silent, "third", &lease(9, RWH, None)).await.unwrap();
        let begun = time::now();
        opens(&other, "third", &lease(8, RWH, None)).await;
        assert_eq!(time::now().duration_since(begun).as_secs(), 0, "nobody waits for it");
        // So is whatever calls itself otherwise, of that file alone.
        let renamed = RequestContext { client: Guid::new([99; 16]), ..silent.clone() };
        assert_eq!(opens(&renamed, "page", &lease(40, RWH, None)).await, state::READ);
        assert_eq!(opens(&renamed, "page 20", &lease(41, RWH, None)).await, RWH);
        // Other clients are granted all.
        assert_eq!(opens(&third, "theirs", &lease(30, RWH, None)).await, RWH);
        for open in [&held.open, &again.open] {
            side.share.close(&silent, open, 0).await.unwrap();
        }
        time::sleep(Duration::from_secs(240)).await;
        assert_eq!(opens(&silent, "page", &lease(31, RWH, None)).await, state::READ);
        time::sleep(Duration::from_secs(61)).await;
        assert_eq!(opens(&silent, "page", &lease(32, RWH, None)).await, RWH);
    });
}

#[test]
fn a_client_that_answers_or_closes_in_time_is_granted_all_again() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        for (name, answers) in [("page", true), ("other", false)] {
            let held = side.create(&who, name, &lease(7, RWH, None)).await.unwrap();
            side.heard.leases.borrow_mut().clear();
            let opening = {
                let (side, other) = (side.clone(), other.clone());
                lane::spawn(async move { side.create(&other, name, &lease(8, RWH, None)).await.unwrap() })
            };
            until(|| !side.heard.leases.borrow().is_empty()).await;
            let told = side.heard.leases.borrow()[0];
            time::sleep(Duration::from_secs(20)).await;
            if answers {
                side.share.lease_break(&who, Guid::new([7; 16]), told.to).unwrap();
            }
            side.share.close(&who, &held.open, 0).await.unwrap();
            drop(held);
            let second = opening.await;
            side.share.close(&other, &second.open, 0).await.unwrap();
            time::sleep(Duration::from_secs(60)).await;
            let again = side.create(&who, name, &lease(9, RWH, None)).await.unwrap();
            assert_eq!(granted(&again.contexts), RWH, "{name}");
            side.share.close(&who, &again.open, 0).await.unwrap();
        }
    });
}

#[test]
fn a_user_whose_clients_were_late_again_and_again_is_granted_less_whatever_they_call_themselves() {
    alone(|side| async move {
        let (silent, other) = (request_context(1), request_context(2));
        let named = |name: u8| RequestContext { client: Guid::new([name; 16]), ..silent.clone() };
        let mut held = Vec::new();
        let all = 100..165_u8;
        for name in all.clone() {
            held.push(
                side.create(&named(name), &format!("page {name}"), &lease(name, RWH, None)).await.unwrap(),
            );
        }
        let late = |name: u8| {
            let (side, other) = (side.clone(), other.clone());
            lane::spawn(async move {
                let opened =
                    side.create(&other, &format!("page {name}"), &lease(name, RWH, None)).await.unwrap();
                side.share.close(&other, &opened.open, 0).await.unwrap();
            })
        };
        let fresh = async |name: u8| {
            let made = side.create(&named(name), "fresh", &lease(name, RWH, None)).await.unwrap();
            let caching = granted(&made.contexts);
            side.share.close(&named(name), &made.open, 0).await.unwrap();
            caching
        };
        for (names, granted) in [(100..163, RWH), (163..165, state::READ)] {
            let begun = time::now();
            let opening = names.map(late).collect::<Vec<_>>();
            for opening in opening {
                opening.await;
            }
            assert_eq!(time::now().duration_since(begun).as_secs(), 35);
            assert_eq!(fresh(200).await, granted);
        }
        for (name, open) in all.zip(&held) {
            side.share.close(&named(name), &open.open, 0).await.unwrap();
        }
    });
}
