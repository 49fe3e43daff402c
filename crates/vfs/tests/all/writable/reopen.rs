//! Files found again by what they are: always the very file, always inside the volume, by the rights of where it is.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::{Acl, Rights};
use index::{Index, Memory, Options};
use lane::backend::sim::{Config, Found, FoundKind, Fs, World, seeds};
use lane::fs::{SetTime, Timestamp};
use lane::time;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use vfs::{
    CreateOptions, Directory, Error, Identity, Number, Objects, ObjectsOptions, Replace, Resolved, Volume,
};

use super::access::operator;
use super::changes::{read, write};
use super::{Process, directory, name, nobody, on_lanes, path, root};

const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };

#[test]
fn a_file_in_use_is_found_wherever_it_has_moved_and_never_another() {
    seeds(1000, |seed| {
        let truth: Rc<RefCell<Truth>> = Rc::default();
        // Odd while a change is under way.
        let changes: Rc<Cell<u64>> = Rc::default();
        let looking = Rc::new(Cell::new(2));
        on_lanes(seed, lively(), 3, move |lane, _, volume| {
            let (truth, changes) = (Rc::clone(&truth), Rc::clone(&changes));
            let looking = Rc::clone(&looking);
            async move {
                let mut rng = SmallRng::seed_from_u64(seed * 3 + lane as u64);
                if lane == 0 {
                    change_at_random(&volume, &truth, &changes, &mut rng).await;
                    while looking.get() > 0 {
                        time::sleep(Duration::from_millis(1)).await;
                    }
                    return truth.borrow_mut().kept.clear();
                }
                for _ in 0..30 {
                    time::sleep(Duration::from_micros(rng.random_range(0..1000))).await;
                    let known = truth.borrow().files.choose(&mut rng).cloned();
                    let Some((identity, number, said)) = known else { continue };
                    let (before, alive) = (changes.get(), truth.borrow().paths.contains_key(&said));
                    let found = match seed % 2 {
                        0 => volume.reopen(&nobody(), &identity, Rights::READ).await,
                        _ => volume.find(&nobody(), number, Rights::READ).await,
                    };
                    let is_quiet = before % 2 == 0 && before == changes.get();
                    match found {
                        Ok(found) => {
                            assert_eq!(text_of(&found).await, said);
                            assert!(!is_quiet || alive, "{said} was gone");
                        }
                        Err(Error::Stale | Error::Unsettled) => {
                            assert!(!is_quiet || !alive, "{said} was there")
                        }
                        Err(other) => panic!("{said}: {other}"),
                    }
                }
                looking.set(looking.get() - 1);
            }
        });
    });
}

/// State of the tree, as the lane that makes all changes knows it.
#[derive(Default)]
struct Truth {
    /// Every file there ever was, and what it says.
    files: Vec<(Identity, Number, String)>,
    /// Places of files that have a name, by what they say. It keeps them in use: no other may have them open.
    paths: HashMap<String, (String, String)>,
    kept: Vec<Rc<vfs::OpenFile>>,
}

async fn change_at_random(volume: &Volume, truth: &RefCell<Truth>, changes: &Cell<u64>, rng: &mut SmallRng) {
    let top = root(volume).await;
    let mut at = vec!["".to_owned()];
    for one in ["a", "b"] {
        top.make_directory(&nobody(), name(one), 0o755).await.unwrap();
        at.push(one.to_owned());
    }
    for step in 0..40 {
        time::sleep(Duration::from_micros(rng.random_range(0..500))).await;
        let to = at.choose(rng).unwrap().clone();
        let known: Vec<String> = truth.borrow().paths.keys().cloned().collect();
        changes.set(changes.get() + 1);
        match (known.choose(rng), rng.random_range(0..4)) {
            (Some(said), 0) => {
                let (from, called) = truth.borrow().paths[said].clone();
                open(volume, &from).await.remove(&nobody(), name(&called)).await.unwrap();
                truth.borrow_mut().paths.remove(said);
            }
            (Some(said), 1 | 2) => {
                let (from, called) = truth.borrow().paths[said].clone();
                let new = format!("m{step}");
                let (from, there) = (open(volume, &from).await, open(volume, &to).await);
                from.rename(&nobody(), name(&called), &there, name(&new), Replace::Never).await.unwrap();
                truth.borrow_mut().paths.insert(said.clone(), (to, new));
            }
            _ => {
                let (new, said) = (format!("n{step}"), format!("file {step}"));
                let made = open(volume, &to).await.create(&nobody(), name(&new), NEW).await.unwrap();
                write(&made.writer, 0, &said).await.unwrap();
                let file = made.writer.file();
                let mut truth = truth.borrow_mut();
                let object = file.object().unwrap();
                truth.files.push((object.identity().clone(), object.number(), said.clone()));
                truth.kept.push(Rc::clone(file));
                truth.paths.insert(said, (to, new));
            }
        }
        changes.set(changes.get() + 1);
    }
}

