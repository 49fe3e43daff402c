//! Changes of a file's names and attributes, which leave its version: random histories of renames, exchanges,
//! links, removals, replacements and changes of attributes on two lanes, over stops in order, with looks
//! between them and beside them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use identity::Writable;
use index::{Index, Memory, Options};
use lane::backend::sim::{Config, World, seeds};
use lane::fs::{AttributeChange, SetTime, Timestamp, XattrHow};
use lane::time;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use vfs::{
    Cache, CacheOptions, CreateOptions, Error, Expect, Holder, Objects, ObjectsOptions, Replace, Version,
    Volume, VolumeOptions, VolumeSpec,
};

use super::callbacks::look_with_callback;
use super::changes::{buf, write};
use super::{directory, name, nobody, path};

const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };
const DIRECTORIES: [&str; 2] = ["", "d"];
const NAMES: [&str; 4] = ["a", "b", "c", "e"];
const LIVES: usize = 3;
const STEPS: usize = 14;

#[test]
fn what_is_done_to_names_and_attributes_of_a_file_never_changes_its_version() {
    seeds(400, |seed| History::new(seed).run());
}

/// A directory and a name in it.
type Spot = (&'static str, &'static str);

#[derive(Clone, Copy, Debug)]
enum Step {
    Rename(Spot, Spot),
    Exchange(Spot, Spot),
    Link(Spot, Spot),
    Remove(Spot),
    Put(Spot),
    SetMode(Spot, u32),
    SetTimes(Spot),
    SetOpenMode(Spot, u32),
    SetExtended(Spot),
    Look(Spot),
    Promise(Spot),
    Forget,
    Wait(u64),
}

/// Waits where a stamp might be of a whole second, which may be all that a file system has: it says nothing over a stop.
async fn off_the_second() {
    let now = time::wall_clock().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    match now.subsec_millis() {
        0..8 => time::sleep(Duration::from_millis(8)).await,
        950.. => time::sleep(Duration::from_millis(60)).await,
        _ => {}
    }
}

/// File of each name: which file, by the order in which they were made.
type Files = BTreeMap<Spot, usize>;

struct History {
    rng: SmallRng,
    seed: u64,
    files: Files,
    made: usize,
    versions: BTreeMap<usize, Version>,
    done: Vec<Step>,
}

fn at((above, below): Spot) -> String {
    if above.is_empty() { below.to_owned() } else { format!("{above}/{below}") }
}

async fn version(volume: &Volume, spot: Spot) -> Version {
    volume.lookup(path(&at(spot))).await.unwrap().object().unwrap().version()
}

impl Step {
    async fn happens(self, volume: Volume) -> Result<(), Error> {
        let by = nobody();
        let above = async |spot: Spot| directory(&volume, spot.0).await;
        match self {
            Self::Rename(from, to) => {
                let (here, there) = (above(from).await, above(to).await);
                here.rename(&by, name(from.1), &there, name(to.1), Replace::Existing).await
            }
            Self::Exchange(one, other) => {
                let (here, there) = (above(one).await, above(other).await);
                here.exchange(&by, name(one.1), &there, name(other.1)).await
            }
            Self::Link(from, to) => {
                let (here, there) = (above(from).await, above(to).await);
                let which = volume.lookup(path(&at(from))).await?.object().unwrap().number();
                here.link_to(&by, which, name(from.1), &there, name(to.1), Replace::Existing).await
            }
            Self::Remove(spot) => above(spot).await.remove(&by, name(spot.1)).await,
            Self::Put(spot) => {
                let staged = above(spot).await.stage(&by, 0o644).await?;
                staged.write_at(0, buf("text").await).await.0?;
                staged.publish(&by, name(spot.1), Expect::Anything).await.map(drop)
            }
            Self::SetMode(spot, mode) => {
                let change = AttributeChange { mode: Some(mode), ..AttributeChange::NONE };
                above(spot).await.set_attributes_of(&by, name(spot.1), change).await
            }
            Self::SetTimes(spot) => {
                let mtime = SetTime::At(Timestamp { secs: 1_000_000_000, nanos: 5 });
                let change = AttributeChange { mtime, ..AttributeChange::NONE };
                above(spot).await.set_attributes_of(&by, name(spot.1), change).await
            }
            Self::SetOpenMode(spot, mode) => {
                let writer = above(spot).await.open_writer(&by, name(spot.1)).await?;
                let change = AttributeChange { mode: Some(mode), ..AttributeChange::NONE };
                writer.set_attributes(&by, change).await
            }
            Self::SetExtended(spot) => {
                let writer = above(spot).await.open_writer(&by, name(spot.1)).await?;
                writer.set_extended(&by, b"colour", b"blue".to_vec(), XattrHow::Any).await
            }
            Self::Look(spot) => volume.lookup(path(&at(spot))).await.map(drop),
            Self::Promise(spot) => {
                let client = volume.cache().client(Holder(1)).unwrap();
                drop(look_with_callback(&volume, &client, &at(spot)).await);
                Ok(())
            }
            Self::Forget => {
                volume.cache().clear();
                Ok(())
            }
            Self::Wait(ms) => {
                time::sleep(Duration::from_millis(ms)).await;
                Ok(())
            }
        }
    }

    /// Returns what the names lead to afterwards.
    fn changes(self, files: &mut Files, made: &mut usize) {
        match self {
            Self::Rename(from, to) => {
                let moved = files[&from];
                if files.get(&to) != Some(&moved) {
                    files.remove(&from);
                    files.insert(to, moved);
                }
            }
            Self::Exchange(one, other) => {
                let (first, second) = (files[&one], files[&other]);
                files.insert(one, second);
                files.insert(other, first);
            }
            Self::Link(from, to) => drop(files.insert(to, files[&from])),
            Self::Remove(spot) => drop(files.remove(&spot)),
            Self::Put(spot) => {
                files.insert(spot, *made);
                *made += 1;
            }
            _ => {}
        }
    }
}

