//! A server, its clients, and what is true of the files.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use afs::host::HostOptions;
use index::Memory;
use lane::backend::sim::{Config, Host, World};
use lane::time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::client::{Client, Kind, Mode};
use super::server::{FILES, LANES, Process};

/// Time for which a promise lasts here.
pub(crate) const LASTS: Duration = Duration::from_secs(20);

/// Truth about a file. Each write has one more in it than the one before.
#[derive(Default)]
pub(crate) struct Truth {
    /// No other client writes until then: a write that was not answered may be made yet.
    taken_until: Cell<Option<Instant>>,
    tried: Cell<u8>,
    acknowledged: Cell<u8>,
}

/// A client, and whether it could be reached.
pub(crate) struct Player {
    pub(crate) client: Rc<Client>,
    pub(crate) machine: usize,
    pub(crate) lane: usize,
    pub(crate) is_cut_off: Cell<bool>,
    /// The client could not be reached, and has not been served since it can.
    is_doubtful: Cell<bool>,
    reachable_since: Cell<Duration>,
    /// Number of misses of the server when the last served call began.
    misses: Cell<u64>,
    pub(crate) served: Cell<u32>,
    pub(crate) lives: Cell<u64>,
}

pub(crate) struct Bed {
    pub(crate) players: Vec<Rc<Player>>,
    pub(crate) shared: Rc<Shared>,
    pub(crate) rng: SmallRng,
    memory: Memory,
    boot: u8,
    options: HostOptions,
    of_objects: (Option<usize>, Option<usize>),
    pub(crate) server: Host,
    pub(crate) world: World,
}

/// State that clients' tasks and the test share.
pub(crate) struct Shared {
    truth: HashMap<&'static str, Truth>,
    contents: RefCell<HashMap<(&'static str, u64), u8>>,
    pub(crate) process: RefCell<Option<Process>>,
    /// Of processes that are no more.
    misses_before: Cell<u64>,
    pub(crate) writes: Cell<u32>,
    /// Time when the world began.
    began: Cell<Option<Instant>>,
}

impl Shared {
    /// Since the world began; on a lane.
    fn now(&self) -> Duration {
        time::now() - self.began.get().expect("the bed asks first")
    }

    pub(crate) fn misses(&self) -> u64 {
        self.misses_before.get() + self.process.borrow().as_ref().map_or(0, Process::misses)
    }
}

impl Bed {
    /// Two clients behind one address translator, two that have no identity or an old way of telling it, and one that voids volumes as one.
    pub(crate) fn new(seed: u64, config: Config) -> Self {
        // What has no identity is of the kind that notices.
        let is_careful = |n: usize| config.net.link.loss > 0.0 || [0, 2, 3, 4].contains(&n);
        let careful: Vec<_> = (0..5).map(is_careful).collect();
        let world = World::new(seed, config);
        let mut rng = SmallRng::seed_from_u64(seed);
        let server = world.host("10.0.0.1");
        server.fs().create_dir_all("/srv").unwrap();
        server.fs().sync_all().unwrap();
        for _ in 1..LANES {
            server.add_lane();
        }
        let hosts: Vec<_> = (0..4).map(|n| world.host(&format!("10.0.1.{n}"))).collect();
        hosts[0].add_lane();
        world.net().put_behind_nat(&hosts[0], "10.0.2.1");
        world.net().put_behind_nat(&hosts[1], "10.0.2.2");
        let kinds = [
            (0, 0, Kind::Today),
            (0, 1, Kind::Today),
            (1, 0, Kind::Volumes),
            (2, 0, Kind::Nameless),
            (3, 0, Kind::Older),
        ];
        let player = |(n, &(host, lane, kind)): (usize, &(usize, usize, Kind))| {
            let client = Client::new(Some(hosts[host].clone()), kind, n as u8 + 1, careful[n]);
            Rc::new(Player {
                client,
                machine: host,
                lane,
                is_cut_off: Cell::default(),
                is_doubtful: Cell::default(),
                reachable_since: Cell::default(),
                misses: Cell::default(),
                served: Cell::default(),
                lives: Cell::default(),
            })
        };
        let players = kinds.iter().enumerate().map(player).collect();
        let options = HostOptions { promise: LASTS, ..HostOptions::default() };
        let few = |rng: &mut SmallRng, few| rng.random_bool(0.25).then_some(few);
        let of_objects = (few(&mut rng, 3), few(&mut rng, 1));
        let truth = FILES.into_iter().map(|file| (file, Truth::default())).collect();
        let shared = Shared {
            truth,
            contents: RefCell::default(),
            process: RefCell::default(),
            misses_before: Cell::default(),
            writes: Cell::default(),
            began: Cell::default(),
        };
        let (shared, memory) = (Rc::new(shared), Memory::default());
        let begin = Rc::clone(&shared);
        // World time is 0 yet.
        world.block_on(&server, async move { begin.began.set(Some(time::now())) });
        let mut bed = Self { world, server, players, shared, rng, memory, boot: 0, options, of_objects };
        bed.start();
        bed
    }

    /// The server begins.
    pub(crate) fn start(&mut self) {
        self.boot += 1;
        let (callbacks_max, kept_max) = self.of_objects;
        let change = |options: &mut vfs::ObjectsOptions| {
            let promises = &mut options.callbacks;
            promises.callbacks_max = callbacks_max.unwrap_or(promises.callbacks_max);
            promises.kept_max = kept_max.unwrap_or(promises.kept_max);
        };
        let process =
            Process::start(&self.world, &self.server, &self.memory, self.boot, self.options, change);
        self.shared.process.replace(Some(process));
    }

