//! Clients that claim what is not theirs, send what was not asked for, or nothing.

use std::rc::Rc;
use std::time::Duration;

use afs::oob::OobOptions;
use afs_wire::code::oob::{OOB_BUSY, OOB_FRAME, OOB_STALLED, OOB_UNCLAIMED, OOB_UNSUITABLE};
use lane::backend::sim::Config;
use lane::net::TcpStream;
use lane::time::sleep;
use oob::{Claim, Frame, HEADER_BYTES, Header, Part, Sending, Step, Token};

use super::bed::{Bed, Granted, Raw, code, counted, dial, is_closed, part_of, pattern, run, say, wish};

const LEN: usize = 100_000;

/// Runs a test with one of everything that has no bounds to be reached.
fn run_clean(test: impl AsyncFnOnce(Rc<Bed>) + 'static) {
    run(1, Config::clean(), OobOptions::default(), test);
}

/// A fetch of a whole file that waits for a connection.
async fn granted(bed: &Bed, raw: &Raw) -> Granted {
    let fid = bed.file("file", &pattern(LEN, 1)).await;
    let granted = raw.fetch(fid, (0, LEN as u64), wish(9, 1, &[])).await.unwrap();
    assert_eq!((granted.length, granted.streams.len()), (LEN as u64, 1));
    granted
}

/// Does the transfer that was granted over a new connection; the connection.
async fn fetched(granted: Granted) -> TcpStream {
    let stream = dial().await;
    say(&stream, &granted.claim(0)).await;
    let got = part_of(&stream, 9, Part { offset: 0, len: LEN as u64 }).await;
    assert!(got == pattern(LEN, 1));
    granted.end_fetch().await.unwrap();
    stream
}

#[test]
fn who_makes_no_claim_or_one_that_is_not_his_is_told_nothing_and_closed() {
    run_clean(async |bed| {
        let raw = bed.raw();
        let waiting = granted(&bed, &raw).await;
        let good = waiting.claim(0);
        let mut wrong = good;
        wrong[39] ^= 1;
        let made_up = Claim { token: Token::new(77, 0, [7; oob::RANDOM_BYTES]) }.encode();
        let beyond = Claim { token: Token::new(0, 1 << 20, [7; oob::RANDOM_BYTES]) }.encode();
        for claim in [wrong, made_up, beyond, [0; 40]] {
            let stream = dial().await;
            say(&stream, &claim).await;
            assert!(is_closed(&stream).await);
        }
        assert_eq!((counted!(bed, claims_unknown), counted!(bed, claims_malformed)), (2, 1));
        assert_eq!(counted!(bed, claims_lost), 1, "there is no lane 77");
        // A client that got hold of the token elsewhere gets nothing by it, and the right one all the same.
        let there = bed.other.start_on(0, async move {
            let stream = dial().await;
            say(&stream, &good).await;
            is_closed(&stream).await
        });
        assert!(there.await);
        assert_eq!(counted!(bed, claims_elsewhere), 1);
        let stream = fetched(waiting).await;
        // Once more: it is good once.
        let replay = dial().await;
        say(&replay, &good).await;
        assert!(is_closed(&replay).await);
        assert_eq!(counted!(bed, claims_unknown), 3);
        assert_eq!(counted!(bed, fetched_bytes), LEN as u64, "all of it to who it was for");
        drop(stream);
        bed.settled().await;
    });
}

#[test]
fn a_token_that_nobody_presents_ends_its_call_and_one_that_comes_later_is_nobodys() {
    run_clean(async |bed| {
        let raw = bed.raw();
        let waiting = granted(&bed, &raw).await;
        let (good, began) = (waiting.claim(0), lane::time::now());
        assert_eq!(code(waiting.end_fetch().await), OOB_UNCLAIMED);
        let waited = lane::time::now() - began;
        assert!(waited >= Duration::from_secs(10) && waited < Duration::from_secs(12), "{waited:?}");
        let late = dial().await;
        say(&late, &good).await;
        assert!(is_closed(&late).await);
        assert_eq!((counted!(bed, tokens_unclaimed), counted!(bed, claims_unknown)), (1, 1));
        bed.settled().await;
    });
}

#[test]
fn a_connection_that_says_nothing_is_closed_in_time() {
    run_clean(async |bed| {
        let silent = dial().await;
        let half = dial().await;
        say(&half, b"LOOB\x00\x01").await;
        let began = lane::time::now();
        assert!(is_closed(&silent).await && is_closed(&half).await);
        assert!(lane::time::now() - began <= Duration::from_secs(11));
        assert_eq!(counted!(bed, claims_late), 2);
        bed.settled().await;
    });
}

