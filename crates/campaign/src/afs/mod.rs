//! RXAFS: a file server with few hosts, packets and promises and a small disk, and clients that do what they like.

mod client;
mod requests;
mod server;

use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, FsConfig, Remains, World};
use lane::memory::Taken;

use self::client::Clients;
use self::server::Server;
use crate::case::{Notes, is_at_rest};
use crate::decisions::Decisions;

/// Runs one case.
pub fn run(input: &[u8], notes: &Notes) {
    let mut decisions = Decisions::new(input);
    let (seed, disk, link) = (decisions.byte(), decisions.byte(), decisions.byte());
    let mut config = Config::clean();
    if disk & 3 == 3 {
        config.fs = Config::default().fs;
    }
    config.fs = FsConfig { capacity_bytes: 4 << 20, capacity_inodes: 500, ..config.fs };
    let fails = disk & 0x1c == 0x1c;
    if fails {
        config.fs.write_error = 0.02;
        config.fs.read_error = 0.02;
        config.fs.change_error = 0.02;
        config.fs.name_error = 0.01;
        config.fs.sync_error = 0.02;
    }
    if link & 7 == 7 {
        config.net = Config::rough().net;
    }
    let world = World::new(seed.into(), config);
    world.measure_turns();
    let (host, clients) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    let server = Rc::new(Server::start(&world, &host));
    world.run_for(Duration::from_secs(5));
    let before = server.held();
    let heap = Taken::here().now;
    let rest = input[input.len() - decisions.left()..].to_vec();
    let (noted, net, watched, here) = (notes.clone(), world.net(), Rc::clone(&server), clients.clone());
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
    for _ in 0..60 {
        world.run_for(Duration::from_secs(20));
        server.flush_index();
        if world.now() > Duration::from_secs(400) && is_at_rest(&before, &server.held()) {
            break;
        }
    }
    let after = server.held();
    if !is_at_rest(&before, &after) {
        let more = after.iter().filter(|(name, now)| before.get(*name) != Some(*now));
        let more: Vec<_> =
            more.map(|(name, now)| format!("{name} {now} (was {:?})", before.get(name))).collect();
        notes.finding(format!("held: {}", more.join(", ")));
    }
    let unnamed = host.fs().unnamed();
    if unnamed.pages > 0 || unnamed.inodes > 0 {
        notes.finding(format!("disk: {unnamed:?} that no name leads to"));
    }
    server.note_counters(notes);
    notes.with(|seen| {
        seen.longest_turn = host.longest_turn();
        seen.heap_at_rest = Taken::here().now - heap;
    });
    let errors = crate::log::take_errors();
    if !fails {
        errors.into_iter().for_each(|error| notes.finding(format!("logged: {error}")));
    }
    drop(server);
    let remains = world.end();
    if remains != Remains::default() {
        notes.finding(format!("world: {remains:?}"));
    }
}
