//! Ten thousand connections without a claim.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use afs::oob::OobOptions;
use lane::backend::sim::Config;
use lane::net::TcpStream;
use oob::Part;

use super::bed::{Bed, counted, dial, is_closed, part_of, pattern, run, say, wish};

/// One address opens them, and says nothing on the half of them and all of a claim but its last byte on the
/// others. A lane has room for 4,096: the address that holds most gives way, so that a client elsewhere is
/// served all the while; and those that are left are closed in time.
#[test]
fn ten_thousand_connections_that_make_no_claim_keep_nobody_else_out_and_are_closed() {
    let mut config = Config::clean();
    config.descriptors_max = 2 * CONNECTIONS;
    run(1, config, OobOptions::default(), async |bed: Rc<Bed>| {
        let (opened, closed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let (opening, closing) = (Rc::clone(&opened), Rc::clone(&closed));
        // What is of a host ends there.
        let flood = bed.other.start_on(0, async move {
            for number in 0..CONNECTIONS {
                let stream = dial().await;
                opening.set(opening.get() + 1);
                if number % 2 == 0 {
                    say(&stream, &[b'L'; 39]).await;
                }
                let closing = Rc::clone(&closing);
                lane::spawn(async move { closes(&stream, &closing).await }).detach();
            }
        });
        let room = OobOptions::default().connections_max;
        bed.until("a lane is full", |bed| bed.served.oob.iter().any(|oob| oob.connections() == room)).await;
        fetch(&bed, 1).await;
        flood.await;
        fetch(&bed, 2).await;
        assert_eq!(opened.get(), CONNECTIONS);
        let held = bed.served.oob.iter().map(|oob| oob.connections()).sum::<usize>();
        assert!(held <= 2 * room, "{held}");
        let began = lane::time::now();
        bed.until("all are closed", |_| closed.get() == CONNECTIONS).await;
        assert!(lane::time::now() - began <= Duration::from_secs(11), "in time");
        bed.settled().await;
        let gave_way: u64 =
            bed.served.oob.iter().map(|oob| oob.connection_counters().evicted_opening.get()).sum();
        assert_eq!(counted!(bed, claims_late), CONNECTIONS as u64);
        assert!(gave_way >= (CONNECTIONS - 2 * room) as u64, "{gave_way} of {CONNECTIONS} gave way");
    });
}

/// Waits for the end of a connection.
async fn closes(stream: &TcpStream, closed: &Cell<usize>) {
    assert!(is_closed(stream).await);
    closed.set(closed.get() + 1);
}

/// A file, over a new connection.
async fn fetch(bed: &Bed, transfer: u64) {
    let bytes = pattern(LEN as usize, transfer);
    let fid = bed.file(&format!("file-{transfer}"), &bytes).await;
    let raw = bed.raw();
    let granted = raw.fetch(fid, (0, LEN), wish(transfer, 1, &[])).await.unwrap();
    let stream = dial().await;
    say(&stream, &granted.claim(0)).await;
    assert!(part_of(&stream, transfer, Part { offset: 0, len: LEN }).await == bytes);
    granted.end_fetch().await.unwrap();
}

const CONNECTIONS: usize = 10_000;
const LEN: u64 = 100_000;
