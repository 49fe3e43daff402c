//! Faults of a client of many channels: hundreds of connections at once, and channels that are cut, reset and
//! partitioned while it writes. It does as MS-SMB2 3.2.4.1.1 has it: what was not answered is replayed by
//! another channel, under a sequence that tells it from what comes late.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lane::backend::sim::{Host, seeds};
use lane::time::{now, sleep, timeout};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use smb_client::{
    Channel, Connection, Open, OpenParams, Options as ClientOptions, OutgoingRequest, Sealing, SessionTicket,
    Signing, Tree,
};
use smb_wire::body::write::WriteRequestFixed;
use smb_wire::fixed::Fixed;
use smb_wire::header::{HEADER_LEN, flags};
use smb_wire::{Command, FileId, Status};

use super::bed::{Other, rules, run_in, sign_in};

/// A client whose connections come and go.
struct Several {
    ticket: SessionTicket,
    options: ClientOptions,
    servers: Vec<std::net::SocketAddr>,
    hosts: Vec<Host>,
    /// With the hosts that they are on; the first is never cut.
    trees: RefCell<Vec<(usize, Tree)>>,
    /// Channels that did not answer: they are there still.
    given_up: RefCell<Vec<(usize, Tree)>>,
    file: FileId,
    rng: RefCell<StdRng>,
    replays: Cell<u32>,
    is_over: Cell<bool>,
}

impl Several {
    fn draw(&self, below: usize) -> usize {
        self.rng.borrow_mut().random_range(0..below)
    }

    /// Binds one more channel, if its host gets through.
    async fn bind(&self, host: usize) {
        let (ticket, options) = (self.ticket.clone(), self.options.clone());
        let (address, anchor) =
            (self.servers[self.draw(self.servers.len())], self.trees.borrow()[0].1.clone());
        let binding = self.hosts[host].start_on(0, async move {
            let connection = Connection::open(address, options).await.ok()?;
            let bound = timeout(Duration::from_secs(2), Channel::bind(&connection, &ticket)).await;
            let channel = bound.ok().and_then(Result::ok);
            if channel.is_none() {
                connection.break_off();
            }
            Some(anchor.over(&channel?))
        });
        if let Some(tree) = binding.await {
            self.trees.borrow_mut().push((host, tree));
        }
    }

    /// Writes a block until it is acknowledged.
    async fn write(&self, block: usize, version: u8) {
        let mut is_replay = false;
        loop {
            let at = self.draw(self.trees.borrow().len());
            let (host, tree) = self.trees.borrow()[at].clone();
            let (given_up, ask) = (tree.clone(), ask(self.file, block, version, is_replay));
            let asked = self.hosts[host].start_on(0, async move {
                match timeout(Duration::from_secs(1), tree.exchange(ask)).await {
                    Ok(Ok(reply)) => reply.body().map(drop).map_err(|error| error.status()),
                    Ok(Err(error)) => Err(error.status()),
                    // Its connection stays: what waits in it comes late, when its way is mended.
                    Err(_) => Err(None),
                }
            });
            match asked.await {
                Ok(()) => return,
                // What it repeats is not over yet, or the sequence has moved on meanwhile.
                Err(Some(Status::FILE_NOT_AVAILABLE)) => sleep(Duration::from_millis(3)).await,
                Err(Some(status)) => panic!("block {block}: {status:?}"),
                // The channel is lost: what is sent from now on says so.
                Err(None) => {
                    let is_lost = |tree: &Tree| {
                        let connection = tree.channel().connection();
                        Rc::ptr_eq(&connection.negotiated(), &given_up.channel().connection().negotiated())
                            || connection.ended().is_some()
                    };
                    // They end on the lanes that they are of.
                    let lost: Vec<_> =
                        self.trees.borrow_mut().extract_if(.., |(_, tree)| is_lost(tree)).collect();
                    // Also where another has given it up before: this request may have been sent since.
                    self.ticket.advance_sequence();
                    self.given_up.borrow_mut().extend(lost);
                }
            }
            is_replay = true;
            self.replays.update(|replays| replays + 1);
        }
    }
}

/// A block is full of its version.
fn ask(file: FileId, block: usize, version: u8, is_replay: bool) -> OutgoingRequest<'static> {
    let fixed = WriteRequestFixed {
        data_offset: ((HEADER_LEN + size_of::<WriteRequestFixed>()) as u16).into(),
        length: (BLOCK as u32).into(),
        offset: ((block * BLOCK) as u64).into(),
        file_id: file,
        ..WriteRequestFixed::blank()
    };
    let ask = OutgoingRequest::new(Command::Write, move |body| {
        body.push(&fixed);
        body.bytes(&[version; BLOCK]);
    });
    let ask = ask.carrying(BLOCK as u32, 0);
    if is_replay { ask.with(flags::REPLAY_OPERATION) } else { ask }
}

