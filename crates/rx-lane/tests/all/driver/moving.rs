//! Clients whose packets come by any NIC of a server with two silos, in a seeded world.
//!
//! The first lane that takes a connection up serves it, and every other one hands its packets over.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lane::backend::UdpOptions;
use lane::backend::sim::{Config, Host, World, seeds};
use lane::net::UdpSocket;
use lane::socket::reuseport::{SteeredSilo, Steering, owner_lane, silo_lane};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rx::Route;
use rx_lane::{Anonymous, Driver, DriverConfig, LaneGroupLink, RxCounters};

use super::{SERVICE, echo, pattern};

const PORT: u16 = 7000;
const SILOS: [Range<usize>; 2] = [0..2, 2..4];
const CLIENTS: usize = 3;
const CONNECTIONS: usize = 4;
const CALLS: usize = 4;
/// Type of VERSION packets.
const VERSION: u8 = 13;

fn config() -> DriverConfig {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 2048;
    config.socket = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    config
}

fn steering() -> Steering {
    let silo = |n: usize| SteeredSilo { ifindexes: vec![n as u32 + 1], lanes: SILOS[n].clone() };
    Steering::new(vec![silo(0), silo(1)]).unwrap()
}

/// NIC by which each client's packets come.
struct Paths {
    rng: StdRng,
    nics: HashMap<(u32, u32), usize>,
    changes: Changes,
    seen: usize,
}

#[derive(Clone, Copy)]
struct Changes {
    /// Probability that a client comes by the other NIC from its next packet on.
    move_rate: f64,
    /// Packets of clients after which the second node's lanes get nothing more.
    drained_after: usize,
}

const NO_CHANGES: Changes = Changes { move_rate: 0.0, drained_after: usize::MAX };

impl Paths {
    /// Returns the lane that the kernel's selector would choose.
    fn lane(&mut self, from: SocketAddr, datagram: &[u8]) -> Option<usize> {
        let route = Route::of(datagram)?;
        if !route.from_client && datagram[20] != VERSION {
            return Some(owner_lane(route.epoch, route.cid, 4));
        }
        let nic = self.nics.entry((route.epoch, route.cid)).or_insert_with(|| self.rng.random_range(0..2));
        if self.rng.random_bool(self.changes.move_rate) {
            *nic ^= 1;
        }
        self.seen += 1;
        let silo = if self.seen > self.changes.drained_after { 0 } else { *nic };
        Some(silo_lane(from, &SILOS[silo], 4))
    }
}

/// Starts four lanes on one address, and returns their counters.
fn serve(world: &World, server: &Host, changes: Changes) -> Vec<Arc<RxCounters>> {
    let rng = StdRng::seed_from_u64(world.seed());
    let mut paths = Paths { rng, nics: HashMap::new(), changes, seen: 0 };
    world.net().steer_udp(server, PORT, move |packet| paths.lane(packet.from, packet.payload));
    let counters = Rc::new(RefCell::new(Vec::new()));
    for _ in 1..SILOS[1].end {
        server.add_lane();
    }
    for links in LaneGroupLink::over(&steering(), 64) {
        let (report, lane) = (Rc::clone(&counters), links.lane());
        server.spawn_on(lane, async move {
            let config = config();
            let socket = UdpSocket::bind(([10, 0, 0, 1], PORT).into(), &config.socket).unwrap();
            let driver = Driver::start_seeded(socket, links, config, [lane as u8; 32]);
            driver.serve(SERVICE, echo);
            report.borrow_mut().push(driver.counters());
        });
        // Sockets join the group in the order of the lanes.
        world.run_for(Duration::from_millis(1));
    }
    counters.take()
}

/// Makes clients call with random sizes at the same time, and compares the replies.
fn call_from_everywhere(world: &World) {
    call_from(world, 1);
}

/// Calls from many addresses ([`call_from_everywhere`]), on hosts of a network of their own.
fn call_from(world: &World, net: u8) {
    let driver = world.host(&format!("10.0.{net}.0"));
    let hosts: Vec<Host> = (1..=CLIENTS).map(|n| world.host(&format!("10.0.{net}.{n}"))).collect();
    let tasks: Vec<_> = hosts
        .iter()
        .enumerate()
        .map(|(n, host)| {
            let seed = world.seed() * 100 + u64::from(net) * 10 + n as u64;
            let ip = [10, 0, net, n as u8 + 1];
            host.start_on(0, async move { make_calls(ip, seed).await })
        })
        .collect();
    world.block_on(&driver, async move {
        for task in tasks {
            task.await;
        }
    });
}

