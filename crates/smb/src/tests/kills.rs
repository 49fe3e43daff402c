//! A client whose channels die while it works: it sees nothing of that, and each of its requests is done once.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lane::backend::sim::seeds;
use lane::buffer::Buf;
use lane::time::sleep;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use smb_client::{
    Channel, Channels, Connection, Handle, OpenParams, Options as ClientOptions, Sealing, Signing, Tree,
};
use smb_wire::body::query_info::info_type;
use smb_wire::create::Disposition;
use smb_wire::fsctl::code;
use smb_wire::info::file::class;

use super::bed::{Other, rules, run_in, sign_in, until};

/// A client of several channels.
struct Client {
    channels: Channels,
    options: ClientOptions,
    servers: Vec<SocketAddr>,
    is_over: Cell<bool>,
}

impl Client {
    async fn bind(&self, tree: &Tree, server: SocketAddr) -> Tree {
        let connection = Connection::open(server, self.options.clone()).await.unwrap();
        tree.over(&Channel::bind(&connection, &tree.channel().ticket()).await.unwrap())
    }

    /// Kills one channel after another, and binds another for each.
    async fn kills(self: Rc<Self>, first: Tree, count: usize, seed: u64) -> u64 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut trees = vec![first];
        for at in 1..count {
            trees.push(self.bind(&trees[0], self.servers[at % self.servers.len()]).await);
            self.channels.add(trees[at].clone());
        }
        let mut kills = 0;
        while !self.is_over.get() {
            sleep(Duration::from_micros(rng.random_range(0..6_000))).await;
            let gone = trees.swap_remove(rng.random_range(0..trees.len()));
            self.channels.kill(gone.channel());
            drop(gone);
            kills += 1;
            let server = self.servers[rng.random_range(0..self.servers.len())];
            let tree = self.bind(&trees[0], server).await;
            self.channels.add(tree.clone());
            trees.push(tree);
        }
        kills
    }

    /// Writes each block again and again; the last version stays.
    async fn writes(self: Rc<Self>, file: Handle, block: usize) {
        for version in 1..=VERSIONS {
            let bytes = || vec![Buf::from(vec![version; BLOCK])];
            let offset = (block * BLOCK) as u64;
            let (written, _) = file.write(offset, bytes(), bytes).await;
            assert_eq!(written.unwrap() as usize, BLOCK);
            let read = file.read(offset, BLOCK as u32).await.unwrap();
            assert!(read.len() == BLOCK && read.iter().all(|byte| *byte == version), "block {block}");
        }
    }

    /// Makes files that there must not be yet, cuts them, and removes them: nothing of it can be done twice.
    async fn makes(self: Rc<Self>, number: usize) {
        let how = OpenParams { disposition: Disposition::Create, ..OpenParams::overwrite() };
        for round in 0..ROUNDS {
            let name = format!("made-{number}-{round}");
            let file = Handle::create(&self.channels, &name, &how).await.unwrap();
            let zero = vec![Buf::from(vec![1; 4096])];
            assert_eq!(file.write(0, zero, || vec![Buf::from(vec![1; 4096])]).await.0.unwrap(), 4096);
            let length = 1000_u64.to_le_bytes();
            file.set(info_type::FILE, class::END_OF_FILE, 0, &length).await.unwrap();
            file.control(code::SET_SPARSE, &[1], 0).await.unwrap();
            let read = file.read(0, 4096).await.unwrap();
            assert_eq!(read[..], [1; 1000]);
            file.close().await.unwrap();
            self.channels.remove(&name).await.unwrap();
        }
    }
}

