//! The simulated checker: one tree changed at random over all three services and by local programs, over stops, kills and losses of power.
//! After each step all of them and the disk show the same (crate `one-tree`, which `cargo xtask one-tree` shares).
//!
//! A seed that fails is reduced and printed as a sequence; `ONE_TREE_ONLY=3,17` with its `LANE_SIM_SEED` does these steps of it alone.
//! `LANE_SIM_SEEDS=N` does N seeds, of [`STEPS`] steps each.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use lane::backend::sim::{Config, World, seeds};
use one_tree::draw::{Mix, steps};
use one_tree::play::{CLOSED_WITHIN, Failure, Outcome, explain, go_through, places, reduced};
use one_tree::{End, Known, Step};

use super::simulated::Simulated;

#[test]
fn all_see_one_tree_whichever_of_three_services_changes_it() {
    checks(BASE, &[]);
}

#[test]
fn all_see_one_tree_that_local_programs_change_too() {
    checks(Mix { local: 25, ..BASE }, &[]);
}

#[test]
fn all_see_one_tree_over_stops_kills_and_losses_of_power() {
    checks(Mix { ends: 20, kinds: &[End::Stop, End::Kill, End::Power], ..BASE }, &[]);
}

fn checks(mix: Mix, known: &'static [Known]) {
    let (began, done) = (Instant::now(), Rc::new(Cell::new(0)));
    let counted = Rc::clone(&done);
    seeds(SEEDS, move |seed| {
        let mut steps = steps(seed, &mix, STEPS);
        if let Ok(only) = std::env::var("ONE_TREE_ONLY") {
            let only: Vec<usize> = only.split(',').map(|place| place.parse().expect("a place")).collect();
            steps.retain(|step| only.contains(&step.index()));
        }
        let outcome = live(seed, &steps, known);
        counted.set(counted.get() + outcome.done);
        if let Some(failure) = outcome.failure {
            let told = format!("fails after {} steps: {:#}", failure.begun, failure.error);
            eprintln!("seed {seed} {told}");
            let reduced = reduced(&steps, failure, REDUCED_WITHIN, |steps| Ok(live(seed, steps, known)));
            panic!("{}\n  ONE_TREE_ONLY={}", explain(&reduced), places(&reduced.steps));
        }
    });
    println!("{} steps in {:.0} s", done.get(), began.elapsed().as_secs_f64());
}

/// Does these steps in a world of their own.
fn live(seed: u64, steps: &[Step], known: &[Known]) -> Outcome {
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let mut config = Config::clean();
        config.fs.delay = Duration::ZERO..Duration::from_micros(50);
        config.mesh.delay = Duration::ZERO..Duration::from_micros(100);
        let world = World::new(seed, config);
        let clients = world.host("10.0.1.1");
        let mut site = Simulated::new(&world);
        let (steps, known) = (steps.to_vec(), known.to_vec());
        world.block_on(&clients, async move {
            site.start().await?;
            go_through(Box::new(site), known, steps, CLOSED_WITHIN).await
        })
    }));
    let error = match lived {
        Ok(Ok(outcome)) => return outcome,
        Ok(Err(error)) => error,
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            anyhow!("panic: {}", said.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?"))
        }
    };
    Outcome { done: 0, failure: Some(Failure { begun: steps.len(), error }) }
}

const BASE: Mix = Mix { local: 0, ends: 0, kinds: &[], len_max: 3_000, whole: 8 };
/// Seeds of a plain run,
const SEEDS: u64 = 24;
/// and steps of each.
const STEPS: usize = 450;
const REDUCED_WITHIN: Duration = Duration::from_secs(60);
