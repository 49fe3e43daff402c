//! Clients of a server that ends and begins again, in order or by a kill, over many seeds: the same truth as
//! when sessions alone end. No write is lost or comes twice, no lock is taken twice, no client waits for
//! ever, and none reconnects what is not as it was.

use std::cell::Cell;
use std::time::Duration;

use lane::backend::sim::seeds;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::persisted::{Process, Site, user};
use super::sessions::{Client, Lost, Truth};
use super::*;

/// Memory of a client while the server is away.
struct Memory {
    who: RequestContext,
    key: Guid,
    creates: u8,
    rng: SmallRng,
    lost: Option<Lost>,
}

/// End of the last process, and what happened since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Nothing,
    /// The server was killed; an older page is found, or none.
    Killed,
    /// Another program has touched the file.
    Changed,
    /// The client was away for too long.
    Late,
}

/// Totals of all seeds.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    kept: u32,
    restored: u32,
    had_again: u32,
    had_with_lock: u32,
    refused: u32,
}

struct History {
    site: Site,
    rng: SmallRng,
    truth: Rc<Truth>,
    clients: Vec<Memory>,
    totals: Totals,
}

impl History {
    fn new(seed: u64) -> Self {
        let site = Site::new(seed, CLIENTS);
        let client = |n: usize| Memory {
            who: user(&site.accounts, ["alice", "bob"][n % 2], n as u64 + 1),
            key: Guid::new([n as u8 + 1; 16]),
            creates: 0,
            rng: SmallRng::seed_from_u64(seed * 3 + n as u64),
            lost: None,
        };
        let clients = (0..CLIENTS).map(client).collect();
        let (rng, truth) = (SmallRng::seed_from_u64(seed), Rc::default());
        Self { site, rng, truth, clients, totals: Totals::default() }
    }

    fn run(mut self) -> Totals {
        let (mut page, mut older): (Option<Vec<u8>>, Option<Vec<u8>>) = (None, None);
        let mut between = Between::Nothing;
        for _ in 0..LIVES {
            let (process, taken) = self.site.begin(page.take());
            if between != Between::Nothing {
                assert_eq!(taken.restored, 0, "{between:?}");
            }
            self.totals.restored += taken.restored as u32;
            self.live(&process, between);
            self.truth.all_lost();
            between = match self.rng.random_range(0..8) {
                0 => Between::Killed,
                1 => Between::Changed,
                2 => Between::Late,
                _ => Between::Nothing,
            };
            if between == Between::Killed {
                page = older.clone();
                self.site.host.kill();
                drop(process);
                continue;
            }
            let down = self.site.end(process);
            self.totals.kept += down.kept as u32;
            older = down.page.clone().or(older);
            page = down.page;
            self.site.rest(Duration::from_millis(self.rng.random_range(0..150)));
            match between {
                Between::Changed => self.touch(),
                Between::Late => self.site.rest(Duration::from_secs(400)),
                Between::Nothing | Between::Killed => {}
            }
        }
        self.totals
    }

    /// Touches the file: the content stays, but that cannot be known.
    fn touch(&self) {
        if let Ok(bytes) = self.site.host.fs().read("/srv/page") {
            self.site.host.fs().write("/srv/page", bytes).unwrap();
        }
    }

    /// One process, from its begin to the moment before its end.
    fn live(&mut self, process: &Process, between: Between) {
        let rounds = self.rng.random_range(4..10);
        let tasks: Vec<_> = self
            .clients
            .drain(..)
            .enumerate()
            .map(|(lane, memory)| {
                let (side, truth) = (process.sides[lane].clone(), Rc::clone(&self.truth));
                self.site.host.start_on(lane, live_of(side, truth, memory, between, rounds))
            })
            .collect();
        let ended = async move {
            let mut all = Vec::new();
            for task in tasks {
                all.push(task.await);
            }
            all
        };
        for (memory, again) in self.site.world.block_on(&self.site.host, ended) {
            match again {
                Again::Had { has_locked } => {
                    self.totals.had_again += 1;
                    self.totals.had_with_lock += u32::from(has_locked);
                }
                Again::Refused => self.totals.refused += 1,
                Again::NothingLost => {}
            }
            self.clients.push(memory);
        }
    }
}

/// Fate of an open that was lost with the server.
enum Again {
    NothingLost,
    Had { has_locked: bool },
    Refused,
}

async fn live_of(
    side: Side,
    truth: Rc<Truth>,
    memory: Memory,
    between: Between,
    rounds: u32,
) -> (Memory, Again) {
    let Memory { who, key, creates, rng, lost } = memory;
    let mut client = Client { side, who, key, creates, rng, truth };
    let mut again = Again::NothingLost;
    let mut has = None;
    if let Some(lost) = lost {
        let (id, guid) = (lost.id(), lost.guid());
        match client.have_again(lost).await {
            Ok(open) => {
                assert_eq!(between, Between::Nothing, "what is had again is as it was");
                assert_eq!(open.id(), id);
                again = Again::Had { has_locked: !open.locked().is_empty() };
                has = Some((open, guid));
            }
            Err(_) => again = Again::Refused,
        }
    }
    let has = client.go_on(has, rounds).await;
    // The process ends now, with its session or after it.
    let ends_first = client.rng.random();
    let lost = has.map(|(open, guid)| client.lose(open, guid));
    if ends_first {
        let opens = client.side.tree.opens().of_session(client.who.session);
        client.side.tree.leave_session(&client.who, opens).await;
    }
    let Client { who, key, creates, rng, .. } = client;
    let who = RequestContext { session: who.session + 1_000, ..who };
    (Memory { who, key, creates, rng, lost }, again)
}

#[test]
fn who_loses_his_server_loses_no_write_and_has_nothing_again_that_is_not_as_it_was() {
    let totals = Rc::new(Cell::new(Totals::default()));
    let sum = Rc::clone(&totals);
    let all = seeds(300, move |seed| {
        let (so_far, of_seed) = (sum.get(), History::new(seed).run());
        sum.set(Totals {
            kept: so_far.kept + of_seed.kept,
            restored: so_far.restored + of_seed.restored,
            had_again: so_far.had_again + of_seed.had_again,
            had_with_lock: so_far.had_with_lock + of_seed.had_with_lock,
            refused: so_far.refused + of_seed.refused,
        });
    });
    let totals = totals.get();
    // A few seeds may be of those in which no client comes back in time.
    if all {
        let Totals { kept, restored, had_again, had_with_lock, refused } = totals;
        assert!(kept > restored && restored > had_again && had_again > had_with_lock, "{totals:?}");
        assert!(had_with_lock > 30 && refused > 30, "{totals:?}");
    }
}

const CLIENTS: usize = 3;
const LIVES: u32 = 4;
