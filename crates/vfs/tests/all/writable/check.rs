//! After any damage to index and tree, a check that mends what it finds finds nothing afterwards.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::Writable;
use index::{Index, Memory, Options, VolumeId};
use lane::backend::sim::{Config, FoundKind, Fs, Host, World, seeds};
use lane::time;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use redb::{ReadableTable, TableDefinition};
use vfs::{
    Cache, CacheOptions, CheckOptions, CheckReport, Expect, Holder, Objects, ObjectsOptions, ProblemKind,
    Quota, Usage, Volume, VolumeOptions, VolumeSpec,
};

use super::callbacks::look_with_callback;
use super::changes::buf;
use super::usage::{change_at_random, count, plant, walk};
use super::{Process, name, nobody, path, root};

#[test]
fn what_a_check_has_mended_the_next_does_not_find_whatever_was_damaged() {
    let found: Rc<RefCell<BTreeMap<&'static str, u32>>> = Rc::default();
    let (all, counted) = (1_000, Rc::clone(&found));
    seeds(all, move |seed| {
        let bed = Bed::new(seed);
        let mut rng = SmallRng::seed_from_u64(seed);
        bed.live(&mut rng);
        for _ in 0..rng.random_range(0..4) {
            edit(&bed.host.fs(), &mut rng);
        }
        if rng.random_bool(0.3) {
            bed.record_usage(Usage { bytes: rng.random_range(0..5000), files: rng.random_range(0..20) });
        }
        bed.damage_records(&mut rng);

        let [looked, mended, after] = bed.check([false, true, true]);
        assert_eq!(looked.mended, 0);
        assert_eq!(looked.is_clean(), mended.is_clean(), "{looked:?}, {mended:?}");
        assert!(mended.is_mended(), "{mended:?}");
        assert!(after.is_clean(), "{after:?} after {mended:?}");
        assert_eq!(after.holds, Some(walk(&bed.host.fs())));
        for problem in &mended.problems {
            *counted.borrow_mut().entry(problem.trouble.word()).or_default() += 1;
        }
        *counted.borrow_mut().entry("seeds").or_default() += 1;
        // The server that comes finds it so too.
        bed.live(&mut rng);
    });
    let found = found.borrow();
    // One seed alone need not have all.
    if found.get("seeds").is_some_and(|seeds| u64::from(*seeds) == all) {
        let records =
            ["stray-record", "dangling-identity", "unreserved-number", "version-ahead", "no-parent"];
        for word in records.into_iter().chain(["gone", "moved", "kind", "leftover", "usage"]) {
            assert!(found.get(word).is_some_and(|count| *count > 10), "{word}: {found:?}");
        }
    }
}

#[test]
fn what_is_recorded_of_a_volumes_use_is_held_against_its_tree_where_it_would_be_believed() {
    let bed = Bed::new(1);
    let mut rng = SmallRng::seed_from_u64(1);
    bed.live(&mut rng);
    let held = walk(&bed.host.fs());
    let [sound] = bed.check([true]);
    assert!(sound.is_clean(), "{sound:?}");
    assert_eq!(sound.holds, Some(held));

    bed.host.fs().write("/srv/copied", vec![1; 700]).unwrap();
    let more = Usage { bytes: held.bytes + 700, files: held.files + 1 };
    let told = [ProblemKind::Usage { recorded: held, held: more }];
    let troubles = |report: &CheckReport| -> Vec<ProblemKind> {
        report.problems.iter().map(|problem| problem.trouble.clone()).collect()
    };
    let [looked, mended, after] = bed.check([false, true, true]);
    assert_eq!((&troubles(&looked)[..], looked.mended), (&told[..], 0));
    assert_eq!((&troubles(&mended)[..], mended.mended), (&told[..], 1));
    assert!(after.is_clean(), "{after:?}");
    assert_eq!(bed.with_index(|index| index.volumes()[0].1.usage), more);
    let shown = told[0].to_string();
    assert!(shown.ends_with(&format!("it holds {} bytes in {} files", more.bytes, more.files)), "{shown}");

    // A server that has not stopped counts anew, whatever was recorded.
    bed.record_usage_of_earlier(Usage { bytes: 1, files: 1 });
    let [earlier] = bed.check([true]);
    assert!(earlier.is_clean(), "{earlier:?}");
}

