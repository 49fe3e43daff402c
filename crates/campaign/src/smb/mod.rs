//! SMB: a server with small limits and a small disk, and a client with several connections and sessions of it.

mod client;
mod requests;
mod server;

use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, World};
use lane::memory::Taken;

use self::client::Client;
use self::server::Server;
use crate::case::{Notes, is_at_rest};
use crate::decisions::Decisions;

/// Runs one case.
pub fn run(input: &[u8], notes: &Notes) {
    let mut decisions = Decisions::new(input);
    let how = server::How::decide(&mut decisions);
    let mut config = Config::clean();
    config.fs.capacity_bytes = 4 << 20;
    config.fs.capacity_inodes = 500;
    if how.is_slow {
        config.fs = lane::backend::sim::FsConfig {
            capacity_bytes: 4 << 20,
            capacity_inodes: 500,
            ..Config::default().fs
        };
    }
    if how.fails {
        config.fs.write_error = 0.02;
        config.fs.read_error = 0.02;
        config.fs.change_error = 0.02;
        config.fs.name_error = 0.01;
        config.fs.sync_error = 0.02;
    }
    let world = World::new(u64::from(how.seed), config);
    world.measure_turns();
    let (host, clients) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    let server = Rc::new(Server::start(&world, &host, &clients, &how));
    world.run_for(Duration::from_secs(5));
    let before = server.held();
    let heap = Taken::here().now;
    let (noted, net, watched) = (notes.clone(), world.net(), Rc::clone(&server));
    // What is left to decide outlives this call nowhere, and the task may not borrow it.
    let rest = input[input.len() - decisions.left()..].to_vec();
    world.block_on(&clients, async move {
        let mut client = Client::new(noted, net, watched);
        client.play(&mut Decisions::new(&rest)).await;
    });
    // A durable open stays for as long as it asks for, five minutes at most; what a lane caches goes after that.
    for _ in 0..40 {
        world.run_for(Duration::from_secs(20));
        server.flush_index();
        if world.now() > Duration::from_secs(340) && is_at_rest(&before, &server.held()) {
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
    if !how.fails {
        errors.into_iter().for_each(|error| notes.finding(format!("logged: {error}")));
    }
    drop(server);
    let remains = world.end();
    if remains != lane::backend::sim::Remains::default() {
        notes.finding(format!("world: {remains:?}"));
    }
}
