//! Numbers and versions over clean stops, kills, losses of power, lost and set-back indices, and changes made while no server
//! runs: no number ever names two files, and with its version it names one content for ever.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::{Rights, Writable};
use index::{Index, Memory, Options, PreviousShutdown};
use lane::backend::sim::{Config, Host, Image, World, seeds};
use lane::buffer::{Buf, BufClass};
use lane::time;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use vfs::{
    Cache, CacheOptions, CheckOptions, CreateOptions, Error, Expect, Identity, Number, Objects,
    ObjectsOptions, Problem, ProblemKind, Replace, Resolved, Version, Volume, VolumeOptions, VolumeSpec,
};

use super::changes::buf;
use super::{name, nobody, path, root};

#[test]
fn a_number_names_one_file_and_with_its_version_one_content_whatever_happens() {
    let totals: Rc<RefCell<BTreeMap<&'static str, u32>>> = Rc::default();
    let all = 1_000;
    let counted = Rc::clone(&totals);
    seeds(all, move |seed| {
        let history = History::new(seed);
        for (what, count) in history.run() {
            *counted.borrow_mut().entry(what).or_default() += count;
        }
    });
    let totals = totals.borrow();
    // The histories were no easy ones; one seed alone need not have all.
    if totals.get("seeds").is_some_and(|seeds| u64::from(*seeds) == all) {
        let happened = ["clean", "kill", "power", "lost", "set back", "disk set back", "edited", "checked"];
        for what in happened.into_iter().chain([
            "mended",
            "nothing to mend",
            "as it was",
            "looks",
            "counted on over a kill",
        ]) {
            assert!(totals.get(what).is_some_and(|count| *count > 100), "{what}: {totals:?}");
        }
    }
}

/// A client of SMB that still has it open writes: the file is gone with the process.
#[test]
fn what_is_written_after_the_last_name_went_leaves_no_record_over_a_kill() {
    let mut history = History::new(1);
    let options = Options { boot: [history.boot; 16], ..Options::default() };
    let index = Arc::new(Index::open(history.index.clone(), options).unwrap());
    let objects = Objects::new(ObjectsOptions { lanes_max: 2, ..Default::default() }, Arc::clone(&index));
    let shared = objects.clone();
    let working = history.host.start_on(0, async move {
        let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", VolumeOptions::default());
        let cache = Cache::sharing(CacheOptions::default(), &shared);
        let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
        let (root, caller) = (root(&volume).await, nobody());
        let how = CreateOptions { exclusive: false, mode: 0o644 };
        let mut open = Vec::new();
        for at in ["written", "cut", "left"] {
            let writer = root.create(&caller, name(at), how).await.unwrap().writer;
            writer.write_at(&caller, 0, buf("before").await).await.0.unwrap();
            root.remove(&caller, name(at)).await.unwrap();
            match at {
                "written" => writer.write_at(&caller, 0, buf("after").await).await.0.unwrap(),
                "cut" => writer.truncate(&caller, 3).await.unwrap(),
                _ => {}
            }
            open.push(writer);
        }
        time::sleep(Duration::from_secs(3_600)).await;
        drop(open);
    });
    history.world.run_for(Duration::from_secs(1));
    assert_eq!(objects.in_use(), 4, "the files are open, and the root");
    history.part();
    history.host.kill();
    drop((working, objects, index));
    history.host.restart();
    history.check();
}

/// All that was ever said of the files.
#[derive(Default)]
struct Said {
    files: HashMap<Number, Identity>,
    contents: HashMap<(Number, Version), Vec<u8>>,
    counts: BTreeMap<&'static str, u32>,
    /// Begun and ended in this life.
    changes: (u32, u32),
}