#[test]
fn what_linerate_put_did_not_finish_is_taken_away_by_a_check_that_mends_and_by_no_other() {
    let bed = Bed::new(1);
    let mut rng = SmallRng::seed_from_u64(1);
    let fs = bed.host.fs();
    let left = format!("/srv/{}", transfer::staged_name("large"));
    fs.write(&left, vec![1; 700]).unwrap();
    fs.write("/srv/large.linerate-put", "a user's").unwrap();
    bed.live(&mut rng);
    // Counted, and recorded, as the server did that was killed.
    let is_left = fs.read(&left).is_ok();
    if !is_left {
        fs.write(&left, vec![1; 700]).unwrap();
    }
    let [looked, mended, after] = bed.check([false, true, true]);
    let told = |report: &CheckReport| {
        let is_it = |trouble: &ProblemKind| matches!(trouble, ProblemKind::Leftover { path } if left.ends_with(&**path));
        report.problems.iter().any(|problem| is_it(&problem.trouble))
    };
    assert!(told(&looked) && looked.mended == 0, "{looked:?}");
    assert!(told(&mended) && mended.is_mended(), "{mended:?}");
    assert!(after.is_clean(), "{after:?}");
    assert!(fs.read(&left).is_err() && fs.read("/srv/large.linerate-put").is_ok());
}

/// Clients rely on what is in the directory, so that what notification tells of it is looked at.
#[test]
fn nothing_is_recorded_by_a_name_of_the_servers_own() {
    seeds(100, |seed| {
        let mut config = Config::clean();
        config.fs.delay = Duration::ZERO..Duration::from_micros(300);
        let bed = Bed::with(seed, config);
        let index = bed.index();
        let objects = Objects::new(ObjectsOptions { lanes_max: 1, ..Default::default() }, Arc::clone(&index));
        let mut dice = SmallRng::seed_from_u64(seed);
        bed.world.block_on(&bed.host, async move {
            let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", VolumeOptions::default());
            let cache = Cache::sharing(CacheOptions::default(), &objects);
            let spec = spec.with_objects().writable_by(Writable::anyone());
            let volume = Volume::open(&cache, &spec).unwrap();
            let client = cache.client(Holder(1)).unwrap();
            let root = root(&volume).await;
            for round in 0..6 {
                let _promised = look_with_callback(&volume, &client, "").await;
                let staged = root.stage(&nobody(), 0o644).await.unwrap();
                staged.write_at(0, buf("text").await).await.0.unwrap();
                // Some replace the one before.
                let at = format!("page-{}", round / 2);
                staged.publish(&nobody(), name(&at), Expect::Anything).await.unwrap();
                drop(look_with_callback(&volume, &client, &at).await);
                time::sleep(Duration::from_micros(dice.random_range(0..20_000))).await;
            }
            assert!(cache.counters().watches.get() > 0, "notification tells of nothing");
            cache.clear();
        });
        bed.host.fs().sync_all().unwrap();
        index.close().unwrap();
        bed.host.kill();
        bed.host.restart();
        let [report] = bed.check([false]);
        assert!(report.is_clean(), "{report:?}");
    });
}

/// The index knows the file from before it was opened, so that its closing has nothing else to tell.
#[test]
fn nothing_stays_recorded_of_a_file_that_another_program_removes_while_it_is_open() {
    seeds(100, |seed| {
        let mut config = Config::clean();
        config.fs.delay = Duration::ZERO..Duration::from_micros(300);
        let bed = Bed::with(seed, config);
        let index = bed.index();
        let objects = Objects::new(ObjectsOptions { lanes_max: 1, ..Default::default() }, Arc::clone(&index));
        let (mut dice, fs) = (SmallRng::seed_from_u64(seed), bed.host.fs());
        bed.world.block_on(&bed.host, async move {
            let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", VolumeOptions::default());
            let cache = Cache::sharing(CacheOptions::default(), &objects);
            let spec = spec.with_objects().writable_by(Writable::anyone());
            let volume = Volume::open(&cache, &spec).unwrap();
            let root = root(&volume).await;
            for round in 0..4 {
                let at = format!("page-{round}");
                fs.write(&format!("/srv/{at}"), "text").unwrap();
                volume.lookup(path(&at)).await.unwrap();
                cache.clear();
                volume.lookup(path(&at)).await.unwrap();
                match dice.random_range(0..3) {
                    0 => fs.replace(&format!("/srv/{at}"), "another").unwrap(),
                    _ => fs.remove(&format!("/srv/{at}")).unwrap(),
                }
                time::sleep(Duration::from_micros(dice.random_range(0..500))).await;
                match dice.random_range(0..3) {
                    0 => drop(root.make_directory(&nobody(), name(&at), 0o755).await),
                    1 => drop(volume.lookup(path(&at)).await),
                    _ => time::sleep(Duration::from_millis(20)).await,
                }
            }
            cache.clear();
        });
        bed.host.fs().sync_all().unwrap();
        index.close().unwrap();
        bed.host.kill();
        bed.host.restart();
        let [report] = bed.check([false]);
        assert!(report.is_clean(), "{report:?}");
    });
}

