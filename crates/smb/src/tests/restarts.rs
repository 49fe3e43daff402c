//! Clients of one to eight channels over a network that loses packets and cuts single channels, while their
//! server ends in order and begins again: they have their durable opens again, no write is lost or comes
//! late, no lock is taken twice, and a request that waits for a lease to be given back does not wait for
//! longer than its time.

mod client;
mod site;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Host, seeds};
use lane::time::{now, sleep, timeout};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use smb_client::{Channel, Connection, Open, OpenParams, Options as ClientOptions, Tree};

use self::client::{Tally, client, options};
use self::site::{Site, address};
use super::bed::{PASSWORD, credentials};

/// Opens the clients' files to read them, which takes the lease to write from its holder: no longer than that
/// has time for.
async fn visits(server: SocketAddr, options: ClientOptions, clients: usize, is_over: Rc<Cell<bool>>) {
    let mut number = 0;
    while !is_over.get() {
        sleep(Duration::from_millis(700)).await;
        number += 1;
        let name = format!("file-{}", number % clients);
        let began = now();
        let visit = async {
            let connection = Connection::open(server, options.clone()).await?;
            let channel = Channel::sign_in(&connection, credentials("bob", PASSWORD)).await?;
            let tree = Tree::connect(&channel, r"\\10.0.0.1\files").await?;
            Open::create(&tree, &name, &OpenParams::read()).await?.close(0).await?;
            channel.log_off().await
        };
        let visited = timeout(Duration::from_secs(60), visit).await;
        let took = now() - began;
        assert!(visited.is_ok() && took < Duration::from_secs(50), "{name}: {took:?}");
    }
}

/// A history with one restart or two.
fn history(seed: u64, tally: &Rc<Tally>) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut site = Site::new(seed, rng.random_range(1..4));
    let hosts: Vec<Host> = (2..6).map(|last| site.world.host(&format!("10.0.0.{last}"))).collect();
    site.begins();
    let clients: Vec<_> =
        (0..rng.random_range(1..3)).map(|number| client(&site, number, &hosts, &mut rng, tally)).collect();
    for client in &clients {
        // It does not matter whose tasks they are: what is of a machine is done there.
        let home = &hosts[client.number];
        (0..BLOCKS).for_each(|block| home.spawn(Rc::clone(client).writes(block)));
        home.spawn(Rc::clone(client).locks());
        home.spawn(Rc::clone(client).lives());
    }
    let visitor = site.world.host("10.0.0.9");
    let is_over = Rc::<Cell<bool>>::default();
    visitor.spawn(visits(address(0), options(99), clients.len(), Rc::clone(&is_over)));
    for _ in 0..rng.random_range(1..3) {
        for _ in 0..rng.random_range(4..12) {
            trouble(&site, &hosts, &mut rng);
        }
        site.ends();
        site.world.run_for(Duration::from_millis(rng.random_range(0..500)));
        site.begins();
        tally.count("restarted");
    }
    for _ in 0..rng.random_range(0..8) {
        trouble(&site, &hosts, &mut rng);
    }
    hosts.iter().for_each(|host| site.world.net().heal(host, &site.host));
    let began = site.world.now();
    while clients.iter().any(|client| Rc::strong_count(client) > 1) {
        site.world.run_for(Duration::from_millis(100));
        assert!(site.world.now() - began < Duration::from_secs(900), "all end");
    }
    is_over.set(true);
    // What may still be on its way comes now, and is too late.
    site.world.run_for(Duration::from_secs(70));
    for client in &clients {
        let bytes = site.host.fs().read(&format!("/srv/{}", client.name())).unwrap();
        assert!(
            bytes.len() == BLOCKS * BLOCK && bytes.iter().all(|byte| *byte == VERSIONS),
            "{}",
            client.name()
        );
    }
    drop(clients);
    site.ends();
}

/// A machine of the clients' is cut off for a while, or loses its connections.
fn trouble(site: &Site, hosts: &[Host], rng: &mut SmallRng) {
    let (net, host) = (site.world.net(), &hosts[rng.random_range(0..hosts.len())]);
    if rng.random_bool(0.4) {
        net.reset_connections(host, &site.host);
    } else {
        net.partition(host, &site.host);
        site.world.run_for(Duration::from_millis(rng.random_range(0..2500)));
        net.heal(host, &site.host);
    }
    site.world.run_for(Duration::from_millis(rng.random_range(0..300)));
}

#[test]
fn clients_of_several_channels_lose_nothing_over_a_bad_network_and_restarts() {
    let tally = Rc::<Tally>::default();
    let counted = Rc::clone(&tally);
    seeds(SEEDS, move |seed| {
        history(seed, &counted);
        counted.count("seeds");
    });
    let tally = tally.0.borrow();
    if tally.get("seeds").is_some_and(|seeds| *seeds >= SEEDS) {
        for what in ["restarted", "had again", "replayed", "broken", "locked"] {
            assert!(tally.get(what).is_some_and(|count| *count >= SEEDS / 2), "{what}: {tally:?}");
        }
    }
}

const BLOCK: usize = 512;
const BLOCKS: usize = 4;
const VERSIONS: u8 = 16;
/// Seeds of a plain run.
const SEEDS: u64 = 12;