struct History {
    rng: SmallRng,
    world: World,
    host: Host,
    index: Memory,
    boot: u8,
    said: Rc<RefCell<Said>>,
    /// Nothing but what is in order has happened since index and tree were compared.
    agrees: bool,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut config = Config::clean();
        config.fs.delay = Duration::ZERO..Duration::from_micros(300);
        let world = World::new(seed, config);
        let host = world.host("10.0.0.1");
        host.fs().create_dir_all("/srv").unwrap();
        host.fs().sync_all().unwrap();
        host.add_lane();
        let rng = SmallRng::seed_from_u64(seed);
        Self { rng, world, host, index: Memory::journaled(), boot: 1, said: Rc::default(), agrees: true }
    }

    fn run(mut self) -> BTreeMap<&'static str, u32> {
        let mut earlier = self.index.image();
        let mut disk_earlier = (self.host.fs().image(), earlier.clone());
        for _ in 0..5 {
            let options = Options { boot: [self.boot; 16], pending_max: 64, ..Options::default() };
            let index = Arc::new(Index::open(self.index.clone(), options).unwrap());
            *self.said.borrow_mut().counts.entry("counted on over a kill").or_default() +=
                u32::from(*index.previous_shutdown() == PreviousShutdown::Crash && index.counts_on());
            let is_clean = self.live(index);
            let what = self.rng.random_range(0..9);
            match what {
                0 => {
                    self.index.set_back(&[]);
                    self.count("lost");
                }
                1 => {
                    self.index.set_back(&earlier);
                    self.count("set back");
                }
                2 => {
                    self.set_disk_back(&disk_earlier);
                    earlier = self.index.image();
                }
                _ => earlier = self.index.image(),
            }
            if what > 5 {
                disk_earlier = (self.host.fs().image(), self.index.image());
            }
            let is_edited = self.edit();
            let pause = self.rng.random_range(0..100);
            self.world.run_for(Duration::from_millis(pause));
            self.host.restart();
            self.agrees &= is_clean && what > 2 && !is_edited;
            if self.rng.random_bool(0.3) {
                self.check();
            }
        }
        self.count("seeds");
        drop(self.world);
        self.said.take().counts
    }

    /// One process, from its start to its end; whether that was in order.
    fn live(&mut self, index: Arc<Index>) -> bool {
        let options = ObjectsOptions { lanes_max: 2, ..Default::default() };
        let objects = Objects::new(options, Arc::clone(&index));
        self.said.borrow_mut().changes = (0, 0);
        let working: Vec<_> = (0..2)
            .map(|lane| {
                let (objects, index, said) = (objects.clone(), Arc::clone(&index), Rc::clone(&self.said));
                let seed = self.rng.random();
                self.host.start_on(lane, async move { work(seed, &objects, &index, &said).await })
            })
            .collect();
        match self.rng.random_range(0..3) {
            0 => {
                self.world.block_on(&self.host, async move {
                    for one in working {
                        one.await;
                    }
                });
                assert_eq!(objects.in_use(), 0);
                index.close().unwrap();
                self.part();
                self.host.kill();
                self.count("clean");
                return true;
            }
            kind => {
                let after = self.rng.random_range(0..20_000);
                self.world.run_for(Duration::from_micros(after));
                if kind == 1 {
                    self.part();
                    self.host.kill();
                    drop((working, objects, index));
                    self.count("kill");
                } else {
                    self.host.lose_power();
                    // Nothing writes to it any more.
                    drop((working, objects, index));
                    let keeps = self.rng.random_range(0.0..1.0);
                    self.index.lose_power(|| self.rng.random_bool(keeps));
                    self.part();
                    self.boot += 1;
                    self.count("power");
                }
            }
        }
        false
    }

    /// Makes another file with the same bytes: what is left of the process, as what ends with it and jobs of
    /// its helpers, cannot write to it.
    fn part(&mut self) {
        self.index = self.index.parted();
    }

    /// Sets the whole disk, tree and index, back to some time ago. Numbers that were given out since are
    /// given out again, as no client that knows of them is left; versions are not, by the time of day.
    fn set_disk_back(&mut self, (tree, index): &(Image, Vec<u8>)) {
        self.host.fs().set_back(tree);
        self.index.set_back(index);
        self.said.borrow_mut().files.clear();
        self.world.run_for(OPENINGS_MAX);
        self.count("disk set back");
    }

    /// The operator has index and tree compared: what does not agree is mended then, and what was always left in order does.
    fn check(&mut self) {
        let options = Options { boot: [self.boot; 16], ..Options::default() };
        let index = Arc::new(Index::open(self.index.clone(), options).unwrap());
        let volumes = index.volumes();
        for (volume, _) in volumes {
            let check = || {
                let index = Arc::clone(&index);
                let options = CheckOptions { repair: true, trusted_attributes: false };
                self.world.block_on(&self.host, async move {
                    vfs::check(&index, volume, options, Arc::default()).await.unwrap()
                })
            };
            let (first, second) = (check(), check());
            assert!(first.is_mended(), "{first:?}");
            assert!(second.is_clean(), "{second:?} after {first:?}");
            // What was on its way to be removed stays with the last task.
            let is_left = |problem: &Problem| matches!(problem.trouble, ProblemKind::Leftover { .. });
            let agrees = first.problems.iter().all(is_left);
            assert!(agrees || !self.agrees, "{first:?} after stops in order");
            self.count("checked");
            self.count(if first.is_clean() { "nothing to mend" } else { "mended" });
        }
        index.put_back().unwrap();
        self.agrees = true;
    }

    /// Changes the tree while no server runs, or leaves it.
    fn edit(&mut self) -> bool {
        let mut is_edited = false;
        while self.rng.random_bool(0.4) {
            is_edited |= self.edit_once();
        }
        is_edited
    }

    fn edit_once(&mut self) -> bool {
        let (fs, rng) = (self.host.fs(), &mut self.rng);
        let at = format!("/srv/{}", NAMES.choose(rng).unwrap());
        let done = match rng.random_range(0..4) {
            // Of the length that it has perhaps.
            0 => fs.write(&at, text(rng)),
            1 => fs.replace(&at, text(rng)),
            2 => fs.remove(&at),
            _ => fs.rename(&at, &format!("/srv/{}", NAMES.choose(rng).unwrap())),
        };
        if done.is_ok() {
            self.count("edited");
        }
        done.is_ok()
    }

    fn count(&self, what: &'static str) {
        *self.said.borrow_mut().counts.entry(what).or_default() += 1;
    }
}

