use std::time::{Duration, Instant};

use super::*;
use crate::endpoint::{Route, Service};
use crate::header::flags;
use crate::tests::{ECHO, data_packet, packet, small_config};

const EPOCH: u32 = 0x8765_4321;

/// Lanes 0 and 1 of one silo, 2 and 3 of another.
struct Lanes {
    now: Instant,
    lane_map: Arc<LaneMap>,
    endpoints: Vec<Endpoint>,
}

impl Lanes {
    fn new() -> Self {
        let (now, lane_map) = (Instant::now(), Arc::new(LaneMap::new(vec![0..2, 2..4])));
        let endpoint = |lane: u8| {
            let config = crate::EndpointConfig { unproved_max: 50, ..small_config() };
            let mut endpoint = Endpoint::new(now, config, [lane; 32]);
            endpoint.add_service(ECHO, Service::default());
            endpoint.join(Arc::clone(&lane_map), lane.into());
            endpoint
        };
        Self { now, endpoints: (0..4).map(endpoint).collect(), lane_map }
    }

    /// Delivers a datagram to a lane, and returns the lane it has to go to instead, if not taken.
    fn arrive(&mut self, lane: usize, arrival: Arrival, from: SocketAddr, datagram: &[u8]) -> Option<usize> {
        let endpoint = &mut self.endpoints[lane];
        let elsewhere = endpoint.owner_elsewhere(from, datagram, arrival);
        if elsewhere.is_none() {
            endpoint.handle_datagram(self.now, from, None, datagram);
        }
        elsewhere
    }

    fn steer(&mut self, lane: usize, datagram: &[u8]) -> Option<usize> {
        self.arrive(lane, Arrival::Steered, client(1), datagram)
    }

    fn counts(&self) -> [usize; 4] {
        std::array::from_fn(|lane| self.endpoints[lane].connection_count())
    }

    fn written_down(&self) -> usize {
        self.lane_map.directory().expect("two silos have one").len()
    }
}

fn client(n: u16) -> SocketAddr {
    ([192, 0, 2, 7], n).into()
}

/// Returns an id that a lane may give to a connection that it opens.
fn callback_id(lane: u32, lanes: u32) -> u32 {
    let route = |cid| Route { epoch: EPOCH, cid, from_client: false };
    (100..).map(|n| n << 2).find(|&cid| route(cid).lane(lanes) == lane).expect("one of each few")
}

fn first_data(cid: u32) -> Vec<u8> {
    data_packet(EPOCH, cid, 1, 1, 1, false)
}

/// Makes a packet like `like` of another kind.
fn of_kind(like: &[u8], kind: PacketType, flags: u8) -> Vec<u8> {
    let (header, _) = Header::parse(like).unwrap();
    packet(&Header { kind, flags, ..header }, &[0; 30])
}

#[test]
fn lane_that_gets_the_first_packet_owns_the_connection_and_every_other_hands_over() {
    let mut lanes = Lanes::new();
    assert_eq!(lanes.steer(3, &first_data(8)), None);
    for lane in 0..3 {
        assert_eq!(lanes.steer(lane, &first_data(8)), Some(3), "the same packet on two lanes");
        assert_eq!(lanes.steer(lane, &data_packet(EPOCH, 9, 1, 2, 2, false)), Some(3), "another channel");
        let ack = of_kind(&first_data(8), PacketType::Ack, flags::CLIENT_INITIATED);
        assert_eq!(lanes.steer(lane, &ack), Some(3));
        let version_answer = of_kind(&first_data(8), PacketType::Version, 0);
        assert_eq!(lanes.steer(lane, &version_answer), Some(3), "the proof of the address goes there too");
    }
    assert_eq!(lanes.arrive(3, Arrival::Handed, client(1), &data_packet(EPOCH, 8, 1, 2, 2, false)), None);
    assert_eq!((lanes.counts(), lanes.written_down()), ([0, 0, 0, 1], 1));
}

#[test]
fn packet_that_cannot_begin_a_connection_claims_none() {
    let mut lanes = Lanes::new();
    let ack = of_kind(&first_data(8), PacketType::Ack, flags::CLIENT_INITIATED);
    assert_eq!(lanes.steer(0, &ack), None);
    assert_eq!(lanes.steer(0, &data_packet(EPOCH, 8, 1, 500, 1, false)), None, "far into a stream");
    let mut unknown_service = first_data(8);
    unknown_service[26..28].copy_from_slice(&999u16.to_be_bytes());
    assert_eq!(lanes.steer(0, &unknown_service), None);
    assert_eq!((lanes.counts(), lanes.written_down()), ([0; 4], 0));
    assert_eq!(lanes.endpoints[0].stats().unknown_services, 1);
    assert_eq!(lanes.steer(2, &first_data(8)), None, "free for the lane that gets a true beginning");
    assert_eq!(lanes.counts(), [0, 0, 1, 0]);
}

#[test]
fn questions_are_answered_where_they_come() {
    let mut lanes = Lanes::new();
    for kind in [PacketType::Version, PacketType::Debug] {
        let question = of_kind(&first_data(8), kind, flags::CLIENT_INITIATED);
        assert!((0..4).all(|lane| lanes.steer(lane, &question).is_none()));
    }
}

