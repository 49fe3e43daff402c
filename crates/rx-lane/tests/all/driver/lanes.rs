//! Tests of several lanes on one address: every packet is served by the lane that owns its connection.

use std::net::UdpSocket as StdSocket;
use std::time::Duration;

use lane::socket::reuseport::Steering;
use rx_lane::Anonymous;

use super::two_lanes::TwoLanes;
use super::{SERVICE, bind, config, echo, pattern, run};

fn two_lanes() -> Option<TwoLanes> {
    TwoLanes::start(Steering::single_silo(2).unwrap(), config(), |driver| driver.serve(SERVICE, echo))
}

/// Makes 20 calls of `len` bytes each way on each of eight connections, from as many sockets as `clients`. Bursts of
/// several connections share coalesced buffers. Returns what the clients sent again.
fn call_from(address: std::net::SocketAddr, clients: usize, len: usize) -> u64 {
    run(async move {
        let clients: Vec<_> = (0..clients).map(|_| bind(config())).collect();
        let connections: Vec<_> = (0..8)
            .map(|n| clients[n % clients.len()].connect(address, SERVICE, &Anonymous).unwrap())
            .collect();
        for round in 0..20 {
            let tasks: Vec<_> = connections
                .iter()
                .map(|connection| {
                    let connection = connection.clone();
                    lane::spawn(async move {
                        let request = pattern(len + round);
                        let mut call = connection.call().await.unwrap();
                        call.write(&request).await.unwrap();
                        call.finish().await.unwrap();
                        assert!(call.read_to_end(len + 1000).await.unwrap() == request);
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
        }
        clients.iter().map(|client| client.endpoint().stats().resends).sum()
    })
}

/// Waits until the lanes have published `calls` calls, as they do at the end of a pass, after the last reply.
fn await_calls(server: &TwoLanes, calls: u64) {
    for _ in 0..1000 {
        if server.sum(|lane| lane.calls_accepted.get()) == calls {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{} calls of {calls}", server.sum(|lane| lane.calls_accepted.get()));
}

/// Checks a cache manager's connections, all from one port: their packets stay in order, and no lane hands
/// any over.
#[test]
fn connections_of_one_socket_are_served_by_one_lane_and_nothing_is_sent_twice() {
    let Some(server) = two_lanes() else { return };
    let resends = call_from(server.address, 1, 300_000);
    await_calls(&server, 160);
    let resends = resends + server.sum(|lane| lane.resends.get());
    let sent = server.sum(|lane| lane.data_sent.get()) * 2;
    println!("{resends} of {sent} packets sent again");
    assert_eq!(server.sum(|lane| lane.handed_over.get() + lane.handed_in.get()), 0);
    let made: Vec<_> = server.counters.iter().map(|lane| lane.connections_made.get()).collect();
    assert!(made.contains(&8) && made.contains(&0), "{made:?}");
    assert!(resends * 1000 <= sent, "{resends} of {sent}");
}

#[test]
fn clients_are_spread_over_the_lanes() {
    let Some(server) = two_lanes() else { return };
    // Whether both lanes get some of a few clients is a matter of ports; of 24 clients it is next to certain.
    for _ in 0..3 {
        call_from(server.address, 8, 100);
    }
    await_calls(&server, 480);
    assert!(server.counters.iter().all(|lane| lane.connections_made.get() > 0), "both lanes serve");
    assert_eq!(server.sum(|lane| lane.handed_over.get()), 0);
}

#[test]
fn version_questions_are_answered_on_any_lane() {
    let Some(server) = two_lanes() else { return };
    let socket = StdSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for cid in [0u32, 4, 8, 12] {
        let mut question = [0; 28 + 65];
        question[4..8].copy_from_slice(&cid.to_be_bytes());
        question[20] = 13;
        question[21] = 1;
        socket.send_to(&question, server.address).unwrap();
        let mut answer = [0; 1500];
        let (len, from) = socket.recv_from(&mut answer).unwrap();
        assert_eq!(from, server.address);
        assert!(answer[28..len].starts_with(b"linerate"), "{:?}", &answer[28..len]);
    }
}
