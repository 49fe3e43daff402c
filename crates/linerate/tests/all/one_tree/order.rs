//! In which order things happen when one client changes what another relies on: a holder is told, writes back
//! and gives it back, and only then is the change answered; an unreachable client holds it up for so long,
//! and no longer.

use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, Host, LinkConfig, Net, World, seeds};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::browser::Browser;
use super::cache_manager::CacheManager;
use super::redirector::{RH, RWH, Redirector};
use super::server::{NAMES, Server};
use super::shared::{Event, Reach, Shared};
use super::truth::{State, Truth, Who};

/// A client on its machine.
struct Machine<C> {
    host: Host,
    client: Rc<C>,
}

impl<C: 'static> Machine<C> {
    async fn at(host: Host, begin: impl FnOnce() -> Rc<C> + 'static) -> Self {
        let client = host.start_on(0, async move { begin() }).await;
        Self { host, client }
    }

    /// Has it do something.
    async fn does<T: 'static>(&self, what: impl AsyncFnOnce(Rc<C>) -> T + 'static) -> T {
        let client = Rc::clone(&self.client);
        self.host.start_on(0, async move { what(client).await }).await
    }

    /// Ends the client where it was.
    async fn ends(self, end: fn(&C)) {
        let Self { host, client } = self;
        host.start_on(0, async move { end(&client) }).await;
    }
}

/// The client that makes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Afs,
    Smb,
    Http,
}

/// Kind of the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Writes,
    Cuts,
    Replaces,
    Removes,
}

/// A server, two that hold something, and three that change it.
struct Scene {
    net: Net,
    server: Host,
    shared: Rc<Shared>,
    /// Holds a lease.
    smb: Machine<Redirector>,
    /// Holds callbacks.
    afs: Machine<CacheManager>,
    other_smb: Machine<Redirector>,
    other_afs: Machine<CacheManager>,
    http: Machine<Browser>,
}

const HOLDER: Who = Who::Smb(0);
const PAGE: &str = NAMES[0];

impl Scene {
    async fn does(&self, by: By, what: Does) {
        let done = match (by, what) {
            (By::Afs, Does::Writes) => self.other_afs.does(async |client| client.write(PAGE).await).await,
            (By::Afs, Does::Cuts) => self.other_afs.does(async |client| client.cut(PAGE).await).await,
            (By::Afs, Does::Replaces) => self.other_afs.does(async |client| client.replace(PAGE).await).await,
            (By::Afs, Does::Removes) => self.other_afs.does(async |client| client.remove(PAGE).await).await,
            (By::Smb, Does::Writes) => self.other_smb.does(async |client| client.write(PAGE).await).await,
            (By::Smb, Does::Cuts) => self.other_smb.does(async |client| client.cut(PAGE).await).await,
            (By::Smb, Does::Replaces) => self.other_smb.does(async |client| client.replace(PAGE).await).await,
            (By::Smb, Does::Removes) => self.other_smb.does(async |client| client.remove(PAGE).await).await,
            (By::Http, Does::Removes) => self.http.does(async |client| client.remove(PAGE).await).await,
            (By::Http, _) => self.http.does(async |client| client.put(PAGE).await).await,
        };
        done.unwrap_or_else(|| panic!("{by:?} {what:?}: it is done"));
        self.shared.note(Who::Nobody, Event::Answered);
    }

    async fn reads(&self, by: By) -> State {
        let read = match by {
            By::Afs => self.other_afs.does(async |client| client.read(PAGE).await).await,
            By::Smb => self.other_smb.does(async |client| client.read(PAGE).await).await,
            By::Http => self.http.does(async |client| client.read(PAGE).await).await,
        };
        self.shared.note(Who::Nobody, Event::Answered);
        read.expect("it is read")
    }

