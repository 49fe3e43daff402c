//! The gate of a volume: closed and empty, nothing changes, and a change is refused with the reason.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use lane::backend::sim::{Config, World, seeds};
use lane::time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use vfs::{Closed, CreateOptions, Error, Replace};

use super::{Process, name, nobody, on_lanes, root};

#[test]
fn a_closed_gate_lets_nothing_in_and_is_empty_when_the_last_change_has_ended() {
    seeds(50, |seed| {
        let is_over: Rc<Cell<bool>> = Rc::default();
        let refused: Rc<Cell<u32>> = Rc::default();
        let seen = Rc::clone(&refused);
        on_lanes(seed, Config::rough(), 3, move |lane, process, volume| {
            let (is_over, refused) = (Rc::clone(&is_over), Rc::clone(&refused));
            async move {
                let mut rng = SmallRng::seed_from_u64(seed * 3 + lane as u64);
                let root = root(&volume).await;
                if lane > 0 {
                    for step in 0_u32.. {
                        let (one, other) = (format!("{lane}-{step}"), format!("{lane}-{step}-moved"));
                        let made = root
                            .create(&nobody(), name(&one), CreateOptions { exclusive: true, mode: 0o644 })
                            .await
                            .map(drop);
                        let moved =
                            root.rename(&nobody(), name(&one), &root, name(&other), Replace::Never).await;
                        for came in [made, moved] {
                            match came {
                                Ok(()) | Err(Error::NotFound) => {}
                                Err(Error::Closed(Closed::Frozen)) => refused.set(refused.get() + 1),
                                Err(other) => panic!("{other}"),
                            }
                        }
                        time::sleep(Duration::from_micros(rng.random_range(1..300))).await;
                        if is_over.get() {
                            return;
                        }
                    }
                }
                let [shared] = &process.objects.volumes()[..] else { panic!("there is one volume") };
                for _ in 0..5 {
                    time::sleep(Duration::from_micros(rng.random_range(0..2000))).await;
                    shared.close(Closed::Frozen);
                    shared.emptied().await;
                    assert!(shared.is_still() && shared.closed() == Some(Closed::Frozen));
                    let before = root.object().unwrap().version();
                    time::sleep(Duration::from_micros(rng.random_range(0..2000))).await;
                    assert_eq!(root.object().unwrap().version(), before, "nothing changed behind the gate");
                    shared.reopen();
                    root.create(&nobody(), name("x"), CreateOptions { exclusive: false, mode: 0o644 })
                        .await
                        .unwrap();
                }
                is_over.set(true);
            }
        });
        if seed == 0 {
            assert!(seen.get() > 0, "somebody came to a closed gate");
        }
    });
}

#[test]
fn a_start_holds_changes_of_all_volumes_back_for_a_while_those_that_are_opened_later_too() {
    let world = World::new(1, Config::clean());
    let process = Process::new(&world, 2);
    process.objects.freeze();
    let at_work = process.clone();
    let work = async move {
        let volume = at_work.volume();
        let how = CreateOptions { exclusive: false, mode: 0o644 };
        let create = async || root(&volume).await.create(&nobody(), name("x"), how).await.map(drop);
        let begun = time::now();
        assert!(matches!(create().await, Err(Error::Closed(Closed::Frozen))), "it was opened after");
        assert_eq!(time::now().duration_since(begun).as_secs(), 12, "nobody waits for ever");
        let thaw = |after: Duration, close: Option<Closed>| {
            let objects = at_work.objects.clone();
            lane::spawn(async move {
                time::sleep(after).await;
                // A closing for another reason meanwhile is not overruled.
                close.into_iter().for_each(|why| objects.volumes()[0].close(why));
                // A reload opens what it serves.
                if close.is_none() {
                    objects.volumes()[0].reopen();
                    time::sleep(after).await;
                }
                objects.thaw();
            })
        };
        let (begun, thawing) = (time::now(), thaw(Duration::from_secs(2), None));
        create().await.unwrap();
        thawing.await;
        assert_eq!(time::now().duration_since(begun).as_secs(), 4, "it waits until all may be changed");
        at_work.objects.freeze();
        let (begun, thawing) = (time::now(), thaw(Duration::from_secs(2), Some(Closed::Offline)));
        assert!(matches!(create().await, Err(Error::Closed(Closed::Offline))));
        assert_eq!(time::now().duration_since(begun).as_secs(), 2, "it hears at once");
        thawing.await;
        assert!(matches!(create().await, Err(Error::Closed(Closed::Offline))));
        assert_eq!(volume.counters().changes_held_back.get(), 3);
    };
    world.block_on(&process.host, work);
}
