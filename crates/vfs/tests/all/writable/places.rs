//! Every file that lives is found by its number, whatever becomes of its names, on whatever lane, with file handles and without, and after
//! a restart too.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::Rights;
use index::{Index, Memory, Options};
use lane::backend::sim::{Config, World, seeds};
use lane::time;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use vfs::{
    ClientNotification, CreateOptions, Directory, Error, Invalidation, InvalidationListener, Number, Objects,
    ObjectsOptions, Replace, Volume,
};

use super::changes::{read, write};
use super::{Process, directory, name, nobody, on_lanes, root};

const NEW: CreateOptions = CreateOptions { exclusive: true, mode: 0o644 };
const DIRECTORIES: [&str; 3] = ["", "a", "b"];

/// Files that there are, by what they say: their number and their names, all of one directory.
type Living = BTreeMap<String, (Number, Vec<(&'static str, String)>)>;

#[test]
fn every_living_file_is_found_by_its_number_after_any_history_of_its_names() {
    let links = Rc::new(Cell::new((0, 0)));
    let counted = Rc::clone(&links);
    let all = 1000;
    seeds(all, move |seed| {
        let mut config = Config::clean();
        config.fs.delay = Duration::ZERO..Duration::from_micros(300);
        config.fs.cold_open = 0.5;
        config.fs.open_by_handle = seed % 3 == 0;
        config.fs.handles = seed % 3 != 2;
        let world = World::new(seed, config);
        let process = Process::new(&world, 3);
        let storage = Memory::default();
        let live = || {
            let index = Arc::new(Index::open(storage.clone(), Options::default()).unwrap());
            let options = ObjectsOptions { lanes_max: 3, ..ObjectsOptions::default() };
            let objects = Objects::new(options, Arc::clone(&index));
            (Process { objects, ..process.clone() }, index)
        };
        let living: Rc<RefCell<Living>> = Rc::default();
        let (first, index) = live();
        let opening = first.clone();
        world.block_on(&process.host, async move {
            let top = root(&opening.volume()).await;
            for one in &DIRECTORIES[1..] {
                top.make_directory(&nobody(), name(one), 0o755).await.unwrap();
            }
        });
        let lanes = process.lanes.iter().enumerate();
        let working: Vec<_> = lanes
            .map(|(nth, &lane)| {
                let (process, living) = (first.clone(), Rc::clone(&living));
                process.host.clone().start_on(lane, async move {
                    change_and_find(&process.volume(), nth, &living, seed * 3 + nth as u64).await
                })
            })
            .collect();
        world.block_on(&process.host, async move {
            for one in working {
                one.await;
            }
        });
        drop(first);
        index.close().unwrap();
        let with_more = living.borrow().values().filter(|(_, names)| names.len() > 1).count();
        counted.set((counted.get().0 + living.borrow().len(), counted.get().1 + with_more));
        process.host.fs().sync_all().unwrap();
        process.host.restart();
        let (after, _index) = live();
        world.block_on(&process.host, async move {
            let volume = after.volume();
            for (said, (number, names)) in living.take() {
                let found = volume.find(&nobody(), number, Rights::READ).await;
                let found = found.unwrap_or_else(|error| panic!("{said} of {names:?}: {error}"));
                assert_eq!(read(&found.into_file().unwrap().0).await, said);
            }
        });
        world.end();
    });
    let (files, with_more) = links.get();
    assert!(files < 100 || with_more > files / 10, "{with_more} of {files} had several names at the end");
}

/// Each lane has files of its own, which it makes, renames, links and removes, and looks for by number; the
/// directories are shared.
async fn change_and_find(volume: &Volume, lane: usize, living: &RefCell<Living>, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for step in 0..25 {
        time::sleep(Duration::from_micros(rng.random_range(0..800))).await;
        if rng.random_bool(0.1) {
            // What is not in use is found by the index.
            volume.cache().clear();
        }
        let new = format!("n{lane}-{step}");
        let mine: Vec<String> =
            living.borrow().keys().filter(|said| said.ends_with(&format!("of {lane}"))).cloned().collect();
        let said = mine.choose(&mut rng).cloned();
        match (said, rng.random_range(0..5)) {
            (Some(said), 0) => remove(volume, living, &said, &mut rng).await,
            (Some(said), 1) => rename(volume, living, &said, new, &mut rng).await,
            (Some(said), 2) => link(volume, living, &said, new, &mut rng).await,
            _ => create(volume, living, format!("file {step} of {lane}"), new, &mut rng).await,
        }
        // Shared by all lanes: while its names are moved it is somewhere all the time.
        let any: Vec<_> = living.borrow().iter().map(|(said, (number, _))| (said.clone(), *number)).collect();
        let Some((said, number)) = any.choose(&mut rng) else { continue };
        match volume.find(&nobody(), *number, Rights::READ).await {
            Ok(found) => assert_eq!(read(&found.into_file().unwrap().0).await, *said),
            // It went, or moves again and again.
            Err(error) => {
                let is_there = living.borrow().contains_key(said);
                let is_mine = said.ends_with(&format!("of {lane}"));
                assert!(matches!(error, Error::Stale | Error::Unsettled), "{said}: {error}");
                assert!(!is_there || !is_mine, "{said} is there, and nobody else changes it: {error}");
            }
        }
    }
}

async fn open(volume: &Volume, at: &str) -> Directory {
    if at.is_empty() { root(volume).await } else { directory(volume, at).await }
}

async fn create(volume: &Volume, living: &RefCell<Living>, said: String, new: String, rng: &mut SmallRng) {
    let at = *DIRECTORIES.choose(rng).unwrap();
    let made = open(volume, at).await.create(&nobody(), name(&new), NEW).await.unwrap();
    write(&made.writer, 0, &said).await.unwrap();
    let number = made.writer.file().object().unwrap().number();
    living.borrow_mut().insert(said, (number, vec![(at, new)]));
}

async fn remove(volume: &Volume, living: &RefCell<Living>, said: &str, rng: &mut SmallRng) {
    let (number, mut names) = living.borrow().get(said).unwrap().clone();
    let (at, gone) = names.swap_remove(rng.random_range(0..names.len()));
    if names.is_empty() {
        living.borrow_mut().remove(said);
    }
    open(volume, at).await.remove(&nobody(), name(&gone)).await.unwrap();
    if !names.is_empty() {
        living.borrow_mut().insert(said.to_owned(), (number, names));
    }
}

/// Renames a file: one with a single name goes anywhere, one with several stays in its directory, as AFS has
/// it.
async fn rename(volume: &Volume, living: &RefCell<Living>, said: &str, new: String, rng: &mut SmallRng) {
    let (number, mut names) = living.borrow().get(said).unwrap().clone();
    let (at, from) = names.swap_remove(rng.random_range(0..names.len()));
    let to = if names.is_empty() { *DIRECTORIES.choose(rng).unwrap() } else { at };
    let (here, there) = (open(volume, at).await, open(volume, to).await);
    here.rename(&nobody(), name(&from), &there, name(&new), Replace::Never).await.unwrap();
    names.push((to, new));
    living.borrow_mut().insert(said.to_owned(), (number, names));
}

async fn link(volume: &Volume, living: &RefCell<Living>, said: &str, new: String, rng: &mut SmallRng) {
    let (number, mut names) = living.borrow().get(said).unwrap().clone();
    let (at, from) = names.choose(rng).unwrap().clone();
    open(volume, at).await.link(&nobody(), name(&from), name(&new)).await.unwrap();
    names.push((at, new));
    living.borrow_mut().insert(said.to_owned(), (number, names));
}

/// A client that takes its time keeps a removal waiting; meanwhile a program beside the server gives the file
/// another name elsewhere.
#[test]
fn a_file_that_got_another_name_beside_the_server_while_clients_were_told_of_its_removal_keeps_its_number() {
    on_lanes(1, Config::clean(), 1, |_, process, volume| async move {
        let fs = process.host.fs();
        fs.create_dir_all("/srv/a").unwrap();
        fs.create_dir_all("/srv/b").unwrap();
        fs.write("/srv/a/page", "text").unwrap();
        let find = async |at: &str| volume.lookup(super::path(at)).await.unwrap().object().unwrap().number();
        let number = find("a/page").await;
        let a = directory(&volume, "a").await;
        volume.cache().clear();
        let slow: Rc<dyn InvalidationListener> = Rc::new(Slow);
        volume.cache().add_invalidation_listener(&slow);
        let linking = lane::spawn(async move {
            time::sleep(Duration::from_millis(20)).await;
            fs.hard_link("/srv/a/page", "/srv/b/other").unwrap();
        });
        a.remove(&nobody(), name("page")).await.unwrap();
        linking.await;
        assert_eq!(find("b/other").await, number);
    });
}

struct Slow;

impl InvalidationListener for Slow {
    fn invalidate(&self, _: &Invalidation) -> Option<ClientNotification> {
        Some(Box::pin(time::sleep(Duration::from_millis(50))))
    }
}

/// A refused change is none: no version is skipped, so that clients go on editing their copies.
#[test]
fn what_the_file_system_refuses_leaves_versions_and_images_as_they_were() {
    on_lanes(1, Config::clean(), 1, |_, _, volume| async move {
        let top = root(&volume).await;
        let full = top.make_directory(&nobody(), name("full"), 0o755).await.unwrap();
        full.create(&nobody(), name("file"), NEW).await.unwrap();
        let object = top.object().unwrap();
        let (mut names, before) = (top.names(10).await.unwrap(), object.version());
        let refused = top.remove_directory(&nobody(), name("full")).await;
        assert!(matches!(refused, Err(Error::NotEmpty)), "{refused:?}");
        let refused = top.create(&nobody(), name("full"), NEW).await;
        assert!(matches!(refused, Err(Error::Exists | Error::IsADirectory)), "{refused:?}");
        let refused = top.make_directory(&nobody(), name("full"), 0o755).await;
        assert!(matches!(refused, Err(Error::Exists)), "{refused:?}");
        let refused = top.symlink(&nobody(), name("full"), b"x").await;
        assert!(matches!(refused, Err(Error::Exists)), "{refused:?}");
        assert_eq!((object.version(), names.history.catch_up()), (before, Some(Vec::new())));
        top.create(&nobody(), name("new"), NEW).await.unwrap();
        assert_eq!(object.version(), before.next());
        assert_eq!(names.history.catch_up().map(|edits| edits.len()), Some(1));
    });
}