#[test]
fn after_a_restart_no_identity_leads_out_of_the_volume_or_to_another_file_whatever_was_moved_meanwhile() {
    for how in [By::Handle, By::PlaceUnprivileged, By::PlaceAlone] {
        let (seen_again, ran) = (Cell::new(0), Cell::new(0));
        seeds(334, |seed| {
            let mut config = Config::clean();
            config.fs.open_by_handle = how == By::Handle;
            config.fs.handles = how != By::PlaceAlone;
            config.fs.stale_handle = if seed % 4 == 0 { 0.0 } else { 0.05 };
            let world = World::new(seed, config);
            let process = Process::new(&world, 1);
            let fs = process.host.fs();
            for dir in ["/srv/a/c", "/srv/b", "/out"] {
                fs.create_dir_all(dir).unwrap();
            }
            for n in 0..12 {
                let dir = ["", "a/", "a/c/", "b/"][n % 4];
                fs.write(&format!("/srv/{dir}f{n}"), format!("file {n}")).unwrap();
            }
            let storage = Memory::default();
            let live = || {
                let index = Arc::new(Index::open(storage.clone(), Options::default()).unwrap());
                let objects = Objects::new(ObjectsOptions::default(), Arc::clone(&index));
                (Process { objects, ..process.clone() }, index)
            };
            let (first, index) = live();
            let known = world.block_on(&process.host, async move { learn(&first.volume()).await });
            index.close().unwrap();
            let mut rng = SmallRng::seed_from_u64(seed);
            for step in 0..rng.random_range(0..12) {
                move_behind_the_back(&fs, step, &mut rng);
            }
            process.host.restart();
            let (after, _index) = live();
            let found = world.block_on(&process.host, async move {
                let (volume, mut seen_again) = (after.volume(), 0);
                for one in &known {
                    let found = match seed % 2 {
                        0 => volume.reopen(&nobody(), &one.identity, Rights::READ).await,
                        _ => volume.find(&nobody(), one.number, Rights::READ).await,
                    };
                    seen_again += usize::from(found.is_ok());
                    one.judge(how, &fs, found, seed % 4 == 0).await;
                }
                seen_again
            });
            seen_again.set(seen_again.get() + found);
            ran.set(ran.get() + 1);
            world.end();
        });
        let (seen_again, ran) = (seen_again.get(), ran.get());
        // Most trees are moved about much; of a few seeds all may be.
        assert!(
            ran < 30 || seen_again > 3 * ran,
            "{how:?}: only {seen_again} were found again in {ran} trees"
        );
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Handle,
    /// Handles exist, which this process may not open.
    PlaceUnprivileged,
    /// Handles do not exist.
    PlaceAlone,
}

/// Facts of a file before the restart.
#[derive(Debug)]
struct One {
    identity: Identity,
    number: Number,
    path: String,
    ino: u64,
    /// Content of a file; `None` for a directory.
    said: Option<String>,
    /// The inode of the directory it was in.
    above: u64,
}

async fn learn(volume: &Volume) -> Vec<One> {
    let mut known = Vec::new();
    let mut left = vec!["".to_owned()];
    while let Some(at) = left.pop() {
        let dir = open(volume, &at).await;
        for entry in dir.entries(100).await.unwrap().iter() {
            let called = String::from_utf8(entry.name.to_vec()).unwrap();
            let path = if at.is_empty() { called.clone() } else { format!("{at}/{called}") };
            let found = volume.lookup(super::path(&path)).await.unwrap();
            let object = found.object().unwrap();
            let (identity, number) = (object.identity().clone(), object.number());
            let said = match &found {
                Resolved::File(..) => Some(text_of(&found).await),
                Resolved::Directory(..) => None,
            };
            let (ino, above) = (found.attributes().id.ino, dir.id().ino);
            if said.is_none() {
                left.push(path.clone());
            }
            known.push(One { identity, number, path, ino, said, above });
        }
    }
    known
}

fn move_behind_the_back(fs: &Fs, step: u32, rng: &mut SmallRng) {
    let all: Vec<_> = fs.tree().into_iter().filter(|(path, _)| path.len() > "/srv".len()).collect();
    let inside: Vec<&(String, Found)> = all.iter().filter(|(path, _)| path.starts_with("/srv/")).collect();
    let Some((path, found)) = inside.choose(rng) else { return };
    let dirs = ["/srv", "/srv/a", "/srv/a/c", "/srv/b", "/out"];
    let (above, _) = path.rsplit_once('/').unwrap();
    match rng.random_range(0..4) {
        0 if matches!(found.kind, FoundKind::File(_)) => {
            fs.remove(path).unwrap();
            fs.write(path, format!("another {step}")).unwrap();
        }
        1 => fs.rename(path, &format!("{above}/r{step}")).unwrap(),
        // Where it cannot go it stays.
        _ => drop(fs.rename(path, &format!("{}/r{step}", dirs.choose(rng).unwrap()))),
    }
}

impl One {
    /// Checks whether what was found is this, and whether it should have been.
    async fn judge(&self, how: By, fs: &Fs, found: Result<Resolved, Error>, is_calm: bool) {
        let tree = fs.tree();
        let is_it = |path: &&String| fs.stat(path).is_ok_and(|stat| stat.ino == self.ino);
        let same = |path: &&String| match (&tree[*path].kind, &self.said) {
            (FoundKind::File(bytes), Some(said)) => bytes == said.as_bytes(),
            (FoundKind::Directory, None) => is_it(path),
            _ => false,
        };
        let now = tree.keys().filter(|path| path.starts_with("/srv/")).find(same);
        match found {
            Ok(found) => {
                let now = now.unwrap_or_else(|| panic!("{self:?} is not in the volume any more"));
                assert_eq!(found.attributes().id.ino, self.ino);
                if let Some(said) = &self.said {
                    assert_eq!(text_of(&found).await, *said);
                }
                assert_eq!(fs.stat(now).unwrap().ino, self.ino);
            }
            Err(Error::Stale | Error::NotFound) if !is_calm => {}
            Err(Error::Stale) => {
                let above = now.map(|now| now.rsplit_once('/').unwrap().0);
                let stayed = above.is_some_and(|above| fs.stat(above).unwrap().ino == self.above);
                let must = match how {
                    By::Handle => now.is_some() && (self.said.is_none() || stayed),
                    _ => now.is_some_and(|now| *now == format!("/srv/{}", self.path)),
                };
                assert!(!must, "{self:?} is at {now:?}");
            }
            Err(other) => panic!("{self:?}: {other}"),
        }
    }
}

#[test]
fn a_file_that_has_left_its_directory_is_sought_there_once_until_something_changes_there() {
    for by_handle in [true, false] {
        let mut config = Config::clean();
        config.fs.open_by_handle = by_handle;
        let world = World::new(1, config);
        let process = Process::new(&world, 1);
        let fs = process.host.fs();
        fs.create_dir_all("/srv/a").unwrap();
        fs.create_dir_all("/out").unwrap();
        fs.write("/srv/a/f", "f").unwrap();
        let storage = Memory::default();
        let live = || {
            let index = Arc::new(Index::open(storage.clone(), Options::default()).unwrap());
            let objects = Objects::new(ObjectsOptions::default(), Arc::clone(&index));
            (Process { objects, ..process.clone() }, index)
        };
        let (first, index) = live();
        let number = world.block_on(&process.host, async move {
            first.volume().lookup(path("a/f")).await.unwrap().object().unwrap().number()
        });
        index.close().unwrap();
        fs.rename("/srv/a/f", "/out/f").unwrap();
        process.host.restart();
        let (after, _index) = live();
        world.block_on(&process.host, async move {
            let volume = after.volume();
            let searches = || volume.counters().reopened_by_listing.get();
            // Longer than a tick of the coarsest clock.
            time::sleep(Duration::from_secs(3)).await;
            for _ in 0..10 {
                let found = volume.find(&nobody(), number, Rights::READ).await;
                assert!(matches!(found, Err(Error::Stale)), "{found:?}");
            }
            assert_eq!(searches(), 1);
            fs.rename("/out/f", "/srv/a/g").unwrap();
            let found = volume.find(&nobody(), number, Rights::READ).await.unwrap();
            assert_eq!((text_of(&found).await.as_str(), searches()), ("f", 2));
        });
        world.end();
    }
}

#[test]
fn rights_are_those_of_where_it_is_and_what_is_reopened_to_write_takes_that_right() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let top = root(&volume).await;
        let closed = top.make_directory(&nobody(), name("closed"), 0o755).await.unwrap();
        let made = top.create(&nobody(), name("a"), NEW).await.unwrap();
        write(&made.writer, 0, "text").await.unwrap();
        closed.set_access_list(&operator(), Some(&Acl::new())).await.unwrap();
        let identity = made.writer.file().object().unwrap().identity().clone();
        let reads = async || volume.reopen(&nobody(), &identity, Rights::READ).await;
        assert_eq!(text_of(&reads().await.unwrap()).await, "text");
        let writer = volume.reopen_writer(&nobody(), &identity).await.unwrap();
        write(&writer, 4, "!").await.unwrap();
        top.rename(&operator(), name("a"), &closed, name("b"), Replace::Never).await.unwrap();
        assert!(matches!(reads().await, Err(Error::Denied(_))));
        assert!(matches!(volume.reopen_writer(&nobody(), &identity).await, Err(Error::Denied(_))));
        assert_eq!(volume.counters().refused_stale.get(), 0);
        closed.rename(&operator(), name("b"), &top, name("c"), Replace::Never).await.unwrap();
        assert_eq!(text_of(&reads().await.unwrap()).await, "text!");
        top.remove(&nobody(), name("c")).await.unwrap();
        assert!(matches!(reads().await, Err(Error::Stale)));
        let identity = closed.object().unwrap().identity();
        let refused = volume.reopen_writer(&operator(), identity).await;
        assert!(matches!(refused, Err(Error::IsADirectory | Error::Denied(_))), "{refused:?}");
        assert!(volume.lookup(path("closed")).await.is_err());
    });
}