#[test]
fn each_request_is_done_once_while_one_channel_after_another_is_killed() {
    let (kills, replays) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    seeds(20, |seed| {
        let (kills, replays) = (Arc::clone(&kills), Arc::clone(&replays));
        run_in(seed, rules(), async move |bed, world, _| {
            let mut servers = vec![bed.address];
            for _ in 0..seed % 3 {
                let Other { address, .. } = bed.add_lane().await;
                servers.push(address);
            }
            let mut options = bed.client();
            match seed % 4 {
                0 => options.signing = Signing::Required,
                1 => options.sealing = Sealing::Required,
                _ => {}
            }
            let count = 2 + seed as usize % 4;
            let (killed, replayed) = world
                .on(0, async move {
                    let first = sign_in(servers[0], options.clone()).await.unwrap();
                    let channels = Channels::new(first.clone(), Some(Duration::from_secs(5)));
                    let client = Rc::new(Client { channels, options, servers, is_over: Cell::new(false) });
                    let trouble = lane::spawn(Rc::clone(&client).kills(first, count, seed));
                    let file =
                        Handle::create(&client.channels, "blocks", &OpenParams::overwrite()).await.unwrap();
                    let mut work: Vec<_> = (0..BLOCKS)
                        .map(|block| lane::spawn(Rc::clone(&client).writes(file.clone(), block)))
                        .collect();
                    work.extend((0..3).map(|number| lane::spawn(Rc::clone(&client).makes(number))));
                    for one in work {
                        one.await;
                    }
                    client.is_over.set(true);
                    let killed = trouble.await;
                    assert_eq!((client.channels.count(), client.channels.lost()), (count, killed));
                    assert_eq!(client.channels.refused(), 0);
                    file.close().await.unwrap();
                    client.channels.log_off().await.unwrap();
                    (killed, client.channels.replays())
                })
                .await;
            kills.fetch_add(killed, Ordering::Relaxed);
            replays.fetch_add(replayed, Ordering::Relaxed);
            let bytes = bed.fs.read("/srv/blocks").unwrap();
            assert!(
                bytes.len() == BLOCKS * BLOCK && bytes.iter().all(|byte| *byte == VERSIONS),
                "seed {seed}"
            );
            for number in 0..3 {
                let name = format!("/srv/made-{number}-0");
                assert!(bed.fs.read(&name).is_err(), "{name} is left, seed {seed}");
            }
            let lane = Rc::clone(&bed);
            until("all connections have gone", || lane.lane.connections().is_empty()).await;
            until("no session is left", || bed.server_state.sessions.len() == 0).await;
        });
    });
    let (kills, replays) = (kills.load(Ordering::Relaxed), replays.load(Ordering::Relaxed));
    assert!(kills > 60 && replays > 60, "{kills} kills, {replays} replays");
}

#[test]
fn requests_wait_for_a_channel_where_none_is_left_and_no_longer_than_said() {
    run_in(71, rules(), async move |bed, world, _| {
        let (address, options) = (bed.address, bed.client());
        world
            .on(0, async move {
                let first = sign_in(address, options.clone()).await.unwrap();
                let other = Connection::open(address, options.clone()).await.unwrap();
                let elsewhere = first.over(&Channel::bind(&other, &first.channel().ticket()).await.unwrap());
                let channels = Channels::new(first.clone(), Some(Duration::from_secs(2)));
                let file = Handle::create(&channels, "kept", &OpenParams::overwrite()).await.unwrap();
                channels.kill(first.channel());
                assert_eq!(channels.count(), 0);
                let reading = {
                    let file = file.clone();
                    lane::spawn(async move { file.read(0, 10).await.map(|data| data.len()) })
                };
                sleep(Duration::from_secs(1)).await;
                channels.add(elsewhere.clone());
                assert_eq!(reading.await.unwrap(), 0, "it is empty");
                channels.kill(elsewhere.channel());
                let began = lane::time::now();
                assert!(file.read(0, 10).await.is_err());
                assert_eq!((lane::time::now() - began).as_secs(), 2);
            })
            .await;
    });
}

const BLOCK: usize = 3000;
const BLOCKS: usize = 6;
const VERSIONS: u8 = 10;
const ROUNDS: usize = 6;
