//! Several lanes on one address: every packet is served by the lane that owns its connection.

use std::collections::HashSet;
use std::net::UdpSocket as StdSocket;
use std::time::Duration;

use lane::socket::reuseport::{SteeredSilo, Steering, owner_lane};
use rx::driver::Anonymous;

use super::two_lanes::TwoLanes;
use super::{SERVICE, bind, config, echo, pattern, run};

fn two_lanes() -> Option<TwoLanes> {
    TwoLanes::start(Steering::single_silo(2).unwrap(), config(), |driver| driver.serve(SERVICE, echo))
}

/// Makes 160 calls on eight connections, whose ids lead to both lanes. Bursts of several connections share a coalesced
/// buffer, which the kernel steers by its first packet.
fn call_in_mixed_bursts(address: std::net::SocketAddr) {
    run(async move {
        let client = bind(config());
        let connections: Vec<_> =
            (0..8).map(|_| client.connect(address, SERVICE, &Anonymous).unwrap()).collect();
        let owners: HashSet<usize> =
            client.endpoint().connections().map(|known| owner_lane(known.id().0, known.id().1, 2)).collect();
        assert_eq!(owners.len(), 2, "connections of both lanes");
        for round in 0..20 {
            let tasks: Vec<_> = connections
                .iter()
                .map(|connection| {
                    let connection = connection.clone();
                    lane::spawn(async move {
                        let request = pattern(100 + round);
                        let mut call = connection.call().await.unwrap();
                        call.write(&request).await.unwrap();
                        call.finish().await.unwrap();
                        assert!(call.read_to_end(1000).await.unwrap() == request);
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
        }
    });
}

#[test]
fn packets_that_land_on_another_lane_are_handed_to_their_owner() {
    let Some(server) = two_lanes() else { return };
    call_in_mixed_bursts(server.address);
    let [zero, one] = &server.counters[..] else { panic!("two lanes") };
    assert_eq!(server.sum(|lane| lane.calls_accepted.get()), 160);
    assert_eq!((zero.connections_made.get(), one.connections_made.get()), (4, 4), "each served by its owner");
    assert_eq!(server.sum(|lane| lane.handed_over.get()), server.sum(|lane| lane.handed_in.get()));
    assert!(server.sum(|lane| lane.handed_over.get()) > 0, "mixed bursts make strays");
    assert_eq!(server.sum(|lane| lane.handover_full.get()), 0);
}

#[test]
fn connection_is_served_by_the_silo_that_took_it_up_whichever_gets_its_packets() {
    let silo = |n: usize| SteeredSilo { ifindexes: Vec::new(), lanes: n..n + 1 };
    let silos = Steering::new(vec![silo(0), silo(1)]).unwrap();
    let Some(server) = TwoLanes::start(silos, config(), |driver| driver.serve(SERVICE, echo)) else { return };
    call_in_mixed_bursts(server.address);
    assert_eq!(server.sum(|lane| lane.calls_accepted.get()), 160);
    assert_eq!(server.sum(|lane| lane.connections_made.get()), 8, "one owner for each");
    assert_eq!(server.sum(|lane| lane.handed_across.get()), server.sum(|lane| lane.handed_in.get()));
    let lost = |lane: &rx::driver::RxCounters| lane.handover_full.get() + lane.handover_lost.get();
    assert_eq!(server.sum(lost), 0);
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