/// Whoever has it open, as an SMB client has, goes on with it: nobody has met it by its new name yet.
#[test]
fn an_open_directory_is_listed_looked_into_and_changed_wherever_another_program_has_moved_it() {
    let moves: [(&str, &[(&str, &str)]); 4] = [
        ("within its directory", &[("/srv/d/one", "/srv/d/two")]),
        ("to another", &[("/srv/d/one", "/srv/e/two")]),
        ("with the one above", &[("/srv/d", "/srv/f")]),
        ("and another is there", &[("/srv/d/one", "/srv/e/two"), ("/srv/e/other", "/srv/d/one")]),
    ];
    for (how, moves) in moves {
        on_lanes(1, Config::clean(), 1, move |_, process, volume| async move {
            let fs = process.host.fs();
            fs.create_dir_all("/srv/d/one").unwrap();
            fs.create_dir_all("/srv/e/other").unwrap();
            fs.write("/srv/d/one/a", "text").unwrap();
            time::sleep(Duration::from_secs(3)).await;
            let one = directory(&volume, "d/one").await;
            let names = async || -> Result<Vec<String>, Error> {
                let listing = one.entries_as(&nobody(), 10).await?;
                Ok(listing.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect())
            };
            assert_eq!(names().await.unwrap(), ["a"], "{how}");
            for (from, to) in moves {
                fs.rename(from, to).unwrap();
            }
            time::sleep(Duration::from_secs(2)).await;
            assert_eq!(names().await.unwrap(), ["a"], "{how}");
            let found = one.lookup_as(&nobody(), name("a"), Rights::READ).await;
            assert_eq!(
                text_of(&found.unwrap_or_else(|error| panic!("{how}: {error}"))).await,
                "text",
                "{how}"
            );
        });
        // At once, and without a listing: the kernel may not have told of it.
        on_lanes(1, Config::clean(), 1, move |_, process, volume| async move {
            let fs = process.host.fs();
            fs.create_dir_all("/srv/d/one").unwrap();
            fs.create_dir_all("/srv/e/other").unwrap();
            fs.write("/srv/d/one/a", "text").unwrap();
            time::sleep(Duration::from_secs(3)).await;
            let one = directory(&volume, "d/one").await;
            for (from, to) in moves {
                fs.rename(from, to).unwrap();
            }
            let found = one.lookup_as(&nobody(), name("a"), Rights::READ).await;
            assert_eq!(
                text_of(&found.unwrap_or_else(|error| panic!("{how}: {error}"))).await,
                "text",
                "{how}"
            );
            let made = one.create(&nobody(), name("b"), NEW).await;
            assert!(made.unwrap_or_else(|error| panic!("{how}: {error}")).is_new);
            let at = SetTime::At(Timestamp { secs: 9, nanos: 0 });
            let set = one.set_times(&nobody(), SetTime::Keep, at).await;
            set.unwrap_or_else(|error| panic!("{how}: {error}"));
            let now = "/srv/d/one".replace(moves[0].0, moves[0].1);
            assert_eq!(fs.read(&format!("{now}/b")).unwrap(), b"", "{how}");
            assert_eq!(fs.stat(&now).unwrap().mtime.secs, 9, "{how}");
        });
    }
}

