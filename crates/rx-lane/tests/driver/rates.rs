//! A lane that obeys its part of a rate, connections that have one of their own, and marks.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lane::net::UdpSocket;
use rx_lane::{Anonymous, Driver, Links, RateSource};

use super::{SERVICE, bind, config, echo, pattern, run};

#[derive(Clone, Default)]
struct Part {
    bound: Rc<Cell<Option<u64>>>,
    used: Rc<Cell<u64>>,
    waited: Rc<Cell<usize>>,
}

impl RateSource for Part {
    fn bytes_per_second(&self) -> Option<u64> {
        self.bound.get()
    }

    fn used(&self, bytes: u64, waiting: usize) {
        self.used.set(self.used.get() + bytes);
        self.waited.set(self.waited.get().max(waiting));
    }
}

/// Has `len` bytes sent to the server and back; how long it took.
async fn there_and_back(connection: &rx_lane::Connection, len: usize) -> Duration {
    let start = Instant::now();
    let mut call = connection.call().await.expect("a channel");
    call.write(&pattern(len)).await.expect("lives");
    call.finish().await.expect("lives");
    assert!(call.read_to_end(1 << 20).await.expect("answered") == pattern(len), "bytes differ");
    start.elapsed()
}

#[test]
fn lanes_part_of_a_rate_bounds_all_it_sends_until_it_goes() {
    run(async {
        let server = bind(config());
        server.serve(SERVICE, echo);
        let part = Part::default();
        part.bound.set(Some(400_000));
        server.set_rate_source(part.clone());
        let client = bind(config());
        let connection = client.connect(server.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
        // The bucket gives some thousands ahead.
        let took = there_and_back(&connection, 400_000).await;
        assert!(took > Duration::from_millis(800), "400 kB at 400 kB/s took {took:?}");
        part.bound.set(None);
        let waits = server.counters().share_waits.get();
        there_and_back(&connection, 400_000).await;
        assert_eq!(server.counters().share_waits.get(), waits, "nobody waits without a bound");
        // What goes without a bound is not counted.
        let used = part.used.get();
        assert!(waits > 0 && part.waited.get() == 1 && (400_000..440_000).contains(&used), "{used}");
    });
}

#[test]
fn connections_rate_leaves_others_alone() {
    run(async {
        let server = bind(config());
        server.serve(SERVICE, echo);
        let client = bind(config());
        let connect = || client.connect(server.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
        let (slow, free) = (connect(), connect());
        slow.set_rate(Some(400_000));
        let took = there_and_back(&slow, 400_000).await;
        assert!(took > Duration::from_millis(800), "400 kB at 400 kB/s took {took:?}");
        there_and_back(&free, 400_000).await;
        assert_eq!(client.counters().share_waits.get(), 0);
    });
}

#[test]
fn mark_is_that_of_the_lanes_socket() {
    if lane::socket::options::can_mark().is_err() {
        testkit::skip("marks need CAP_NET_ADMIN");
        return;
    }
    run(async {
        let socket = std::net::UdpSocket::bind(("127.0.0.1", 0)).expect("a free port");
        let seen = socket2::Socket::from(socket.try_clone().expect("a descriptor"));
        let adopted = UdpSocket::adopt(socket.into()).expect("a UDP socket");
        let driver = Driver::start(adopted, Links::alone(), config()).expect("random numbers");
        driver.set_mark(17).expect("may mark");
        assert_eq!(seen.mark().expect("an option"), 17);
        driver.set_mark(0).expect("may mark");
        assert_eq!(seen.mark().expect("an option"), 0);
    });
}