/// A host with a tree, and the index of its servers.
struct Bed {
    world: World,
    host: Host,
    memory: Memory,
}

impl Bed {
    fn new(seed: u64) -> Self {
        Self::with(seed, Config::clean())
    }

    fn with(seed: u64, config: Config) -> Self {
        let world = World::new(seed, config);
        let host = world.host("10.0.0.1");
        host.fs().create_dir_all("/srv").unwrap();
        plant(&host.fs(), &mut SmallRng::seed_from_u64(seed));
        Self { world, host, memory: Memory::default() }
    }

    fn index(&self) -> Arc<Index> {
        let options = Options { boot: [1; 16], ..Options::default() };
        Arc::new(Index::open(self.memory.clone(), options).unwrap())
    }

    /// One server, from its start to its end in order.
    fn live(&self, rng: &mut SmallRng) {
        let index = self.index();
        let options = ObjectsOptions { lanes_max: 1, ..Default::default() };
        let process = Process {
            host: self.host.clone(),
            objects: Objects::new(options, Arc::clone(&index)),
            lanes: vec![0],
            writable: Writable::anyone(),
            quota: Quota::default(),
            is_counted: true,
        };
        let (mut dice, fs) = (SmallRng::seed_from_u64(rng.random()), self.host.fs());
        self.world.block_on(&self.host, async move {
            let volume = process.volume();
            assert_eq!(count(&volume).await.used, walk(&fs));
            change_at_random(&volume, &mut dice).await;
            volume.cache().clear();
        });
        self.host.fs().sync_all().unwrap();
        index.close().unwrap();
        self.host.kill();
        self.host.restart();
        self.world.run_for(Duration::from_millis(50));
    }

    /// Uses the index as a command does.
    fn with_index<T>(&self, use_it: impl FnOnce(&Index) -> T) -> T {
        let index = self.index();
        let used = use_it(&index);
        index.put_back().unwrap();
        used
    }

    fn record_usage(&self, usage: Usage) {
        self.with_index(|index| index.record_usage(index.volumes()[0].0, usage, true).unwrap());
    }

    fn record_usage_of_earlier(&self, usage: Usage) {
        self.with_index(|index| index.record_usage(index.volumes()[0].0, usage, false).unwrap());
    }

    /// Checks one after another, each mending or not.
    fn check<const N: usize>(&self, all: [bool; N]) -> [CheckReport; N] {
        let index = self.index();
        let (volume, _) = index.volumes()[0].clone();
        let reports = all.map(|repair| {
            let index = Arc::clone(&index);
            let options = CheckOptions { repair, trusted_attributes: false };
            self.world.block_on(&self.host, async move {
                vfs::check(&index, volume, options, Arc::default()).await.unwrap()
            })
        });
        index.put_back().unwrap();
        reports
    }

