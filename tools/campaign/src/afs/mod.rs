//! RXAFS: a file server with few hosts, packets and promises and a small disk, and clients that do what they like.

mod client;
mod requests;
mod server;

use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, World};

use self::client::Clients;
use self::server::Server;
use crate::decisions::Decisions;
use crate::notes::Notes;
use crate::rest::{Before, config_of};

/// Runs one case.
pub fn run(input: &[u8], notes: &Notes) {
    let mut decisions = Decisions::new(input);
    let (seed, disk, link) = (decisions.byte(), decisions.byte(), decisions.byte());
    let (mut config, fails) = config_of(disk);
    if link & 7 == 7 {
        config.net = Config::rough().net;
    }
    let world = World::new(seed.into(), config);
    world.measure_turns();
    let (host, clients) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    let server = Rc::new(Server::start(&world, &host));
    world.run_for(Duration::from_secs(5));
    let before = Before::of(&server);
    let rest = input[input.len() - decisions.left()..].to_vec();
    let (noted, net, watched, here) = (notes.clone(), world.net(), server, clients.clone());
    world.block_on(&clients, async move {
        let mut clients = Clients::new(noted, net, watched, here);
        clients.play(&mut Decisions::new(&rest)).await;
        clients.leave().await;
    });
    // Half of them end as processes that are killed; the others are there, and answer.
    if input.len().is_multiple_of(2) {
        clients.kill();
    }
    // Locks live five minutes, promises 30 s and what clocks may differ by, connections until they are reaped.
    before.compare(world, (60, Duration::from_secs(400)), fails, notes);
}
