//! Tests of services' handlers: their bound, and the end of those whose call has died.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rx::Service;
use rx_lane::{Anonymous, CallError, Driver, DriverConfig, ServerCall};

use super::{SERVICE, bind, config, echo, pattern, run};

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        lane::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

#[test]
fn calls_beyond_the_handlers_limit_are_aborted_and_counted() {
    run(async {
        let (server, client) = (bind(DriverConfig { handlers_max: 1, ..config() }), bind(config()));
        server.serve(SERVICE, async |mut call: ServerCall| {
            call.read_to_end(10).await?;
            lane::time::sleep(Duration::from_millis(200)).await;
            call.finish().await
        });
        let connection = client.connect(server.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
        let mut first = connection.call().await.unwrap();
        first.finish().await.unwrap();
        lane::time::sleep(Duration::from_millis(50)).await;
        let mut second = connection.call().await.unwrap();
        second.finish().await.unwrap();
        assert_eq!(second.read_to_end(1).await, Err(CallError::Aborted(rx::abort::RESTARTING)));
        assert_eq!(first.read_to_end(1).await, Ok(Vec::new()));
        assert_eq!(server.counters().handlers_refused.get(), 1);
    });
}

#[test]
fn busy_service_says_so_with_the_code_it_chose() {
    const VBUSY: i32 = 110;
    run(async {
        let (server, client) = (bind(DriverConfig { handlers_max: 0, ..config() }), bind(config()));
        server.serve_as(SERVICE, Service { busy_code: VBUSY, ..Service::default() }, echo);
        let connection = client.connect(server.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
        let mut call = connection.call().await.unwrap();
        call.finish().await.unwrap();
        assert_eq!(call.read_to_end(1).await, Err(CallError::Aborted(VBUSY)));
    });
}

/// Serves calls that wait for something that never comes, and makes a client give one up.
async fn give_up_a_call(service: Service) -> (Driver, Rc<Cell<bool>>) {
    let (server, client) = (bind(config()), bind(config()));
    let reached = Rc::new(Cell::new(false));
    let seen = Rc::clone(&reached);
    server.serve_as(SERVICE, service, move |mut call: ServerCall| {
        let seen = Rc::clone(&seen);
        async move {
            call.read_to_end(10).await?;
            lane::time::sleep(Duration::from_millis(400)).await;
            seen.set(true);
            call.write(b"for nobody").await?;
            call.finish().await
        }
    });
    let connection = client.connect(server.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
    let mut call = connection.call().await.unwrap();
    call.finish().await.unwrap();
    until("the handler has the call", || server.counters().handlers.get() == 1).await;
    call.abort(5);
    until("the handler is gone", || server.counters().handlers.get() == 0).await;
    (server, reached)
}

#[test]
fn handler_is_dropped_when_its_call_has_died() {
    run(async {
        let (server, reached) = give_up_a_call(Service::default()).await;
        assert!(!reached.get(), "it made no reply for nobody");
        assert_eq!(server.counters().handlers_cancelled.get(), 1);
    });
}

#[test]
fn handler_that_outlives_its_call_goes_on() {
    run(async {
        let (server, reached) = give_up_a_call(Service { outlives_calls: true, ..Service::default() }).await;
        assert!(reached.get());
        assert_eq!(server.counters().handlers_cancelled.get(), 0);
    });
}

/// Writes data at the end of a long turn, which leaves only then, so that the round trip does not begin
/// before.
#[test]
fn round_trips_are_measured_from_when_packets_leave() {
    const TURN: Duration = Duration::from_millis(60);
    run(async {
        let (server, client) = (bind(config()), bind(config()));
        server.serve(SERVICE, echo);
        let address = server.local_addr().unwrap();
        let connection = client.connect(address, SERVICE, &Anonymous).unwrap();
        for attempt in 0..10 {
            let mut call = connection.call().await.unwrap();
            let began = Instant::now();
            while began.elapsed() < TURN {
                std::hint::spin_loop();
            }
            call.write(&pattern(5_000)).await.unwrap();
            call.finish().await.unwrap();
            assert_eq!(call.read_to_end(10_000).await.unwrap().len(), 5_000);
            let latest = client.endpoint().peer_at(address).unwrap().rtt().latest();
            if latest < TURN / 2 {
                return;
            }
            println!("attempt {attempt}: {latest:?}");
        }
        panic!("the turn counts as part of the round trip");
    });
}
