//! Tests of the driver on real lanes over loopback: bytes both ways, several lanes, and early ends.

use std::rc::Rc;
use std::time::Duration;

use lane::backend::UdpOptions;
use lane::runtime::{RuntimeOptions, run_here};
use rx_lane::{Anonymous, CallError, Driver, DriverConfig, ServerCall};
use rxperf::{Outbound, Reply, Request, Work};

mod addresses;
mod closing;
mod files;
mod handlers;
mod lanes;
mod marks;
mod moving;
mod path_mtu;
mod rates;
mod service;
pub(crate) mod shelf;
mod stubs;
pub(crate) mod two_lanes;
mod unreachable;

const SERVICE: u16 = 77;

fn config() -> DriverConfig {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 8192;
    config
}

fn bind(config: DriverConfig) -> Driver {
    Driver::bind(([127, 0, 0, 1], 0).into(), config).expect("loopback has free ports")
}

fn run<T: 'static>(test: impl Future<Output = T> + 'static) -> T {
    let bounded = async { lane::time::timeout(Duration::from_secs(20), test).await };
    let options = RuntimeOptions::default();
    run_here(options, bounded).expect("the machine has io_uring").expect("the test ends in time")
}

/// Checks that every buffer is back once calls and their last ACKs are through.
async fn assert_books_balance(driver: &Driver) {
    for _ in 0..100 {
        if driver.endpoint().pool().is_empty() {
            break;
        }
        lane::time::sleep(Duration::from_millis(20)).await;
    }
    let endpoint = driver.endpoint();
    let pool = endpoint.pool();
    assert_eq!((pool.allocated(), pool.in_use()), (pool.free_count(), 0), "a packet has leaked");
}

async fn echo(mut call: ServerCall) -> Result<(), CallError> {
    let bytes = call.read_to_end(64 << 20).await?;
    call.write(&bytes).await?;
    call.finish().await
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 253) as u8).collect()
}

