//! The rule: no reachable client reads what is stale while a callback or lease of its stands, and in the end
//! all read the same.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, Host, World, seeds};
use lane::time::sleep;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::browser::Browser;
use super::cache_manager::CacheManager;
use super::redirector::Redirector;
use super::server::{NAMES, Server};
use super::shared::{Phase, Reach, Shared};
use super::truth::{State, Truth};

/// A client of one of the three.
enum Player {
    Afs(Rc<CacheManager>),
    Smb(Rc<Redirector>),
    Http(Rc<Browser>),
}

/// A client's machine, as the test disturbs it.
struct Machine {
    host: Host,
    reach: Rc<Reach>,
}

impl Player {
    async fn read(&self, name: &'static str) -> Option<State> {
        match self {
            Self::Afs(client) => client.read(name).await,
            Self::Smb(client) => client.read(name).await,
            Self::Http(client) => client.read(name).await,
        }
    }

    async fn changes(&self, name: &'static str, what: u32) {
        match (self, what) {
            (Self::Afs(client), 0..10) => client.write(name).await,
            (Self::Afs(client), 10..13) => client.cut(name).await,
            (Self::Afs(client), 13..16) => client.replace(name).await,
            (Self::Afs(client), 16..18) => client.remove(name).await,
            (Self::Afs(client), _) => client.make(name).await,
            (Self::Smb(client), 0..10) => client.write(name).await,
            (Self::Smb(client), 10..13) => client.cut(name).await,
            (Self::Smb(client), 13..16) => client.replace(name).await,
            (Self::Smb(client), 16..18) => client.remove(name).await,
            (Self::Smb(client), _) => client.make(name).await,
            (Self::Http(client), 0..14) => client.put(name).await,
            (Self::Http(client), _) => client.remove(name).await,
        };
    }

    /// Gives something back unasked.
    async fn lets_go(&self, name: &'static str) {
        match self {
            Self::Afs(client) => drop(client.gives_up_all().await),
            Self::Smb(client) => client.lets_go(name).await,
            Self::Http(_) => {}
        }
    }

    fn end(&self) {
        match self {
            Self::Afs(client) => client.end(),
            Self::Smb(client) => client.end(),
            Self::Http(client) => client.end(),
        }
    }

    /// Reads and writes at random, until it is to read for the last time.
    async fn live(&self, shared: &Shared, mut rng: SmallRng) -> [State; NAMES.len()] {
        while shared.phase.get() == Phase::Lives {
            let pause = if rng.random_bool(0.2) { 1_500_000 } else { 200_000 };
            sleep(Duration::from_micros(rng.random_range(0..pause))).await;
            let name = NAMES[rng.random_range(0..NAMES.len())];
            match rng.random_range(0..24) {
                0..7 => {
                    let turn = shared.turn().await;
                    self.changes(name, rng.random_range(0..20)).await;
                    drop(turn);
                }
                7 => self.lets_go(name).await,
                _ => drop(self.read(name).await),
            }
        }
        if let Self::Smb(_) = self {
            for name in NAMES {
                self.lets_go(name).await;
            }
        }
        shared.ready.set(shared.ready.get() + 1);
        while shared.phase.get() < Phase::Ends {
            sleep(Duration::from_millis(50)).await;
        }
        let mut last = [State::Absent; NAMES.len()];
        for (state, name) in last.iter_mut().zip(NAMES) {
            *state = loop {
                match self.read(name).await {
                    Some(state) => break state,
                    None => sleep(Duration::from_millis(20)).await,
                }
            };
        }
        last
    }
}

#[test]
fn nobody_reads_what_is_stale_and_all_read_the_same_in_the_end() {
    let totals: Rc<RefCell<BTreeMap<&'static str, u64>>> = Rc::default();
    let counted = Rc::clone(&totals);
    seeds(SEEDS, move |seed| {
        for (what, count) in history(seed) {
            *counted.borrow_mut().entry(what).or_default() += count;
        }
        *counted.borrow_mut().entry("seeds").or_default() += 1;
    });
    let totals = totals.borrow();
    // They were no easy histories; one seed alone need not have all.
    if totals.get("seeds").is_some_and(|seeds| *seeds >= SEEDS) {
        let seen = [
            "afs: read from the cache",
            "afs: callback broken",
            "afs: directory edited",
            "afs: change",
            "smb: read from the cache",
            "smb: lease broken",
            "smb: kept back",
            "smb: written back",
            "smb: change",
            "http: not modified",
            "http: change",
            "cut off",
            "reset",
        ];
        for what in seen {
            assert!(totals.get(what).is_some_and(|count| *count >= SEEDS / 4), "{what}: {totals:?}");
        }
    }
}

