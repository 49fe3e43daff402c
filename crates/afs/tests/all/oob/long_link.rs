//! A long file over a link of 10 Gb/s with a round trip of 10 ms: how much of the link is used, over TCP and over Rx alone.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use afs::oob::OobOptions;
use afs_client::fetch::{self, Plan, Sink};
use afs_client::{Error, OobOptions as ClientOob};
use lane::backend::sim::Config;
use lane::buffer::Buf;
use rx_lane::Held;

use super::bed::{Bed, run};

/// Counts what comes.
#[derive(Default)]
struct Counted(Cell<u64>);

impl Sink for Counted {
    async fn take(&self, _: u64, bytes: Held) -> Result<(), Error> {
        self.0.update(|came| came + bytes.slices().map(|slice| slice.len() as u64).sum::<u64>());
        Ok(())
    }

    async fn take_bytes(&self, _: u64, bytes: Buf) -> Result<(), Error> {
        self.0.update(|came| came + bytes.len() as u64);
        Ok(())
    }
}

/// The share of the link that `len` bytes take, by what a client of `linerate get` does.
fn share(len: u64, threshold: Option<u64>) -> f64 {
    let mut config = Config::clean();
    config.net.link.latency = Duration::from_millis(5);
    config.net.link.bandwidth = Some(BYTES_PER_SECOND);
    config.net.link.queue_bytes = 32 << 20;
    // What Linux lets buffers grow to by default, and what it sends at a time.
    (config.net.tcp.send_buffer, config.net.tcp.recv_buffer) = (4 << 20, 6 << 20);
    config.net.tcp.segments = vec![64 << 10];
    let share = Rc::new(Cell::new(0.0));
    let told = Rc::clone(&share);
    run(1, config, OobOptions::default(), async move |bed: Rc<Bed>| {
        let fid = bed.file("long", b"").await;
        bed.served.fs.truncate("/srv/long", len as usize).unwrap();
        let client = bed.client(|options| options.oob = ClientOob { threshold, ..ClientOob::default() });
        let server = client.file_server((super::bed::SERVER, 7000).into()).unwrap();
        let metadata = server.status(fid).await.unwrap();
        assert_eq!(metadata.length, len);
        let (sink, began) = (Rc::new(Counted::default()), lane::time::now());
        let plan = Plan::of(fid, &metadata);
        if let Err(interrupted) = fetch::whole(&server, plan, Rc::clone(&sink), Rc::new(|_| {})).await {
            panic!("{}", interrupted.error);
        }
        let took = lane::time::now() - began;
        assert_eq!(sink.0.get(), len, "all of it once");
        assert_eq!(server.out_of_band().transfers > 0, threshold.is_some());
        told.set(len as f64 / took.as_secs_f64() / BYTES_PER_SECOND as f64);
        bed.settled().await;
    });
    share.get()
}

#[test]
fn a_long_file_over_tcp_fills_a_link_of_ten_gigabits_and_ten_milliseconds() {
    let over_tcp = share(LEN, Some(1 << 20));
    // A sixteenth of the file: what Rx takes of the link does not rise any more, and each of its packets is simulated.
    let over_rx = share(LEN / 16, None);
    eprintln!("{:.1} % of the link over TCP, {:.1} % over Rx", over_tcp * 100.0, over_rx * 100.0);
    assert!(over_tcp >= 0.9, "{over_tcp:.3} of the link, over Rx {over_rx:.3}");
    assert!(over_rx > 0.0 && over_rx < over_tcp, "{over_rx:.3} over Rx");
}

/// 10 Gb/s.
const BYTES_PER_SECOND: u64 = 1_250_000_000;
const LEN: u64 = 1 << 30;
