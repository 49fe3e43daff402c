//! Locked ranges, those that wait for their turn among them.

use std::sync::Arc;
use std::time::Duration;

use smb_tree::{Asker, Open};
use smb_wire::Status;
use smb_wire::body::lock::{LockElement, LockRequest, LockRequestFixed, flags};
use smb_wire::create::Disposition;
use smb_wire::fixed::Fixed;

use super::{Side, Wish, alone, asker};

pub(super) async fn lock(
    side: &Side,
    who: &Asker,
    open: &Arc<Open>,
    at: u64,
    bits: u32,
) -> Result<(), Status> {
    lock_numbered(side, who, open, at, bits, 0).await
}

async fn lock_numbered(
    side: &Side,
    who: &Asker,
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
        let (who, other) = (asker(1), asker(2));
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
        let who = asker(1);
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
