//! `cargo xtask one-tree`: two SMB clients, two AFS clients that cache, HTTP and local programs change one small tree of the real
//! server, one after the other and at random; after each step all of them and the file system must show the same.
//!
//! What is done, the model and the looks are the crate `one-tree`, which the simulated checker shares
//! (`crates/linerate/tests/all/one_tree/checker.rs`). A run that fails is reduced and printed as a sequence, with the line that repeats it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;
use lane::runtime::{RuntimeOptions, run_here};
use one_tree::draw::{Mix, steps};
use one_tree::play::{CLOSED_SOON, CLOSED_WITHIN, Failure, Outcome, explain, go_through, places, reduced};
use one_tree::{End, Known, Step};

use crate::process;

mod site;

use site::Site;

/// Which programs take part beside the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    /// SMB, AFS and HTTP clients.
    Base,
    /// Local programs as well.
    Local,
    /// Clean restarts and kills as well; no local programs.
    Restart,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Local => "local",
            Self::Restart => "restart",
        }
    }

    fn mix(self) -> Mix {
        let mix = Mix { local: 0, ends: 0, kinds: &[], len_max: 9_000, whole: 3 };
        match self {
            Self::Base => mix,
            Self::Local => Mix { local: 40, ..mix },
            Self::Restart => Mix { ends: 40, kinds: &[End::Stop, End::Kill], ..mix },
        }
    }
}

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
    #[arg(long, value_parser = known, value_delimiter = ',', value_name = "DEFECT")]
    allow: Vec<Known>,
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

/// Ground that each run begins with.
struct Ground<'a> {
    program: &'a Path,
    place: &'a Path,
    known: &'a [Known],
}

/// Summary of all runs.
#[derive(Debug, serde::Serialize)]
struct Summary {
    mode: Mode,
    seed: u64,
    seeds: u64,
    steps: usize,
    failures: usize,
    seconds: f64,
}

fn known(name: &str) -> Result<Known, String> {
    let known = Known::ALL.into_iter().find(|known| known.name() == name);
    known.ok_or_else(|| format!("known are {}", Known::ALL.map(Known::name).join(", ")))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => process::tested_binary()?,
    };
    let place = args.place.clone().unwrap_or_else(|| process::target().join("one-tree"));
    std::fs::create_dir_all(&place)?;
    let place = place.canonicalize()?;
    let ground = Ground { program: &program, place: &place, known: &args.allow };
    let began = Instant::now();
    let mut summary =
        Summary { mode: args.mode, seed: args.seed, seeds: 0, steps: 0, failures: 0, seconds: 0.0 };
    for seed in args.seed..args.seed + args.seeds {
        let mut steps = steps(seed, &args.mode.mix(), args.steps);
        if !args.only.is_empty() {
            steps.retain(|step| args.only.contains(&step.index()));
        }
        let outcome = live(&ground, &steps, CLOSED_WITHIN)?;
        summary.seeds += 1;
        summary.steps += outcome.done;
        if let Some(failure) = outcome.failure {
            summary.failures += 1;
            tell(args, seed, &steps, failure, |steps| live(&ground, steps, CLOSED_SOON));
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
    let (steps, known) = (steps.to_vec(), ground.known.to_vec());
    // A thread of its own, as a lane is.
    let lived = std::thread::spawn(move || {
        run_here(RuntimeOptions::default(), async move {
            let site = Box::new(site.located().await?);
            go_through(site, known, steps, closed_within).await
        })
    });
    match lived.join() {
        Ok(lived) => lived?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Reduces a failing run, and prints what is left of it.
fn tell(
    args: &Args,
    seed: u64,
    steps: &[Step],
    failure: Failure,
    live: impl FnMut(&[Step]) -> anyhow::Result<Outcome>,
) {
    eprintln!("seed {seed} fails after {} steps: {:#}", failure.begun, failure.error);
    let reduced = reduced(steps, failure, REDUCED_WITHIN, live);
    eprintln!("{}", explain(&reduced));
    eprintln!(
        "repeat: cargo xtask one-tree --mode {} --seed {seed} --seeds 1 --steps {} --only {}",
        args.mode.name(),
        args.steps,
        places(&reduced.steps)
    );
}

const REDUCED_WITHIN: Duration = Duration::from_secs(60);
