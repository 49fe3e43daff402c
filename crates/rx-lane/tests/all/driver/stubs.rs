//! Tests of generated servers and clients over simulated lanes, on paths that lose packets.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, World, seeds};
use lane::net::UdpSocket;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rx_lane::{Anonymous, Driver, DriverConfig, LaneGroupLink};

use super::shelf::{SERVICE, Shelf, scenario, serve};

const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 7000);

fn start(at: ([u8; 4], u16), seed: u64) -> Driver {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 4096;
    let socket = UdpSocket::bind(at.into(), &config.socket).unwrap();
    Driver::start_seeded(socket, LaneGroupLink::alone(), config, StdRng::seed_from_u64(seed).random())
}

#[test]
fn generated_server_and_client_speak_over_paths_that_lose_packets() {
    seeds(12, |seed| {
        let mut config = Config::default();
        if seed % 2 == 1 {
            config.net.link.loss = 0.03;
            config.net.link.reorder = 0.05;
        }
        let world = World::new(seed, config);
        let (server, client) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
        let shelf = Rc::new(Shelf::default());
        let serves = Rc::clone(&shelf);
        server.spawn(async move {
            serve(&start(SERVER, seed), serves);
        });
        world.run_for(Duration::from_millis(1));
        let done = Rc::new(Cell::new(false));
        let tell = Rc::clone(&done);
        client.spawn(async move {
            let driver = start(([10, 0, 0, 2], 7001), seed + 1000);
            let connection = driver.connect(SERVER.into(), SERVICE, &Anonymous).expect("room");
            scenario(connection, seed).await;
            tell.set(true);
        });
        world.run_for(Duration::from_secs(120));
        assert!(done.get(), "seed {seed}");
        let tally = &shelf.tally;
        assert_eq!((tally.of(0).replied, tally.of(0).refused), (1, 1));
        assert_eq!((tally.of(5).replied, tally.of(5).refused, tally.of(5).faults), (2, 1, 1));
        assert_eq!((tally.of(4).replied, tally.unknown_opcodes(), tally.of(7).faults), (2, 1, 1));
        assert!(tally.of(4).took_us_max > 0);
    });
}
