//! Instructions of a lane's own machinery: tasks, timers, counters. The lanes are simulated ones, which run
//! the same executor and timers as real ones without a kernel below.

use std::future::poll_fn;
use std::hint::black_box;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use gungraun::{library_benchmark, library_benchmark_group};
use lane::backend::sim::{Config, Host, World};
use lane::counters::LaneCounters;
use lane::time::{Sleep, now, sleep_until, timeout};

// Each task is spawned, runs, and wakes the one that waits for it.
#[library_benchmark]
#[bench::one_by_one(simulated())]
fn spawn_and_finish_1000_tasks(simulated: Simulated) -> Simulated {
    simulated.world.block_on(&simulated.host, async {
        for n in 0..ROUNDS {
            black_box(lane::spawn(async move { n }).await);
        }
    });
    simulated
}

// Timers of one deadline, all armed, then all fired in one turn.
#[library_benchmark]
#[bench::together(simulated())]
fn arm_and_fire_1000_timers(simulated: Simulated) -> Simulated {
    simulated.world.block_on(&simulated.host, async {
        let deadline = now() + DEADLINE;
        let mut sleeps: Vec<Sleep> = (0..ROUNDS).map(|_| sleep_until(deadline)).collect();
        poll_fn(|cx| {
            let mut waiting = false;
            for sleep in &mut sleeps {
                waiting |= Pin::new(sleep).poll(cx).is_pending();
            }
            if waiting { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    });
    simulated
}

// The deadline of a request that is answered in time.
#[library_benchmark]
#[bench::one_by_one(simulated())]
fn arm_and_disarm_1000_timers(simulated: Simulated) -> Simulated {
    simulated.world.block_on(&simulated.host, async {
        for _ in 0..ROUNDS {
            let answered = timeout(DEADLINE, lane::yield_now()).await;
            black_box(answered).expect("the other task runs before time passes");
        }
    });
    simulated
}

// What every data path does for every packet or request.
#[library_benchmark]
#[bench::of_a_lane(Box::default())]
fn increment_1000_times(counters: Box<LaneCounters>) -> Box<LaneCounters> {
    for _ in 0..ROUNDS {
        black_box(&counters).turns.increment();
    }
    counters
}

struct Simulated {
    world: World,
    host: Host,
}

/// Makes a world whose lane has run once, so that its queues have their size.
fn simulated() -> Simulated {
    let world = World::new(1, Config::default());
    let host = world.host("10.0.0.1");
    world.block_on(&host, async {
        for _ in 0..ROUNDS {
            lane::spawn(lane::yield_now()).await;
        }
    });
    Simulated { world, host }
}

library_benchmark_group!(
    name = in_lane,
    benchmarks = [
        spawn_and_finish_1000_tasks,
        arm_and_fire_1000_timers,
        arm_and_disarm_1000_timers,
        increment_1000_times,
    ]
);
/// Number of repetitions of each operation: enough to hide the start of the world's loop.
const ROUNDS: u64 = 1000;
const DEADLINE: Duration = Duration::from_secs(1);
