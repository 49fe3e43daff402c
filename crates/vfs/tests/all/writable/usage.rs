//! Counted usage, which is what a walk of the tree finds, whatever was changed by how many lanes while it was
//! counted and after; and it never holds more than it may.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::{Rights, Writable};
use index::{Index, Memory, Options};
use lane::backend::sim::{Config, FoundKind, Fs, World, seeds};
use lane::buffer::Buf;
use lane::fs::{Allocate, XattrHow};
use lane::time;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use vfs::{
    CreateOptions, Directory, Error, Expect, Holder, Objects, ObjectsOptions, Quota, Replace, Space,
    SpaceState, Usage, Volume, VolumeOptions, VolumeSpec, Writer,
};

use super::access::{list, operator};
use super::{Process, directory, name, nobody, root};

#[test]
fn what_is_used_is_what_a_walk_finds_after_any_history() {
    let totals: Rc<RefCell<BTreeMap<&'static str, u64>>> = Rc::default();
    let (all, counted) = (1000, Rc::clone(&totals));
    seeds(all, move |seed| {
        let (world, mut process) = counting(seed, rough(seed));
        let mut rng = SmallRng::seed_from_u64(seed);
        plant(&process.host.fs(), &mut rng);
        if seed % 3 == 0 {
            let bytes = rng.random_bool(0.7).then(|| rng.random_range(0..40_000));
            process.quota = Quota { bytes, files: Some(rng.random_range(5..30)) };
        }
        let quota = process.quota;
        let lives = if seed % 5 == 2 { 2 } else { 3 };
        let host = process.host.clone();
        let done = Rc::new(Cell::new(0));
        for &lane in &process.lanes[1..] {
            let (process, done) = (process.clone(), Rc::clone(&done));
            host.spawn_on(lane, async move {
                work(&process.volume(), seed * 7 + lane as u64).await;
                done.update(|done| done + 1);
            });
        }
        let (later, ends) = (process.clone(), Duration::from_micros(rng.random_range(0..6000)));
        let tally = Rc::clone(&counted);
        let space = world.block_on(&host, async move {
            let volume = later.volume();
            let (works, begins) = (volume.clone(), Duration::from_micros(rng.random_range(0..3000)));
            let working = Rc::clone(&done);
            lane::spawn(async move {
                work(&works, seed * 7).await;
                working.update(|done| done + 1);
            })
            .detach();
            time::sleep(begins).await;
            volume.count(|_| {}).await.unwrap();
            if lives == 2 {
                time::sleep(ends).await;
                later.host.end_lane(later.lanes[2]);
            }
            while done.get() < lives {
                time::sleep(Duration::from_millis(1)).await;
            }
            // Where a lane ended in mid-change another counts anew, and says so meanwhile.
            let mut space = volume.space().unwrap();
            *tally.borrow_mut().entry("doubts").or_default() += u64::from(space.state == SpaceState::InDoubt);
            for _ in 0..100 {
                if space.is_counted() {
                    break;
                }
                volume.count(|_| {}).await.unwrap();
                time::sleep(Duration::from_millis(1)).await;
                space = volume.space().unwrap();
            }
            let mut tally = tally.borrow_mut();
            *tally.entry("seeds").or_default() += 1;
            *tally.entry("refused").or_default() += volume.counters().refused_quota.get();
            space
        });
        assert!(space.is_counted(), "{space:?}");
        assert_eq!(space.used, walk(&host.fs()), "seed {seed}");
        assert_eq!(space.quota, quota);
        // A later server, which knows nothing, finds the same.
        let later = Process { objects: Process::objects_with(1, |_| {}), lanes: vec![0], ..process };
        let counted = world.block_on(&host, async move { count(&later.volume()).await });
        assert_eq!(counted.used, space.used);
    });
    let totals = totals.borrow();
    // The histories were no easy ones; one seed alone need not have all.
    if totals.get("seeds") == Some(&all) {
        for what in ["doubts", "refused"] {
            assert!(totals.get(what).is_some_and(|count| *count > 10), "{what}: {totals:?}");
        }
    }
}