    /// Changes some records, each in one of the ways that a record can be wrong.
    fn damage_records(&self, rng: &mut SmallRng) {
        let (VolumeId(volume), _) = self.with_index(|index| index.volumes()[0].clone());
        let database = redb::Database::builder().create_with_backend(self.memory.clone()).unwrap();
        let write = database.begin_write().unwrap();
        {
            let mut objects = write.open_table(OBJECTS).unwrap();
            let mut identities = write.open_table(IDENTITIES).unwrap();
            for _ in 0..rng.random_range(0..6) {
                let records: Vec<(u32, Vec<u8>)> = objects
                    .range((volume, 0)..=(volume, u32::MAX))
                    .unwrap()
                    .map(|row| row.map(|(key, record)| (key.value().1, record.value().to_vec())).unwrap())
                    .filter(|(_, record)| record.len() > NAME_AT)
                    .collect();
                let Some((vnode, mut record)) = records.choose(rng).cloned() else { break };
                let other = records.choose(rng).map_or(0, |(other, _)| *other);
                let len = usize::from(u16::from_le_bytes([record[41], record[42]]));
                let identity = record[NAME_AT..NAME_AT + len].to_vec();
                let mut put =
                    |vnode: u32, record: &[u8]| drop(objects.insert((volume, vnode), record).unwrap());
                match rng.random_range(0..9) {
                    0 => drop(objects.remove((volume, vnode)).unwrap()),
                    1 => drop(identities.remove((volume, &*identity)).unwrap()),
                    2 => drop(identities.insert((volume, &*identity), other).unwrap()),
                    3 => drop(identities.insert((volume, &b"nobody's"[..]), other).unwrap()),
                    4 => put(vnode, &record[..rng.random_range(0..NAME_AT)]),
                    // Recorded in a generation that is to come.
                    5 => {
                        record[32..36].fill(0xff);
                        put(vnode, &record);
                    }
                    // A place that is not, or that of another's.
                    6 => {
                        let parent = *[0, 1, other, other + 1, 9_999].choose(rng).unwrap();
                        record[37..41].copy_from_slice(&parent.to_le_bytes());
                        put(vnode, &record);
                    }
                    // A name that was lost in some directory.
                    7 => {
                        record[37..41].copy_from_slice(&other.to_le_bytes());
                        put(vnode, &record[..NAME_AT + len]);
                    }
                    // A number of another kind, or one that was never given.
                    _ => {
                        let taken = |number: &u32| records.iter().any(|(taken, _)| taken == number);
                        let numbers = [vnode + 1, 501, 502, 4_000_001];
                        let numbers = numbers.into_iter().filter(|number| !taken(number));
                        let number = *numbers.collect::<Vec<_>>().choose(rng).unwrap();
                        put(number, &record);
                        drop(objects.remove((volume, vnode)).unwrap());
                        drop(identities.insert((volume, &*identity), number).unwrap());
                    }
                }
            }
        }
        write.commit().unwrap();
    }
}

/// Changes the tree as another program.
fn edit(fs: &Fs, rng: &mut SmallRng) {
    let tree = fs.tree();
    let beneath = |found: &str| found.starts_with("/srv/");
    let names: Vec<&String> = tree.keys().filter(|path| beneath(path)).collect();
    let directories = tree.iter().filter(|(_, found)| matches!(found.kind, FoundKind::Directory));
    let directories: Vec<&str> =
        directories.map(|(path, _)| path.as_str()).filter(|path| *path == "/srv" || beneath(path)).collect();
    let (Some(at), Some(into)) = (names.choose(rng), directories.choose(rng)) else { return };
    let new = format!("{into}/new-{}", rng.random::<u16>());
    // What does not work, as a directory into itself, changes nothing.
    let _ = match rng.random_range(0..6) {
        0 => fs.rename(at, &new),
        1 => fs.write(&new, vec![1; rng.random_range(0..3000)]),
        2 => fs.create_dir_all(&new),
        3 => fs.hard_link(at, &new),
        4 => fs.write(&format!("{into}/.linerate-1f-0-{}", rng.random::<u16>()), "left"),
        _ => {
            let beneath = tree.keys().rev().filter(|path| path.starts_with(&format!("{at}/")));
            beneath.for_each(|path| fs.remove(path).unwrap());
            fs.remove(at)
        }
    };
}

/// Table of objects, as docs/design/index.md has it.
const OBJECTS: TableDefinition<'_, (u32, u32), &[u8]> = TableDefinition::new("objects");
const IDENTITIES: TableDefinition<'_, (u32, &[u8]), u32> = TableDefinition::new("identities");
/// Identity and name stand at the end of an object's record.
const NAME_AT: usize = 43;
