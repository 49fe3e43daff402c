//! A client with a lease, on one lane, beside another service on another lane that writes the same file: over many seeds what the lease
//! says stays so until its break was told.

use std::time::Duration;

use lane::backend::sim::seeds;
use lane::buffer::BufClass;
use lane::time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use smb_wire::Guid;
use smb_wire::create::lease::state;
use vfs::{Caller, CreateOptions, Error, Name, RelPath};

use super::leases::{granted, lease};
use super::{Side, on_lanes, request_context};

const ROUNDS: u32 = 12;

/// Writes as AFS or HTTP do: without an open, each time another number.
async fn writer(side: Side, mut rng: SmallRng) {
    let volume = side.share.volume();
    let caller = Caller::anonymous();
    let root = volume.lookup(RelPath::ROOT).await.unwrap().into_directory().unwrap().0;
    let name = Name::parse(b"page").unwrap();
    for round in 0..ROUNDS {
        time::sleep(Duration::from_millis(rng.random_range(0..40))).await;
        let new = CreateOptions { exclusive: false, mode: 0o644 };
        let made = root.create(&caller, name, new).await.unwrap();
        let mut buf = lane::current().buffers().get(BufClass::Small).await;
        buf.append(&[round as u8 + 100; 16]);
        match made.writer.write_at(&caller, 0, buf).await.0 {
            Ok(()) | Err(Error::Locked) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Relies on what it reads until it is told otherwise; answers late now and then.
async fn client(side: Side, mut rng: SmallRng) {
    let who = request_context(1);
    let rwh = state::READ | state::WRITE | state::HANDLE;
    for round in 0..ROUNDS {
        time::sleep(Duration::from_millis(rng.random_range(0..40))).await;
        side.heard.leases.borrow_mut().clear();
        let created = side.create(&who, "page", &lease(7, rwh, None)).await.unwrap();
        let open = created.open;
        let has = granted(&created.contexts);
        if side.heard.leases.borrow().is_empty() && has & state::WRITE != 0 {
            side.share.write_bytes(&who, &open, 0, &[round as u8; 16], false).await.unwrap();
        }
        if side.heard.leases.borrow().is_empty() && has & state::READ != 0 {
            let before = side.read(&who, &open, 0, 16).await;
            let until = time::now() + Duration::from_millis(rng.random_range(0..60));
            while time::now() < until && side.heard.leases.borrow().is_empty() {
                time::sleep(Duration::from_millis(1)).await;
                let now = side.read(&who, &open, 0, 16).await;
                if side.heard.leases.borrow().is_empty() {
                    assert_eq!(before, now, "nobody has said that it would change");
                }
            }
        }
        let told = side.heard.leases.borrow().last().copied();
        if let Some(told) = told.filter(|told| told.acknowledge) {
            time::sleep(Duration::from_millis(rng.random_range(0..20))).await;
            // It may have fallen further meanwhile, or be over.
            let _ = side.share.lease_break(&who, Guid::new([7; 16]), told.to);
        }
        side.share.close(&who, &open, 0).await.unwrap();
    }
}

#[test]
fn what_a_lease_says_stays_so_until_its_break_was_told() {
    seeds(60, |seed| {
        on_lanes(seed, 2, move |lane, side| async move {
            let rng = SmallRng::seed_from_u64(seed * 2 + lane as u64);
            match lane {
                0 => client(side, rng).await,
                _ => writer(side, rng).await,
            }
        });
    });
}
