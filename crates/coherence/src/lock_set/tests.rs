use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lane::backend::sim::{Config, Host, World, seeds};
use rand::rngs::SmallRng;
use rand::seq::index;
use rand::{Rng, SeedableRng};

use super::*;
use crate::change_lock::{FAILED_HANDOFFS, HANDOFF_FOR, OVERTAKEN_FOR, OVERTAKEN_MAX};
use crate::tests::{Object, objects};

fn now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[test]
fn who_came_first_is_served_first() {
    let object = objects(1);
    let mut context = Context::from_waker(Waker::noop());
    let held = now(ChangeLockSet::take(object.clone(), 9)).unwrap().unwrap();
    let mut first = Box::pin(ChangeLockSet::take(object.clone(), 9));
    let mut second = Box::pin(ChangeLockSet::take(object.clone(), 9));
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    drop(held);
    assert!(
        !now(async { ChangeLockSet::<Object> { guards: vec![], pass: None }.try_add(&object) }).unwrap(),
        "nobody goes before those in line"
    );
    assert!(second.as_mut().poll(&mut context).is_pending());
    let Poll::Ready(Ok(held)) = first.as_mut().poll(&mut context) else { panic!("it is its turn") };
    drop(held);
    assert!(second.as_mut().poll(&mut context).is_ready());
}

#[test]
fn turns_stay_on_a_lane_so_often_and_then_go_to_who_came_first() {
    let waiting = 2 * OVERTAKEN_MAX;
    let served = served(waiting, Duration::ZERO);
    assert_eq!(served.iter().position(|&name| name == 0), Some(OVERTAKEN_MAX as usize), "{served:?}");
    let others: Vec<u32> = served.iter().copied().filter(|&name| name != 0).collect();
    assert!(others.is_sorted() && others.len() == waiting as usize, "{served:?}");
}

#[test]
fn who_came_first_waits_so_long_and_no_longer() {
    let served = served(100, OVERTAKEN_FOR / 10);
    let overtaken = served.iter().position(|&name| name == 0).unwrap();
    assert!((8..=10).contains(&overtaken), "{served:?}");
}

/// Returns the order in which the lock is taken, where one waits on another lane (0), and then so many on this
/// one. Each holds it so long.
fn served(others: u32, each: Duration) -> Vec<u32> {
    let world = World::new(1, Config::clean());
    let host = world.host("10.0.0.1");
    let other = host.add_lane();
    let object = objects(1);
    let served = Arc::new(Mutex::new(Vec::new()));
    let wait = |name: u32| {
        let (object, served) = (object.clone(), Arc::clone(&served));
        async move {
            let locks = ChangeLockSet::take(object, 9999).await.unwrap();
            served.lock().unwrap().push(name);
            if each > Duration::ZERO {
                lane::time::sleep(each).await;
            }
            drop(locks);
        }
    };
    let held = object.clone();
    let held = world.block_on(&host, async move { ChangeLockSet::take(held, 99).await.unwrap() });
    let first = host.start_on(other, wait(0));
    world.run_for(Duration::from_micros(50));
    let others: Vec<_> = (1..=others).map(|name| host.start_on(0, wait(name))).collect();
    world.run_for(Duration::from_micros(50));
    world.block_on(&host, async move {
        drop(held);
        first.await;
        for other in others {
            other.await;
        }
    });
    served.lock().unwrap().clone()
}

/// Lane 0 holds the lock, and `other` waits for it; the cell has the time when that took it.
fn contended(
    world: &World,
    host: &Host,
    other: usize,
    object: &[Arc<Object>],
) -> (ChangeLockSet<Object>, Rc<Cell<Option<Instant>>>) {
    let held = object.to_vec();
    let held = world.block_on(host, async move { ChangeLockSet::take(held, 9).await.unwrap() });
    let (waiting, had): (_, Rc<Cell<Option<Instant>>>) = (object.to_vec(), Rc::default());
    let noted = Rc::clone(&had);
    host.spawn_on(other, async move {
        let locks = ChangeLockSet::take(waiting, 9).await.unwrap();
        noted.set(Some(lane::time::now()));
        drop(locks);
    });
    world.run_for(Duration::from_micros(20));
    (held, had)
}

#[test]
fn a_turn_stays_where_somebody_comes_again_and_again_and_leaves_when_he_was_waited_for_long_enough() {
    let world = World::new(1, Config::clean());
    let object = objects(1);
    let host = world.host("10.0.0.1");
    let other = host.add_lane();
    let (held, had) = contended(&world, &host, other, &object);
    let waited = Rc::clone(&had);
    let turns = world.block_on(&host, async move {
        let begun = lane::time::now();
        drop(held);
        let mut turns = 0;
        while waited.get().is_none() {
            // As a client that is answered and asks again.
            lane::time::sleep(HANDOFF_FOR / 2).await;
            let locks = ChangeLockSet::take(object.clone(), 9).await.unwrap();
            turns += u32::from(waited.get().is_none());
            drop(locks);
        }
        let took = waited.get().unwrap() - begun;
        assert!(took >= OVERTAKEN_FOR - HANDOFF_FOR && took <= OVERTAKEN_FOR + HANDOFF_FOR, "{took:?}");
        turns
    });
    assert!(turns >= 30, "{turns}");
}

