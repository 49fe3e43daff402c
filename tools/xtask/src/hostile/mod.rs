//! `cargo xtask hostile`: what a hostile, patient or slow client does to others. Beside every attack a good client
//! measures what it feels. How it is measured: `docs/benchmarks.md`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::lab::guest::metrics::Scrape;
use crate::{descriptors, process, skipped};

mod admin;
mod afs;
mod arena;
mod good;
mod http;
mod load;
mod net;
mod report;
mod rx;
mod samples;
mod scenario;
mod scrapes;
mod server;
mod smb;
mod walk;

use arena::{Arena, inside};
use load::Burners;
use report::{FREE_SECONDS_MAX, Report};
use samples::{Part, Samples};
use scenario::{Field, Scenario, Service};
use scrapes::Scrapes;
use server::{Levels, MemoryWatch, Server};
use walk::Walk;

/// Flags of `cargo xtask hostile`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Scenarios to run; without any, all
    scenarios: Vec<String>,
    /// Walk the entries of docs/reference/limits.md: each attack runs once, and what its counters and the good client came to
    /// is told for each line
    #[arg(long)]
    limits: bool,
    /// Name the scenarios, or the lines with their attacks, and run none
    #[arg(long)]
    list: bool,
    /// Seconds that each attack lasts
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Late answers are told and fail nothing; errors, memory and what is not free do: for machines that others use too
    #[arg(long)]
    tell_late: bool,
    /// One JSON line for each scenario
    #[arg(long)]
    json: bool,
    /// The program to attack instead of this tree's build for packages
    #[arg(long, value_name = "PROGRAM")]
    server: Option<PathBuf>,
    /// Scenarios that run at once, each in an arena of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    at_once: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut walk = match args.limits {
        true => Some(Walk::new(&args.scenarios, args.tell_late, args.json)?),
        false => None,
    };
    if let (true, Some(walk)) = (args.list, &walk) {
        walk.list();
        return Ok(());
    }
    if args.list {
        scenario::ALL.iter().for_each(|scenario| println!("{:22}{}", scenario.name(), scenario.about()));
        return Ok(());
    }
    let chosen = match &walk {
        Some(walk) if args.scenarios.is_empty() => walk.attacks(),
        _ => scenario::choose(&args.scenarios)?,
    };
    if let Err(reason) = Arena::is_possible() {
        if skipped::in_ci() {
            bail!("CI skips nothing: {reason}");
        }
        eprintln!("SKIPPED, no hostile client was tried: {reason}");
        return Ok(());
    }
    descriptors::raise_limit()?;
    let program = match &args.server {
        Some(program) => program.canonicalize().with_context(|| program.display().to_string())?,
        None => process::dist_binary()?,
    };
    let work = tempfile::Builder::new().prefix("linerate-hostile").tempdir()?;
    let tree = work.path().join("tree");
    if chosen.iter().any(|scenario| matches!(scenario.service(), Service::Http | Service::Smb)) {
        server::make_tree(&tree)?;
    }
    let (work, scrapes) = (work.path(), args.limits);
    let bench = Bench { program, tree, work, seconds: args.seconds, tell_late: args.tell_late, scrapes };
    if !args.json {
        Report::print_heads();
    }
    let mut missed = Vec::new();
    bench.run_all(&chosen, args.at_once.max(1), |scenario, report| {
        match &mut walk {
            Some(walk) if args.json => walk.tell(&report)?,
            Some(walk) => {
                report.print(args.json)?;
                walk.tell(&report)?;
            }
            None => report.print(args.json)?,
        }
        let passes = report.reached || args.tell_late && report.is_late_only();
        if !passes {
            missed.push(scenario.name());
        }
        Ok(())
    })?;
    if let Some(walk) = walk.filter(|_| args.scenarios.is_empty() || missed.is_empty()) {
        return walk.end();
    }
    if missed.is_empty() {
        return Ok(());
    }
    bail!("others suffer: {}", missed.join(", "))
}

/// Returns the names of all scenarios.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    scenario::ALL.iter().map(|scenario| scenario.name())
}

/// Runs every scenario for a short time against the program that the tests build. Late answers are told and not
/// judged, as the machine may have other work.
pub(crate) fn run_for_ci() -> anyhow::Result<()> {
    let server = Some(process::tested_binary()?);
    run(&Args { seconds: 3, tell_late: true, server, ..Args::default() })
}

