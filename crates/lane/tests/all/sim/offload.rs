//! Tests of blocking work on the helpers of a simulated host.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lane::backend::sim::{Config, World, seeds};
use lane::offload::{Client, OffloadError, offload};
use lane::{spawn, time};

#[test]
fn offloaded_work_takes_time_and_the_seed_repeats_it() {
    let run = |seed| {
        let world = World::new(seed, Config::default());
        let host = world.host("10.0.0.1");
        let order = world.block_on(&host, async {
            let order: Rc<RefCell<Vec<u32>>> = Rc::default();
            let began = time::now();
            let tasks: Vec<_> = (0..10)
                .map(|n| {
                    let order = Rc::clone(&order);
                    spawn(async move {
                        assert_eq!(offload(Some(Client::of(&n)), move || n * n).await, Ok(n * n));
                        order.borrow_mut().push(n);
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            assert!(time::now() > began);
            order.take()
        });
        (order, world.now(), world.trace_hash())
    };
    seeds(10, |seed| assert_eq!(run(seed), run(seed)));
}

#[test]
fn a_client_with_much_slow_work_keeps_nobody_waiting_and_gives_way_when_there_is_no_room() {
    let mut config = Config::clean();
    config.helpers.delay = Duration::from_millis(10)..Duration::from_millis(10);
    config.helpers.queue_max = 8;
    let world = World::new(1, config);
    let host = world.host("10.0.0.1");
    let (done, refused) = world.block_on(&host, async {
        let greedy = Some(Client::of(&"greedy"));
        let many: Vec<_> = (0..9).map(|n| spawn(offload(greedy, move || n))).collect();
        let (began, modest) = (time::now(), Some(Client::of(&"modest")));
        // The greedy one has one of two threads, and all the room there is.
        assert_eq!(offload(modest, || 7).await, Ok(7));
        assert_eq!(time::now() - began, Duration::from_millis(10));
        let mut outcomes = Vec::new();
        for one in many {
            outcomes.push(one.await);
        }
        let refused = outcomes.iter().filter(|outcome| **outcome == Err(OffloadError::Refused)).count();
        (outcomes.iter().filter(|outcome| outcome.is_ok()).count(), refused)
    });
    assert_eq!((done, refused), (8, 1));
    assert_eq!(host.counters(0).helper_refused.get(), 1);
}

#[test]
fn a_panic_is_its_callers_alone_and_what_nobody_waits_for_is_not_begun() {
    seeds(10, |seed| {
        let world = World::new(seed, Config::default());
        let host = world.host("10.0.0.1");
        let begun = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&begun);
        world.block_on(&host, async move {
            let failing = offload(None, || panic!("expected by the test"));
            let working = offload(None, || 1);
            assert_eq!(failing.await, Err::<(), _>(OffloadError::Panicked));
            assert_eq!(working.await, Ok(1));
            drop(offload(None, move || counted.fetch_add(1, Ordering::SeqCst)));
            time::sleep(Duration::from_secs(1)).await;
        });
        assert_eq!(begun.load(Ordering::SeqCst), 0);
        assert_eq!(host.counters(0).helper_panics.get(), 1);
    });
}
