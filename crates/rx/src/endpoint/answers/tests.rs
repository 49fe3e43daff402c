use std::sync::Arc;

use super::*;
use crate::debug::{DebugStats, Query as Question, RxStats};
use crate::endpoint::{Roster, Service};
use crate::tests::{ECHO, data_packet, small_config};

const LANES: usize = 3;

/// Three lanes of a server, each with some connections; mail between them by hand.
struct Server {
    now: Instant,
    lanes: Vec<Endpoint>,
}

/// What becomes of mail to a lane.
#[derive(Clone, Copy, PartialEq)]
enum Mailbox {
    Open,
    Full,
    Gone,
}

impl Server {
    fn new(connections: u32) -> Self {
        let (now, roster) = (Instant::now(), Arc::new(Roster::one_silo(LANES)));
        let lane = |lane: usize| {
            let mut endpoint = Endpoint::new(now, small_config(), [lane as u8; 32]);
            endpoint.add_service(ECHO, Service::default());
            endpoint.join(Arc::clone(&roster), lane);
            for n in 0..connections {
                let from = ([192, 0, 2, lane as u8], 7001).into();
                endpoint.handle_datagram(now, from, None, &data_packet(1 << 31, n << 2, 1, 1, 1, false));
            }
            while let Some(transmit) = endpoint.poll_transmit(now) {
                endpoint.transmit_done(transmit);
            }
            endpoint
        };
        Self { now, lanes: (0..LANES).map(lane).collect() }
    }

    /// Asks `lane` and delivers mail; the answers that it sends.
    fn ask(&mut self, lane: usize, question: &Question, mailboxes: [Mailbox; LANES]) -> Vec<Vec<u8>> {
        self.lanes[lane].handle_datagram(self.now, asker(), None, question.packet());
        while let Some((from, (to, mail))) = self.next_mail() {
            match mailboxes[to] {
                Mailbox::Open => self.lanes[to].handle_lane_mail(self.now, mail),
                Mailbox::Full => self.lanes[from].lane_mail_undelivered(self.now, mail, false),
                Mailbox::Gone => self.lanes[from].lane_mail_undelivered(self.now, mail, true),
            }
        }
        let mut answers = Vec::new();
        for (at, endpoint) in self.lanes.iter_mut().enumerate() {
            while let Some(transmit) = endpoint.poll_transmit(self.now) {
                assert_eq!((at, transmit.destination), (lane, asker()), "the lane that was asked answers");
                for slice in transmit.slices(endpoint.pool()) {
                    answers.extend(question.answer(&slice).map(<[u8]>::to_vec));
                }
                endpoint.transmit_done(transmit);
            }
        }
        answers
    }

    fn next_mail(&mut self) -> Option<(usize, (usize, LaneMail))> {
        self.lanes.iter_mut().enumerate().find_map(|(from, lane)| Some((from, lane.poll_lane_mail()?)))
    }
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
    assert!(server.lanes[0].stats().answers_limited > 0);
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
    let sent: Vec<u64> = server.lanes.iter().map(|lane| lane.stats().debugs_sent).collect();
    assert_eq!(sent, [100, 0, 0]);
    assert_eq!(server.lanes[0].stats().answers_limited, 4900);
    assert_eq!(server.lanes[1].stats().answers_limited, 0, "lanes that were not asked have no trouble");
}

#[test]
fn answer_to_somebody_elses_question_is_ignored() {
    let mut server = Server::new(1);
    for packet in [PacketType::Debug, PacketType::Version] {
        let mut reflected = Question::debug(1, DebugRequest::Stats).packet().to_vec();
        reflected[20] = packet as u8;
        reflected[21] = 0;
        server.lanes[0].handle_datagram(server.now, asker(), None, &reflected);
        assert!(server.lanes[0].poll_transmit(server.now).is_none() && server.next_mail().is_none());
    }
}
