//! Coherence of lanes: what one changes every other sees at its next look, however slow the mail, and though
//! lanes come and go.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, World, seeds};
use lane::time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use vfs::{
    ChangeKind, ClientNotification, CreateOptions, Error, Holder, Invalidation, InvalidationListener, Replace,
};

use super::changes::{text, write};
use super::{Process, directory, inode, name, nobody, on_lanes, root};

#[test]
fn a_change_shows_to_the_next_look_of_every_lane() {
    seeds(1000, |seed| {
        // What the name leads to, but while it changes; changed by one lane, looked at by the others.
        let truth: Rc<Cell<Option<u64>>> = Rc::default();
        let changes: Rc<Cell<u64>> = Rc::default();
        on_lanes(seed, Config::rough(), 3, move |lane, _, volume| {
            let (truth, changes) = (Rc::clone(&truth), Rc::clone(&changes));
            async move {
                let mut rng = SmallRng::seed_from_u64(seed * 3 + lane as u64);
                for _ in 0..40 {
                    time::sleep(Duration::from_micros(rng.random_range(0..2000))).await;
                    if lane > 0 {
                        // Odd while a change is under way.
                        let before = changes.get();
                        let found = inode(&volume, "page").await;
                        if before % 2 == 0 && before == changes.get() {
                            assert_eq!(found, truth.get());
                        }
                        continue;
                    }
                    let root = root(&volume).await;
                    changes.set(changes.get() + 1);
                    match truth.get() {
                        Some(_) => {
                            root.remove(&nobody(), name("page")).await.unwrap();
                            truth.set(None);
                        }
                        None => {
                            let how = CreateOptions { exclusive: true, mode: 0o644 };
                            let made = root.create(&nobody(), name("page"), how).await.unwrap();
                            truth.set(Some(made.attributes.id.ino));
                        }
                    }
                    changes.set(changes.get() + 1);
                }
            }
        });
    });
}

#[test]
fn what_lies_beneath_a_directory_moves_with_it_on_every_lane() {
    seeds(1000, |seed| {
        let moved: Rc<Cell<bool>> = Rc::default();
        on_lanes(seed, Config::rough(), 3, move |lane, _, volume| {
            let moved = Rc::clone(&moved);
            async move {
                let root = root(&volume).await;
                if lane == 0 {
                    let a = root.make_directory(&nobody(), name("a"), 0o755).await.unwrap();
                    let b = a.make_directory(&nobody(), name("b"), 0o755).await.unwrap();
                    let how = CreateOptions { exclusive: true, mode: 0o644 };
                    write(&b.create(&nobody(), name("page"), how).await.unwrap().writer, 0, "x")
                        .await
                        .unwrap();
                    time::sleep(Duration::from_millis(100)).await;
                    root.rename(&nobody(), name("a"), &root, name("c"), Replace::Never).await.unwrap();
                    moved.set(true);
                    time::sleep(Duration::from_millis(100)).await;
                    return;
                }
                while !moved.get() {
                    let _ = inode(&volume, "a/b/page").await;
                    time::sleep(Duration::from_micros(500)).await;
                }
                assert_eq!(inode(&volume, "a/b/page").await, None);
                assert_eq!(text(&volume, "c/b/page").await, "x");
            }
        });
    });
}

#[test]
fn a_lane_that_goes_while_it_is_asked_holds_up_nobody() {
    seeds(1000, |seed| {
        let world = World::new(seed, Config::rough());
        let process = Process::new(&world, 2);
        let opening = process.clone();
        let other = process.host.start_on(1, async move {
            let volume = opening.volume();
            assert_eq!(inode(&volume, "page").await, None);
            // Asleep with its promise, it is there to answer; then it goes.
            time::sleep(Duration::from_millis(3 + seed % 5)).await;
        });
        let changing = process.clone();
        world.block_on(&process.host, async move {
            let volume = changing.volume();
            let root = root(&volume).await;
            for step in 0..20 {
                let how = CreateOptions { exclusive: true, mode: 0o644 };
                root.create(&nobody(), name(&format!("page{step}")), how).await.unwrap();
            }
            other.await;
            root.create(&nobody(), name("page"), CreateOptions { exclusive: true, mode: 0o644 })
                .await
                .unwrap();
        });
        world.end();
    });
}

#[test]
fn a_change_whose_caller_gives_up_is_made_or_not_and_holds_up_nobody() {
    seeds(1000, |seed| {
        on_lanes(seed, Config::rough(), 2, move |lane, _, volume| async move {
            let mut rng = SmallRng::seed_from_u64(seed * 2 + lane as u64);
            let root = root(&volume).await;
            let how = CreateOptions { exclusive: true, mode: 0o644 };
            for _ in 0..20 {
                let patience = Duration::from_micros(rng.random_range(0..3000));
                let is_made = time::timeout(patience, root.create(&nobody(), name("page"), how)).await;
                if let Ok(Err(error)) = is_made {
                    assert!(matches!(error, Error::Exists), "{error}");
                }
                let patience = Duration::from_micros(rng.random_range(0..3000));
                let is_removed = time::timeout(patience, root.remove(&nobody(), name("page"))).await;
                if let Ok(Err(error)) = is_removed {
                    assert!(matches!(error, Error::NotFound), "{error}");
                }
            }
            // Nothing is held any more: this comes to an end.
            let other = root.make_directory(&nobody(), name(&format!("end{lane}")), 0o755).await;
            assert!(other.is_ok());
        });
    });
}

#[test]
fn clients_of_every_lane_are_told_before_the_change_and_he_who_makes_it_is_named() {
    let told: Told = Rc::default();
    let seen = Rc::clone(&told);
    on_lanes(1, Config::clean(), 2, move |lane, _, volume| {
        let told = Rc::clone(&told);
        async move {
            let root = root(&volume).await;
            assert_eq!(inode(&volume, "page").await, None);
            let service: Rc<dyn InvalidationListener> = Rc::new(Slow { lane, told: Rc::clone(&told) });
            volume.cache().add_invalidation_listener(&service);
            time::sleep(Duration::from_millis(5)).await;
            if lane == 0 {
                let caller = nobody().sparing(Holder(7));
                root.create(&caller, name("page"), CreateOptions { exclusive: true, mode: 0o644 })
                    .await
                    .unwrap();
                assert_eq!(told.borrow().len(), 2, "the change waits until all are told");
            }
            time::sleep(Duration::from_secs(1)).await;
            drop(directory(&volume, "").await);
        }
    });
    let mut seen = seen.take();
    seen.sort_by_key(|(lane, _)| *lane);
    assert_eq!(seen, [(0, Some(Holder(7))), (1, Some(Holder(7)))]);
}

/// On which lane, and which holder was spared.
type Told = Rc<RefCell<Vec<(usize, Option<Holder>)>>>;

/// A service whose clients take their time.
struct Slow {
    lane: usize,
    told: Told,
}

impl InvalidationListener for Slow {
    fn invalidate(&self, broken: &Invalidation) -> Option<ClientNotification> {
        assert!(matches!(&broken.what, ChangeKind::Names(names) if names.len() == 1));
        let (lane, spared, told) = (self.lane, broken.spared, Rc::clone(&self.told));
        Some(Box::pin(async move {
            time::sleep(Duration::from_millis(50)).await;
            told.borrow_mut().push((lane, spared));
        }))
    }
}
