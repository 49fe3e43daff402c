//! Clients that lock ranges of one file while their channels die: a lock is taken once and given back once, however often it is asked.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lane::backend::sim::{LinkConfig, seeds};
use lane::time::{sleep, timeout};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use smb_client::{Channels, Handle, OpenParams, Options as ClientOptions, Sealing, Signing, Tree};
use smb_wire::Status;
use smb_wire::body::lock::{LockElement, flags};

use super::bed::{Other, bind, rules, run_in, sign_in, until};

/// Holder of each byte, as the clients know it.
type Model = Arc<[AtomicU64; BYTES]>;

/// A client of several channels, and the programs that work with it.
struct Client {
    number: u64,
    channels: Channels,
    options: ClientOptions,
    servers: Vec<SocketAddr>,
    rng: RefCell<StdRng>,
    working: Cell<usize>,
}

impl Client {
    fn draw(&self, below: usize) -> usize {
        self.rng.borrow_mut().random_range(0..below)
    }

    async fn bind(&self, to: &Tree) -> Tree {
        let server = self.servers[self.draw(self.servers.len())];
        let tree = bind(to, server, self.options.clone()).await.unwrap();
        self.channels.add(tree.clone());
        tree
    }

    /// Kills one channel after another, and binds another before each: what was sent by some of them still comes.
    async fn kills(self: Rc<Self>, first: Tree, count: usize) -> u64 {
        let mut trees = vec![first];
        while trees.len() < count {
            trees.push(self.bind(&trees[0]).await);
        }
        let mut kills = 0;
        while self.working.get() > 0 {
            sleep(Duration::from_micros(self.draw(30_000) as u64)).await;
            trees.push(self.bind(&trees[0]).await);
            let gone = trees.swap_remove(self.draw(count));
            match self.draw(2) {
                0 => self.channels.kill(gone.channel()),
                _ => gone.channel().connection().break_off(),
            }
            kills += 1;
        }
        kills
    }

    /// Locks a range again and again, checks that no other has it, and gives it back. Says how often it had
    /// it.
    async fn locks(self: Rc<Self>, file: Handle, model: Model) -> u64 {
        let mut held = 0;
        for _ in 0..ROUNDS {
            let start = self.draw(BYTES - 1);
            let range = start..start + 1 + self.draw(2);
            let waits = self.draw(3) > 0;
            let how = if waits { flags::EXCLUSIVE } else { flags::EXCLUSIVE | flags::FAIL_IMMEDIATELY };
            let asked = |flags| element(range.start, range.len(), flags);
            match file.lock(&[asked(how)]).await {
                Ok(()) => {}
                Err(error) if !waits && error.status() == Some(Status::LOCK_NOT_GRANTED) => continue,
                Err(error) => panic!("client {}: {range:?}: {error}", self.number),
            }
            for byte in range.clone() {
                assert_eq!(model[byte].swap(self.number, Ordering::Relaxed), 0, "byte {byte} is held twice");
            }
            sleep(Duration::from_micros(self.draw(10_000) as u64)).await;
            for byte in range.clone() {
                assert_eq!(model[byte].swap(0, Ordering::Relaxed), self.number);
            }
            // The server says that it was locked.
            file.lock(&[asked(flags::UNLOCK)]).await.unwrap();
            held += 1;
        }
        self.working.update(|working| working - 1);
        held
    }
}

fn element(offset: usize, length: usize, flags: u32) -> LockElement {
    let (offset, length) = ((offset as u64).into(), (length as u64).into());
    LockElement { offset, length, flags: flags.into(), reserved: 0.into() }
}

/// Result of a client.
#[derive(Default)]
struct Came {
    kills: AtomicU64,
    replays: AtomicU64,
    held: AtomicU64,
}

async fn client(
    number: u64,
    seed: u64,
    servers: Vec<SocketAddr>,
    options: ClientOptions,
    (model, are_working): (Model, Arc<AtomicU64>),
    came: Arc<Came>,
) {
    let mut rng = StdRng::seed_from_u64(seed * 16 + number);
    let count = rng.random_range(1..=8);
    let first = sign_in(servers[0], options.clone()).await.unwrap();
    let channels = Channels::new(first.clone(), Some(Duration::from_secs(5)));
    let file =
        Handle::create(&channels, "locked", &OpenParams { disposition: OPEN_IF, ..OpenParams::overwrite() })
            .await;
    let (file, working) = (file.unwrap(), Cell::new(WORKERS));
    let client = Rc::new(Client { number, channels, options, servers, rng: RefCell::new(rng), working });
    let trouble = lane::spawn(Rc::clone(&client).kills(first, count));
    let work: Vec<_> = (0..WORKERS)
        .map(|_| lane::spawn(Rc::clone(&client).locks(file.clone(), Arc::clone(&model))))
        .collect();
    for worker in work {
        came.held.fetch_add(worker.await, Ordering::Relaxed);
    }
    came.kills.fetch_add(trouble.await, Ordering::Relaxed);
    came.replays.fetch_add(client.channels.replays(), Ordering::Relaxed);
    are_working.fetch_sub(1, Ordering::Relaxed);
    until("nobody works any more", || are_working.load(Ordering::Relaxed) == 0).await;
    // What may still be on its way comes now, and is too late.
    sleep(Duration::from_secs(1)).await;
    file.lock(&[element(0, BYTES, flags::SHARED | flags::FAIL_IMMEDIATELY)]).await.expect("nothing is left");
    file.close().await.unwrap();
    client.channels.log_off().await.unwrap();
}

#[test]
fn a_lock_is_taken_once_and_given_back_once_while_channels_are_killed() {
    let all = Arc::<Came>::default();
    seeds(60, |seed| {
        let came = Arc::clone(&all);
        run_in(seed, rules(), async move |bed, world, net| {
            let mut servers = vec![bed.address];
            for _ in 0..seed % 3 {
                let Other { address, .. } = bed.add_lane().await;
                servers.push(address);
            }
            let model: Model = Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
            let count = 2 + seed % 2;
            let are_working = Arc::new(AtomicU64::new(count));
            let clients: Vec<_> = (0..count as usize)
                .map(|at| {
                    let host = &world.hosts[at];
                    let before = net.link(host, &bed.host);
                    let jitter = Duration::from_millis(seed % 7);
                    net.set_link(host, &bed.host, LinkConfig { jitter, ..before });
                    let mut options = bed.client();
                    match seed % 4 {
                        0 => options.signing = Signing::Required,
                        1 => options.sealing = Sealing::Required,
                        _ => {}
                    }
                    let number = at as u64 + 1;
                    let (model, came) = ((Arc::clone(&model), Arc::clone(&are_working)), Arc::clone(&came));
                    host.start_on(0, client(number, seed, servers.clone(), options, model, came))
                })
                .collect();
            for client in clients {
                timeout(Duration::from_secs(300), client).await.expect("all end");
            }
            until("all connections have gone", || bed.lane.connections().is_empty()).await;
            bed.expect_empty();
        });
    });
    let [kills, replays, held] = [&all.kills, &all.replays, &all.held].map(|it| it.load(Ordering::Relaxed));
    assert!(kills > 0 && replays > 0 && held > 0, "{kills} kills, {replays} replays, held {held} times");
}

const OPEN_IF: smb_wire::create::Disposition = smb_wire::create::Disposition::OpenIf;
/// Of the file: few, so that there is always another client.
const BYTES: usize = 6;
const WORKERS: usize = 3;
const ROUNDS: usize = 4;
