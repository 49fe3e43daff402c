//! A client like Linux's, which goes on writing a file over stops of the server: it holds what it wrote until it has stored that, and
//! believes its own length only as long as each store brings the version that it expects. After any other it takes length and
//! content from the server, and what it had beyond is lost.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::Writable;
use index::{Index, Memory, Options};
use lane::backend::sim::{Config, Fs, Host, Image, World, seeds};
use lane::buffer::BufClass;
use lane::fs::AttributeChange;
use lane::time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use vfs::{
    Cache, CacheOptions, CreateOptions, Number, Objects, ObjectsOptions, Replace, Version, Volume,
    VolumeOptions, VolumeSpec,
};

use super::{name, nobody, path, root};

#[test]
fn what_a_client_has_not_stored_yet_survives_a_server_that_is_started_anew() {
    let totals: Rc<RefCell<BTreeMap<&'static str, u32>>> = Rc::default();
    let all = 1_000;
    let counted = Rc::clone(&totals);
    seeds(all, move |seed| {
        for (what, count) in History::new(seed).run() {
            *counted.borrow_mut().entry(what).or_default() += count;
        }
    });
    let totals = totals.borrow();
    if totals.get("seeds").is_some_and(|seeds| u64::from(*seeds) == all) {
        let happened = [
            "clean",
            "kill",
            "power",
            "reboot",
            "set back",
            "edited",
            "stored over a clean stop",
            "stored over a kill",
        ];
        for what in happened.into_iter().chain(["stores", "begun anew", "changed aside"]) {
            assert!(totals.get(what).is_some_and(|count| *count > 100), "{what}: {totals:?}");
        }
    }
}

/// State of a client.
#[derive(Default)]
struct Client {
    /// Number and version of the last status or store.
    known: Option<(Number, Version)>,
    /// All that it wrote, whether it has stored it or not.
    content: Vec<u8>,
    /// Bytes of that which the server has.
    stored: usize,
    /// Set if what it knows was told by this life of the server, or by an earlier one after which versions
    /// count on.
    is_sure: bool,
    /// The client has heard nothing from this life of the server yet.
    is_of_before: bool,
    /// This life of the server has gone on for a while since the last store.
    is_at_rest: bool,
    /// The server was killed while all was at rest.
    was_killed: bool,
    /// Of whole contents, by version, for ever: whatever happens to disk and index.
    contents: HashMap<(Number, Version), Vec<u8>>,
    counts: BTreeMap<&'static str, u32>,
}

