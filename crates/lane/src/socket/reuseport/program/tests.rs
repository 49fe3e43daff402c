use std::collections::BTreeMap;

use super::*;
use crate::socket::cbpf::interpreter::Packet;
use std::net::SocketAddr;

use crate::socket::reuseport::{LANES_MAX, LaneConnectionIds, owner_lane, silo_lane};

const NIC_A: u32 = 5;
const NIC_B: u32 = 9;
const NIC_B_VLAN: u32 = 12;
const NIC_SHARED: u32 = 1;

/// Returns a steering of two lanes for NIC A, and three for NIC B and its VLAN.
fn steering() -> Steering {
    Steering::new(vec![
        SteeredSilo { ifindexes: vec![NIC_A], lanes: 0..2 },
        SteeredSilo { ifindexes: vec![NIC_B, NIC_B_VLAN], lanes: 2..5 },
    ])
    .unwrap()
}

fn order(lanes: &[usize]) -> Vec<Slot> {
    lanes.iter().map(|&lane| Slot { lane, draining: false }).collect()
}

fn draining(mut order: Vec<Slot>, lanes: &[usize]) -> Vec<Slot> {
    order.iter_mut().filter(|slot| lanes.contains(&slot.lane)).for_each(|slot| slot.draining = true);
    order
}

/// Returns the lane of a program's result; `None` is the kernel's hash.
fn lane(order: &[Slot], position: u32) -> Option<usize> {
    order.get(position as usize).map(|slot| slot.lane)
}

/// Returns how often each lane is chosen for new connections through a NIC.
fn tcp_shares(order: &[Slot], ifindex: u32) -> BTreeMap<Option<usize>, usize> {
    let program = tcp(&steering(), order).unwrap();
    let mut shares = BTreeMap::new();
    for random in 0..600 {
        let position = program.run(&Packet { ifindex, random, ..Packet::default() });
        *shares.entry(lane(order, position)).or_default() += 1;
    }
    shares
}

/// Type and flags of an Rx packet, as in its header.
type Kind = [u8; 2];
const OF_CLIENT: Kind = [1, 0x01];
const OF_SERVER: Kind = [1, 0];
const VERSION_ANSWER: Kind = [13, 0];

fn rx_payload(kind: Kind, epoch: u32, cid: u32) -> Vec<u8> {
    let mut payload = [epoch.to_be_bytes(), cid.to_be_bytes()].concat();
    payload.resize(28, 0);
    payload[20..22].copy_from_slice(&kind);
    payload
}

/// Returns the IP and UDP header of a packet from `client`.
fn network_headers(client: SocketAddr) -> Vec<u8> {
    let mut bytes = match client {
        SocketAddr::V4(client) => {
            let mut bytes = vec![0; 20];
            bytes[0] = 0x45;
            bytes[12..16].copy_from_slice(&client.ip().octets());
            bytes
        }
        SocketAddr::V6(client) => {
            let mut bytes = vec![0; 40];
            bytes[0] = 0x60;
            bytes[8..24].copy_from_slice(&client.ip().octets());
            bytes
        }
    };
    bytes.extend(client.port().to_be_bytes());
    bytes.extend([0x1b, 0x58, 0, 0, 0, 0]);
    bytes
}

/// Returns the `n`th client, of either family.
fn client(n: u32) -> SocketAddr {
    let port = 7001 + (n % 3) as u16;
    match n % 2 {
        0 => SocketAddr::new(std::net::Ipv4Addr::from(0xc000_0200_u32.wrapping_add(n)).into(), port),
        _ => SocketAddr::new(
            std::net::Ipv6Addr::from((0xfd00 << 112) | (u128::from(n) << 40) | 7).into(),
            port,
        ),
    }
}

/// Returns the lane of a client's packet.
fn rx_lane(order: &[Slot], ifindex: u32, from: SocketAddr, cid: u32) -> Option<usize> {
    rx_lane_of(OF_CLIENT, order, ifindex, from, cid)
}

fn rx_lane_of(kind: Kind, order: &[Slot], ifindex: u32, from: SocketAddr, cid: u32) -> Option<usize> {
    let (payload, network) = (rx_payload(kind, EPOCH, cid), network_headers(from));
    let program = rx(&steering(), order).unwrap();
    lane(order, program.run(&Packet { payload, network, ifindex, random: 0 }))
}

