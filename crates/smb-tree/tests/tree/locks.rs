//! Locked ranges, those that wait for their turn among them.

use std::sync::Arc;
use std::time::Duration;

use identity::{Acl, Rights, Side as AclSide};
use smb_tree::{Open, RequestContext};
use smb_wire::Status;
use smb_wire::body::lock::{LockElement, LockRequest, LockRequestFixed, flags};
use smb_wire::create::access::rights;
use smb_wire::create::{Disposition, options};
use smb_wire::fixed::Fixed;
use vfs::RelPath;

use super::{Side, Wish, alone, mary, request_context, turns_of};

pub(super) async fn lock(
    side: &Side,
    who: &RequestContext,
    open: &Arc<Open>,
    at: u64,
    bits: u32,
) -> Result<(), Status> {
    lock_numbered(side, who, open, at, bits, 0).await
}

async fn lock_numbered(
    side: &Side,
    who: &RequestContext,
    open: &Arc<Open>,
    at: u64,
    bits: u32,
    sequence: u32,
) -> Result<(), Status> {
    let mut fixed = LockRequestFixed::blank();
    fixed.lock_sequence.set(sequence);
    let element =
        LockElement { offset: at.into(), length: 10.into(), flags: bits.into(), reserved: 0.into() };
    side.share.lock(who, open, &LockRequest { fixed: &fixed, locks: &[element] }, 0).await
}

pub(super) const AT_ONCE: u32 = flags::EXCLUSIVE | flags::FAIL_IMMEDIATELY;

#[test]
fn a_range_is_one_opens_and_binds_reads_and_writes() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        side.make(&who, "page", &[7; 100]).await;
        let mine = side.open(&who, "page", &Wish::new(Disposition::Open)).await;
        let its = side.open(&other, "page", &Wish::new(Disposition::Open)).await;
        assert_eq!(lock(&side, &who, &mine, 5, AT_ONCE).await, Ok(()));
        assert_eq!(lock(&side, &other, &its, 10, AT_ONCE).await, Err(Status::LOCK_NOT_GRANTED));
        assert_eq!(side.read(&other, &its, 0, 50).await, Err(Status::FILE_LOCK_CONFLICT));
        let written = side.share.write_bytes(&other, &its, 14, b"x", false).await;
        assert_eq!(written, Err(Status::FILE_LOCK_CONFLICT));
        assert!(side.read(&other, &its, 15, 10).await.is_ok());
        assert_eq!(side.share.write_bytes(&who, &mine, 5, b"x", false).await, Ok(1));
        assert_eq!(lock(&side, &who, &mine, 6, flags::UNLOCK).await, Err(Status::RANGE_NOT_LOCKED));
        let waiting = {
            let (side, other, its) = (side.clone(), other.clone(), its.clone());
            lane::spawn(async move { lock(&side, &other, &its, 5, flags::EXCLUSIVE).await })
        };
        lane::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(lock(&side, &who, &mine, 5, flags::UNLOCK).await, Ok(()));
        assert_eq!(waiting.await, Ok(()));
        let waiting = {
            let (side, who, mine) = (side.clone(), who.clone(), mine.clone());
            lane::spawn(async move { lock(&side, &who, &mine, 5, flags::EXCLUSIVE).await })
        };
        lane::time::sleep(Duration::from_secs(1)).await;
        side.share.close(&who, &mine, 0).await.unwrap();
        assert_eq!(waiting.await, Err(Status::RANGE_NOT_LOCKED), "its open is closed");
        side.share.close(&other, &its, 0).await.unwrap();
    });
}

#[test]
fn a_lock_that_comes_again_is_not_taken_twice() {
    alone(|side| async move {
        let who = request_context(1);
        let open = side.open(&who, "page", &Wish::new(Disposition::Create)).await;
        let shared = flags::SHARED | flags::FAIL_IMMEDIATELY;
        for sequence in [0x11, 0x11, 0x12] {
            assert_eq!(lock_numbered(&side, &who, &open, 0, shared, sequence).await, Ok(()));
        }
        for expected in [Ok(()), Ok(()), Err(Status::RANGE_NOT_LOCKED)] {
            assert_eq!(lock(&side, &who, &open, 0, flags::UNLOCK).await, expected);
        }
        side.share.close(&who, &open, 0).await.unwrap();
    });
}