/// Returns how the world of a history is.
fn world(seed: u64) -> (Config, Duration) {
    let mut config = Config::clean();
    config.fs.delay = Duration::ZERO..Duration::from_micros(300);
    config.mesh.delay = Duration::ZERO..Duration::from_millis(1);
    let link = &mut config.net.link;
    let grace = match seed % 4 {
        // Word that was sent before a reply to another is there before that.
        0 => Duration::from_micros(100),
        1 => {
            link.jitter = Duration::from_millis(3);
            link.reorder = 0.05;
            link.duplicate = 0.02;
            Duration::from_millis(10)
        }
        2 => {
            link.jitter = Duration::from_millis(3);
            link.reorder = 0.02;
            link.duplicate = 0.02;
            link.loss = 0.02;
            // Some losses in a row.
            Duration::from_secs(7)
        }
        _ => Duration::from_millis(1),
    };
    (config, grace)
}

/// A history that is under way.
struct Bed {
    world: World,
    server: Server,
    shared: Rc<Shared>,
    machines: Vec<Machine>,
    /// Last state that each client has read.
    last: Rc<RefCell<Vec<[State; NAMES.len()]>>>,
    /// Time when its clock began.
    zero: Duration,
    rng: SmallRng,
}

fn history(seed: u64) -> BTreeMap<&'static str, u64> {
    let is_rough = seed % 4 >= 2;
    let mut bed = Bed::new(seed);
    let counts = [bed.rng.random_range(1..3), bed.rng.random_range(1..3), 1];
    for (kind, count) in counts.into_iter().enumerate() {
        (0..count).for_each(|number| bed.add(kind, number, is_rough && number == 1));
    }
    while bed.now() < LASTS {
        let pause = bed.rng.random_range(1..400);
        bed.world.run_for(Duration::from_millis(pause));
        if is_rough && bed.rng.random_bool(0.3) {
            bed.happens();
        }
    }
    bed.end()
}

impl Bed {
    fn new(seed: u64) -> Self {
        let (config, grace) = world(seed);
        let world = World::new(seed, config);
        let mut rng = SmallRng::seed_from_u64(seed);
        let server = Server::start(&world);
        let (counters, in_turn, zero) = (server.counters(), rng.random_bool(0.4), world.now());
        let shared = world.block_on(&server.host, async move {
            Rc::new(Shared::new(Truth::new(&NAMES), grace, in_turn, counters))
        });
        Self { world, server, shared, machines: Vec::new(), last: Rc::default(), zero, rng }
    }

    fn now(&self) -> Duration {
        self.world.now() - self.zero
    }

    /// Adds a client, on a machine of its own.
    fn add(&mut self, kind: usize, number: usize, is_sloppy: bool) {
        let host = self.world.host(&format!("10.0.{}.{}", kind + 1, number + 1));
        let machine = Machine { host, reach: Rc::default() };
        let reach = Rc::clone(&machine.reach);
        let (shared, last, root) = (Rc::clone(&self.shared), Rc::clone(&self.last), self.server.root());
        let (seed, behind) = (self.rng.random(), self.rng.random_range(0..6));
        machine.host.spawn(async move {
            let player = match kind {
                0 => Player::Afs(CacheManager::begin(number, seed, root, behind, &shared, &reach)),
                1 => Player::Smb(Redirector::begin(number, seed, is_sloppy, None, &shared, &reach)),
                _ => Player::Http(Browser::begin(number, seed, &shared)),
            };
            let read = player.live(&shared, SmallRng::seed_from_u64(seed ^ 1)).await;
            player.end();
            last.borrow_mut().push(read);
        });
        self.machines.push(machine);
    }

    /// Something befalls the network.
    fn happens(&mut self) {
        let machine = &self.machines[self.rng.random_range(0..self.machines.len())];
        let net = self.world.net();
        match self.rng.random_range(0..5) {
            0 => {
                net.reset_connections(&machine.host, &self.server.host);
                machine.reach.changes(machine.reach.is_cut_off.get(), self.now());
                self.shared.count("reset");
            }
            _ if machine.reach.is_cut_off.get() => {
                net.heal(&machine.host, &self.server.host);
                machine.reach.changes(false, self.now());
            }
            _ => {
                net.partition(&machine.host, &self.server.host);
                machine.reach.changes(true, self.now());
                self.shared.count("cut off");
            }
        }
    }

    /// All come to rest, and read once more.
    fn end(self) -> BTreeMap<&'static str, u64> {
        for machine in self.machines.iter().filter(|machine| machine.reach.is_cut_off.get()) {
            self.world.net().heal(&machine.host, &self.server.host);
            machine.reach.changes(false, self.now());
        }
        let all = self.machines.len();
        self.shared.phase.set(Phase::Settles);
        self.until("all have settled", || self.shared.ready.get() == all);
        // What no client waits for any more comes to its end too.
        self.world.run_for(Duration::from_secs(120));
        self.shared.phase.set(Phase::Ends);
        self.until("all have read", || self.last.borrow().len() == all);
        let on_disk = NAMES.map(|name| self.server.on_disk(name));
        for read in &*self.last.borrow() {
            assert_eq!(*read, on_disk, "all read the same");
        }
        self.shared.tally.take()
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let began = self.now();
        while !is_so() {
            self.world.run_for(Duration::from_millis(200));
            assert!(self.now() - began < Duration::from_secs(600), "{what}");
        }
    }
}

/// Seeds of a plain run.
const SEEDS: u64 = 24;
/// Time for which clients live.
const LASTS: Duration = Duration::from_secs(10);