const EPOCH: u32 = 0xa5a5_0001;

#[test]
fn tcp_connection_goes_to_an_equal_share_of_the_lanes_of_its_nics_silo() {
    let order = order(&[0, 1, 2, 3, 4]);
    assert_eq!(tcp_shares(&order, NIC_A), BTreeMap::from([(Some(0), 300), (Some(1), 300)]));
    let three = BTreeMap::from([(Some(2), 200), (Some(3), 200), (Some(4), 200)]);
    assert_eq!(tcp_shares(&order, NIC_B), three);
    assert_eq!(tcp_shares(&order, NIC_B_VLAN), three);
}

#[test]
fn tcp_connection_of_an_unknown_nic_is_left_to_the_hash() {
    assert_eq!(tcp_shares(&order(&[0, 1, 2, 3, 4]), NIC_SHARED), BTreeMap::from([(None, 600)]));
}

#[test]
fn tcp_silo_without_listeners_is_left_to_the_hash_and_the_other_is_untouched() {
    let order = order(&[4, 3, 2]);
    assert_eq!(tcp_shares(&order, NIC_A), BTreeMap::from([(None, 600)]));
    assert_eq!(tcp_shares(&order, NIC_B).keys().flatten().copied().collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn tcp_order_after_a_close_is_followed() {
    let order = order(&[4, 1, 2, 3]);
    assert_eq!(tcp_shares(&order, NIC_A), BTreeMap::from([(Some(1), 600)]));
    assert_eq!(tcp_shares(&order, NIC_B).keys().flatten().copied().collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn tcp_draining_lane_gets_nothing_from_any_nic() {
    let order = draining(order(&[0, 1, 2, 3, 4]), &[1, 3]);
    assert_eq!(tcp_shares(&order, NIC_A), BTreeMap::from([(Some(0), 600)]));
    assert_eq!(tcp_shares(&order, NIC_B), BTreeMap::from([(Some(2), 300), (Some(4), 300)]));
    assert_eq!(
        tcp_shares(&order, NIC_SHARED),
        BTreeMap::from([(Some(0), 200), (Some(2), 200), (Some(4), 200)]),
        "the hash would not know that a lane drains"
    );
}

#[test]
fn rx_packet_of_a_client_goes_to_the_silo_of_its_nic_by_the_clients_address_alone() {
    let silos = steering();
    for order in [order(&[0, 1, 2, 3, 4]), order(&[3, 1, 4, 0, 2])] {
        for n in 0..400u32 {
            for (kind, cid) in [(OF_CLIENT, n << 2), (VERSION_ANSWER, 77), ([2, 0x21], n * n)] {
                let lane = |nic| rx_lane_of(kind, &order, nic, client(n), cid).unwrap();
                let [a, b] = [0, 1].map(|silo| silo_lane(client(n), &silos.silos()[silo].lanes, 5));
                assert_eq!((lane(NIC_A), lane(NIC_B), lane(NIC_B_VLAN)), (a, b, b));
                assert!(a < 2 && b >= 2);
                assert_eq!(lane(NIC_SHARED), silo_lane(client(n), &(0..5), 5));
            }
        }
    }
}

#[test]
fn rx_packet_of_a_connection_that_a_lane_opened_comes_back_to_it_through_every_nic() {
    for order in [order(&[0, 1, 2, 3, 4]), order(&[3, 1, 4, 0, 2])] {
        for k in 0..5 {
            let mut ids = LaneConnectionIds::new(EPOCH, k, 5, 1000);
            for cid in (0..50).map(|_| ids.next_id()) {
                for nic in [NIC_A, NIC_B, NIC_B_VLAN, NIC_SHARED] {
                    assert_eq!(rx_lane_of(OF_SERVER, &order, nic, client(cid), cid | 3), Some(k));
                    assert_eq!(owner_lane(EPOCH, cid, 5), k);
                }
            }
        }
    }
}

#[test]
fn rx_lanes_of_a_silo_get_equal_shares_and_a_client_one_of_them() {
    let order = order(&[0, 1, 2, 3, 4]);
    let mut shares = BTreeMap::new();
    for n in 0..15_000u32 {
        let here = rx_lane(&order, NIC_B, client(n), n << 2).unwrap();
        if n < 400 {
            assert!((0..4).all(|cid| rx_lane(&order, NIC_B, client(n), cid) == Some(here)));
        }
        *shares.entry(here).or_insert(0usize) += 1;
    }
    assert_eq!(shares.keys().copied().collect::<Vec<_>>(), [2, 3, 4]);
    assert!(shares.values().all(|&share| share.abs_diff(5000) < 250), "{shares:?}");
}

#[test]
fn rx_packet_too_short_for_a_header_goes_to_lane_0() {
    let order = order(&[3, 1, 4, 0, 2]);
    let program = rx(&steering(), &order).unwrap();
    for length in 0..28 {
        let packet = Packet { payload: vec![0xff; length], ifindex: NIC_B, ..Packet::default() };
        assert_eq!(lane(&order, program.run(&packet)), Some(0));
    }
}

#[test]
fn rx_lane_that_is_gone_is_stood_in_for_within_its_silo_and_others_keep_their_connections() {
    let whole = order(&[0, 1, 2, 3, 4]);
    let damaged = order(&[0, 1, 4, 3]);
    for n in 0..500u32 {
        for nic in [NIC_A, NIC_B, NIC_SHARED] {
            let [before, after] = [&whole, &damaged].map(|order| rx_lane(order, nic, client(n), 4).unwrap());
            if before == 2 {
                assert!([3, 4].contains(&after));
            } else {
                assert_eq!(before, after);
            }
        }
    }
}

#[test]
fn rx_silo_without_lanes_is_served_by_the_other() {
    let order = order(&[4, 3, 2]);
    for n in 0..500u32 {
        let served = rx_lane(&order, NIC_A, client(n), 4).unwrap();
        assert!(served >= 2);
        let among_all = silo_lane(client(n), &(0..5), 5);
        assert!(among_all < 2 || served == among_all, "a living lane still gets its own");
    }
}

#[test]
fn table_of_any_permutation_is_looked_up_right_at_the_largest_size() {
    use rand::prelude::*;
    let steering = Steering::single_silo(LANES_MAX).unwrap();
    let mut rng = rand::rngs::StdRng::seed_from_u64(11);
    for round in 0..50 {
        let mut lanes: Vec<usize> = (0..LANES_MAX).collect();
        match round {
            0 => lanes.reverse(),
            1 => lanes.rotate_left(100),
            2 => lanes.chunks_mut(2).for_each(|pair| pair.reverse()),
            // Pairs that stay together: the longest programs.
            3 => lanes.rotate_left(2),
            round => {
                let mut pairs: Vec<Vec<usize>> = lanes.chunks(1 + round % 4).map(<[usize]>::to_vec).collect();
                pairs.shuffle(&mut rng);
                lanes = pairs.concat();
            }
        }
        let order = order(&lanes);
        let program = rx(&steering, &order).unwrap();
        for cid in 0..LANES_MAX as u32 {
            let payload = rx_payload(OF_SERVER, 0, cid << 2);
            let position = program.run(&Packet { payload, ..Packet::default() });
            assert_eq!(lane(&order, position), Some(cid as usize));
        }
    }
}

#[test]
fn hundreds_of_interfaces_are_told_apart() {
    let silos = vec![
        SteeredSilo { ifindexes: (100..500).collect(), lanes: 0..1 },
        SteeredSilo { ifindexes: (500..900).collect(), lanes: 1..2 },
    ];
    let program = tcp(&Steering::new(silos).unwrap(), &order(&[1, 0])).unwrap();
    let run = |ifindex| program.run(&Packet { ifindex, ..Packet::default() });
    assert_eq!((run(100), run(499), run(500), run(899), run(99)), (1, 1, 0, 0, HASH));
}

#[test]
fn programs_read_as_meant() {
    let whole = order(&[0, 1, 2, 3, 4]);
    insta::assert_snapshot!("tcp_two_silos", tcp(&steering(), &whole).unwrap());
    insta::assert_snapshot!("rx_two_silos", rx(&steering(), &whole).unwrap());
    insta::assert_snapshot!("rx_two_silos_without_lane_1", rx(&steering(), &order(&[0, 4, 2, 3])).unwrap());
    let single = Steering::single_silo(4).unwrap();
    insta::assert_snapshot!("tcp_one_silo", tcp(&single, &order(&[0, 1, 2, 3])).unwrap());
    insta::assert_snapshot!("rx_one_silo", rx(&single, &order(&[0, 1, 2, 3])).unwrap());
}