#[test]
fn an_open_without_the_right_to_lock_or_to_write_keeps_nobody_else_out() {
    alone(|side| async move {
        let (who, mary) = (request_context(1), mary(2));
        let shared = flags::SHARED | flags::FAIL_IMMEDIATELY;
        for (rights_given, may) in [("rl", false), ("rlk", true), ("rlw", true), ("rlidwk", true)] {
            let root = side.volume.lookup_as(&who.caller, RelPath::ROOT, Rights::NONE).await.unwrap();
            let root = root.into_directory().unwrap().0;
            let mut acl = Acl::new();
            acl.set(AclSide::Given, "mary".parse().unwrap(), rights_given.parse().unwrap()).unwrap();
            root.set_access_list(&who.caller, Some(&acl)).await.unwrap();
            side.make(&who, "page", b"0123456789").await;
            let reads = Wish { access: rights::FILE_READ, share: 0, ..Wish::new(Disposition::Open) };
            let hers = side.open(&mary, "page", &reads).await;
            // A share mode keeps others out where its open may lock.
            let writes = Wish { access: rights::FILE_WRITE | rights::DELETE, ..Wish::new(Disposition::Open) };
            let expected = if may { Status::SHARING_VIOLATION } else { Status::SUCCESS };
            let both =
                Wish { access: rights::FILE_READ | rights::FILE_WRITE, ..Wish::new(Disposition::Open) };
            for wish in [&writes, &both] {
                assert_eq!(side.status(&who, "page", wish).await, expected, "{rights_given}");
            }
            side.share.close(&mary, &hers, 0).await.unwrap();
            let hers = side.open(&mary, "page", &Wish { share: 7, ..reads }).await;
            for bits in [shared, AT_ONCE] {
                let expected = if may { Ok(()) } else { Err(Status::ACCESS_DENIED) };
                assert_eq!(lock(&side, &mary, &hers, 0, bits).await, expected, "{rights_given}");
                if may {
                    assert_eq!(lock(&side, &mary, &hers, 0, flags::UNLOCK).await, Ok(()));
                }
            }
            side.share.close(&mary, &hers, 0).await.unwrap();
            let gone = Wish::new(Disposition::Open).with(options::DELETE_ON_CLOSE);
            assert_eq!(side.status(&who, "page", &gone).await, Status::SUCCESS);
        }
    });
}

#[test]
fn many_ranges_are_locked_by_turns_and_all_of_them_or_none() {
    alone(|side| async move {
        let (who, other) = (request_context(1), request_context(2));
        side.make(&who, "page", &[7; 100]).await;
        let mine = side.open(&who, "page", &Wish::new(Disposition::Open)).await;
        let its = side.open(&other, "page", &Wish::new(Disposition::Open)).await;
        let many = async |bits: u32| {
            let element = |at: u64| LockElement {
                offset: (20 * at).into(),
                length: 10.into(),
                flags: bits.into(),
                reserved: 0.into(),
            };
            let (locks, fixed) = ((0..1000).map(element).collect::<Vec<_>>(), LockRequestFixed::blank());
            side.share.lock(&who, &mine, &LockRequest { fixed: &fixed, locks: &locks }, 0).await
        };
        let (locked, turns) = turns_of(many(AT_ONCE)).await;
        assert_eq!(locked, Ok(()));
        assert!(turns >= 1000 / 64, "{turns}");
        assert_eq!(lock(&side, &other, &its, 0, AT_ONCE).await, Err(Status::LOCK_NOT_GRANTED));
        assert_eq!(many(flags::UNLOCK).await, Ok(()));
        // The last one is another owner's.
        assert_eq!(lock(&side, &other, &its, 20 * 999, AT_ONCE).await, Ok(()));
        assert_eq!(many(AT_ONCE).await, Err(Status::LOCK_NOT_GRANTED));
        for at in [0, 20 * 500] {
            assert_eq!(lock(&side, &other, &its, at, AT_ONCE).await, Ok(()), "what came before is free");
        }
        side.share.close(&who, &mine, 0).await.unwrap();
        side.share.close(&other, &its, 0).await.unwrap();
    });
}