struct History {
    rng: SmallRng,
    world: World,
    host: Host,
    index: Memory,
    boot: u8,
    client: Rc<RefCell<Client>>,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut config = Config::clean();
        config.fs.delay = Duration::ZERO..Duration::from_micros(300);
        let world = World::new(seed, config);
        let host = world.host("10.0.0.1");
        host.fs().create_dir_all("/srv").unwrap();
        host.fs().write(FILE, "").unwrap();
        host.fs().sync_all().unwrap();
        host.add_lane();
        let (rng, client) = (SmallRng::seed_from_u64(seed), Rc::default());
        Self { rng, world, host, index: Memory::journaled(), boot: 1, client }
    }

    fn run(mut self) -> BTreeMap<&'static str, u32> {
        let mut images: Vec<(Image, Vec<u8>)> = Vec::new();
        for _ in 0..6 {
            self.live();
            if self.rng.random_bool(0.2) && !images.is_empty() {
                let (tree, index) = &images[self.rng.random_range(0..images.len())];
                self.host.fs().set_back(tree);
                self.index.set_back(index);
                // As many seconds as there were openings.
                self.world.run_for(Duration::from_secs(10));
                self.client.borrow_mut().is_sure = false;
                self.count("set back");
            } else if self.rng.random_bool(0.3) {
                images.push((self.host.fs().image(), self.index.image()));
            }
            let pause = self.rng.random_range(0..100);
            self.world.run_for(Duration::from_millis(pause));
            if self.rng.random_bool(0.1) {
                self.edit(&self.host.fs());
            }
            self.host.restart();
        }
        self.count("seeds");
        drop(self.world);
        self.client.take().counts
    }

    /// A life of the server; how it ended decides what the client may rely on.
    fn live(&mut self) {
        // It was renamed as the server ended.
        if self.host.fs().rename("/srv/g", FILE).is_ok() {
            self.client.borrow_mut().is_sure = false;
        }
        let options = Options { boot: [self.boot; 16], pending_max: 64, ..Options::default() };
        let index = Arc::new(Index::open(self.index.clone(), options).unwrap());
        let objects = Objects::new(ObjectsOptions { lanes_max: 1, ..Default::default() }, Arc::clone(&index));
        let (client, seed) = (Rc::clone(&self.client), self.rng.random());
        {
            let mut client = client.borrow_mut();
            (client.is_of_before, client.is_at_rest) = (true, false);
        }
        let writing = {
            let objects = objects.clone();
            let index = Arc::clone(&index);
            self.host.start_on(0, async move { write(&client, seed, &objects, &index).await })
        };
        match self.rng.random_range(0..6) {
            how @ 0..4 => {
                self.world.block_on(&self.host, writing);
                assert_eq!(objects.in_use(), 0);
                index.close().unwrap();
                self.index = self.index.parted();
                self.host.kill();
                self.count("clean");
                if how == 3 {
                    self.boot += 1;
                    self.client.borrow_mut().is_sure = false;
                    self.count("reboot");
                }
            }
            how => {
                let after = self.rng.random_range(0..150_000);
                self.world.run_for(Duration::from_micros(after));
                let loses_power = how == 5;
                match loses_power {
                    true => self.host.lose_power(),
                    false => {
                        // What ends with the process cannot write to it.
                        self.index = self.index.parted();
                        self.host.kill();
                    }
                }
                drop((writing, objects, index));
                if loses_power {
                    let keeps = self.rng.random_range(0.0..1.0);
                    self.index.lose_power(|| self.rng.random_bool(keeps));
                    self.index = self.index.parted();
                    self.boot += 1;
                }
                let mut client = self.client.borrow_mut();
                client.is_sure &= !loses_power && client.is_at_rest;
                client.was_killed = client.is_sure;
                drop(client);
                self.count(if loses_power { "power" } else { "kill" });
            }
        }
    }

    /// Writes the file as another program while no server runs.
    fn edit(&self, fs: &Fs) {
        fs.write(FILE, "somebody else's").unwrap();
        self.client.borrow_mut().is_sure = false;
        self.count("edited");
    }

    fn count(&self, what: &'static str) {
        *self.client.borrow_mut().counts.entry(what).or_default() += 1;
    }
}

/// Runs the client while one life of the server lasts.
async fn write(client: &RefCell<Client>, seed: u64, objects: &Objects, index: &Arc<Index>) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let cache = CacheOptions {
        watches_max: 0,
        // Sometimes the file is let go of between two stores.
        open_idle_max: Duration::from_millis(rng.random_range(1..20)),
        ..CacheOptions::default()
    };
    let cache = Cache::sharing(cache, objects);
    let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", VolumeOptions::default());
    let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
    for _ in 0..rng.random_range(1..8) {
        time::sleep(Duration::from_millis(rng.random_range(0..8))).await;
        match rng.random_range(0..10) {
            0..3 => look(client, &volume).await,
            3 => rest(client, &volume, index, &mut rng).await,
            _ => store(client, &volume, &mut rng).await,
        }
    }
    // As a server does when it stops.
    time::sleep(vfs::SETTLES_IN).await;
    let vfs::Resolved::File(_, found) = volume.lookup(path("f")).await.unwrap() else {
        panic!("it is a file")
    };
    // A time of whole seconds may be a coarse file system's: over a stop it proves nothing.
    client.borrow_mut().is_sure &= found.ctime.nanos != 0;
    index.beat(time::wall_clock());
    client.borrow_mut().is_at_rest = true;
    cache.clear();
}

/// For a while nothing happens but what a server does by itself.
async fn rest(client: &RefCell<Client>, volume: &Volume, index: &Arc<Index>, rng: &mut SmallRng) {
    if rng.random_bool(0.3) {
        change_aside(client, volume, rng).await;
    }
    if rng.random() {
        look(client, volume).await;
        if let vfs::Resolved::File(_, found) = volume.lookup(path("f")).await.unwrap()
            && found.ctime.nanos != 0
        {
            time::sleep(vfs::SETTLES_IN).await;
            index.beat(time::wall_clock());
            client.borrow_mut().is_at_rest = true;
        }
    }
    if rng.random() {
        let index = Arc::clone(index);
        lane::offload::offload(None, move || index.flush()).await.unwrap().unwrap();
    }
    time::sleep(Duration::from_millis(rng.random_range(0..40))).await;
}

