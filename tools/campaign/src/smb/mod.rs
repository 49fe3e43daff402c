//! SMB: a server with small limits and a small disk, and a client with several connections and sessions of it.

mod client;
mod requests;
mod server;

use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::World;

use self::client::Client;
use self::server::Server;
use crate::decisions::Decisions;
use crate::notes::Notes;
use crate::rest::{Before, config_of};

/// Runs one case.
pub fn run(input: &[u8], notes: &Notes) {
    let mut decisions = Decisions::new(input);
    let how = server::How::decide(&mut decisions);
    let (config, fails) = config_of(how.disk);
    let world = World::new(u64::from(how.seed), config);
    world.measure_turns();
    let (host, clients) = (world.host("10.0.0.1"), world.host("10.0.0.2"));
    let server = Rc::new(Server::start(&world, &host, &clients, &how));
    world.run_for(Duration::from_secs(5));
    let before = Before::of(&server);
    let (noted, net, watched) = (notes.clone(), world.net(), server);
    // What is left to decide outlives this call nowhere, and the task may not borrow it.
    let rest = input[input.len() - decisions.left()..].to_vec();
    world.block_on(&clients, async move {
        let mut client = Client::new(noted, net, watched);
        client.play(&mut Decisions::new(&rest)).await;
    });
    // A durable open stays for as long as it asks for, five minutes at most; what a lane caches goes after that.
    before.compare(world, (40, Duration::from_secs(340)), fails, notes);
}
