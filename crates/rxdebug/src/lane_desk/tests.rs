use std::net::{Ipv4Addr, SocketAddr};

use rx::header::{HEADER_LEN, Header, PacketType, flags};
use rx::{AddressRange, EndpointConfig, Service};

use super::*;
use crate::{DebugConn, DebugPeer, DebugStats, Query as Question, RxStats};

const LANES: usize = 3;
const ECHO: u16 = 7;

/// Three lanes of a server, each with some connections; mail between them by hand.
struct Server {
    now: Instant,
    lanes: Vec<(Endpoint, LaneDesk)>,
}

/// Fate of mail to a lane.
#[derive(Clone, Copy, PartialEq)]
enum Mailbox {
    Open,
    Full,
    Gone,
}

impl Server {
    fn new(connections: u32) -> Self {
        let now = Instant::now();
        let lane = |lane: usize| {
            let mut endpoint = Endpoint::new(now, small_config(), [lane as u8; 32]);
            endpoint.add_service(ECHO, Service::default());
            for n in 0..connections {
                let from = ([192, 0, 2, lane as u8], 7001).into();
                endpoint.handle_datagram(now, from, None, &data_packet(1 << 31, n << 2));
            }
            while let Some(transmit) = endpoint.poll_transmit(now) {
                endpoint.transmit_done(transmit);
            }
            (endpoint, LaneDesk::new(now, lane, LANES))
        };
        Self { now, lanes: (0..LANES).map(lane).collect() }
    }

    /// Asks `lane` and delivers mail; the answers that it sends.
    fn ask(&mut self, lane: usize, question: &Question, mailboxes: [Mailbox; LANES]) -> Vec<Vec<u8>> {
        self.take_in(lane, asker(), question.packet());
        while let Some((from, (to, mail))) = self.next_mail() {
            let at = if mailboxes[to] == Mailbox::Open { to } else { from };
            let (endpoint, desk) = &mut self.lanes[at];
            match mailboxes[to] {
                Mailbox::Open => desk.handle_mail(self.now, endpoint, mail),
                Mailbox::Full => desk.mail_undelivered(self.now, endpoint, mail, false),
                Mailbox::Gone => desk.mail_undelivered(self.now, endpoint, mail, true),
            }
        }
        let mut answers = Vec::new();
        for (at, (endpoint, _)) in self.lanes.iter_mut().enumerate() {
            while let Some(transmit) = endpoint.poll_transmit(self.now) {
                assert_eq!((at, transmit.destination), (lane, asker()), "the lane that was asked answers");
                for slice in transmit.slices(endpoint.pool(), 0) {
                    answers.extend(question.answer(&slice).map(<[u8]>::to_vec));
                }
                endpoint.transmit_done(transmit);
            }
        }
        answers
    }

    /// A datagram comes to a lane.
    fn take_in(&mut self, lane: usize, from: SocketAddr, datagram: &[u8]) {
        let (endpoint, desk) = &mut self.lanes[lane];
        endpoint.handle_datagram(self.now, from, None, datagram);
        desk.handle_questions(self.now, endpoint);
    }

    fn next_mail(&mut self) -> Option<(usize, (usize, DeskMail))> {
        self.lanes.iter_mut().enumerate().find_map(|(from, (_, desk))| Some((from, desk.poll_mail()?)))
    }
}

fn small_config() -> EndpointConfig {
    EndpointConfig { packets: 4096, check_reach: false, ..EndpointConfig::default() }
}

/// A client's DATA packet as a stock peer would send it.
fn data_packet(epoch: u32, cid: u32) -> Vec<u8> {
    let header = Header {
        epoch,
        cid,
        call: 1,
        seq: 1,
        serial: 1,
        kind: PacketType::Data,
        flags: flags::CLIENT_INITIATED,
        user_status: 0,
        security: 0,
        checksum: 0,
        service: ECHO,
    };
    let mut bytes = [0; HEADER_LEN];
    header.encode(&mut bytes);
    [&bytes, &b"0123456789abcdef"[..]].concat()
}

fn asker() -> SocketAddr {
    ([198, 51, 100, 1], 5000).into()
}

const ALL_OPEN: [Mailbox; LANES] = [Mailbox::Open; LANES];

