//! Tests of a driver that ends before its lane does.

use std::time::Duration;

use lane::net::UdpSocket;
use rx_lane::{Anonymous, CallError, Driver, LaneGroup, ServerCall};

use crate::driver::{SERVICE, bind, config, echo, run};

#[test]
fn a_closed_driver_gives_its_address_back_and_ends_the_calls_there_are() {
    run(async {
        let server = bind(config());
        let address = server.local_addr().unwrap();
        server.serve(SERVICE, async |_: ServerCall| std::future::pending::<Result<(), CallError>>().await);
        let client = bind(config());
        let connection = client.connect(address, SERVICE, &Anonymous).unwrap();
        // One that the server makes, to a client that never answers.
        let back = bind(config());
        back.serve(SERVICE, async |_: ServerCall| std::future::pending::<Result<(), CallError>>().await);
        let outward = server.connect(back.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
        let mut asked = outward.call().await.unwrap();
        asked.finish().await.unwrap();
        let mut call = connection.call().await.unwrap();
        call.finish().await.unwrap();
        let served = server.counters();
        while served.handlers.get() == 0 {
            lane::yield_now().await;
        }
        let drained = server.close(Duration::from_millis(50)).await;
        assert_eq!((drained.cut, drained.shielded), (1, 0));
        assert!(matches!(call.read_to_end(1).await, Err(CallError::Aborted(_))));
        assert!(matches!(asked.read_to_end(1).await, Err(CallError::Aborted(_))));
        assert_eq!(outward.call().await.unwrap_err(), CallError::Gone);
        drop((asked, outward, server));
        // Its task has a turn yet.
        let mut bound = UdpSocket::bind(address, &config().socket);
        while bound.is_err() {
            lane::time::sleep(Duration::from_millis(1)).await;
            bound = UdpSocket::bind(address, &config().socket);
        }
    });
}

#[test]
fn a_lane_joins_its_siblings_anew_when_its_driver_has_ended() {
    run(async {
        let lane_group = LaneGroup::between(1, 16);
        assert!(!lane_group.is_in_use());
        for _ in 0..3 {
            let mut joined = lane_group.join(0);
            while joined.is_none() {
                lane::time::sleep(Duration::from_millis(1)).await;
                joined = lane_group.join(0);
            }
            assert!(lane_group.is_in_use() && lane_group.join(0).is_none());
            let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &config().socket).unwrap();
            let server = Driver::start(socket, joined.unwrap(), config()).unwrap();
            server.serve(SERVICE, echo);
            let client = bind(config());
            let connection = client.connect(server.local_addr().unwrap(), SERVICE, &Anonymous).unwrap();
            let mut call = connection.call().await.unwrap();
            call.write(b"hello").await.unwrap();
            call.finish().await.unwrap();
            assert_eq!(call.read_to_end(100).await.unwrap(), b"hello");
            server.close(Duration::from_secs(1)).await;
        }
    });
}

#[test]
fn lanes_that_have_links_have_ports_of_their_own() {
    let lane_group = LaneGroup::between(2, 16);
    let (first, second) = (lane_group.join(0).unwrap(), lane_group.join(1).unwrap());
    assert_eq!((first.lane(), second.lane(), first.lanes()), (0, 1, 2));
    assert!(lane_group.join(1).is_none());
    drop(second);
    assert!(lane_group.join(1).is_some() && lane_group.is_in_use());
}
