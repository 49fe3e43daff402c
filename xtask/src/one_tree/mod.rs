//! `cargo xtask one-tree`: two SMB clients, two AFS clients that cache, HTTP and local programs change one small tree of the real
//! server, one after the other and at random; after each step all of them and the file system must show the same.
//!
//! One model ([`model`]) knows files, names, AFS versions and opens. Versions rise exactly when content changes, callbacks are broken
//! before a change is acknowledged (within a second after a local program's), a strong entity tag stands for one content. A run
//! that fails is reduced and printed as a sequence, with the line that repeats it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use lane::runtime::{RuntimeOptions, run_here};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::process;

mod afs;
mod check;
mod http;
mod model;
mod operation;
mod reduce;
mod run;
mod site;
mod smb;

use operation::{Mode, Step};
use run::{Allowed, Run};
use site::Site;

/// Flags of `cargo xtask one-tree`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Runs, each with the next seed
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// Seed of the first run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Steps of a run
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// Who takes part beside the clients
    #[arg(long, value_enum, default_value_t = Mode::Base)]
    mode: Mode,
    /// Only these steps of the run, as a reduced one is told
    #[arg(long, value_delimiter = ',', value_name = "INDEX")]
    only: Vec<usize>,
    /// Defects that are known, to look past them for others
    #[arg(long, value_enum, value_delimiter = ',', value_name = "DEFECT")]
    allow: Vec<Allowed>,
    /// Go on after a failure, with the next seed
    #[arg(long)]
    keep_going: bool,
    /// Directory for trees, on the file system that is to be tested; `target/one-tree` by default
    #[arg(long, value_name = "DIR")]
    place: Option<PathBuf>,
    /// A `linerate` that was built already
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The summary as JSON
    #[arg(long)]
    json: bool,
}

/// What each run begins with.
struct Ground<'a> {
    program: &'a Path,
    place: &'a Path,
    allowed: &'a [Allowed],
}

/// What came of all runs.
#[derive(Debug, serde::Serialize)]
struct Summary {
    mode: Mode,
    seed: u64,
    seeds: u64,
    steps: usize,
    failures: usize,
    seconds: f64,
}

/// The step that a run failed at, and why.
struct Failure {
    /// How many of the steps were begun.
    begun: usize,
    error: anyhow::Error,
}

/// How many of the steps were done, and what failed.
struct Outcome {
    done: usize,
    failure: Option<Failure>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => process::tested_binary()?,
    };
    let place = args.place.clone().unwrap_or_else(|| process::target().join("one-tree"));
    std::fs::create_dir_all(&place)?;
    let place = place.canonicalize()?;
    let ground = Ground { program: &program, place: &place, allowed: &args.allow };
    let began = Instant::now();
    let mut summary =
        Summary { mode: args.mode, seed: args.seed, seeds: 0, steps: 0, failures: 0, seconds: 0.0 };
    for seed in args.seed..args.seed + args.seeds {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut steps = operation::steps(&mut rng, args.mode, args.steps);
        if !args.only.is_empty() {
            steps.retain(|step| args.only.contains(&step.index));
        }
        let outcome = live(&ground, &steps, CLOSED_WITHIN)?;
        summary.seeds += 1;
        summary.steps += outcome.done;
        if let Some(failure) = outcome.failure {
            summary.failures += 1;
            explain(args, seed, &steps, failure, |steps| live(&ground, steps, CLOSED_SOON));
            if !args.keep_going {
                break;
            }
        }
    }
    summary.seconds = began.elapsed().as_secs_f64();
    if args.json {
        println!("{}", serde_json::to_string(&summary)?);
    } else {
        let Summary { seeds, steps, failures, seconds, .. } = summary;
        println!("one-tree: {seeds} seeds, {steps} steps, {failures} failures, {seconds:.0} s");
    }
    if summary.failures > 0 {
        bail!("{} of {} runs failed", summary.failures, summary.seeds);
    }
    Ok(())
}