#[test]
fn a_turn_that_stayed_in_vain_goes_on_and_the_next_time_at_once() {
    let world = World::new(1, Config::clean());
    let object = objects(1);
    let host = world.host("10.0.0.1");
    let other = host.add_lane();
    let waited = || {
        let (held, had) = contended(&world, &host, other, &object);
        let begun = world.block_on(&host, async move {
            drop(held);
            lane::time::now()
        });
        world.run_for(HANDOFF_FOR * 2);
        assert!(!object[0].change_lock().is_held());
        had.get().expect("nobody else came") - begun
    };
    let first = waited();
    assert!(first >= HANDOFF_FOR && first <= HANDOFF_FOR * 3 / 2, "{first:?}");
    for _ in 0..FAILED_HANDOFFS {
        let next = waited();
        assert!(next < HANDOFF_FOR / 2, "{next:?}");
    }
    assert!(waited() >= HANDOFF_FOR, "it is tried again");
}

#[test]
fn a_turn_that_stays_on_a_lane_that_ends_goes_on() {
    let world = World::new(1, Config::clean());
    let object = objects(1);
    let host = world.host("10.0.0.1");
    let ending = host.add_lane();
    let (held, waiting) = (object.clone(), object.clone());
    host.spawn_on(ending, async move {
        let held = ChangeLockSet::take(held, 9).await.unwrap();
        lane::time::sleep(Duration::from_micros(30)).await;
        drop(held);
    });
    world.run_for(Duration::from_micros(10));
    let waiter = host.start_on(0, async move { drop(ChangeLockSet::take(waiting, 9).await.unwrap()) });
    // Given back, and kept there.
    world.run_for(Duration::from_micros(30));
    assert!(!waiter.is_finished() && !object[0].change_lock().is_held());
    host.end_lane(ending);
    world.run_for(Duration::from_micros(20));
    assert!(waiter.is_finished());
}

#[test]
fn who_is_dropped_in_line_or_at_its_turn_holds_up_nobody() {
    let object = objects(1);
    let mut context = Context::from_waker(Waker::noop());
    let held = now(ChangeLockSet::take(object.clone(), 9)).unwrap().unwrap();
    let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(ChangeLockSet::take(object.clone(), 9))).collect();
    waiting.iter_mut().for_each(|one| assert!(one.as_mut().poll(&mut context).is_pending()));
    drop(waiting.remove(1));
    drop(held);
    // Its turn has come, and it has not looked.
    drop(waiting.remove(0));
    assert!(waiting[0].as_mut().poll(&mut context).is_ready());
    drop(waiting);
    assert!(!object[0].change_lock().is_held());
}

#[test]
fn a_full_line_refuses_and_those_in_it_go_on() {
    let object = objects(1);
    let held = now(ChangeLockSet::take(object.clone(), 1)).unwrap().unwrap();
    let mut waiting = Box::pin(ChangeLockSet::take(object.clone(), 1));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(matches!(now(ChangeLockSet::take(object.clone(), 1)), Some(Err(LockQueueFull))));
    drop(held);
    assert!(now(waiting).unwrap().is_ok());
}

#[test]
fn what_is_taken_twice_is_taken_once() {
    let mut both = objects(2);
    both.push(Arc::clone(&both[0]));
    let mut locks = now(ChangeLockSet::take(both.clone(), 1)).unwrap().unwrap();
    assert!(locks.try_add(&both));
    drop(locks);
    assert!(both.iter().all(|object| !object.change_lock().is_held()));
}

#[test]
fn lanes_that_take_any_objects_in_any_order_never_stop_and_never_share_one() {
    seeds(200, |seed| {
        let world = World::new(seed, Config::rough());
        let host = world.host("10.0.0.1");
        let lanes = [0, host.add_lane(), host.add_lane()];
        let objects = objects(5);
        let users: Arc<Vec<AtomicUsize>> = Arc::new((0..5).map(|_| AtomicUsize::new(0)).collect());
        let tasks: Vec<_> = (0..9)
            .map(|n| {
                let (objects, users) = (objects.clone(), Arc::clone(&users));
                host.start_on(lanes[n % 3], change_at_random(objects, users, seed * 9 + n as u64))
            })
            .collect();
        world.block_on(&host, async move {
            for task in tasks {
                task.await;
            }
        });
        assert!(objects.iter().all(|object| !object.change_lock().is_held()));
    });
}

/// Takes some objects, holds them for a while, and gives up now and then.
async fn change_at_random(objects: Vec<Arc<Object>>, users: Arc<Vec<AtomicUsize>>, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for _ in 0..20 {
        let count = rng.random_range(1..4);
        let some = index::sample(&mut rng, objects.len(), count).into_vec();
        let patience = lane::time::sleep(std::time::Duration::from_micros(rng.random_range(0..3000)));
        let take = ChangeLockSet::take(some.iter().map(|&at| Arc::clone(&objects[at])).collect(), 100);
        let (mut patience, mut take) = (pin!(patience), pin!(take));
        let locks = poll_fn(|cx| match take.as_mut().poll(cx) {
            Poll::Ready(locks) => Poll::Ready(Some(locks.unwrap())),
            Poll::Pending => patience.as_mut().poll(cx).map(|()| None),
        });
        let Some(locks) = locks.await else { continue };
        for &at in &some {
            assert_eq!(users[at].fetch_add(1, Ordering::SeqCst), 0, "two hold one lock");
        }
        lane::time::sleep(std::time::Duration::from_micros(rng.random_range(0..500))).await;
        for &at in &some {
            users[at].fetch_sub(1, Ordering::SeqCst);
        }
        drop(locks);
    }
}
