//! Tests of a lane that obeys its part of a rate, and of connections with rates of their own.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rx_lane::{Anonymous, ServerCall};

use super::{SERVICE, bind, config, echo, pattern, run};

#[derive(Clone, Default)]
struct Part {
    bound: Rc<Cell<Option<u64>>>,
    used: Rc<Cell<u64>>,
    waited: Rc<Cell<usize>>,
}

impl Part {
    fn exchange(&self, sent: u64, waiting: usize) -> Option<u64> {
        self.used.set(self.used.get() + sent);
        self.waited.set(self.waited.get().max(waiting));
        self.bound.get()
    }
}

/// Sends `len` bytes to the server and back, and returns the time.
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
        let source = part.clone();
        server.set_rate_source(move |sent, waiting| source.exchange(sent, waiting));
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
fn service_bounds_its_clients_connection_and_no_other() {
    run(async {
        let server = bind(config());
        let bounded = Rc::new(Cell::new(None));
        let first = Rc::clone(&bounded);
        server.serve(SERVICE, move |call: ServerCall| {
            if first.get().is_none() {
                first.set(call.connection().id());
                assert!(call.connection().set_rate(Some(400_000)), "it has a call");
            }
            echo(call)
        });
        let client = bind(config());
        let connect = || client.connect(server.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
        let (slow, free) = (connect(), connect());
        let took = there_and_back(&slow, 400_000).await;
        assert!(took > Duration::from_millis(800), "400 kB at 400 kB/s took {took:?}");
        let quick = there_and_back(&free, 400_000).await;
        assert!(quick < took, "{quick:?} beside {took:?}");
        assert_eq!(bounded.get(), slow.id());
        assert_eq!(server.counters().share_waits.get(), 0, "it is no share");
    });
}
