//! Connections, calls and files that end in the middle of a transfer.

use std::rc::Rc;
use std::time::Duration;

use afs::oob::OobOptions;
use afs_wire::code::oob::{OOB_BROKEN, OOB_UNCLAIMED};
use afs_wire::code::{EIO, VBUSY};
use lane::backend::sim::Config;
use oob::{Part, Receiving};
use oob_lane::{Received, receive_part};

use super::bed::{Bed, Granted, Raw, code, counted, dial, pattern, run, say, wish};

const LEN: usize = 3 << 20;

/// Small windows, so that a transfer stands still where its client does.
fn narrow() -> Config {
    let mut config = Config::clean();
    (config.net.tcp.send_buffer, config.net.tcp.recv_buffer) = (32 << 10, 32 << 10);
    config
}

async fn granted(bed: &Bed, raw: &Raw) -> Granted {
    let fid = bed.file("file", &pattern(LEN, 1)).await;
    raw.fetch(fid, (0, LEN as u64), wish(9, 1, &[])).await.unwrap()
}

#[test]
fn a_reset_at_any_byte_of_the_claim_leaves_nothing_behind_and_the_call_says_so() {
    run(1, Config::clean(), OobOptions::default(), async |bed: Rc<Bed>| {
        let raw = bed.raw();
        let fid = bed.file("file", &pattern(LEN, 1)).await;
        for bytes in 0..=40 {
            let granted = raw.fetch(fid, (0, LEN as u64), wish(9, 1, &[])).await.unwrap();
            let stream = dial().await;
            say(&stream, &granted.claim(0)[..bytes]).await;
            stream.reset();
            // Of the whole claim the transfer has begun, or the connection is gone before it is looked at.
            let ended = code(granted.end_fetch().await);
            assert!(
                ended == OOB_UNCLAIMED || (bytes == 40 && ended == OOB_BROKEN),
                "{ended} after {bytes} bytes"
            );
            bed.settled().await;
        }
    });
}

#[test]
fn a_call_that_dies_first_ends_the_transfer_behind_its_frame() {
    run(2, narrow(), OobOptions::default(), async |bed: Rc<Bed>| {
        let raw = bed.raw();
        let granted = granted(&bed, &raw).await;
        let (number, stream) = (granted.streams[0].0, dial().await);
        say(&stream, &granted.claim(0)).await;
        bed.until("some has been sent", |bed| counted!(bed, fetched_bytes) > 0).await;
        granted.call.abort(7);
        let mut receiving = Receiving::new(9, Part { offset: 0, len: LEN as u64 });
        let (stop, memory, patience) = Default::default();
        let take = async |_, _| Ok::<(), ()>(());
        let received = receive_part(&stream, &mut receiving, &stop, &memory, &patience, take).await;
        assert!(matches!(received, Ok(Received::Stopped(_))), "{received:?}");
        assert!(
            receiving.left() >= LEN as u64 - (1 << 20),
            "one frame at most: {} are left",
            receiving.left()
        );
        assert_eq!(counted!(bed, stopped), 1);
        bed.settled().await;
        // The connection is of use still.
        let fid = bed.file("again", &pattern(1000, 2)).await;
        let again = raw.fetch(fid, (0, 1000), wish(10, 1, &[number])).await.unwrap();
        assert!(again.streams[0].3.is_empty());
        let mut receiving = Receiving::new(10, Part { offset: 0, len: 1000 });
        let take = async |_, bytes: lane::buffer::Buf| {
            assert!(*bytes == *pattern(1000, 2));
            Ok::<(), ()>(())
        };
        let received = receive_part(&stream, &mut receiving, &stop, &memory, &patience, take).await;
        assert!(matches!(received, Ok(Received::Whole)), "{received:?}");
        again.end_fetch().await.unwrap();
        bed.settled().await;
    });
}

#[test]
fn a_client_that_gives_up_and_reads_no_more_is_cut_off_soon() {
    run(3, narrow(), OobOptions::default(), async |bed: Rc<Bed>| {
        let raw = bed.raw();
        let granted = granted(&bed, &raw).await;
        let stream = dial().await;
        say(&stream, &granted.claim(0)).await;
        bed.until("some has been sent", |bed| counted!(bed, fetched_bytes) > 0).await;
        let began = lane::time::now();
        granted.call.abort(7);
        bed.settled().await;
        let took = lane::time::now() - began;
        assert!(took < Duration::from_secs(4), "{took:?}");
        assert_eq!(counted!(bed, idle), 0);
        drop(stream);
    });
}