    async fn ends(self) {
        self.smb.ends(Redirector::end).await;
        self.other_smb.ends(Redirector::end).await;
        self.afs.ends(CacheManager::end).await;
        self.other_afs.ends(CacheManager::end).await;
        self.http.ends(Browser::end).await;
    }
}

/// Plays a scene in which the first client of SMB has its leases so.
fn scene(seed: u64, wish: u32, play: impl AsyncFnOnce(&Scene, By, Does) + 'static) {
    let mut config = Config::clean();
    config.mesh.delay = Duration::ZERO..Duration::from_micros(500);
    config.fs.delay = Duration::ZERO..Duration::from_micros(300);
    let world = World::new(seed, config);
    let server = Server::start(&world);
    let (net, host, root, counters) = (world.net(), server.host.clone(), server.root(), server.counters());
    let hosts: Vec<Host> = (1..6).map(|last| world.host(&format!("10.0.1.{last}"))).collect();
    let mut rng = SmallRng::seed_from_u64(seed);
    let by = [By::Afs, By::Smb, By::Http][(seed % 3) as usize];
    let what = [Does::Writes, Does::Cuts, Does::Replaces, Does::Removes][(seed / 3 % 4) as usize];
    // The holder's way is the shortest by a moment: what is sent to it no later than to others it has first.
    let latency = Duration::from_micros(rng.random_range(50..3000));
    for (at, host) in hosts.iter().enumerate() {
        let before = net.link(host, &server.host);
        let latency = if at == 0 { latency - Duration::from_micros(1) } else { latency };
        net.set_link(host, &server.host, LinkConfig { latency, ..before });
    }
    world.block_on(&server.host, async move {
        let shared = Shared::new(Truth::new(&NAMES), Duration::ZERO, false, counters);
        let (shared, mut hosts) = (Rc::new(shared), hosts.into_iter());
        let mut machine = || (hosts.next().expect("there are five"), Rc::clone(&shared), rng.random());
        let smb = |number, wish, (host, shared, seed): (Host, Rc<Shared>, u64)| {
            Machine::at(host, move || {
                Redirector::begin(number, seed, false, wish, &shared, &Rc::<Reach>::default())
            })
        };
        let afs = |number, (host, shared, seed): (Host, Rc<Shared>, u64)| {
            Machine::at(host, move || {
                CacheManager::begin(number, seed, root, 0, &shared, &Rc::<Reach>::default())
            })
        };
        let (first, other) = (smb(0, Some(wish), machine()).await, smb(1, Some(0), machine()).await);
        let (callbacks, other_afs) = (afs(0, machine()).await, afs(1, machine()).await);
        let (at, told, seed) = machine();
        let browser = move || Browser::begin(0, seed, &told);
        let http = Machine::at(at, browser).await;
        let scene = Scene {
            net,
            server: host,
            shared,
            smb: first,
            afs: callbacks,
            other_smb: other,
            other_afs,
            http,
        };
        play(&scene, by, what).await;
        scene.ends().await;
    });
}

/// Returns when something happened first.
fn first(events: &[(Who, Event)], who: Who, event: Event) -> usize {
    let found = events.iter().position(|happened| *happened == (who, event));
    found.unwrap_or_else(|| panic!("{who:?} {event:?} in {events:?}"))
}

#[test]
fn what_a_lease_kept_back_is_written_and_the_lease_given_back_before_another_change_is_answered() {
    seeds(SEEDS, |seed| {
        scene(seed, RWH, async |scene, by, what| {
            scene.afs.does(async |client| client.read(PAGE).await).await.unwrap();
            scene.smb.does(async |client| client.read(PAGE).await).await.unwrap();
            scene.smb.does(async |client| client.write(PAGE).await).await.unwrap();
            assert_eq!(scene.shared.events(), [], "it is kept back");
            scene.does(by, what).await;
            let events = scene.shared.events();
            // A file that is made aside breaks the directory's callback before.
            let from = first(&events, HOLDER, Event::Broken);
            let order = [
                first(&events[from..], Who::Afs(0), Event::Broken),
                first(&events[from..], HOLDER, Event::WrittenBack),
                first(&events[from..], HOLDER, Event::GivesBack),
                first(&events[from..], Who::Nobody, Event::Answered),
            ];
            assert!(order.is_sorted(), "{by:?} {what:?}: {events:?}");
            lane::time::sleep(Duration::from_secs(1)).await;
            scene.reads(By::Http).await;
            scene.smb.does(async |client| client.read(PAGE).await).await.unwrap();
        });
    });
}