async fn make_calls(ip: [u8; 4], seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut config = config();
    config.socket.reuse_port = false;
    let socket = UdpSocket::bind((ip, 7001).into(), &config.socket).unwrap();
    let client = Driver::start_seeded(socket, LaneGroupLink::alone(), config, rng.random());
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let connection = client.connect(([10, 0, 0, 1], PORT).into(), SERVICE, &Anonymous).unwrap();
            let mut rng = StdRng::seed_from_u64(rng.random());
            lane::spawn(async move {
                for _ in 0..CALLS {
                    let request = pattern(rng.random_range(0..60_000) >> rng.random_range(0..12));
                    let mut call = connection.call().await.unwrap();
                    call.write(&request).await.unwrap();
                    call.finish().await.unwrap();
                    assert!(call.read_to_end(request.len()).await.unwrap() == request);
                }
                connection
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
}

fn sum(lanes: &[Arc<RxCounters>], of: fn(&RxCounters) -> u64) -> u64 {
    lanes.iter().map(|lane| of(lane)).sum()
}

#[test]
fn connection_that_moves_between_nics_is_served_by_one_lane_and_loses_nothing() {
    seeds(40, |seed| {
        let mut world = Config::default();
        if seed % 2 == 1 {
            world.net.link.loss = 0.02;
            world.net.link.duplicate = 0.02;
            world.net.link.reorder = 0.05;
        }
        let lossless = world.net.link.loss == 0.0;
        let world = World::new(seed, world);
        let server = world.host("10.0.0.1");
        // From clients that settle down to such whose every packet may come by another NIC.
        let move_rate = [0.01, 0.2, 0.5][seed as usize % 3];
        let lanes = serve(&world, &server, Changes { move_rate, ..NO_CHANGES });
        call_from_everywhere(&world);
        // A client that has gone leaves a reply unacknowledged if its last ACK was lost.
        world.run_for(Duration::from_secs(30));
        let (connections, calls) = ((CLIENTS * CONNECTIONS) as u64, (CLIENTS * CONNECTIONS * CALLS) as u64);
        assert_eq!(sum(&lanes, |lane| lane.connections_made.get()), connections, "one owner for each");
        assert_eq!(sum(&lanes, |lane| lane.connections.get()), connections);
        assert_eq!(sum(&lanes, |lane| lane.calls_accepted.get()), calls, "each call is run once");
        assert!(!lossless || sum(&lanes, |lane| lane.calls_finished.get()) == calls);
        let handed = |lane: &RxCounters| lane.handed_over.get() + lane.handed_across.get();
        assert_eq!(sum(&lanes, handed), sum(&lanes, |lane| lane.handed_in.get()));
        assert_eq!(sum(&lanes, |lane| lane.handover_full.get() + lane.handover_lost.get()), 0);
        assert!(move_rate < 0.1 || sum(&lanes, |lane| lane.handed_across.get()) > 0);
        assert_eq!(
            sum(&lanes, |lane| lane.unknown_calls.get()),
            0,
            "no packet came to a lane that knew nothing"
        );
        assert!(!lossless || sum(&lanes, |lane| lane.timeouts.get()) == 0, "a handover is no loss");
        assert_eq!(sum(&lanes, |lane| lane.packets_in_use.get()), 0);
    });
}

#[test]
fn connections_of_a_drained_node_stay_with_its_lanes_and_new_ones_begin_elsewhere() {
    seeds(20, |seed| {
        let world = World::new(seed, Config::default());
        let server = world.host("10.0.0.1");
        let lanes = serve(&world, &server, Changes { drained_after: 40, ..NO_CHANGES });
        call_from_everywhere(&world);
        let calls = (CLIENTS * CONNECTIONS * CALLS) as u64;
        assert_eq!(sum(&lanes, |lane| lane.calls_accepted.get()), calls, "each call is run once");
        let before = [&lanes[..2], &lanes[2..]].map(|silo| sum(silo, |lane| lane.connections_made.get()));
        assert_eq!(before[0] + before[1], (CLIENTS * CONNECTIONS) as u64, "one owner for each");
        let across = sum(&lanes[..2], |lane| lane.handed_across.get());
        assert_eq!(
            across > 0,
            before[1] > 0,
            "what the drained lanes own comes to them by way of the others"
        );
        call_from(&world, 2);
        let after = [&lanes[..2], &lanes[2..]].map(|silo| sum(silo, |lane| lane.connections_made.get()));
        assert_eq!(after, [before[0] + (CLIENTS * CONNECTIONS) as u64, before[1]]);
    });
}

/// Empties a socket's full queue (the device's, say) without a packet or a timer that tells of it.
#[test]
fn bursts_that_the_socket_refused_go_out_as_soon_as_it_takes_again() {
    seeds(20, |seed| {
        let mut config = Config::default();
        config.net.udp.would_block = 0.5;
        let world = World::new(seed, config);
        let server = world.host("10.0.0.1");
        let lanes = serve(&world, &server, NO_CHANGES);
        call_from_everywhere(&world);
        assert!(world.now() < Duration::from_millis(500), "no retransmission timeout was waited for");
        assert!(sum(&lanes, |lane| lane.send_blocked.get()) > 0);
    });
}

#[test]
fn connections_that_stay_with_their_nic_are_never_handed_to_the_other_silo() {
    seeds(10, |seed| {
        let world = World::new(seed, Config::default());
        let server = world.host("10.0.0.1");
        let lanes = serve(&world, &server, NO_CHANGES);
        call_from_everywhere(&world);
        assert_eq!(sum(&lanes, |lane| lane.connections_made.get()), (CLIENTS * CONNECTIONS) as u64);
        assert_eq!(sum(&lanes, |lane| lane.handed_across.get()), 0);
    });
}