#[test]
fn an_open_directory_that_has_left_the_volume_has_no_name_there_and_one_that_was_removed_is_gone() {
    on_lanes(1, Config::clean(), 1, |_, process, volume| async move {
        let fs = process.host.fs();
        fs.create_dir_all("/srv/d/one").unwrap();
        fs.create_dir_all("/srv/d/two").unwrap();
        fs.create_dir_all("/out").unwrap();
        let (one, two) = (directory(&volume, "d/one").await, directory(&volume, "d/two").await);
        fs.rename("/srv/d/one", "/out/one").unwrap();
        fs.remove("/srv/d/two").unwrap();
        time::sleep(Duration::from_secs(2)).await;
        assert!(matches!(one.create(&nobody(), name("b"), NEW).await, Err(Error::NotFound)));
        assert!(matches!(two.create(&nobody(), name("b"), NEW).await, Err(Error::Stale)));
        assert!(matches!(one.lookup_as(&nobody(), name("a"), Rights::READ).await, Err(Error::NotFound)));
        assert!(matches!(one.entries_as(&nobody(), 10).await, Err(Error::NotFound)));
    });
}

/// Where no watch tells of it, what was remembered of the directory before holds for no path.
#[test]
fn a_directory_in_the_place_of_another_is_the_one_that_a_path_leads_to_watched_or_not() {
    type Fate = fn(&Fs);
    let fates: [(&str, Fate); 5] = [
        ("removed and made anew", |fs| {
            fs.remove("/srv/d/one/a").unwrap();
            fs.remove("/srv/d/one").unwrap();
            fs.create_dir_all("/srv/d/one").unwrap();
        }),
        ("moved, another made", |fs| {
            fs.rename("/srv/d/one", "/srv/e/two").unwrap();
            fs.create_dir_all("/srv/d/one").unwrap();
        }),
        ("another moved there", |fs| {
            fs.rename("/srv/d/one", "/srv/e/two").unwrap();
            fs.rename("/srv/e/other", "/srv/d/one").unwrap();
        }),
        ("the one above moved, another made", |fs| {
            fs.rename("/srv/d", "/srv/f").unwrap();
            fs.create_dir_all("/srv/d/one").unwrap();
        }),
        ("out of the volume, another made", |fs| {
            fs.create_dir_all("/out").unwrap();
            fs.rename("/srv/d/one", "/out/one").unwrap();
            fs.create_dir_all("/srv/d/one").unwrap();
        }),
    ];
    for (what, fate) in fates {
        for is_watched in [false, true] {
            on_lanes(1, Config::clean(), 1, move |_, process, unwatched| async move {
                let fs = process.host.fs();
                fs.create_dir_all("/srv/d/one").unwrap();
                fs.create_dir_all("/srv/e/other").unwrap();
                fs.write("/srv/d/one/a", "old").unwrap();
                let volume = match is_watched {
                    true => {
                        // A lane has one cache that shares.
                        drop(unwatched);
                        process.watching()
                    }
                    false => unwatched,
                };
                time::sleep(Duration::from_secs(3)).await;
                let old = directory(&volume, "d/one").await;
                old.lookup_as(&nobody(), name("a"), Rights::READ).await.unwrap();
                let what = format!("{what}, watched: {is_watched}");
                fate(&fs);
                if is_watched {
                    // The kernel tells of it soon.
                    time::sleep(Duration::from_millis(20)).await;
                }
                let found = volume.lookup_as(&nobody(), path("d/one"), Rights::NONE).await;
                let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(found.attributes().id.ino, fs.stat("/srv/d/one").unwrap().ino, "{what}");
                let now = directory(&volume, "d/one").await;
                let made = now.create(&nobody(), name("a"), NEW).await;
                let made = made.unwrap_or_else(|error| panic!("{what}: {error}"));
                write(&made.writer, 0, "new").await.unwrap();
                assert_eq!(fs.read("/srv/d/one/a").unwrap(), b"new", "{what}");
                let found = volume.lookup_as(&nobody(), path("d/one/a"), Rights::READ).await;
                let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(text_of(&found).await, "new", "{what}");
            });
        }
    }
}