#[test]
fn a_volume_never_holds_more_than_it_may_and_nothing_is_refused_that_fits() {
    seeds(200, |seed| {
        let (world, mut process) = counting(seed, rough(0));
        process.quota = Quota { bytes: Some(10_000), files: Some(12) };
        let host = process.host.clone();
        let one = process.lanes[0];
        let (counter, fs) = (process.clone(), host.fs());
        world.block_on(&host, async move {
            let mut lanes = Vec::new();
            let volume = counter.volume();
            assert_eq!(count(&volume).await.used, Usage::default());
            for &lane in counter.lanes.iter().filter(|lane| **lane != one) {
                let (process, fs) = (counter.clone(), fs.clone());
                lanes.push(counter.host.start_on(lane, async move {
                    let root = root(&process.volume()).await;
                    for n in 0..10 {
                        let how = CreateOptions { exclusive: true, mode: 0o644 };
                        let file = format!("{lane}-{n}");
                        match root.create(&nobody(), name(&file), how).await {
                            Ok(made) => {
                                let buf = Buf::from(vec![b'x'; 1100]);
                                match made.writer.append(&nobody(), buf).await.0 {
                                    Ok(()) => {}
                                    Err(Error::Quota) => {
                                        assert_eq!(made.writer.file().attributes().unwrap().size, 0)
                                    }
                                    Err(other) => panic!("{other}"),
                                }
                            }
                            Err(Error::Quota) => {}
                            Err(other) => panic!("{other}"),
                        }
                        let held = walk(&fs);
                        assert!(held.bytes <= 10_000 && held.files <= 12, "{held:?}");
                    }
                }));
            }
            for lane in lanes {
                lane.await;
            }
            // Twenty wanted to be made, twelve fit; of 1,100 bytes nine.
            assert_eq!(walk(&fs), Usage { bytes: 9_900, files: 12 });
            assert_eq!(volume.space().unwrap().used, walk(&fs));
            // What is taken away makes room for as much, on any lane.
            let root = root(&volume).await;
            let entries = root.entries(100).await.unwrap();
            let full = entries.iter().find(|entry| entry.attributes.size > 0).unwrap().name.to_vec();
            root.remove(&nobody(), vfs::Name::parse(&full).unwrap()).await.unwrap();
            let staged = root.stage(&nobody(), 0o644).await.unwrap();
            assert!(matches!(staged.write_at(0, Buf::from(vec![1; 1201])).await.0, Err(Error::Quota)));
            staged.write_at(0, Buf::from(vec![1; 1200])).await.0.unwrap();
            staged.publish(&nobody(), name("last"), Expect::Absent).await.unwrap();
            assert!(matches!(root.stage(&nobody(), 0o644).await, Err(Error::Quota)));
            assert!(volume.counters().refused_quota.get() > 0);
            assert_eq!(volume.space().unwrap().used, Usage { bytes: 10_000, files: 12 });
        });
    });
}

#[test]
fn a_refused_write_changes_neither_content_nor_version() {
    let (world, mut process) = counting(1, Config::clean());
    process.quota = Quota { bytes: Some(100), files: None };
    let host = process.host.clone();
    world.block_on(&host, async move {
        let volume = process.volume();
        count(&volume).await;
        let how = CreateOptions { exclusive: true, mode: 0o644 };
        let made = root(&volume).await.create(&nobody(), name("file"), how).await.unwrap();
        let version = || made.writer.file().object().unwrap().version();
        let before = version();
        let (refused, buf) = made.writer.write_at(&nobody(), 50, Buf::from(vec![1; 51])).await;
        assert!(matches!(refused, Err(Error::Quota)) && buf.is_some());
        assert!(matches!(made.writer.truncate(&nobody(), 101).await, Err(Error::Quota)));
        assert_eq!((version(), made.writer.file().attributes().unwrap().size), (before, 0));
        made.writer.truncate(&nobody(), 100).await.unwrap();
        // Over itself it may be written as often as one likes.
        made.writer.write_at(&nobody(), 0, Buf::from(vec![1; 100])).await.0.unwrap();
        assert_eq!(volume.space().unwrap().used, Usage { bytes: 100, files: 1 });
    });
}