#[test]
fn a_connection_that_dies_first_is_the_calls_error() {
    run(4, narrow(), OobOptions::default(), async |bed: Rc<Bed>| {
        let raw = bed.raw();
        let waiting = granted(&bed, &raw).await;
        let stream = dial().await;
        say(&stream, &waiting.claim(0)).await;
        bed.until("some has been sent", |bed| counted!(bed, fetched_bytes) > 0).await;
        assert_eq!(bed.net.reset_connections(&bed.host, &bed.server), 1);
        assert_eq!(code(waiting.end_fetch().await), OOB_BROKEN);
        bed.settled().await;
        // Both at once.
        let fid = bed.file("both", &pattern(LEN, 1)).await;
        let both = raw.fetch(fid, (0, LEN as u64), wish(9, 1, &[])).await.unwrap();
        let stream = dial().await;
        say(&stream, &both.claim(0)).await;
        both.call.abort(1);
        stream.reset();
        bed.settled().await;
        assert_eq!(counted!(bed, idle), 0);
    });
}

#[test]
fn the_fetch_of_a_file_that_is_cut_while_it_is_sent_is_aborted_and_the_connection_lives() {
    run(5, narrow(), OobOptions::default(), async |bed: Rc<Bed>| {
        let raw = bed.raw();
        let fid = bed.file("file", &pattern(LEN, 1)).await;
        let granted = raw.fetch(fid, (0, LEN as u64), wish(9, 1, &[])).await.unwrap();
        let stream = dial().await;
        say(&stream, &granted.claim(0)).await;
        bed.until("some has been sent", |bed| counted!(bed, fetched_bytes) > 0).await;
        // By another client, so that the version rises.
        let other = super::agreement::server(&bed, afs_client::OobOptions::default());
        let nothing = super::agreement::local(&bed, "nothing", b"").await;
        let change = afs_client::of_new(0o644, None);
        afs_client::store::whole(&other, fid, change, 0, &nothing, Rc::new(|_| {})).await.unwrap();
        let mut receiving = Receiving::new(9, Part { offset: 0, len: LEN as u64 });
        let (stop, memory, patience) = Default::default();
        let mut got = Vec::new();
        let take = async |_, bytes: lane::buffer::Buf| {
            got.extend_from_slice(&bytes);
            Ok::<(), ()>(())
        };
        let received = receive_part(&stream, &mut receiving, &stop, &memory, &patience, take).await;
        assert!(matches!(received, Ok(Received::Whole)), "{received:?}");
        let expected = pattern(LEN, 1);
        let cut = got.iter().zip(&expected).position(|(one, other)| one != other).unwrap_or(LEN);
        assert!(got.len() == LEN && cut < LEN && got[cut..].iter().all(|byte| *byte == 0), "cut at {cut}");
        assert_eq!(code(granted.end_fetch().await), VBUSY, "it is to be asked for anew");
        bed.until("the connection is idle", |bed| counted!(bed, idle) == 1).await;
        bed.settled().await;
    });
}

#[test]
fn a_disk_that_fails_is_the_calls_error_and_the_connection_lives() {
    let mut config = Config::clean();
    config.fs.read_error = 1.0;
    config.fs.cold_read = 1.0;
    run(6, config, OobOptions::default(), async |bed: Rc<Bed>| {
        let raw = bed.raw();
        let granted = granted(&bed, &raw).await;
        let stream = dial().await;
        say(&stream, &granted.claim(0)).await;
        let drain =
            lane::spawn(async move { while stream.recv().await.is_ok_and(|bytes| !bytes.is_empty()) {} });
        assert_eq!(code(granted.end_fetch().await), EIO);
        assert_eq!(counted!(bed, unreadable), 1);
        bed.until("it is idle", |bed| counted!(bed, idle) == 1).await;
        drop(drain);
        bed.settled().await;
    });
}

#[test]
fn idle_connections_are_closed_after_a_while() {
    let options = OobOptions { idle: Duration::from_secs(5), ..OobOptions::default() };
    run(7, Config::clean(), options, async |bed: Rc<Bed>| {
        let server = super::agreement::server(
            &bed,
            afs_client::OobOptions { threshold: Some(1), streams: 1, ..Default::default() },
        );
        let fid = bed.file("file", &pattern(LEN, 1)).await;
        let metadata = server.status(fid).await.unwrap();
        let sink = Rc::new(super::agreement::Compared::new(pattern(LEN, 1)));
        let plan = afs_client::fetch::Plan::of(fid, &metadata);
        afs_client::fetch::whole(&server, plan, sink, Rc::new(|_| {})).await.unwrap();
        assert_eq!(counted!(bed, idle), 1);
        bed.until("it is closed", |bed| counted!(bed, idle_expired) == 1).await;
        bed.settled().await;
        assert_eq!(counted!(bed, idle), 0);
    });
}