/// State that all scenarios have in common.
struct Bench<'a> {
    program: PathBuf,
    tree: PathBuf,
    work: &'a Path,
    seconds: u64,
    tell_late: bool,
    /// Set if counters are read meanwhile, for [`walk`].
    scrapes: bool,
}

impl Bench<'_> {
    /// Runs scenarios, some at once, and prints each report as it comes.
    fn run_all(
        &self,
        scenarios: &[&'static dyn Scenario],
        at_once: usize,
        mut tell: impl FnMut(&'static dyn Scenario, Report) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let next = AtomicUsize::new(0);
        let (done, reports) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..at_once {
                let (next, done) = (&next, done.clone());
                scope.spawn(move || {
                    while let Some(&scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // Where the receiver is gone one has failed, and no other is wanted.
                        if done.send((scenario, self.run_with_a_second_chance(scenario))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(done);
            let told = reports.iter().try_for_each(|(scenario, report)| tell(scenario, report?));
            drop(reports);
            told
        })
    }

    /// Runs a scenario, and once more where other work on the machine may have delayed an answer: it does not do so
    /// twice as if by the attack. It causes no error either, unless it is so much that the attack has no time to
    /// begin. Where times are not judged, that has a second chance too, with [`SECONDS_AGAIN`] times as much time.
    fn run_with_a_second_chance(&self, scenario: &dyn Scenario) -> anyhow::Result<Report> {
        let run = |seconds| self.run(scenario, seconds).with_context(|| scenario.name());
        let again = if self.tell_late { SECONDS_AGAIN * self.seconds } else { self.seconds };
        let report = match run(self.seconds) {
            Err(error) if self.tell_late => {
                eprintln!("{error:#}; once more");
                return run(again);
            }
            outcome => outcome?,
        };
        let is_late_only = report.is_late_only();
        // Where late answers are judged they are tried again, and where they are told alone whatever else was missed.
        if report.reached || is_late_only == self.tell_late {
            return Ok(report);
        }
        eprintln!("{}: {}; once more", scenario.name(), report.missed.join(", "));
        run(again)
    }

    fn run(&self, scenario: &dyn Scenario, seconds: u64) -> anyhow::Result<Report> {
        let work = self.work.join(scenario.name());
        if work.exists() {
            std::fs::remove_dir_all(&work)?;
        }
        std::fs::create_dir(&work)?;
        let arena = Arena::new()?;
        let wishes = scenario.prepare(&work)?;
        let mut server = match scenario.service() {
            Service::Http => Server::http(&arena, &self.program, &work, &self.tree, &wishes)?,
            Service::Rx => Server::rx(&arena, &self.program, &work)?,
            Service::Smb => Server::smb(&arena, &self.program, &work, &self.tree, &wishes)?,
        };
        let stderr = Mutex::new(server.take_stderr());
        let patience = if self.tell_late { PATIENCE_UNJUDGED } else { PATIENCE };
        let (samples, memory) = (Arc::new(Samples::new(patience)), MemoryWatch::default());
        let _burners = Burners::start();
        let (free, findings, scrapes) = std::thread::scope(|scope| {
            scope.spawn(|| memory.run(server.pid()));
            let asking = scope.spawn(|| match scenario.service() {
                Service::Http => {
                    good::http(&arena, &samples);
                    Ok(())
                }
                Service::Rx => good::rx(&arena, &samples),
                Service::Smb => good::smb(&arena, &samples),
            });
            let parts =
                Parts { bench: self, scenario, seconds, arena: &arena, server: &server, samples: &samples };
            let outcome = parts.run(&stderr);
            samples.enter(Part::Over);
            memory.stop();
            asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            outcome
        })?;
        let stop = match server.stop() {
            Ok(time) => Ok(time.as_secs_f64()),
            Err(error) => Err(format!("{error:#}")),
        };
        Ok(Report::new(scenario.name(), samples.figures(), memory.most(), free, stop, findings)
            .with_scrapes(scrapes))
    }
}

/// A run's parts, one after the other.
struct Parts<'a> {
    bench: &'a Bench<'a>,
    scenario: &'a dyn Scenario,
    /// Time of the attack, unless the scenario needs more.
    seconds: u64,
    arena: &'a Arena,
    server: &'a Server,
    samples: &'a Samples,
}

impl Parts<'_> {
    fn run(
        &self,
        stderr: &Mutex<Option<std::process::ChildStderr>>,
    ) -> anyhow::Result<(Result<f64, Vec<String>>, scenario::Findings, Scrapes)> {
        std::thread::sleep(WARM_UP);
        self.samples.enter(Part::Before);
        let idle = self.undisturbed()?;
        self.samples.enter(Part::During);
        let seconds = self.seconds.max(self.scenario.seconds_least());
        let end = Instant::now() + Duration::from_secs(seconds);
        let field = Field { arena: self.arena, tree: &self.bench.tree, stderr, end };
        let counted = Server::scrape(self.arena)?;
        let attack = || {
            inside(&self.arena.attackers, || {
                load::become_attacker();
                self.scenario.attack(&field)
            })
        };
        let mut scrapes = Scrapes::default();
        let mut findings = if self.bench.scrapes {
            std::thread::scope(|scope| {
                let meanwhile = scope.spawn(|| self.scrapes_until(&field));
                let findings = attack();
                scrapes.later = meanwhile.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                findings
            })?
        } else {
            attack()?
        };
        // A load that gives up early leaves a server that recovers under the name of an attacked one.
        field.sit_out();
        self.samples.enter(Part::After);
        // A server that does not even answer this will not be free either.
        if let Ok(after) = Server::scrape(self.arena) {
            findings.counted = after.all_grown(&counted, server::is_of_refusals);
            scrapes.later.push(after);
        }
        scrapes.before = Some(counted);
        let free = self.wait_until_free(&idle)?;
        // On a machine that does much else one answer may take longer than this part.
        self.samples.wait_for(Part::After);
        Ok((free, findings, scrapes))
    }

    /// Returns what is counted while the attack goes on.
    fn scrapes_until(&self, field: &Field<'_>) -> Vec<Scrape> {
        let mut scrapes = Vec::new();
        while !field.is_over() {
            field.sleep(SCRAPE_PERIOD);
            scrapes.extend(Server::scrape(self.arena));
        }
        scrapes
    }

    /// Returns what is in use at most while only the good client asks.
    fn undisturbed(&self) -> anyhow::Result<Levels> {
        let end = Instant::now() + if self.bench.tell_late { UNDISTURBED_UNJUDGED } else { UNDISTURBED };
        let mut idle = Levels::new();
        while Instant::now() < end {
            server::merge(&mut idle, self.server.levels(self.arena)?);
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(idle)
    }

    /// Seconds until everything is free again, or what is not.
    fn wait_until_free(&self, idle: &Levels) -> anyhow::Result<Result<f64, Vec<String>>> {
        let ended = Instant::now();
        loop {
            let held = match self.server.levels(self.arena) {
                Ok(levels) => server::held(idle, &levels),
                Err(error) => vec![format!("its counters cannot be read: {error:#}")],
            };
            let waited = ended.elapsed();
            if held.is_empty() {
                std::thread::sleep(AFTER_LEAST.saturating_sub(waited));
                return Ok(Ok(waited.as_secs_f64()));
            }
            let most = if self.bench.tell_late { FREE_SECONDS_UNJUDGED } else { FREE_SECONDS_MAX };
            if waited.as_secs_f64() > most {
                return Ok(Err(held));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Factor by which an attack lasts longer at its second chance where times are not judged.
const SECONDS_AGAIN: u64 = 5;
/// Time for which the good client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time limit of answers where late ones fail nothing: beside other work only what never comes is an error.
const PATIENCE_UNJUDGED: Duration = Duration::from_secs(20);
const WARM_UP: Duration = Duration::from_millis(500);
const UNDISTURBED: Duration = Duration::from_secs(3);
/// Time without an attack where late answers fail nothing, as little is compared with it.
const UNDISTURBED_UNJUDGED: Duration = Duration::from_secs(1);
/// Time for which everything may take to be free where times are not judged: what is not by then is never.
const FREE_SECONDS_UNJUDGED: f64 = 60.0;
const SCRAPE_PERIOD: Duration = Duration::from_secs(1);
const AFTER_LEAST: Duration = Duration::from_secs(1);