#[test]
fn bytes_behind_a_part_or_on_an_idle_connection_close_it() {
    run_clean(async |bed| {
        let raw = bed.raw();
        let stream = fetched(granted(&bed, &raw).await).await;
        bed.until("it is idle", |bed| counted!(bed, idle) == 1).await;
        say(&stream, b"more").await;
        assert!(is_closed(&stream).await);
        assert_eq!((counted!(bed, idle_talked), counted!(bed, idle)), (1, 0));
        bed.settled().await;
    });
}

/// A store of which the client sends `bytes` behind its claim; how the call ends.
async fn stored(bed: &Bed, length: u64, bytes: &[u8]) -> i32 {
    let raw = bed.raw();
    let fid = bed.file("stored", b"before").await;
    let granted = raw.store(fid, length, wish(5, 1, &[])).await.unwrap();
    let stream = dial().await;
    say(&stream, &granted.claim(0)).await;
    say(&stream, bytes).await;
    let ended = code(granted.end_store().await);
    bed.settled().await;
    ended
}

fn data(transfer: u64, offset: u64, len: u32) -> Vec<u8> {
    let header = Header { transfer, frame: Frame::Data { offset, len } }.encode();
    [&header[..], &vec![7; len as usize]].concat()
}

#[test]
fn frames_that_cannot_be_end_a_store_and_the_call_says_so() {
    for (bytes, expected) in [
        (data(6, 0, 100), OOB_FRAME),
        (data(5, 1, 99), OOB_FRAME),
        (data(5, 0, 101), OOB_FRAME),
        (vec![9; HEADER_BYTES], OOB_FRAME),
        (Header { transfer: 5, frame: Frame::Stop { code: 1 } }.encode().to_vec(), OOB_FRAME),
        ([data(5, 0, 50), data(5, 49, 51)].concat(), OOB_FRAME),
        ([data(5, 0, 50), data(5, 50, 50)].concat(), 0),
    ] {
        run_clean(async move |bed| {
            assert_eq!(stored(&bed, 100, &bytes).await, expected);
            if expected == 0 {
                assert_eq!(bed.served.fs.read("/srv/stored").unwrap(), [7; 100]);
            }
        });
    }
}

#[test]
fn who_claims_a_transfer_and_never_reads_or_never_sends_is_given_up() {
    let mut config = Config::clean();
    (config.net.tcp.send_buffer, config.net.tcp.recv_buffer) = (8 << 10, 8 << 10);
    run(3, config, OobOptions::default(), async |bed| {
        let raw = bed.raw();
        let waiting = granted(&bed, &raw).await;
        let stream = dial().await;
        say(&stream, &waiting.claim(0)).await;
        assert_eq!(code(waiting.end_fetch().await), OOB_STALLED);
        assert_eq!(counted!(bed, stalled), 1);
        bed.settled().await;
        drop(stream);
        assert_eq!(stored(&bed, 100, &data(5, 0, 100)[..50]).await, OOB_STALLED);
        assert_eq!(counted!(bed, stalled), 2);
    });
}

#[test]
fn wishes_that_are_not_understood_and_files_that_are_none_are_refused() {
    run_clean(async |bed| {
        let raw = bed.raw();
        let fid = bed.file("file", &pattern(LEN, 1)).await;
        let refused = async |fid, wish| code(raw.fetch(fid, (0, 1), wish).await);
        assert_eq!(refused(fid, wish(1, 0, &[])).await, OOB_UNSUITABLE);
        assert_eq!(refused(fid, afs_wire::OobWish { version: 2, ..wish(1, 1, &[]) }).await, OOB_UNSUITABLE);
        let tls = afs_wire::OobWish { flags: afs_wire::OOB_FLAG_TLS, ..wish(1, 1, &[]) };
        assert_eq!(refused(fid, tls).await, OOB_UNSUITABLE);
        assert_eq!(refused(bed.served.root, wish(1, 1, &[])).await, OOB_UNSUITABLE);
        assert_eq!(counted!(bed, refused_unsuitable), 3);
        // Past the end there is nothing to move.
        let nothing = raw.fetch(fid, (LEN as u64 + 5, 10), wish(1, 1, &[])).await.unwrap();
        assert_eq!((nothing.length, nothing.streams.len()), (0, 0));
        nothing.end_fetch().await.unwrap();
        bed.settled().await;
    });
}