/// Changes what is no content: the version stays, over a stop too.
async fn change_aside(client: &RefCell<Client>, volume: &Volume, rng: &mut SmallRng) {
    client.borrow_mut().is_at_rest = false;
    let root = root(volume).await;
    if rng.random() {
        let change = AttributeChange { mode: Some(rng.random_range(0o600..0o700)), ..AttributeChange::NONE };
        root.set_attributes_of(&nobody(), name("f"), change).await.unwrap();
    } else {
        for (from, to) in [("f", "g"), ("g", "f")] {
            root.rename(&nobody(), name(from), &root, name(to), Replace::Existing).await.unwrap();
        }
    }
    let vfs::Resolved::File(_, found) = volume.lookup(path("f")).await.unwrap() else {
        panic!("it is a file")
    };
    let mut client = client.borrow_mut();
    // As at the end of a life.
    client.is_sure &= found.ctime.nanos != 0;
    *client.counts.entry("changed aside").or_default() += 1;
}

/// Asks for the status, and believes it.
async fn look(client: &RefCell<Client>, volume: &Volume) {
    let found = volume.lookup(path("f")).await.unwrap();
    let (object, content) = (found.object().unwrap(), content(volume).await);
    let now = (object.number(), object.version());
    let mut client = client.borrow_mut();
    client.believe(now, content);
}

/// Writes something more, and stores it by what it knows.
async fn store(client: &RefCell<Client>, volume: &Volume, rng: &mut SmallRng) {
    client.borrow_mut().is_at_rest = false;
    if client.borrow().known.is_none() {
        look(client, volume).await;
    }
    let dirty: Vec<u8> = (0..rng.random_range(1..40)).map(|_| rng.random()).collect();
    let (from, bytes, (number, version)) = {
        let mut client = client.borrow_mut();
        client.content.extend(&dirty);
        // Not all of it is stored at once.
        let to = client.content.len() - rng.random_range(0..dirty.len());
        let from = client.stored.min(to);
        (from, client.content[from..to].to_vec(), client.known.unwrap())
    };
    let root = root(volume).await;
    let how = CreateOptions { exclusive: false, mode: 0o644 };
    let writer = root.create(&nobody(), name("f"), how).await.unwrap().writer;
    let store = writer.store(&nobody());
    let mut buf = lane::current().buffers().get(BufClass::Small).await;
    assert_eq!(buf.append(&bytes), bytes.len());
    store.write_vectored_at(from as u64, vec![buf]).await.0.unwrap();
    let object = writer.file().object().unwrap();
    let told = (object.number(), store.version().unwrap());
    let content = content(volume).await;
    let mut client = client.borrow_mut();
    *client.counts.entry("stores").or_default() += 1;
    if told == (number, version.next()) {
        client.stored = from + bytes.len();
        client.note(told, content);
        client.known = Some(told);
    } else {
        assert!(!client.is_sure, "{told:?} after {version:?}: what is not stored yet is lost");
        *client.counts.entry("begun anew").or_default() += 1;
        client.believe(told, content);
    }
    if std::mem::take(&mut client.was_killed) && client.is_sure {
        *client.counts.entry("stored over a kill").or_default() += 1;
    } else if std::mem::take(&mut client.is_of_before) && client.is_sure {
        *client.counts.entry("stored over a clean stop").or_default() += 1;
    }
    client.is_sure = true;
}

async fn content(volume: &Volume) -> Vec<u8> {
    let found = volume.lookup(path("f")).await.unwrap();
    let vfs::Resolved::File(file, _) = found else { panic!("it is a file") };
    let buf = lane::current().buffers().get(BufClass::Large).await;
    let (read, bytes) = file.read_at(0, buf.capacity(), buf).await;
    bytes[..read.unwrap()].to_vec()
}

impl Client {
    /// The server says so: what it does not have is lost if it is another version.
    fn believe(&mut self, now: (Number, Version), content: Vec<u8>) {
        self.note(now, content.clone());
        if self.known != Some(now) {
            assert!(!self.is_sure, "{now:?} after {:?}, with nobody else there", self.known);
            self.known = Some(now);
            self.stored = content.len();
            self.content = content;
        }
        self.is_sure = true;
        self.is_of_before = false;
    }

    /// A version that was told names this content for ever.
    fn note(&mut self, now: (Number, Version), content: Vec<u8>) {
        let known = self.contents.entry(now).or_insert_with(|| content.clone());
        assert_eq!(*known, content, "{now:?} has two contents");
    }
}

const FILE: &str = "/srv/f";