impl History {
    fn new(seed: u64) -> Self {
        let rng = SmallRng::seed_from_u64(seed);
        Self { rng, seed, files: Files::new(), made: 0, versions: BTreeMap::new(), done: Vec::new() }
    }

    fn run(mut self) {
        let mut config = Config::clean();
        config.fs.delay = Duration::ZERO..Duration::from_micros(300);
        let world = World::new(self.seed, config);
        let host = world.host("10.0.0.1");
        host.fs().create_dir_all("/srv/d").unwrap();
        let lanes = [0, host.add_lane()];
        let storage = Memory::default();
        let is_watched = self.rng.random_bool(0.5);
        for life in 0..LIVES {
            let index = Arc::new(Index::open(storage.clone(), Options::default()).unwrap());
            let objects =
                Objects::new(ObjectsOptions { lanes_max: 2, ..Default::default() }, Arc::clone(&index));
            let open = |objects: Objects| async move {
                let day = Duration::from_secs(86_400);
                let cache = match is_watched {
                    true => CacheOptions::default(),
                    false => {
                        CacheOptions { ttl: day, listing_ttl: day, watches_max: 0, ..Default::default() }
                    }
                };
                let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", VolumeOptions::default());
                let spec = spec.with_objects().writable_by(Writable::anyone());
                Volume::open(&Cache::sharing(cache, &objects), &spec).unwrap()
            };
            let volumes = lanes.map(|lane| world.block_on(&host, host.start_on(lane, open(objects.clone()))));
            let on =
                |lane: usize, step: Step| host.start_on(lanes[lane], step.happens(volumes[lane].clone()));
            if life == 0 {
                world.block_on(&host, off_the_second());
                for at in 0..3 {
                    let (volume, spot) = (volumes[0].clone(), (DIRECTORIES[at % 2], NAMES[at]));
                    let made = async move {
                        let above = directory(&volume, spot.0).await;
                        let made = above.create(&nobody(), name(spot.1), NEW).await.unwrap();
                        write(&made.writer, 0, "text").await.unwrap();
                    };
                    world.block_on(&host, host.start_on(lanes[0], made));
                    self.files.insert(spot, self.made);
                    self.made += 1;
                }
            }
            for _ in 0..STEPS {
                let step = self.step();
                let lane = self.rng.random_range(0..2);
                let beside = self.rng.random_bool(0.3).then(|| self.spot());
                self.done.push(step);
                world.block_on(&host, off_the_second());
                let (one, other) = (on(lane, step), beside.map(|spot| on(1 - lane, Step::Look(spot))));
                let came = world.block_on(&host, async move {
                    if let Some(other) = other {
                        // Its name may be gone by then.
                        let _ = other.await;
                    }
                    one.await
                });
                came.unwrap_or_else(|error| panic!("{error}: {:?}", self.done));
                step.changes(&mut self.files, &mut self.made);
                if self.rng.random_bool(0.25) {
                    self.compare(&mut |lane, spot| {
                        let volume = volumes[lane].clone();
                        world.block_on(
                            &host,
                            host.start_on(lanes[lane], async move { version(&volume, spot).await }),
                        )
                    });
                }
            }
            self.compare(&mut |lane, spot| {
                let volume = volumes[lane].clone();
                world.block_on(&host, host.start_on(lanes[lane], async move { version(&volume, spot).await }))
            });
            self.done.push(Step::Wait(0));
            // Time for the clock of stamps before the stop, as the server gives it.
            world.run_for(Duration::from_millis(100));
            for (lane, volume) in lanes.into_iter().zip(volumes) {
                world.block_on(&host, host.start_on(lane, async move { drop(volume) }));
            }
            world.run_for(Duration::from_millis(100));
            drop(objects);
            index.close().unwrap();
            host.fs().sync_all().unwrap();
            host.restart();
        }
        drop(world);
    }

    /// Each file has the version that it was first seen with, by all its names.
    fn compare(&mut self, version: &mut dyn FnMut(usize, Spot) -> Version) {
        for (spot, file) in self.files.clone() {
            let now = version(self.rng.random_range(0..2), spot);
            let before = *self.versions.entry(file).or_insert(now);
            assert_eq!(now, before, "file {file} at {spot:?}, seed {}, after {:?}", self.seed, self.done);
        }
    }

    fn spot(&mut self) -> Spot {
        let all: Vec<_> = self.files.keys().copied().collect();
        *all.choose(&mut self.rng).unwrap()
    }

    fn step(&mut self) -> Step {
        let from = self.spot();
        let anywhere = (*DIRECTORIES.choose(&mut self.rng).unwrap(), *NAMES.choose(&mut self.rng).unwrap());
        let mode = *[0o600, 0o640, 0o644].choose(&mut self.rng).unwrap();
        match self.rng.random_range(0..16) {
            0..3 => Step::Rename(from, anywhere),
            3 => Step::Exchange(from, self.spot()),
            4 | 5 => Step::Link(from, anywhere),
            6 if self.files.len() > 2 => Step::Remove(from),
            7 => Step::Put(anywhere),
            8 => Step::SetMode(from, mode),
            9 => Step::SetTimes(from),
            10 => Step::SetOpenMode(from, mode),
            11 => Step::SetExtended(from),
            12 => Step::Look(from),
            13 => Step::Promise(from),
            14 => Step::Wait(self.rng.random_range(0..2_000)),
            _ => Step::Forget,
        }
    }
}