async fn open(volume: &Volume, at: &str) -> Directory {
    if at.is_empty() { root(volume).await } else { directory(volume, at).await }
}

async fn text_of(found: &Resolved) -> String {
    let (file, _) = found.clone().into_file().unwrap();
    read(&file).await
}

fn lively() -> Config {
    let mut config = Config::clean();
    config.fs.delay = Duration::ZERO..Duration::from_micros(300);
    config.fs.cold_open = 0.5;
    config
}

/// A listing tells a client the number before the kernel tells the lane that what it has kept of the name is of before.
#[test]
fn what_another_program_moved_is_found_by_number_whatever_the_lane_kept_of_its_new_name() {
    for (has_handles, is_watched, kept) in [true, false].into_iter().flat_map(|has_handles| {
        let of = move |kept| [true, false].map(|is_watched| (has_handles, is_watched, kept));
        [None, Some("another")].into_iter().flat_map(of)
    }) {
        let mut config = Config::clean();
        (config.fs.handles, config.fs.open_by_handle) = (has_handles, has_handles);
        on_lanes(1, config, 1, move |_, process, unwatched| async move {
            let what = format!("handles: {has_handles}, watched: {is_watched}, kept: {kept:?}");
            let fs = process.host.fs();
            fs.create_dir_all("/srv/e").unwrap();
            fs.write("/srv/a", "text").unwrap();
            kept.into_iter().for_each(|kept| fs.write("/srv/e/c", kept).unwrap());
            let volume = match is_watched {
                true => {
                    // A lane has one cache that shares.
                    drop(unwatched);
                    process.watching()
                }
                false => unwatched,
            };
            time::sleep(Duration::from_secs(3)).await;
            let file = volume.lookup_as(&nobody(), path("a"), Rights::READ).await.unwrap();
            let number = file.object().unwrap().number();
            let before = volume.lookup_as(&nobody(), path("e/c"), Rights::READ).await;
            assert_eq!(before.is_ok(), kept.is_some(), "{what}");
            fs.rename("/srv/a", "/srv/e/c").unwrap();
            let names = directory(&volume, "e").await.names(10).await.unwrap();
            assert_eq!(names.entries[0].number, number, "{what}");
            let found = volume.find(&nobody(), number, Rights::READ).await;
            let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(text_of(&found).await, "text", "{what}");
        });
    }
}
