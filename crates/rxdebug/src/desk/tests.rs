use std::collections::HashMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::{DebugError, DebugStats, RxStats};
use rx::header::{Header, PacketType, flags};

/// Lanes as plain tables.
#[derive(Default)]
struct Server {
    lanes: Vec<Tables>,
    /// Lanes that refuse to tell.
    mute: Vec<usize>,
}

#[derive(Clone, Default)]
struct Tables {
    connections: Vec<Option<u32>>,
    peers: BTreeMap<SocketAddr, DebugPeer>,
    calls: u64,
}

impl Tables {
    fn share(&self, query: Query) -> Share {
        match query {
            Query::Totals => {
                let mut totals = Totals { packets: 10, packets_free: 7, ..Totals::default() };
                totals.stats.calls_accepted = self.calls;
                totals.stats.data_received = 2 * self.calls;
                totals.server_connections = self.connections.iter().flatten().count() as u64;
                Share::Totals(Box::new(totals))
            }
            Query::Connections { from, interesting } => {
                // Every third connection has a call.
                let known = self.connections.iter().enumerate().skip(from as usize);
                let mut known = known.filter_map(|(at, cid)| Some((at, (*cid)?)));
                let mut entries = Vec::new();
                let next = known.find(|(_, cid)| {
                    let wanted = !interesting || cid % 3 == 0;
                    let full = wanted && entries.len() == PAGE;
                    if wanted && !full {
                        entries.push(DebugConn { cid: *cid, ..DebugConn::default() });
                    }
                    full
                });
                Share::Connections { entries, next: next.map(|(at, _)| at as u32) }
            }
            Query::Peers { after } => {
                let mut later =
                    self.peers.iter().filter(|(address, _)| after.is_none_or(|after| **address > after));
                let entries = later.by_ref().take(PAGE).map(|(at, peer)| (*at, peer.clone())).collect();
                Share::Peers { entries, more: later.next().is_some() }
            }
        }
    }
}

impl Server {
    fn desk(&self) -> Desk {
        Desk::new(self.lanes.len())
    }

    /// Asks and lets the lanes answer, the last one first. `None` if the question stays unanswered.
    fn ask(&self, desk: &mut Desk, port: u16, request: DebugRequest) -> Option<Vec<u8>> {
        let mut step = desk.ask(asker(port), request);
        loop {
            match step {
                Step::Answer { asker, payload } => {
                    assert_eq!(asker.remote.port(), port);
                    return Some(payload);
                }
                Step::Gather { ticket, lanes, query } => {
                    let mut next = None;
                    for lane in lanes.rev() {
                        assert!(next.is_none(), "a lane was asked in vain");
                        let mute = self.mute.contains(&lane);
                        let share = if mute { Share::Refused } else { self.lanes[lane].share(query) };
                        next = desk.take(ticket, share);
                        if mute {
                            return None;
                        }
                    }
                    step = next?;
                }
            }
        }
    }

    fn connection(&self, desk: &mut Desk, port: u16, index: u32) -> Option<u32> {
        let payload = self.ask(desk, port, DebugRequest::Connection(index)).expect("an answer");
        let found = DebugConn::decode(&payload, &DebugStats::default()).expect("whole");
        found.map(|connection| connection.cid)
    }

    fn peer(&self, desk: &mut Desk, index: u32) -> Option<DebugPeer> {
        let payload = self.ask(desk, 1, DebugRequest::Peer(index)).expect("an answer");
        DebugPeer::decode(&payload).expect("whole")
    }
}

fn asker(port: u16) -> Question {
    let header = Header {
        epoch: 999,
        cid: 0,
        call: 1,
        seq: 0,
        serial: 0,
        kind: PacketType::Debug,
        flags: flags::CLIENT_INITIATED,
        user_status: 0,
        security: 0,
        checksum: 0,
        service: 0,
    };
    let remote = ([192, 0, 2, 1], port).into();
    Question { remote, local_ip: None, header, words: [0; 2], sees_ids: true }
}

/// Lanes with so many connections each; ids tell lane and place.
fn server(sizes: &[u32]) -> Server {
    let lane = |(lane, size): (usize, &u32)| Tables {
        connections: (0..*size).map(|at| Some((lane as u32) << 16 | at)).collect(),
        calls: 10u64.pow(lane as u32),
        ..Tables::default()
    };
    Server { lanes: sizes.iter().enumerate().map(lane).collect(), mute: Vec::new() }
}

