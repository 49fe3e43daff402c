//! Tests of servers that are not there, which the kernel reports at once over loopback.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use lane::backend::UdpOptions;
use lane::net::UdpSocket as LaneSocket;
use rx::DeadReason;
use rx_lane::{Anonymous, CallError, Driver, LaneGroupLink};

use super::{SERVICE, assert_books_balance, bind, config, echo, pattern, run};

/// Returns an address without a listener.
fn nobody() -> SocketAddr {
    UdpSocket::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap()
}

#[test]
fn call_to_a_closed_port_fails_within_three_seconds_and_others_go_on() {
    run(async {
        let (server, client) = (bind(config()), bind(config()));
        server.serve(SERVICE, echo);
        let lost = client.connect(nobody(), SERVICE, &Anonymous).unwrap();
        let good = client.connect(server.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
        let started = Instant::now();
        let failing = lane::spawn(async move {
            let mut call = lost.call().await.unwrap();
            call.write(&pattern(100_000)).await?;
            call.finish().await?;
            call.read_to_end(10).await
        });
        // Sends and receives that meet the reports lose nothing.
        let request = pattern(300_000);
        while started.elapsed() < Duration::from_secs(2) {
            let mut call = good.call().await.unwrap();
            call.write(&request).await.unwrap();
            call.finish().await.unwrap();
            assert!(call.read_to_end(request.len()).await.unwrap() == request);
            lane::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(failing.await, Err(CallError::Dead(DeadReason::Unreachable)));
        let took = started.elapsed();
        assert!(took < Duration::from_secs(3), "{took:?}");
        assert!(client.counters().unreachable_believed.get() >= 2);
        assert_eq!(client.counters().send_errors.get(), 0);
        drop(good);
        assert_books_balance(&client).await;
    });
}

#[test]
fn call_goes_on_when_its_server_is_back_within_a_second() {
    run(async {
        let client = bind(config());
        let address = nobody();
        let connection = client.connect(address, SERVICE, &Anonymous).unwrap();
        let starting = lane::spawn(async move {
            lane::time::sleep(Duration::from_millis(800)).await;
            let server = Driver::bind(address, config()).unwrap();
            server.serve(SERVICE, echo);
            server
        });
        let mut call = connection.call().await.unwrap();
        call.write(&pattern(5000)).await.unwrap();
        call.finish().await.unwrap();
        assert!(call.read_to_end(5000).await.unwrap() == pattern(5000));
        assert!(client.counters().unreachable_believed.get() > 0, "the server was away");
        starting.await;
    });
}

#[test]
fn report_that_reaches_another_lane_of_the_group_is_handed_on() {
    run(async {
        let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
        let mut address: SocketAddr = ([127, 0, 0, 1], 0).into();
        let mut drivers = Vec::new();
        for links in LaneGroupLink::between(2, 64) {
            let socket = LaneSocket::bind(address, &options).unwrap();
            address = socket.local_addr().unwrap();
            drivers.push(Driver::start(socket, links, config()).unwrap());
        }
        // The kernel chooses the socket by a hash of both addresses: of so many ports some lead to each lane.
        let calls: Vec<_> = (0..16)
            .map(|_| {
                let connection = drivers[0].connect(nobody(), SERVICE, &Anonymous).unwrap();
                lane::spawn(async move {
                    let mut call = connection.call().await.unwrap();
                    call.finish().await?;
                    call.read_to_end(10).await
                })
            })
            .collect();
        for call in calls {
            assert_eq!(call.await, Err(CallError::Dead(DeadReason::Unreachable)));
        }
        assert!(drivers[0].counters().unreachable_believed.get() >= 32);
        assert_eq!(drivers[1].counters().unreachable_believed.get(), 0);
    });
}