#[test]
fn attributes_that_clients_keep_count_against_the_quota_and_give_their_room_back() {
    let (world, mut process) = counting(1, Config::clean());
    process.quota = Quota { bytes: Some(1000), files: None };
    let host = process.host.clone();
    let fs = host.fs();
    world.block_on(&host, async move {
        let volume = process.volume();
        count(&volume).await;
        let has_attributes = || volume.shared().unwrap().record().unwrap().has_attributes;
        assert!(!has_attributes(), "the count found none");
        let used = || volume.space().unwrap().used.bytes;
        let (root, who) = (root(&volume).await, nobody());
        let how = CreateOptions { exclusive: true, mode: 0o644 };
        let file = root.create(&who, name("file"), how).await.unwrap().writer;
        file.write_at(&who, 0, Buf::from(vec![1; 100])).await.0.unwrap();
        let value = |len: usize| vec![7; len];
        file.set_extended(&who, b"colour", value(500), XattrHow::Any).await.unwrap();
        assert!(has_attributes());
        assert_eq!(used(), 100 + 11 + 500);
        let refused = file.set_extended(&who, b"other", value(500), XattrHow::Any).await;
        assert!(matches!(refused, Err(Error::Quota)), "{refused:?}");
        let refused = file.edit_extended(&who, b"colour", 1000, |_| (Some(vec![7; 900]), ())).await;
        assert!(matches!(refused, Err(Error::Quota)), "{refused:?}");
        let refused = root.edit_extended(&who, b"of the root", 1000, &|_| Some(vec![7; 500])).await;
        assert!(matches!(refused, Err(Error::Quota)), "{refused:?}");
        assert_eq!(used(), 611);
        // Neither does content that attributes leave no room for fit.
        assert!(matches!(file.write_at(&who, 100, Buf::from(vec![1; 400])).await.0, Err(Error::Quota)));
        file.edit_extended(&who, b"colour", 1000, |_| (Some(vec![7; 200]), ())).await.unwrap();
        root.edit_extended(&who, b"of the root", 1000, &|_| Some(vec![7; 300])).await.unwrap();
        let sub = root.make_directory(&who, name("sub"), 0o755).await.unwrap();
        sub.edit_extended(&who, b"s", 1000, &|_| Some(vec![7; 200])).await.unwrap();
        assert_eq!(used(), (100 + 11 + 200) + (16 + 300) + (6 + 200));
        assert_eq!(used(), walk(&fs).bytes);
        // With the file's place they go to the one that takes it, which counts beside it until then.
        root.edit_extended(&who, b"of the root", 1000, &|_| Some(vec![7; 100])).await.unwrap();
        let staged = root.stage(&who, 0o644).await.unwrap();
        staged.write_at(0, Buf::from(vec![1; 50])).await.0.unwrap();
        staged.publish(&who, name("file"), Expect::Anything).await.unwrap();
        assert_eq!(used(), (50 + 11 + 200) + (16 + 100) + (6 + 200));
        root.rename(&who, name("file"), &sub, name("moved"), Replace::Never).await.unwrap();
        sub.link(&who, name("moved"), name("linked")).await.unwrap();
        sub.remove(&who, name("moved")).await.unwrap();
        assert_eq!(used(), (50 + 11 + 200) + (16 + 100) + (6 + 200));
        sub.remove(&who, name("linked")).await.unwrap();
        root.remove_directory(&who, name("sub")).await.unwrap();
        assert_eq!(used(), 16 + 100);
        let list = list(&[("system:anyuser", Rights::ALL)]);
        let listed = list.encode().len() as u64 + 17;
        root.set_access_list(&operator(), Some(&list)).await.unwrap();
        root.make_directory(&who, name("with"), 0o755).await.unwrap();
        assert_eq!(used(), 16 + 100 + 2 * listed);
        root.set_access_list(&operator(), None).await.unwrap();
        root.edit_extended(&who, b"of the root", 1000, &|_| None).await.unwrap();
        assert_eq!(used(), listed);
        assert_eq!(used(), walk(&fs).bytes);
        root.remove_directory(&who, name("with")).await.unwrap();
        assert_eq!(volume.space().unwrap().used, Usage::default());
    });
}

#[test]
fn a_file_longer_than_the_quota_does_not_fit_though_nothing_is_counted_yet() {
    let (world, mut process) = counting(1, Config::clean());
    process.quota = Quota { bytes: Some(1000), files: None };
    process.host.fs().write("/srv/file", vec![1; 400]).unwrap();
    let host = process.host.clone();
    world.block_on(&host, async move {
        let volume = process.volume();
        let file = root(&volume).await.open_writer(&nobody(), name("file")).await.unwrap();
        assert!(!volume.space().unwrap().is_counted());
        let written = file.write_at(&nobody(), 400, Buf::from(vec![1; 601])).await.0;
        assert!(matches!(written, Err(Error::Quota)), "{written:?}");
        assert!(matches!(file.truncate(&nobody(), 1001).await, Err(Error::Quota)));
        assert!(matches!(file.store(&nobody()).reserve(400, 601).await, Err(Error::Quota)));
        file.write_at(&nobody(), 400, Buf::from(vec![1; 600])).await.0.unwrap();
    });
}

