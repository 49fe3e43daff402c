//! Files that are just made, and found by others before their maker has ended.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use index::{Index, Memory, Options};
use lane::backend::sim::{Config, World, seeds};
use vfs::{CreateOptions, Objects, ObjectsOptions};

use super::{Process, inode, name, nobody, on_lanes, root};

#[test]
fn a_file_that_others_find_as_it_is_made_keeps_its_number_over_a_kill() {
    seeds(60, |seed| {
        let world = World::new(seed, Config::rough());
        let memory = Memory::journaled();
        let options = Options { boot: [1; 16], ..Options::default() };
        let index = Arc::new(Index::open(memory.clone(), options).unwrap());
        let objects = Objects::new(ObjectsOptions { lanes_max: 2, ..Default::default() }, index);
        let process = Process { objects, ..Process::new(&world, 2) };
        let is_over: Rc<Cell<bool>> = Rc::default();
        let (looking, ending) = (process.clone(), Rc::clone(&is_over));
        let finder = process.host.start_on(process.lanes[1], async move {
            let volume = looking.volume();
            let root = root(&volume).await;
            while !ending.get() {
                for n in 0..FILES {
                    // It may be there or not, or just change.
                    let _ = root.lookup(name(&format!("f{n}"))).await;
                }
                lane::time::sleep(Duration::from_micros(500)).await;
            }
        });
        let (making, ended) = (process.clone(), Rc::clone(&is_over));
        world.block_on(&process.host, async move {
            let volume = making.volume();
            let root = root(&volume).await;
            let mut all = Vec::new();
            for n in 0..FILES {
                let how = CreateOptions { exclusive: true, mode: 0o644 };
                all.push(root.create(&nobody(), name(&format!("f{n}")), how).await.unwrap());
            }
            // As it is found after a kill now, while they are in use and not recorded.
            let after = Index::open(memory.parted(), options).unwrap();
            let home = after.volume("test").unwrap().0;
            for made in &all {
                let number = made.writer.file().object().unwrap().number();
                assert_eq!(after.find(home, number).unwrap().map(|known| known.object.number), Some(number));
            }
            ended.set(true);
            finder.await;
        });
        world.end();
        assert_eq!(process.objects.in_use(), 0, "an object outlived its users");
    });
}

#[test]
fn what_is_made_where_others_make_names_too_is_found_without_opening_it_anew() {
    const LANES: usize = 2;
    const TASKS: usize = 8;
    let made: Rc<Cell<usize>> = Rc::default();
    let misses = on_lanes(1, Config::clean(), LANES, move |lane, _, volume| {
        let made = Rc::clone(&made);
        async move {
            let top = root(&volume).await;
            // The permit is never free: each change hands it to the next on this lane or the other.
            let makers = (0..TASKS).map(|task| {
                let (volume, top, made) = (volume.clone(), top.clone(), Rc::clone(&made));
                lane::spawn(async move {
                    for n in 0..FILES {
                        let file = format!("{lane}.{task}.{n}");
                        let how = CreateOptions { exclusive: true, mode: 0o644 };
                        let new = top.create(&nobody(), name(&file), how).await.unwrap();
                        drop(new);
                        assert!(inode(&volume, &file).await.is_some());
                    }
                    made.set(made.get() + 1);
                })
            });
            for maker in makers.collect::<Vec<_>>() {
                maker.await;
            }
            let misses = volume.counters().lookup_misses.get();
            // What was kept while the other lane changed the directory is forgotten all the same when it changes the name.
            while made.get() < LANES * TASKS {
                lane::time::sleep(Duration::from_micros(100)).await;
            }
            top.remove(&nobody(), name(&format!("{}.0.0", 1 - lane))).await.unwrap();
            made.set(made.get() + 1);
            while made.get() < LANES * TASKS + LANES {
                lane::time::sleep(Duration::from_micros(100)).await;
            }
            assert_eq!(inode(&volume, &format!("{lane}.0.0")).await, None);
            misses
        }
    });
    assert!(misses.iter().all(|&misses| misses <= TASKS as u64), "{misses:?}");
}

const FILES: usize = 10;