#[test]
fn echo_returns_every_byte_of_calls_of_every_size() {
    run(async {
        let (server, client) = (bind(config()), bind(config()));
        server.serve(SERVICE, echo);
        let connection = client.connect(server.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
        for len in [0, 1, 1415, 1416, 1417, 100_000, 3_000_000] {
            let request = pattern(len);
            let mut call = connection.call().await.unwrap();
            call.write(&request).await.unwrap();
            call.finish().await.unwrap();
            assert!(call.read_to_end(len).await.unwrap() == request, "{len} bytes come back as they went");
        }
        drop(connection);
        assert_books_balance(&client).await;
        assert_books_balance(&server).await;
        assert_eq!(server.counters().calls_accepted.get(), 7);
        assert_eq!(server.endpoint().stats().resends_spurious, 0);
    });
}

#[test]
fn many_connections_run_at_once_and_books_balance() {
    run(async {
        let (server, client) = (bind(config()), bind(config()));
        server.serve(rxperf::SERVICE, rxperf::serve);
        let address = server.local_addr().unwrap();
        let client = Rc::new(client);
        let works = [
            Work::Receive { bytes: 1 << 20 },
            Work::Send { bytes: 1 << 20 },
            Work::Rpc { send: 32, receive: 32 },
        ];
        let tasks: Vec<_> = (0..30)
            .map(|at| {
                let (client, work) = (Rc::clone(&client), works[at % works.len()].clone());
                lane::spawn(async move {
                    let connection = client.connect(address, rxperf::SERVICE, &Anonymous).unwrap();
                    for _ in 0..3 {
                        let request = Request::new(work.clone());
                        let mut outbound = Outbound::request(&request).unwrap();
                        let mut reply = Reply::new(&request.work.plan().unwrap());
                        let mut call = connection.call().await.unwrap();
                        let len = outbound.remaining();
                        call.write_with(len, |room| assert_eq!(outbound.fill(room), room.len()))
                            .await
                            .unwrap();
                        call.finish().await.unwrap();
                        while call.read(|part| reply.handle(part).unwrap()).await.unwrap() > 0 {}
                        reply.finish().unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        assert_books_balance(&client).await;
        assert_books_balance(&server).await;
        assert_eq!(server.counters().calls_accepted.get(), 90);
    });
}

#[test]
fn rooms_filled_in_place_arrive_in_order() {
    run(async {
        let (server, client) = (bind(config()), bind(config()));
        server.serve(SERVICE, async |mut call: ServerCall| {
            call.read_to_end(0).await?;
            let mut at = 0;
            while at < 200_000 {
                let mut reserved = call.packet_buffers(200_000 - at).await?;
                // A read from a file may take time and give less than there is room for.
                lane::time::sleep(Duration::from_millis(1)).await;
                let mut filled = 0;
                for room in reserved.slices_mut() {
                    room.iter_mut().zip(&pattern(200_000)[at + filled..]).for_each(|(to, from)| *to = *from);
                    filled += room.len();
                }
                let filled = filled - filled / 10;
                reserved.commit(filled)?;
                at += filled;
            }
            // A reservation that is dropped writes nothing.
            drop(call.packet_buffers(5000).await?);
            call.finish().await
        });
        let connection = client.connect(server.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
        let mut call = connection.call().await.unwrap();
        call.finish().await.unwrap();
        assert!(call.read_to_end(200_000).await.unwrap() == pattern(200_000));
        drop(call);
        assert_books_balance(&server).await;
    });
}

#[test]
fn fifth_call_on_a_connection_waits_for_a_channel() {
    run(async {
        let (server, client) = (bind(config()), bind(config()));
        server.serve(SERVICE, echo);
        let connection = client.connect(server.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
        let mut calls = Vec::new();
        for _ in 0..4 {
            calls.push(connection.call().await.unwrap());
        }
        let short = Duration::from_millis(50);
        assert!(
            lane::time::timeout(short, connection.call()).await.is_err(),
            "four channels are all there are"
        );
        let fifth = lane::spawn({
            let connection = connection.clone();
            async move { connection.call().await.map(drop) }
        });
        calls.pop().unwrap().abort(5);
        fifth.await.unwrap();
    });
}

#[test]
fn handlers_abort_reaches_the_client_with_its_code() {
    run(async {
        let (server, client) = (bind(config()), bind(config()));
        server.serve(SERVICE, async |call: ServerCall| {
            call.abort(4242);
            Ok::<(), CallError>(())
        });
        let connection = client.connect(server.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
        let mut call = connection.call().await.unwrap();
        call.finish().await.unwrap();
        assert_eq!(call.read_to_end(1).await, Err(CallError::Aborted(4242)));
        let connection = client.connect(server.local_addr().unwrap(), SERVICE + 1, &Anonymous).unwrap();
        let mut call = connection.call().await.unwrap();
        // An answer is never larger than the question of an unproved client, so the question must have a few bytes.
        call.write(b"hello").await.unwrap();
        call.finish().await.unwrap();
        assert_eq!(call.read_to_end(1).await, Err(CallError::Aborted(-2)), "no such service");
    });
}

#[test]
fn handler_that_drops_its_call_aborts_it() {
    run(async {
        let (server, client) = (bind(config()), bind(config()));
        server.serve(SERVICE, async |mut call: ServerCall| call.write(&[1; 5000]).await);
        let connection = client.connect(server.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
        let mut call = connection.call().await.unwrap();
        call.finish().await.unwrap();
        let ended = call.read_to_end(10_000).await;
        assert_eq!(ended, Err(CallError::Aborted(rx::abort::USER_ABORT)));
        assert_books_balance(&server).await;
    });
}

#[test]
fn receiver_without_coalescing_gets_the_same_bytes() {
    run(async {
        let plain = UdpOptions { gro: false, ..UdpOptions::default() };
        let (server, client) = (bind(config()), bind(DriverConfig { socket: plain, ..config() }));
        server.serve(SERVICE, echo);
        let connection = client.connect(server.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
        let request = pattern(500_000);
        let mut call = connection.call().await.unwrap();
        call.write(&request).await.unwrap();
        call.finish().await.unwrap();
        assert!(call.read_to_end(request.len()).await.unwrap() == request);
    });
}