#[test]
fn one_address_has_no_more_transfers_than_it_leaves_to_others() {
    let options = OobOptions { transfers_max: 8, ..OobOptions::default() };
    run(4, Config::clean(), options, async |bed| {
        let fid = bed.file("file", &pattern(LEN, 1)).await;
        let (raw, more) = (bed.raw(), bed.raw());
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(raw.fetch(fid, (0, 10), wish(1, 1, &[])).await.unwrap());
        }
        assert_eq!(code(more.fetch(fid, (0, 10), wish(1, 1, &[])).await), OOB_BUSY);
        assert_eq!((counted!(bed, refused_busy), counted!(bed, transfers)), (1, 4));
        held.into_iter().for_each(|granted| granted.call.abort(1));
        bed.settled().await;
        more.fetch(fid, (0, 10), wish(1, 1, &[])).await.unwrap().call.abort(1);
        bed.settled().await;
    });
}

/// One connection cannot be named by a client that does not own it.
#[test]
fn a_number_that_is_made_up_gets_a_token_in_place_of_a_connection() {
    run_clean(async |bed| {
        let raw = bed.raw();
        let first = granted(&bed, &raw).await;
        let number = first.streams[0].0;
        let _stream = fetched(first).await;
        bed.until("it is idle", |bed| counted!(bed, idle) == 1).await;
        let fid = bed.file("other", &pattern(LEN, 1)).await;
        let made_up = raw.fetch(fid, (0, 10), wish(2, 1, &[number ^ 1])).await.unwrap();
        assert_eq!((made_up.streams[0].3.len(), counted!(bed, idle)), (32, 1));
        made_up.call.abort(1);
        bed.settled().await;
    });
}

#[test]
fn a_warm_fetch_has_its_first_byte_after_one_round_trip() {
    let mut config = Config::clean();
    config.net.link.latency = Duration::from_millis(10);
    run(5, config, OobOptions::default(), async |bed| {
        let raw = bed.raw();
        let first = granted(&bed, &raw).await;
        let number = first.streams[0].0;
        let stream = fetched(first).await;
        bed.until("it is idle", |bed| counted!(bed, idle) == 1).await;
        let fid = bed.file("warm", &pattern(1 << 20, 1)).await;
        // Its status is promised to the client, its name known: what is left is the transfer.
        sleep(Duration::from_secs(1)).await;
        let began = lane::time::now();
        let arrived = lane::spawn(async move {
            assert!(!stream.recv().await.unwrap().is_empty());
            lane::time::now()
        });
        let granted = raw.fetch(fid, (0, 1 << 20), wish(2, 1, &[number])).await.unwrap();
        assert!(granted.streams[0].3.is_empty(), "no token: it is warm");
        let first_byte = arrived.await - began;
        assert!(
            first_byte >= Duration::from_millis(20) && first_byte < Duration::from_millis(25),
            "{first_byte:?}"
        );
        granted.call.abort(1);
        bed.settled().await;
    });
}

#[test]
fn what_a_client_gives_up_by_stop_leaves_its_connection_usable() {
    run_clean(async |bed| {
        let raw = bed.raw();
        let fid = bed.file("given-up", b"").await;
        let granted = raw.store(fid, LEN as u64, wish(5, 1, &[])).await.unwrap();
        let (number, stream) = (granted.streams[0].0, dial().await);
        say(&stream, &granted.claim(0)).await;
        let mut sending = Sending::new(5, Part { offset: 0, len: LEN as u64 }, 1000);
        for _ in 0..2 {
            // A header, and its frame.
            let Step::Header { bytes, .. } = sending.step() else { panic!("a header") };
            say(&stream, &bytes).await;
            sending.sent(bytes.len());
            let Step::Bytes { len, .. } = sending.step() else { panic!("bytes") };
            say(&stream, &vec![1; len as usize]).await;
            sending.sent(len as usize);
        }
        sending.stop(3);
        let Step::Header { bytes, .. } = sending.step() else { panic!("the word to stop") };
        say(&stream, &bytes).await;
        assert_eq!(code(granted.end_store().await), OOB_FRAME);
        bed.until("it is idle", |bed| counted!(bed, idle) == 1).await;
        let again = raw.store(fid, 10, wish(6, 1, &[number])).await.unwrap();
        assert!(again.streams[0].3.is_empty());
        say(&stream, &data(6, 0, 10)).await;
        again.end_store().await.unwrap();
        assert_eq!(bed.served.fs.read("/srv/given-up").unwrap(), [7; 10]);
        bed.settled().await;
    });
}