fn address(n: u16) -> SocketAddr {
    ([10, 0, (n >> 8) as u8, n as u8], 7001).into()
}

#[test]
fn counters_are_sums_over_all_lanes() {
    let server = server(&[3, 0, 5]);
    let mut desk = server.desk();
    let stats = DebugStats::decode(&server.ask(&mut desk, 1, DebugRequest::Stats).unwrap()).unwrap();
    assert_eq!((stats.packets, stats.free_packets, stats.calls_executed), (30, 21, 111));
    let counters = RxStats::decode(&server.ask(&mut desk, 1, DebugRequest::RxStats).unwrap()).unwrap();
    assert_eq!((counters.data_packets_read, counters.server_conns), (222, 8));
}

#[test]
fn walk_tells_every_connection_of_every_lane_once_and_then_the_end() {
    for sizes in [&[0][..], &[1], &[0, 0, 3], &[5, 0, 64, 65, 0], &[200, 1, 128]] {
        let server = server(sizes);
        let mut desk = server.desk();
        let all: Vec<u32> =
            server.lanes.iter().flat_map(|lane| lane.connections.iter().flatten().copied()).collect();
        let told: Vec<u32> = (0..).map_while(|index| server.connection(&mut desk, 1, index)).collect();
        assert_eq!(told, all);
        for index in [all.len() as u32, all.len() as u32 + 1, u32::MAX] {
            assert_eq!(server.connection(&mut desk, 1, index), None, "past the end it stays the end");
        }
        let busy: Vec<u32> = all.into_iter().filter(|cid| cid % 3 == 0).collect();
        let told: Vec<u32> = (0..)
            .map_while(|index| {
                let payload = server.ask(&mut desk, 1, DebugRequest::InterestingConnection(index)).unwrap();
                DebugConn::decode(&payload, &DebugStats::default()).unwrap()
            })
            .map(|connection| connection.cid)
            .collect();
        assert_eq!(told, busy);
    }
}

#[test]
fn connections_that_live_through_a_walk_are_told_once_whatever_else_comes_and_goes() {
    for seed in 0..50 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut server = server(&[150, 3, 90, 0]);
        let mut desk = server.desk();
        let mut survivors: Vec<u32> =
            server.lanes.iter().flat_map(|lane| lane.connections.iter().flatten().copied()).collect();
        let mut told: HashMap<u32, u32> = HashMap::new();
        for index in 0.. {
            let Some(cid) = server.connection(&mut desk, 1, index) else { break };
            *told.entry(cid).or_default() += 1;
            let lane = rng.random_range(0..4);
            let table = &mut server.lanes[lane].connections;
            if rng.random_bool(0.5) && !table.is_empty() {
                let at = rng.random_range(0..table.len());
                if let Some(gone) = table[at].take() {
                    survivors.retain(|cid| *cid != gone);
                }
            } else if let Some(hole) = table.iter_mut().find(|entry| entry.is_none()) {
                *hole = Some(1 << 24 | index);
            }
            assert!(index < 10_000, "the walk ends");
        }
        let missed: Vec<_> = survivors.iter().filter(|cid| told.get(cid) != Some(&1)).collect();
        assert!(missed.is_empty(), "seed {seed}: {missed:x?}");
        assert!(told.values().all(|times| *times == 1), "seed {seed}: {told:x?}");
    }
}

#[test]
fn repeated_question_gets_the_same_answer_and_any_index_is_found() {
    let server = server(&[100, 100]);
    let mut desk = server.desk();
    assert_eq!(server.connection(&mut desk, 1, 150), Some(1 << 16 | 50), "without a walk before");
    assert_eq!(server.connection(&mut desk, 1, 150), Some(1 << 16 | 50));
    assert_eq!(server.connection(&mut desk, 1, 10), Some(10), "backwards");
    assert_eq!(server.connection(&mut desk, 1, 99), Some(99));
    assert_eq!(server.connection(&mut desk, 1, 0), Some(0));
}

#[test]
fn more_walkers_than_are_remembered_all_come_through() {
    let server = server(&[70, 70]);
    let mut desk = server.desk();
    let walkers = 1..2 * WALKS_MAX as u16;
    for index in (0..140).step_by(20) {
        for port in walkers.clone() {
            assert_eq!(server.connection(&mut desk, port, index), Some(((index / 70) << 16) | (index % 70)));
        }
    }
    assert!(desk.walks.len() <= WALKS_MAX);
}