#[test]
fn all_connections_in_a_clients_buffer_are_the_lanes_that_it_was_steered_to() {
    let mut lanes = Lanes::new();
    for cid in (0..40).map(|n| n << 2) {
        assert_eq!(lanes.steer(2, &first_data(cid)), None);
    }
    assert_eq!(lanes.counts(), [0, 0, 40, 0]);
    assert_eq!(lanes.arrive(3, Arrival::Handed, client(1), &first_data(1000)), None);
    assert_eq!(lanes.steer(2, &first_data(1000)), Some(3), "a known one to its owner");
}

#[test]
fn connection_that_ended_may_begin_again_anywhere() {
    let mut lanes = Lanes::new();
    assert_eq!(lanes.steer(1, &first_data(8)), None);
    let endpoint = &mut lanes.endpoints[1];
    // Its call dies first, then it is reaped.
    while endpoint.connection_count() > 0 {
        lanes.now += Duration::from_secs(1000);
        endpoint.handle_timeout(lanes.now);
        while let Some(transmit) = endpoint.poll_transmit(lanes.now) {
            endpoint.transmit_done(transmit);
        }
    }
    assert_eq!((lanes.counts(), lanes.written_down()), ([0; 4], 0));
    assert_eq!(
        lanes.arrive(1, Arrival::Handed, client(1), &first_data(8)),
        None,
        "a packet that was on its way"
    );
    assert_eq!(lanes.counts(), [0, 1, 0, 0]);
}

#[test]
fn flood_of_spoofed_connections_leaves_no_more_entries_than_connections() {
    let mut lanes = Lanes::new();
    for n in 0..5000u32 {
        let lane = n as usize % 4;
        lanes.arrive(lane, Arrival::Steered, client(n as u16), &first_data(n << 2));
    }
    assert_eq!(lanes.counts(), [50; 4]);
    assert_eq!(lanes.written_down(), 200);
}

#[test]
fn connections_of_a_lane_that_left_are_taken_up_by_others() {
    let mut lanes = Lanes::new();
    assert_eq!(lanes.steer(3, &first_data(8)), None);
    lanes.lane_map.leave(3);
    assert_eq!(lanes.steer(0, &first_data(8)), None);
    for cid in (0..40).map(|n| 1000 + (n << 2)) {
        assert_eq!(lanes.steer(2, &first_data(cid)), None, "lane 2 stands in for 3");
    }
    assert_eq!(lanes.counts()[..3], [1, 0, 40]);
}

#[test]
fn answers_on_connections_opened_here_go_by_their_ids_alone() {
    let mut lanes = Lanes::new();
    for lane in 0..4 {
        let cid = callback_id(lane, 4);
        let answer = of_kind(&first_data(cid), PacketType::Data, 0);
        for at in 0..4 {
            assert_eq!(lanes.steer(at, &answer), (at != lane as usize).then_some(lane as usize));
        }
    }
    assert_eq!(lanes.written_down(), 0);
}

#[test]
fn where_the_address_counts_two_clients_with_one_id_are_two_connections() {
    let mut lanes = Lanes::new();
    let old_epoch = data_packet(EPOCH & !(1 << 31), 8, 1, 1, 1, false);
    assert_eq!(lanes.arrive(0, Arrival::Steered, client(1), &old_epoch), None);
    assert_eq!(lanes.arrive(3, Arrival::Steered, client(2), &old_epoch), None);
    assert_eq!(lanes.arrive(3, Arrival::Steered, client(1), &old_epoch), Some(0));
    assert_eq!((lanes.counts(), lanes.written_down()), ([1, 0, 0, 1], 2));
}

#[test]
fn client_that_moves_to_another_lane_of_one_silo_stays_with_its_owner() {
    let lane_map = Arc::new(LaneMap::one_silo(3));
    let mut lanes = [0u8, 1, 2].map(|lane| {
        let mut endpoint = Endpoint::new(Instant::now(), small_config(), [lane; 32]);
        endpoint.add_service(ECHO, Service::default());
        endpoint.join(Arc::clone(&lane_map), lane.into());
        endpoint
    });
    assert_eq!(lanes[1].owner_elsewhere(client(1), &first_data(8), Arrival::Steered), None);
    lanes[1].handle_datagram(Instant::now(), client(1), None, &first_data(8));
    let next = data_packet(EPOCH, 8, 1, 2, 2, false);
    assert_eq!(lanes[0].owner_elsewhere(client(2), &next, Arrival::Steered), Some(1), "from a new port");
    let callback = callback_id(2, 3);
    let answer = of_kind(&first_data(callback), PacketType::Ack, 0);
    assert_eq!(lanes[0].owner_elsewhere(client(1), &answer, Arrival::Steered), Some(2));
    lane_map.leave(2);
    assert_eq!(
        lanes[1].owner_elsewhere(client(1), &answer, Arrival::Steered),
        Some(0),
        "it stands in for lane 2"
    );
}