#[test]
fn no_write_is_lost_or_comes_late_while_channels_are_cut_reset_and_partitioned() {
    let replays = Arc::<AtomicU32>::default();
    seeds(25, |seed| {
        let replays = Arc::clone(&replays);
        run_in(seed, rules(), async move |bed, world, net| {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut servers = vec![bed.address];
            for _ in 0..rng.random_range(0..3) {
                let Other { address, .. } = bed.add_lane().await;
                servers.push(address);
            }
            let mut options = bed.client();
            match seed % 3 {
                0 => options.signing = Signing::Required,
                1 => options.sealing = Sealing::Required,
                _ => {}
            }
            let (address, first) = (bed.address, options.clone());
            let (anchor, file) = world
                .on(0, async move {
                    let tree = sign_in(address, first).await.unwrap();
                    let file = Open::create(&tree, "blocks", &OpenParams::overwrite()).await.unwrap();
                    (tree, file.id())
                })
                .await;
            let client = Rc::new(Several {
                ticket: anchor.channel().ticket(),
                options,
                servers,
                hosts: world.hosts.clone(),
                trees: RefCell::new(vec![(0, anchor)]),
                given_up: RefCell::default(),
                file,
                rng: RefCell::new(rng),
                replays: Cell::new(0),
                is_over: Cell::new(false),
            });
            let (chaos, cut) = (Rc::clone(&client), bed.host.clone());
            let channels = 1 + client.draw(7);
            for number in 1..channels {
                client.bind(number % client.hosts.len()).await;
            }
            let trouble = lane::spawn(async move {
                while !chaos.is_over.get() {
                    // The first host is spared, so that the session lives.
                    let host = 1 + chaos.draw(chaos.hosts.len() - 1);
                    match chaos.draw(4) {
                        0 if chaos.trees.borrow().len() <= channels => chaos.bind(host).await,
                        1 => drop(net.reset_connections(&chaos.hosts[host], &cut)),
                        2 => {
                            net.partition(&chaos.hosts[host], &cut);
                            sleep(Duration::from_millis(chaos.draw(3000) as u64)).await;
                            net.heal(&chaos.hosts[host], &cut);
                        }
                        _ => chaos.bind(host).await,
                    }
                    sleep(Duration::from_millis(chaos.draw(40) as u64)).await;
                }
            });
            let writers: Vec<_> = (0..BLOCKS)
                .map(|block| {
                    let client = Rc::clone(&client);
                    lane::spawn(async move {
                        for version in 1..=VERSIONS {
                            client.write(block, version).await;
                            sleep(Duration::from_millis(client.draw(100) as u64)).await;
                        }
                    })
                })
                .collect();
            for writer in writers {
                writer.await;
            }
            client.is_over.set(true);
            trouble.await;
            // What may still be on its way comes now, and is too late.
            sleep(Duration::from_secs(5)).await;
            let bytes = bed.fs.read("/srv/blocks").unwrap();
            assert!(bytes.iter().all(|byte| *byte == VERSIONS), "seed {seed}");
            assert_eq!(bytes.len(), BLOCKS * BLOCK);
            replays.fetch_add(client.replays.get(), Ordering::Relaxed);
            let anchor = client.trees.borrow()[0].1.clone();
            world.on(0, async move { anchor.channel().log_off().await.unwrap() }).await;
            let given_up = client.given_up.take();
            for (host, tree) in client.trees.take().into_iter().chain(given_up) {
                world.on(host, async move { drop(tree) }).await;
            }
        });
    });
    assert!(replays.load(Ordering::Relaxed) > 0, "nothing was ever replayed");
}

#[test]
fn five_hundred_connections_of_one_client_are_served_at_once() {
    run_in(31, rules(), async move |bed, world, _| {
        let other = bed.add_lane().await;
        bed.host.set_descriptors_max(4096);
        world.hosts[0].set_descriptors_max(4096);
        let (first, second, options) = (bed.address, other.address, bed.client());
        let slowest = world
            .on(0, async move {
                let mut sessions = Vec::new();
                for _ in 0..16 {
                    sessions.push(sign_in(first, options.clone()).await.unwrap());
                }
                let began = now();
                let all: Vec<_> = (0..480)
                    .map(|number: usize| {
                        let (tree, options) = (sessions[number % 16].clone(), options.clone());
                        let address = if number.is_multiple_of(2) { first } else { second };
                        lane::spawn(async move {
                            let connection = Connection::open(address, options).await.unwrap();
                            let channel = Channel::bind(&connection, &tree.channel().ticket()).await.unwrap();
                            let tree = tree.over(&channel);
                            let file =
                                Open::create(&tree, &format!("file-{number}"), &OpenParams::overwrite())
                                    .await
                                    .unwrap();
                            file.close(0).await.unwrap();
                            (now() - began, tree)
                        })
                    })
                    .collect();
                let mut slowest = Duration::ZERO;
                for one in all {
                    slowest = slowest.max(one.await.0);
                }
                for session in &sessions {
                    session.channel().log_off().await.unwrap();
                }
                slowest
            })
            .await;
        assert!(slowest < Duration::from_secs(2), "{slowest:?}");
        let refused = bed.counters().channels_refused.get() + other.counters.channels_refused.get();
        let bound = bed.counters().channels_bound.get() + other.counters.channels_bound.get();
        assert_eq!((bound, refused), (480, 0));
    });
}

const BLOCK: usize = 512;
const BLOCKS: usize = 6;
const VERSIONS: u8 = 24;