/// Runs one lane.
async fn work(seed: u64, objects: &Objects, index: &Arc<Index>, said: &RefCell<Said>) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let day = Duration::from_secs(86_400);
    // Files are let go of soon, so that the index is asked.
    let cache = CacheOptions {
        ttl: day,
        listing_ttl: day,
        watches_max: 0,
        idle_max: Duration::from_millis(2),
        open_idle_max: Duration::from_millis(2),
        ..CacheOptions::default()
    };
    let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", VolumeOptions::default());
    let cache = Cache::sharing(cache, objects);
    let volume = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
    assert_eq!(volume.shared().unwrap().trouble(), None);
    for _ in 0..rng.random_range(5..25) {
        time::sleep(Duration::from_micros(rng.random_range(0..3_000))).await;
        let at = *NAMES.choose(&mut rng).unwrap();
        match rng.random_range(0..10) {
            0..4 => look(&volume, at, said).await,
            8 => index.beat(time::wall_clock()),
            9 => {
                let index = Arc::clone(index);
                lane::offload::offload(None, move || index.flush()).await.unwrap().unwrap();
            }
            _ => {
                said.borrow_mut().changes.0 += 1;
                let changed = change(&volume, at, &mut rng).await;
                said.borrow_mut().changes.1 += 1;
                match changed {
                    Ok(()) | Err(Error::NotFound | Error::Exists) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
    // As a server does when it stops.
    time::sleep(vfs::SETTLES_IN).await;
    cache.clear();
}

async fn change(volume: &Volume, at: &str, rng: &mut SmallRng) -> Result<(), Error> {
    let (root, caller) = (root(volume).await, nobody());
    match rng.random_range(0..5) {
        0 => {
            let staged = root.stage(&caller, 0o644).await?;
            staged.write_at(0, buf(&text(rng)).await).await.0?;
            if rng.random() {
                staged.sync().await?;
            }
            staged.publish(&caller, name(at), Expect::Anything).await.map(drop)
        }
        1 => root.remove(&caller, name(at)).await,
        2 => {
            let to = *NAMES.choose(rng).unwrap();
            root.rename(&caller, name(at), &root, name(to), Replace::Existing).await
        }
        _ => {
            let how = CreateOptions { exclusive: false, mode: 0o644 };
            let writer = root.create(&caller, name(at), how).await?.writer;
            let written = writer.write_at(&caller, 0, buf(&text(rng)).await).await.0;
            if rng.random() {
                writer.sync(lane::fs::SyncOf::All).await?;
            }
            written
        }
    }
}

/// Notes number, version and content of what has a name, if nothing changes meanwhile: what is read then is
/// of that version.
async fn look(volume: &Volume, at: &str, said: &RefCell<Said>) {
    let changes = said.borrow().changes;
    let found = match volume.lookup_as(&nobody(), path(at), Rights::READ).await {
        Ok(Resolved::File(file, _)) => file,
        Ok(_) | Err(Error::NotFound) => return,
        Err(error) => panic!("{error}"),
    };
    let object = found.object().unwrap();
    let before = object.version();
    let (read, bytes) = found.read_at(0, 64, small().await).await;
    let content = bytes[..read.unwrap()].to_vec();
    let mut said = said.borrow_mut();
    if said.changes != changes || changes.0 != changes.1 {
        return;
    }
    assert_eq!(object.version(), before);
    let number = object.number();
    let owner = said.files.entry(number).or_insert_with(|| object.identity().clone());
    assert_eq!(owner, object.identity(), "{number} names two files");
    let is_known = said.contents.contains_key(&(number, before));
    let known = said.contents.entry((number, before)).or_insert_with(|| content.clone());
    assert_eq!(*known, content, "{number} has two contents in {before:?}");
    *said.counts.entry("looks").or_default() += 1;
    *said.counts.entry("as it was").or_default() += u32::from(is_known);
}

/// All of one length, so that it does not tell them apart.
fn text(rng: &mut SmallRng) -> String {
    format!("{:010}", rng.random::<u32>())
}

async fn small() -> Buf {
    lane::current().buffers().get(BufClass::Small).await
}

/// As many seconds as there are openings of a volume, and more.
const OPENINGS_MAX: Duration = Duration::from_secs(20);
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