/// Does these steps on a fresh tree.
fn live(ground: &Ground<'_>, steps: &[Step], closed_within: Duration) -> anyhow::Result<Outcome> {
    // Another program may have taken a port meanwhile.
    let site =
        Site::new(ground.program, ground.place).or_else(|_| Site::new(ground.program, ground.place))?;
    let (steps, allowed) = (steps.to_vec(), ground.allowed.to_vec());
    // A thread of its own, as a lane is.
    let lived = std::thread::spawn(move || {
        run_here(RuntimeOptions::default(), go_through(site, allowed, steps, closed_within))
    });
    match lived.join() {
        Ok(lived) => lived?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

async fn go_through(
    site: Site,
    allowed: Vec<Allowed>,
    steps: Vec<Step>,
    closed_within: Duration,
) -> anyhow::Result<Outcome> {
    let mut run = Run::new(site, allowed).await.context("the beginning of a run")?;
    let mut done = 0;
    for (at, step) in steps.iter().enumerate() {
        let stepped = lane::time::timeout(STEP_MAX, run.step(step)).await;
        match stepped.unwrap_or_else(|_| Err(anyhow::anyhow!("it takes more than {STEP_MAX:?}"))) {
            Ok(is_done) => done += usize::from(is_done),
            Err(error) => {
                let error = error.context(step.operation.to_string());
                return Ok(Outcome { done, failure: Some(Failure { begun: at + 1, error }) });
            }
        }
    }
    let ended = run.ends(closed_within).await;
    let failure = ended.err().map(|error| Failure { begun: steps.len(), error });
    Ok(Outcome { done, failure })
}

/// Reduces a failing run, and prints what is left of it.
fn explain(
    args: &Args,
    seed: u64,
    steps: &[Step],
    failure: Failure,
    mut live: impl FnMut(&[Step]) -> anyhow::Result<Outcome>,
) {
    eprintln!("seed {seed} fails after {} steps: {:#}", failure.begun, failure.error);
    let mut last = failure.error;
    let kept = reduce::reduce(&steps[..failure.begun], REDUCED_WITHIN, |steps| match live(steps) {
        Ok(Outcome { failure: Some(failure), .. }) => {
            let is_same = kind(&failure.error) == kind(&last);
            if is_same {
                last = failure.error;
            }
            is_same
        }
        Ok(_) => false,
        Err(error) => {
            eprintln!("an attempt could not be made: {error:#}");
            false
        }
    });
    eprintln!("reduced to {} steps:", kept.len());
    for step in &kept {
        let looks = step.looks;
        let looks = [(looks.afs, " AFS"), (looks.smb, " SMB"), (looks.http, " HTTP")];
        let looks: String = looks.iter().filter(|(looks, _)| *looks).map(|(_, who)| *who).collect();
        let looks = if looks.is_empty() { String::new() } else { format!(" (looks:{looks})") };
        eprintln!("  {:>4} {}{looks}", step.index, step.operation);
    }
    eprintln!("  {last:#}");
    let only: Vec<_> = kept.iter().map(|step| step.index.to_string()).collect();
    eprintln!(
        "repeat: cargo xtask one-tree --mode {} --seed {seed} --seeds 1 --steps {} --only {}",
        args.mode.name(),
        args.steps,
        only.join(",")
    );
}

/// The first words of what was found: a shorter run that fails by something else is no part of the longer one.
fn kind(error: &anyhow::Error) -> String {
    error.root_cause().to_string().split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// A removed file is closed so soon after its last open;
const CLOSED_WITHIN: Duration = Duration::from_secs(10);
/// it is taken for one that stays open while a run is reduced.
const CLOSED_SOON: Duration = Duration::from_millis(1500);
const REDUCED_WITHIN: Duration = Duration::from_secs(60);
/// No server that works takes longer for a step and its looks.
const STEP_MAX: Duration = Duration::from_secs(120);