#[test]
fn after_a_clean_stop_it_is_known_and_after_any_other_it_is_counted_anew() {
    seeds(1000, |seed| {
        let world = World::new(seed, rough(0));
        let mut rng = SmallRng::seed_from_u64(seed);
        let host = world.host("10.0.0.1");
        host.fs().create_dir_all("/srv").unwrap();
        plant(&host.fs(), &mut rng);
        host.fs().sync_all().unwrap();
        let (mut memory, mut was_clean, mut boot) = (Memory::default(), false, 1);
        let leftovers: Rc<RefCell<BTreeSet<u64>>> = Rc::default();
        for _ in 0..4 {
            let options = Options { boot: [boot; 16], ..Options::default() };
            let index = Arc::new(Index::open(memory.clone(), options).unwrap());
            let known = Rc::clone(&leftovers);
            let objects =
                Objects::new(ObjectsOptions { lanes_max: 1, ..Default::default() }, Arc::clone(&index));
            let process = Process {
                host: host.clone(),
                objects,
                lanes: vec![0],
                writable: Writable::anyone(),
                quota: Quota::default(),
                is_counted: true,
            };
            let (lives, fs, mut dice) = (process.clone(), host.fs(), SmallRng::seed_from_u64(rng.random()));
            let task = host.start_on(0, async move {
                let volume = lives.volume();
                assert_eq!(volume.space().unwrap().is_counted(), was_clean, "as it was left");
                let before = count(&volume).await;
                if !was_clean {
                    known.borrow_mut().clear();
                }
                assert_eq!(before.used, charged(&fs, &known.borrow()), "nobody has changed anything");
                assert_eq!(volume.counters().counts_begun.get(), u64::from(!was_clean));
                known.borrow_mut().extend(linked_leftovers(&fs));
                change_at_random(&volume, &mut dice).await;
                assert_eq!(volume.space().unwrap().used, charged(&fs, &known.borrow()));
                volume.cache().clear();
            });
            was_clean = rng.random();
            if was_clean {
                world.block_on(&host, task);
                drop(process);
                host.fs().sync_all().unwrap();
                index.close().unwrap();
                host.kill();
            } else {
                world.run_for(Duration::from_micros(rng.random_range(0..20_000)));
                let loses_power = rng.random();
                if loses_power {
                    host.lose_power()
                } else {
                    host.kill()
                }
                drop((task, process, index));
                if loses_power {
                    memory.lose_power(|| rng.random());
                    boot += 1;
                }
            }
            // What is left of the process cannot write to another.
            memory = memory.parted();
            world.run_for(Duration::from_millis(50));
            host.restart();
        }
    });
}

