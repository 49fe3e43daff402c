//! Tests of operations that show only where the test rules the world: lost power, cut links, a late kernel.

use std::cell::Cell;
use std::ffi::CString;
use std::path::Path;
use std::time::Duration;

use lane::backend::sim::{Config, World, seeds};
use lane::buffer::{Buf, BufClass};
use lane::fs::{Dir, File, OpenHow, SyncOf};
use lane::time;

use crate::sim::{connect, listen};

#[test]
fn what_was_synced_outlives_a_loss_of_power_and_what_was_not_may_be_torn() {
    let (torn, kept) = (Cell::new(0), Cell::new(0));
    seeds(40, |seed| {
        let world = World::new(seed, Config::clean());
        let host = world.host("10.0.0.1");
        host.fs().write("/srv/file", vec![b'a'; 4096]).unwrap();
        world.block_on(&host, async {
            let file = open("file").await;
            file.write_at(0, filled(&[b'b'; 2048]).await).await.0.unwrap();
            file.sync(SyncOf::Data).await.unwrap();
            file.write_at(2048, filled(&[b'c'; 2048]).await).await.0.unwrap();
        });
        world.run_for(Duration::from_secs(1));
        host.lose_power();
        host.restart();
        let content = host.fs().read("/srv/file").unwrap();
        assert!(content[..2048].iter().all(|&byte| byte == b'b'), "it was synced");
        assert!(content[2048..].chunks(512).all(|sector| *sector == [b'a'; 512] || *sector == [b'c'; 512]));
        let tally = if content[2048..] == [b'c'; 2048] { &kept } else { &torn };
        tally.set(tally.get() + 1);
    });
    assert!(torn.get() + kept.get() < 40 || torn.get() > 0, "a loss of power tears what was not synced");
}

#[test]
fn a_sync_after_a_failed_one_saves_nothing_that_was_written_before() {
    let (lost, kept) = (Cell::new(0), Cell::new(0));
    seeds(40, |seed| {
        let world = World::new(seed, Config::default());
        let host = world.host("10.0.0.1");
        host.fs().write("/srv/file", vec![b'a'; 4096]).unwrap();
        let fs = host.fs();
        world.block_on(&host, async move {
            let file = open("file").await;
            file.write_at(0, filled(&[b'b'; 4096]).await).await.0.unwrap();
            fs.configure(|config| config.sync_error = 1.0);
            assert_eq!(file.sync(SyncOf::All).await.unwrap_err().raw_os_error(), Some(libc::EIO));
            fs.configure(|config| config.sync_error = 0.0);
            file.sync(SyncOf::All).await.unwrap();
            assert_eq!(fs.read("/srv/file").unwrap(), vec![b'b'; 4096], "readers see it all the same");
        });
        host.lose_power();
        host.restart();
        let tally = if host.fs().read("/srv/file").unwrap() == vec![b'b'; 4096] { &kept } else { &lost };
        tally.set(tally.get() + 1);
    });
    assert!(lost.get() + kept.get() < 40 || lost.get() > 0);
}

#[test]
fn writes_that_fail_or_take_less_leave_no_wrong_bytes() {
    seeds(50, |seed| {
        let mut config = Config::rough();
        config.fs.write_error = 0.2;
        let world = World::new(seed, config);
        let host = world.host("10.0.0.1");
        host.fs().write("/srv/file", "").unwrap();
        let bytes = crate::sim::pattern(100_000);
        let written = bytes.clone();
        world.block_on(&host, async move {
            let file = open("file").await;
            for start in (0..written.len()).step_by(20_000) {
                // Again until it is well: what a failed write left is written over.
                loop {
                    let bufs = vec![
                        filled(&written[start..start + 7000]).await,
                        filled(&written[start + 7000..start + 20_000]).await,
                    ];
                    if file.write_vectored_at(start as u64, bufs).await.0.is_ok() {
                        break;
                    }
                }
            }
        });
        assert!(host.fs().read("/srv/file").unwrap() == bytes);
    });
}

#[test]
fn buffers_of_a_zero_copy_send_are_back_when_the_peer_has_acknowledged_it() {
    seeds(20, |seed| {
        let world = World::new(seed, Config::clean());
        let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        let (net, here, there) = (world.net(), client.clone(), server.clone());
        server.spawn(async {
            let stream = listen(80).accept().await.unwrap();
            let _ = crate::sim::receive_all(&stream).await;
        });
        world.block_on(&client, async move {
            let in_use = || lane::current().buffers().usage(BufClass::Small).in_use;
            let stream = connect("10.0.0.1:80").await.unwrap();
            net.partition(&here, &there);
            let (sent, lent) = stream.send_zero_copy(vec![filled(&[1; 10_000]).await], false).await;
            // The socket has it all.
            sent.unwrap();
            time::sleep(Duration::from_secs(2)).await;
            assert_eq!(in_use(), 1, "it may have to be sent again");
            let given_up = match seed % 2 {
                0 => {
                    drop(lent);
                    None
                }
                _ => Some(lent),
            };
            time::sleep(Duration::from_secs(2)).await;
            assert_eq!(in_use(), 1, "given up or not");
            net.heal(&here, &there);
            match given_up {
                Some(lent) => assert_eq!(lent.buffers().await[0].len(), 10_000),
                None => time::sleep(Duration::from_secs(20)).await,
            }
            assert_eq!(in_use(), 0);
        });
    });
}

async fn open(name: &str) -> File {
    let root = Dir::open_root(Path::new("/srv")).unwrap();
    root.open(&CString::new(name).unwrap(), OpenHow::WRITE).await.unwrap()
}

async fn filled(bytes: &[u8]) -> Buf {
    let mut buf = lane::current().buffers().get(BufClass::Small).await;
    assert_eq!(buf.append(bytes), bytes.len());
    buf
}