#[test]
fn peer_of_several_lanes_is_told_once_with_the_sum_of_their_counts() {
    let mut server = server(&[0, 0, 0]);
    // Lane n knows every (n+1)th address.
    for n in 0..400u16 {
        for (lane, tables) in
            server.lanes.iter_mut().enumerate().filter(|(lane, _)| usize::from(n).is_multiple_of(lane + 1))
        {
            let peer = DebugPeer {
                port: n,
                packets_sent: 10u32.pow(lane as u32),
                mtu: 1000 + lane as u16,
                bytes_received: 1,
                references: 1,
                ..DebugPeer::default()
            };
            tables.peers.insert(address(n), peer);
        }
    }
    let mut desk = server.desk();
    let told: Vec<DebugPeer> = (0..).map_while(|index| server.peer(&mut desk, index)).collect();
    assert_eq!(told.iter().map(|peer| peer.port).collect::<Vec<_>>(), (0..400).collect::<Vec<_>>());
    let of = |n: usize| (told[n].packets_sent, told[n].bytes_received, told[n].references, told[n].mtu);
    assert_eq!(of(1), (1, 1, 1, 1000));
    assert_eq!(of(2), (11, 2, 2, 1001));
    assert_eq!(of(3), (101, 2, 2, 1002));
    assert_eq!(of(6), (111, 3, 3, 1002), "sizes are those of the lane that sent most");
    assert_eq!(server.peer(&mut desk, 400), None);
    let end = server.ask(&mut desk, 1, DebugRequest::Peer(u32::MAX)).unwrap();
    assert_eq!(end[0..4], [0xff; 4], "host of the end marker");
}

#[test]
fn question_that_a_lane_refused_is_answered_when_it_is_repeated() {
    let mut server = server(&[100, 100]);
    let mut desk = server.desk();
    server.mute = vec![1];
    assert_eq!(server.ask(&mut desk, 1, DebugRequest::Stats), None);
    assert_eq!(server.connection(&mut desk, 1, 99), Some(99));
    assert_eq!(server.ask(&mut desk, 1, DebugRequest::Connection(100)), None);
    server.mute.clear();
    assert_eq!(server.connection(&mut desk, 1, 100), Some(1 << 16));
    assert!(server.ask(&mut desk, 1, DebugRequest::Stats).is_some());
    assert!(desk.sums.is_empty());
}

#[test]
fn lane_that_has_ended_contributes_nothing() {
    let mut desk = Desk::new(2);
    for request in [DebugRequest::Stats, DebugRequest::Connection(0), DebugRequest::Peer(0)] {
        let mut step = desk.ask(asker(1), request);
        while let Step::Gather { ticket, lanes, query } = step {
            step =
                lanes.filter_map(|_| desk.take(ticket, query.nothing())).next().expect("all have answered");
        }
    }
}

#[test]
fn questions_whose_lanes_never_answer_are_bounded() {
    let mut desk = Desk::new(2);
    let tickets: Vec<u64> = (0..1000)
        .map(|port| match desk.ask(asker(port), DebugRequest::Stats) {
            Step::Gather { ticket, .. } => ticket,
            Step::Answer { .. } => panic!("two lanes are missing"),
        })
        .collect();
    (0..1000).for_each(|port| drop(desk.ask(asker(port), DebugRequest::Connection(5))));
    assert_eq!((desk.sums.len(), desk.walks.len()), (SUMS_MAX, WALKS_MAX));
    assert!(desk.take(tickets[0], Query::Totals.nothing()).is_none(), "forgotten");
}

#[test]
fn unknown_request_is_answered_with_minus_eight_twice() {
    let Step::Answer { payload, .. } = Desk::new(3).ask(asker(1), DebugRequest::Unknown(6)) else { panic!() };
    assert_eq!(payload, [0xff, 0xff, 0xff, 0xf8, 0xff, 0xff, 0xff, 0xf8]);
    assert_eq!(RxStats::decode(&payload), Err(DebugError::Unsupported));
    assert_eq!(DebugStats::decode(&payload), Err(DebugError::Unsupported));
    assert_eq!(DebugPeer::decode(&payload), Err(DebugError::Unsupported));
    assert_eq!(DebugConn::decode(&payload, &DebugStats::default()), Err(DebugError::Unsupported));
}