#[test]
fn every_lane_answers_for_all() {
    let mut server = Server::new(5);
    for lane in 0..LANES {
        let answers = server.ask(lane, &Question::debug(1, DebugRequest::RxStats), ALL_OPEN);
        let [answer] = &answers[..] else { panic!("one answer, not {}", answers.len()) };
        let stats = RxStats::decode(answer).unwrap();
        assert_eq!((stats.server_conns, stats.data_packets_read, stats.peers, stats.calls), (15, 15, 3, 15));
        let answer = server.ask(lane, &Question::debug(2, DebugRequest::Connection(14)), ALL_OPEN);
        assert!(DebugConn::decode(&answer[0], &DebugStats::default()).unwrap().is_some());
        let answer = server.ask(lane, &Question::debug(3, DebugRequest::Connection(15)), ALL_OPEN);
        assert_eq!(DebugConn::decode(&answer[0], &DebugStats::default()), Ok(None));
        let answer = server.ask(lane, &Question::debug(4, DebugRequest::Peer(2)), ALL_OPEN);
        assert_eq!(DebugPeer::decode(&answer[0]).unwrap().unwrap().host, Ipv4Addr::new(192, 0, 2, 2));
    }
}

#[test]
fn lane_that_has_ended_is_left_out_and_one_with_a_full_mailbox_makes_the_client_ask_again() {
    let mut server = Server::new(2);
    let question = Question::debug(1, DebugRequest::RxStats);
    assert_eq!(server.ask(0, &question, [Mailbox::Open, Mailbox::Full, Mailbox::Open]), [[0; 0]; 0]);
    assert!(server.lanes[0].1.limited() > 0);
    let answers = server.ask(0, &question, [Mailbox::Open, Mailbox::Gone, Mailbox::Open]);
    assert_eq!(RxStats::decode(&answers[0]).unwrap().server_conns, 4);
    let answers = server.ask(0, &question, ALL_OPEN);
    assert_eq!(RxStats::decode(&answers[0]).unwrap().server_conns, 6);
}

#[test]
fn flood_of_questions_costs_each_lane_a_bounded_number_of_shares() {
    let mut server = Server::new(1);
    let answered = (0..5000).map(|n| server.ask(0, &Question::debug(n, DebugRequest::Stats), ALL_OPEN).len());
    assert_eq!(answered.sum::<usize>(), 100, "as many as there are shares a second");
    let sent: Vec<u64> = server.lanes.iter().map(|(endpoint, _)| endpoint.stats().debugs_sent).collect();
    assert_eq!(sent, [100, 0, 0]);
    let (endpoint, desk) = &server.lanes[0];
    assert_eq!(endpoint.stats().answers_limited + desk.limited(), 4900);
    assert_eq!(server.lanes[1].1.limited(), 0, "lanes that were not asked have no trouble");
}

#[test]
fn answer_to_somebody_elses_question_is_ignored() {
    let mut server = Server::new(1);
    for packet in [PacketType::Debug, PacketType::Version] {
        let mut reflected = Question::debug(1, DebugRequest::Stats).packet().to_vec();
        reflected[20] = packet as u8;
        reflected[21] = 0;
        server.take_in(0, asker(), &reflected);
        assert!(server.lanes[0].0.poll_transmit(server.now).is_none() && server.next_mail().is_none());
    }
}

#[test]
fn ids_are_told_to_local_askers_and_those_configured_and_to_nobody_else() {
    let debug_ids = vec![AddressRange::new([192, 0, 2, 0].into(), 24)];
    let now = Instant::now();
    let mut endpoint = Endpoint::new(now, EndpointConfig { debug_ids, ..small_config() }, [1; 32]);
    endpoint.add_service(ECHO, Service::default());
    endpoint.handle_datagram(now, ([203, 0, 113, 1], 7001).into(), None, &data_packet(1 << 31, 8));
    while let Some(transmit) = endpoint.poll_transmit(now) {
        endpoint.transmit_done(transmit);
    }
    let mut server = Server { now, lanes: vec![(endpoint, LaneDesk::new(now, 0, 1))] };
    let question = Question::debug(1, DebugRequest::Connection(0));
    for (asker, told) in [("198.51.100.66:9", false), ("127.0.0.1:9", true), ("192.0.2.200:9", true)] {
        server.take_in(0, asker.parse().expect("address"), question.packet());
        let endpoint = &mut server.lanes[0].0;
        let transmit = endpoint.poll_transmit(now).expect("answered");
        let answer = question.answer(&transmit.slices(endpoint.pool(), 0)[0]).expect("the answer").to_vec();
        endpoint.transmit_done(transmit);
        let shown =
            DebugConn::decode(&answer, &DebugStats::default()).expect("decodes").expect("one connection");
        assert_eq!((shown.epoch, shown.cid) == (1 << 31, 8), told, "{asker}: {shown:?}");
        assert_eq!(shown.serial != 0, told);
        assert_eq!(shown.port, 7001);
    }
}
