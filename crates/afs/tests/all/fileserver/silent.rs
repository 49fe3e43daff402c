//! A client that is gone without a word, in the middle of a store.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use afs_wire::{StoreStatus, rxafs};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::bed::Client;
use super::lives::Site;

#[test]
fn what_had_come_of_a_store_is_there_as_one_version_and_nothing_of_it_is_held() {
    let mut site = Site::new(11, 1 << 15);
    site.start();
    let root = site.life().root();
    let before = site.life().packets_in_use();
    let writer = site.client(7001);
    let begun = Rc::new(Cell::new(None));
    let told = Rc::clone(&begun);
    site.clients.spawn(async move {
        let client = &writer[0];
        let fid = client.create(root, "f").await.unwrap().fid;
        let stored = client.store(fid, 0, &[1; 100_000], 100_000).await.unwrap();
        let change = StoreStatus::default();
        let request = rxafs::StoreData64 { fid, change, offset: 0, length: 1 << 20, file_length: 1 << 20 };
        let mut call = client.connection.call().await.unwrap();
        xdr::rpc::start(&mut call, &request).await.unwrap();
        call.write(&[7; 50_000]).await.unwrap();
        call.flush().await.unwrap();
        lane::time::sleep(Duration::from_millis(500)).await;
        told.set(Some((fid, stored.data_version())));
        std::future::pending::<()>().await;
    });
    let (fid, first) = loop {
        site.world.run_for(Duration::from_millis(10));
        if let Some(begun) = begun.get() {
            break begun;
        }
    };
    // Its machine ends, and sends no word of that.
    site.clients.kill();
    let machine = site.world.host("10.0.1.2");
    let reader = site.world.block_on(&machine, async move {
        let at = SocketAddr::from(([10, 0, 1, 2], 7001));
        let reader = Client::start(at, ([10, 0, 0, 1], 7000).into(), &mut SmallRng::seed_from_u64(5));
        // While it is not known to be gone.
        let (bytes, reply) = reader.fetch(fid, 0, 200_000).await.unwrap();
        assert_eq!((reply.status.data_version(), bytes.len()), (first + 1, 100_000));
        let written = bytes.iter().take_while(|byte| **byte == 7).count();
        assert!(written >= 1000 && bytes[written..].iter().all(|byte| *byte == 1), "{written}");
        reader
    });
    // Rx takes a silent peer for dead after 12 s.
    site.world.run_for(Duration::from_secs(40));
    assert_eq!(site.life().packets_in_use(), before);
    let stored = site.world.block_on(&machine, async move {
        let status = reader.status(fid).await.unwrap();
        assert_eq!((status.data_version(), status.length_low), (first + 1, 100_000));
        reader.store(fid, 0, b"by another", 10).await.unwrap()
    });
    assert_eq!(stored.data_version(), first + 2);
    assert_eq!(site.server.fs().read("/srv/f").unwrap(), b"by another");
    site.end();
}

#[test]
fn a_small_store_that_does_not_come_is_charged_while_it_is_waited_for() {
    let held = || lane::descriptors::budget().counters().held.get();
    let mut site = Site::new(12, 1 << 15);
    site.start();
    let root = site.life().root();
    let writer = site.client(7001);
    let begun = Rc::new(Cell::new(false));
    let told = Rc::clone(&begun);
    site.clients.spawn(async move {
        let client = &writer[0];
        let fid = client.create(root, "f").await.unwrap().fid;
        let change = StoreStatus::default();
        let request = rxafs::StoreData64 { fid, change, offset: 0, length: 10, file_length: 10 };
        let mut call = client.connection.call().await.unwrap();
        xdr::rpc::start(&mut call, &request).await.unwrap();
        call.flush().await.unwrap();
        told.set(true);
        std::future::pending::<()>().await;
    });
    let idle = held();
    while !begun.get() {
        site.world.run_for(Duration::from_millis(10));
    }
    site.world.run_for(Duration::from_millis(500));
    assert_eq!(held(), idle + 1);
    site.clients.kill();
    site.world.run_for(Duration::from_secs(40));
    assert_eq!(held(), idle);
    site.end();
}