#[test]
fn whoever_relies_on_a_file_hears_before_another_change_is_answered() {
    seeds(SEEDS, |seed| {
        scene(seed, RH, async |scene, by, what| {
            scene.smb.does(async |client| client.read(PAGE).await).await.unwrap();
            scene.afs.does(async |client| client.read(PAGE).await).await.unwrap();
            scene.shared.events();
            scene.does(by, what).await;
            let mut events = scene.shared.events();
            let answered = first(&events, Who::Nobody, Event::Answered);
            if (by, what) == (By::Smb, Does::Removes) {
                // It goes when the last has closed it, whatever client was answered before.
                lane::time::sleep(Duration::from_secs(1)).await;
                events.extend(scene.shared.events());
                assert!(
                    first(&events, HOLDER, Event::GivesBack) < first(&events, Who::Afs(0), Event::Broken)
                );
            } else {
                assert!(first(&events, HOLDER, Event::Broken) < answered, "{by:?} {what:?}: {events:?}");
                assert!(first(&events, Who::Afs(0), Event::Broken) < answered, "{by:?} {what:?}: {events:?}");
            }
            let now = scene.reads(By::Http).await;
            for _ in 0..2 {
                assert_eq!(scene.smb.does(async |client| client.read(PAGE).await).await, Some(now));
                assert_eq!(scene.afs.does(async |client| client.read(PAGE).await).await, Some(now));
            }
        });
    });
}

#[test]
fn who_cannot_be_reached_holds_a_change_up_for_his_time_and_hears_first_when_he_is_back() {
    seeds(SEEDS, |seed| {
        scene(seed, RWH, async |scene, by, what| {
            let is_afs = scene.shared.misses() == 0 && by != By::Http;
            let began = lane::time::now();
            if is_afs {
                scene.afs.does(async |client| client.read(PAGE).await).await.unwrap();
                scene.net.partition(&scene.afs.host, &scene.server);
            } else {
                scene.smb.does(async |client| client.read(PAGE).await).await.unwrap();
                scene.net.partition(&scene.smb.host, &scene.server);
            }
            scene.shared.events();
            scene.does(by, what).await;
            let took = lane::time::now() - began;
            let most = match (is_afs, what) {
                // A file is made aside, and then moved: two changes of the directory.
                (true, Does::Replaces) => 10,
                (true, _) => 5,
                (false, _) => 36,
            };
            assert!(
                took > Duration::from_millis(900) && took < Duration::from_secs(most),
                "{by:?} {what:?}: {took:?}"
            );
            assert_eq!(scene.shared.events(), [(Who::Nobody, Event::Answered)], "{by:?} {what:?}");
            let now = scene.reads(By::Http).await;
            let cut_off = if is_afs { &scene.afs.host } else { &scene.smb.host };
            scene.net.heal(cut_off, &scene.server);
            if is_afs {
                // Of another file: it hears of all that it has missed.
                scene.afs.does(async |client| client.read(NAMES[1]).await).await.unwrap();
                assert_eq!(scene.afs.does(async |client| client.read(PAGE).await).await, Some(now));
            } else {
                // What waited in its connection comes.
                lane::time::sleep(Duration::from_secs(10)).await;
                assert_eq!(scene.smb.does(async |client| client.read(PAGE).await).await, Some(now));
            }
        });
    });
}

/// Seeds of a plain run.
const SEEDS: u64 = 24;