#[test]
fn a_volume_is_counted_limited_and_let_go_of_while_it_is_changed() {
    seeds(200, |seed| {
        let world = World::new(seed, rough(seed));
        let process = Process::new(&world, 2);
        plant(&process.host.fs(), &mut SmallRng::seed_from_u64(seed));
        let (host, changing) = (process.host.clone(), process.clone());
        let other = host.start_on(1, async move {
            change_at_random(&changing.volume(), &mut SmallRng::seed_from_u64(seed)).await;
        });
        let fs = host.fs();
        world.block_on(&host, async move {
            let volume = process.volume();
            let limited = |files: u64| {
                let spec = VolumeSpec::new("test".parse().unwrap(), "/srv", VolumeOptions::default());
                let spec = spec.writable_by(Writable::anyone());
                if files == 0 { spec } else { spec.limited_to(Quota { bytes: None, files: Some(files) }) }
            };
            assert_eq!(volume.space(), None, "nobody has asked");
            for files in [1000, 0, 1000, 500] {
                let kept = lane::spawn(volume.keep_counted(&limited(files)));
                let is_limited =
                    || volume.space().map(|space| space.quota.files) == (files > 0).then_some(Some(files));
                for _ in 0..1000 {
                    if is_limited() {
                        break;
                    }
                    time::sleep(Duration::from_micros(100)).await;
                }
                assert!(is_limited(), "{files}: {:?}", volume.space());
                kept.detach();
            }
            other.await;
            while !volume.space().unwrap().is_counted() {
                time::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(volume.space().unwrap().used, walk(&fs));
            // Below what it holds: what is there stays, nothing comes.
            drop(volume.keep_counted(&limited(1)));
            let how = CreateOptions { exclusive: true, mode: 0o644 };
            let refused = root(&volume).await.create(&nobody(), name("one-more"), how).await;
            assert!(matches!(refused, Err(Error::Quota)) || walk(&fs).files < 1, "{refused:?}");
            assert!(matches!(volume.fits(0), Err(Error::Quota)));
        });
    });
}

#[test]
fn appends_at_once_by_one_client_stand_one_after_another_and_all_count() {
    seeds(200, |seed| {
        let (world, process) = counting(seed, rough(0));
        let host = process.host.clone();
        let fs = host.fs();
        world.block_on(&host, async move {
            let volume = process.volume();
            count(&volume).await;
            let caller = nobody().sparing(Holder(1));
            let how = CreateOptions { exclusive: true, mode: 0o644 };
            let made = root(&volume).await.create(&caller, name("log"), how).await.unwrap();
            let mut appending = Vec::new();
            for (n, &lane) in [0].iter().chain(&process.lanes).enumerate() {
                let (process, caller, volume) = (process.clone(), caller.clone(), volume.clone());
                let append = move |volume: Volume| async move {
                    let writer = root(&volume).await.open_writer(&caller, name("log")).await.unwrap();
                    for _ in 0..4 {
                        writer.append(&caller, Buf::from(vec![b'0' + n as u8; 10])).await.0.unwrap();
                    }
                };
                appending.push(match lane {
                    0 => lane::spawn(append(volume)),
                    _ => process.host.clone().start_on(lane, async move { append(process.volume()).await }),
                });
            }
            let writers = appending.len() as u64;
            for appended in appending {
                appended.await;
            }
            assert_eq!(made.writer.file().attributes().unwrap().size, 4 * 10 * writers);
            assert_eq!(volume.space().unwrap().used, walk(&fs));
        });
    });
}

fn counting(seed: u64, config: Config) -> (World, Process) {
    let world = World::new(seed, config);
    let process = Process { is_counted: true, ..Process::new(&world, 3) };
    (world, process)
}

fn rough(seed: u64) -> Config {
    let mut config = Config::clean();
    config.fs.delay = Duration::ZERO..Duration::from_micros(300);
    config.fs.cold_open = 0.5;
    if seed % 4 == 1 {
        // Some writes fail half way.
        config.fs.write_error = 0.1;
    }
    config
}

pub(super) async fn count(volume: &Volume) -> Space {
    volume.count(|_| {}).await.unwrap();
    volume.space().unwrap()
}

/// A tree to begin with, some files of which have several names.
pub(super) fn plant(fs: &Fs, rng: &mut SmallRng) {
    DIRECTORIES.iter().for_each(|directory| fs.create_dir_all(&format!("/srv/{directory}")).unwrap());
    for directory in DIRECTORIES {
        for file in &NAMES[..3] {
            if rng.random() {
                continue;
            }
            let path = format!("/srv/{directory}/{file}");
            fs.write(&path, vec![1; rng.random_range(0..2000)]).unwrap();
            if rng.random_bool(0.3) {
                fs.set_xattr(&path, "user.planted", &vec![1; rng.random_range(0..300)]).unwrap();
            }
            if rng.random_bool(0.3) {
                let other =
                    format!("/srv/{}/linked-{}", DIRECTORIES.choose(rng).unwrap(), rng.random::<u16>());
                fs.hard_link(&path, &other).unwrap();
            }
        }
    }
}

/// Changes it, two at once: clients have several changes under way on a lane too.
async fn work(volume: &Volume, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let (also, mut dice) = (volume.clone(), SmallRng::seed_from_u64(rng.random()));
    let second = lane::spawn(async move { change_at_random(&also, &mut dice).await });
    change_at_random(volume, &mut rng).await;
    second.await;
}

pub(super) async fn change_at_random(volume: &Volume, rng: &mut SmallRng) {
    let open = Rc::new(RefCell::new(None));
    for _ in 0..16 {
        time::sleep(Duration::from_micros(rng.random_range(0..300))).await;
        let patience = Duration::from_micros(rng.random_range(0..4000));
        let (volume, mut dice) = (volume.clone(), SmallRng::seed_from_u64(rng.random()));
        let open = Rc::clone(&open);
        let change = async move { one_at_random(&volume, &mut dice, &open).await };
        // Its client may be gone before it is made.
        match rng.random_bool(0.2) {
            true => drop(time::timeout(patience, change).await),
            false => drop(change.await),
        }
    }
    drop(open);
    // What was given up goes on by itself.
    time::sleep(Duration::from_millis(100)).await;
}

/// Makes one change; `open` is a file that was written to before, which may have lost its name since.
async fn one_at_random(
    volume: &Volume,
    rng: &mut SmallRng,
    open: &RefCell<Option<Writer>>,
) -> Result<(), Error> {
    let at = somewhere(volume, rng).await?;
    let here = name(NAMES.choose(rng).unwrap());
    // Writes of one client, on all lanes, may be at one file together.
    let who = match rng.random_range(0..4) {
        0 => nobody(),
        n => nobody().sparing(Holder(n % 2)),
    };
    let bytes = |rng: &mut SmallRng| Buf::from(vec![7; rng.random_range(0..3000)]);
    match rng.random_range(0..26) {
        20..25 => change_attributes(&at, here, &who, rng).await?,
        25 => {
            let all = list(&[("system:anyuser", Rights::ALL)]);
            at.set_access_list(&operator(), Some(&all).filter(|_| rng.random())).await?;
        }
        0..3 => drop(at.create(&who, here, CreateOptions { exclusive: rng.random(), mode: 0o644 }).await?),
        3..6 => {
            let before = open.borrow().clone().filter(|_| rng.random_bool(0.3));
            let writer = match before {
                Some(writer) => writer,
                None => at.open_writer(&who, here).await?,
            };
            open.replace(Some(writer.clone()));
            for _ in 0..rng.random_range(1..3) {
                match rng.random_range(0..7) {
                    0 => writer.write_at(&who, rng.random_range(0..3000), bytes(rng)).await.0?,
                    1 | 2 => writer.append(&who, bytes(rng)).await.0?,
                    3 => writer.truncate(&who, rng.random_range(0..3000)).await?,
                    4 => {
                        let store = writer.store(&who);
                        let (at, len) = (rng.random_range(0..3000), rng.random_range(0..4000));
                        store.reserve(at, 500).await?;
                        store.write_vectored_at(at, vec![bytes(rng), bytes(rng)]).await.0?;
                        store.truncate(len).await?;
                    }
                    5 => {
                        let what =
                            *[Allocate::Extend, Allocate::KeepSize, Allocate::Punch].choose(rng).unwrap();
                        writer.allocate(&who, what, rng.random_range(0..3000), 500).await?;
                    }
                    _ => {
                        let other = somewhere(volume, rng).await?;
                        let from = other.lookup(name(NAMES.choose(rng).unwrap())).await?.into_file()?.0;
                        let len = rng.random_range(0..4000);
                        writer.copy_from(&who, &from, rng.random_range(0..500), 1000, len).await?;
                    }
                }
            }
        }
        6..8 => drop(at.make_directory(&who, here, 0o755).await?),
        8 => at.symlink(&who, here, b"somewhere").await?,
        9 => {
            let (there, new) = (somewhere(volume, rng).await?, name(NAMES.choose(rng).unwrap()));
            let which = at.lookup(here).await?.object().ok_or(Error::NotFound)?.number();
            let over = if rng.random() { Replace::Existing } else { Replace::Never };
            at.link_to(&who, which, here, &there, new, over).await?;
        }
        10..12 => at.remove(&who, here).await?,
        12 => at.remove_directory(&who, here).await?,
        13..15 => {
            let staged = at.stage(&who, 0o644).await?;
            staged.write_at(rng.random_range(0..100), bytes(rng)).await.0?;
            if rng.random_bool(0.7) {
                drop(staged.publish(&who, here, Expect::Anything).await?);
            }
        }
        _ => {
            let there = somewhere(volume, rng).await?;
            if rng.random_bool(0.2) {
                return at.exchange(&who, here, &there, name(NAMES.choose(rng).unwrap())).await;
            }
            let over = if rng.random() { Replace::Existing } else { Replace::Never };
            at.rename(&who, here, &there, name(NAMES.choose(rng).unwrap()), over).await?;
        }
    }
    Ok(())
}

/// Gives attributes to a file or directory, or takes some away.
async fn change_attributes(
    at: &Directory,
    here: vfs::Name<'_>,
    who: &vfs::Caller,
    rng: &mut SmallRng,
) -> Result<(), Error> {
    let attribute = *[&b"one"[..], b"other", b"planted"].choose(rng).unwrap();
    let value: Option<Vec<u8>> = rng.random_bool(0.7).then(|| vec![b'v'; rng.random_range(0..400)]);
    if rng.random_bool(0.3) {
        return at.edit_extended(who, attribute, 1000, &|_| value.clone()).await;
    }
    let writer = at.open_writer(who, here).await?;
    match value {
        Some(value) if rng.random() => {
            let how = *[XattrHow::Any, XattrHow::Create, XattrHow::Replace].choose(rng).unwrap();
            writer.set_extended(who, attribute, value, how).await
        }
        None if rng.random() => writer.remove_extended(who, attribute).await,
        value => writer.edit_extended(who, attribute, 1000, |_| (value, ())).await,
    }
}

async fn somewhere(volume: &Volume, rng: &mut SmallRng) -> Result<Directory, Error> {
    let mut at = directory(volume, "").await;
    for _ in 0..rng.random_range(0..4) {
        let names: Vec<_> = NAMES.iter().chain(&["d", "e"]).copied().collect();
        match at.lookup(name(names.choose(rng).unwrap())).await.and_then(vfs::Resolved::into_directory) {
            Ok((inner, _)) => at = inner,
            Err(_) => break,
        }
    }
    Ok(at)
}

pub(super) fn walk(fs: &Fs) -> Usage {
    let (mut used, mut seen) = (Usage::default(), BTreeSet::new());
    for (path, found) in fs.tree() {
        if !path.starts_with("/srv/") || path.contains("/.linerate-") || !seen.insert(found.ino) {
            continue;
        }
        used.files += 1;
        used.bytes += attributes(&found.xattrs);
        if let FoundKind::File(content) = found.kind {
            used.bytes += content.len() as u64;
        }
    }
    used.bytes += fs.tree().get("/srv").map_or(0, |root| attributes(&root.xattrs));
    used
}

/// Bytes of attributes that clients keep.
fn attributes(all: &BTreeMap<Vec<u8>, Vec<u8>>) -> u64 {
    let is_counted = |name: &[u8]| match name {
        b"user.linerate.acl" | b"trusted.linerate.acl" | b"security.NTACL" => true,
        b"user.DOSATTRIB" => false,
        _ => name.starts_with(b"user.") && !name.starts_with(b"user.linerate."),
    };
    all.iter()
        .filter(|(name, _)| is_counted(name))
        .map(|(name, value)| (name.len() + value.len()) as u64)
        .sum()
}

/// What is counted of a tree: also files that were counted and have no name but one that a kill left, until that is swept.
fn charged(fs: &Fs, leftovers: &BTreeSet<u64>) -> Usage {
    let (mut used, own) = (walk(fs), linked_leftovers(fs));
    let tree = fs.tree();
    for leftover in leftovers.difference(&own) {
        let mut names =
            tree.iter().filter(|(path, found)| path.starts_with("/srv/") && found.ino == *leftover);
        if let Some((path, found)) = names.next()
            && path.contains("/.linerate-")
            && let FoundKind::File(content) = &found.kind
        {
            used.files += 1;
            used.bytes += content.len() as u64 + attributes(&found.xattrs);
        }
    }
    used
}

/// Files that have a name which a kill left, beside one of their own.
fn linked_leftovers(fs: &Fs) -> BTreeSet<u64> {
    let names_of = |is_left: bool| -> BTreeSet<u64> {
        let names = fs.tree().into_iter().filter(|(path, _)| path.starts_with("/srv/"));
        names
            .filter(|(path, _)| path.contains("/.linerate-") == is_left)
            .map(|(_, found)| found.ino)
            .collect()
    };
    names_of(true).intersection(&names_of(false)).copied().collect()
}

const DIRECTORIES: [&str; 5] = [".", "d", "d/e", "d/e/d", "e"];
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