    /// The server is killed, or its machine loses power.
    pub(crate) fn fall(&mut self, by_power: bool) {
        let process = self.shared.process.take().expect("it runs");
        self.shared.misses_before.set(self.shared.misses_before.get() + process.misses());
        process.lanes.borrow_mut().clear();
        drop(process);
        if by_power {
            self.server.lose_power()
        } else {
            self.server.kill()
        }
        // Another file with the same bytes: what is left of the process, as jobs of its helpers, cannot write to it.
        if by_power {
            let rng = &mut self.rng;
            self.memory.lose_power(|| rng.random());
        }
        self.memory = self.memory.parted();
        self.server.restart();
    }

    /// A client's process begins, or begins anew, on a host that does nothing.
    pub(crate) fn begin(&self, n: usize) {
        let player = Rc::clone(&self.players[n]);
        let (seed, shared) = (self.world.seed(), Rc::clone(&self.shared));
        player.lives.set(player.lives.get() + 1);
        let host = player.client.host().clone();
        host.spawn_on(player.lane, async move {
            let seed = seed.wrapping_mul(1000) + n as u64 * 50 + player.lives.get();
            player.client.begin(7001 + player.lane as u16, seed);
            player.live(&shared, SmallRng::seed_from_u64(seed)).await;
        });
    }

    /// Ends what clients have, beside their lanes.
    pub(crate) fn end(self) {
        if let Some(process) = self.shared.process.take() {
            process.lanes.borrow_mut().clear();
        }
        self.players.iter().for_each(|player| player.client.end());
        self.world.end();
    }

    /// Checks that a reachable client never has older than the last acknowledged change.
    pub(crate) fn check(&self) {
        let now = self.shared.began.get().expect("it has begun") + self.world.now();
        let misses = self.shared.misses();
        for (n, player) in self.players.iter().enumerate() {
            player.client.cache.borrow_mut().retain(|_, kept| kept.until > now);
            if player.is_doubtful.get() || player.misses.get() != misses {
                continue;
            }
            if !player.client.relies() {
                continue;
            }
            for (file, kept) in &*player.client.cache.borrow() {
                let acknowledged = self.shared.truth[file].acknowledged.get();
                assert!(
                    kept.content >= acknowledged,
                    "client {n} relies on {kept:?} of {file}, {acknowledged} is there"
                );
            }
        }
    }
}

impl Player {
    /// Notes that the client cannot be reached any more, or is not where it was: until it is served by a call
    /// that it begins from now on, while it can be.
    pub(crate) fn doubt(&self, now: Duration) {
        self.is_doubtful.set(true);
        self.reachable_since.set(now);
    }

    fn can_be_reached(&self) -> bool {
        !self.is_cut_off.get() && self.client.mode.get() == Mode::Good
    }

    /// Reads and writes at random.
    async fn live(&self, shared: &Shared, mut rng: SmallRng) {
        loop {
            let pause = if rng.random_bool(0.3) { 3_000_000 } else { 150_000 };
            time::sleep(Duration::from_micros(rng.random_range(0..pause))).await;
            if self.is_cut_off.get() {
                continue;
            }
            let (file, which) = (FILES[rng.random_range(0..FILES.len())], rng.random_range(0..4));
            let (began, misses) = (shared.now(), shared.misses());
            let served = match rng.random_range(0..20) {
                0..6 => self.write(shared, file, which).await,
                6 => {
                    self.client.cache.borrow_mut().clear();
                    self.client.call(which, &[super::server::GIVE_UP_ALL]).await.ok().map(drop)
                }
                _ => self.read(shared, file, which).await,
            };
            if served.is_some() {
                self.served.set(self.served.get() + 1);
                self.misses.set(misses);
                if self.can_be_reached() && began >= self.reachable_since.get() {
                    self.is_doubtful.set(false);
                }
            } else if rng.random_bool(0.5) {
                self.client.connect();
            }
        }
    }

    async fn read(&self, shared: &Shared, file: &'static str, which: usize) -> Option<()> {
        let kept = self.client.read(which, file).await.ok()?;
        let before = shared.contents.borrow_mut().insert((file, kept.version), kept.content);
        assert!(before.is_none_or(|before| before == kept.content), "{kept:?} of {file} has two contents");
        Some(())
    }

    async fn write(&self, shared: &Shared, file: &'static str, which: usize) -> Option<()> {
        let truth = &shared.truth[file];
        if truth.taken_until.get().is_some_and(|until| time::now() < until) {
            return None;
        }
        truth.taken_until.set(Some(time::now() + MAY_TAKE));
        let next = truth.tried.get() + 1;
        truth.tried.set(next);
        let written = self.client.write(which, file, next).await;
        truth.taken_until.set(written.is_err().then(|| time::now() + MAY_TAKE));
        let version = written.ok()?;
        let before = shared.contents.borrow_mut().insert((file, version), next);
        assert!(before.is_none_or(|before| before == next), "{version} of {file} has two contents");
        truth.acknowledged.set(next.max(truth.acknowledged.get()));
        shared.writes.set(shared.writes.get() + 1);
        Some(())
    }
}

/// A write that is given up may be made this much later.
const MAY_TAKE: Duration = Duration::from_secs(25);
