//! `cargo xtask smbtorture`: Samba's own tests of SMB 2 and 3 against Linerate, in network namespaces, held against what
//! smbd passes of them (`tools/xtask/smbtorture/baseline.txt`).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Subcommand;

use self::arena::Arena;
use self::results::{Outcome, Results};
use self::run::Torture;
pub(crate) use self::samba::Samba;
use self::subject::Subject;
use self::suite::Suite;
use crate::{packages, skipped};

mod arena;
mod report;
mod results;
mod run;
mod samba;
mod subject;
mod suite;

/// Flags of `cargo xtask smbtorture`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run suites, each test in a process of its own, and tell what smbd passes and the server does not
    Run(RunArgs),
    /// Hold the results of a run against those of smbd
    Compare(CompareArgs),
}

#[derive(Debug, Default, clap::Args)]
struct RunArgs {
    /// Suites (`lock`, `session@enc`) or single tests (`lock.zerobyteread`); without any, all of them
    suites: Vec<String>,
    /// What CI runs: in a few minutes suites that are passed whole. A test that is lost is run once more, by itself, and told
    /// as flaky if it passes then; where Samba cannot be had, or there is no root, it is skipped
    #[arg(long, conflicts_with = "suites")]
    quick: bool,
    /// Test Samba's own server in place of Linerate
    #[arg(long)]
    peer: bool,
    /// A linerate that is built already
    #[arg(long, value_name = "FILE", conflicts_with = "peer")]
    binary: Option<PathBuf>,
    /// Seconds a test may take
    #[arg(long, default_value_t = 150)]
    limit: u64,
    /// Suites that run at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=4))]
    jobs: u8,
    /// Where the results and what each test said are kept
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
    /// One JSON line for each test, and one for each suite, in place of tables
    #[arg(long)]
    json: bool,
    /// Fail where smbd passes a test and the server does not
    #[arg(long)]
    strict: bool,
    /// Where a test of several channels wants one that is dead, have iptables drop its packets, in place of the server's own
    /// switch
    #[arg(long)]
    iptables: bool,
}

#[derive(Debug, clap::Args)]
struct CompareArgs {
    /// `results.txt` of a run
    results: PathBuf,
    /// JSON in place of tables
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.what {
        What::Run(args) => run_suites(args),
        What::Compare(args) => {
            let results = Results::read(&args.results)?;
            let lost = report::tell(&results, &baseline()?, args.json)?;
            ensure!(lost == 0, "{lost} tests that smbd passes fail");
            Ok(())
        }
    }
}

/// Runs the suites of `--quick` against the program that the tests build.
pub(crate) fn run_for_ci() -> anyhow::Result<()> {
    let binary = Some(crate::process::tested_binary()?);
    run_suites(&RunArgs { quick: true, binary, limit: 150, jobs: 2, strict: true, ..RunArgs::default() })
}

fn baseline() -> anyhow::Result<Results> {
    Results::read(&crate::process::root().join("tools/xtask/smbtorture/baseline.txt"))
}

fn run_suites(args: &RunArgs) -> anyhow::Result<()> {
    let suites = match (args.quick, args.suites.is_empty()) {
        (true, _) => suite::QUICK.iter().map(|name| Suite::parse(name)).collect::<Result<_, _>>()?,
        (false, true) => suite::ALL.iter().map(|name| Suite::parse(name)).collect::<Result<_, _>>()?,
        (false, false) => args.suites.iter().map(|name| Suite::parse(name)).collect::<Result<Vec<_>, _>>()?,
    };
    let out = args.out.clone().unwrap_or_else(|| crate::process::target().join("smbtorture/last"));
    // smbtorture takes no other.
    let out = std::path::absolute(out)?;
    std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let (samba, arena) = match Samba::unpacked().and_then(|samba| Ok((samba, Arena::new()?))) {
        Err(reason) if args.quick && !skipped::in_ci() => {
            eprintln!("SKIPPED, none of Samba's tests was run: {reason:#}");
            return Ok(());
        }
        ground => ground?,
    };
    packages::install(packages::SMBTORTURE)?;
    if args.iptables {
        packages::install(packages::IPTABLES)?;
    }
    let work = tempfile::Builder::new().prefix("linerate-smbtorture.").tempdir()?;
    let subject = match args.peer {
        true => Subject::smbd(&arena, &samba, work.path())?,
        false => Subject::linerate(&arena, args.binary.clone(), work.path())?,
    };
    let started = Instant::now();
    let torture = Torture {
        samba: &samba,
        arena: &arena,
        limit: Duration::from_secs(args.limit),
        out: &out,
        log: subject.log(),
        options: if args.iptables { &["torture:use_iptables=yes"] } else { &[] },
    };
    let mut results = torture.run(&suites, usize::from(args.jobs))?;
    let baseline = baseline()?;
    if args.quick {
        once_more(&torture, &mut results, &baseline)?;
    }
    let path = out.join("results.txt");
    results.write(&path)?;
    drop(subject);
    if results.is_empty() {
        bail!("none of these is a test of smbtorture {}", samba.version());
    }
    let lost = report::tell(&results, &baseline, args.json)?;
    eprintln!("smbtorture: {} tests in {:.0?}, kept in {}", results.len(), started.elapsed(), path.display());
    ensure!(!args.strict || lost == 0, "{lost} tests that smbd passes fail");
    Ok(())
}

/// Runs what was lost by itself: other work on the machine may have held it up. What passes then is told, as
/// the results do not show it.
fn once_more(torture: &Torture<'_>, results: &mut Results, baseline: &Results) -> anyhow::Result<()> {
    for (test, first) in results.lost(baseline) {
        let again = torture.run(&[Suite::parse(&test)?], 1)?;
        let second = again.get(&test).unwrap_or(first);
        if second == Outcome::Success {
            eprintln!("FLAKY, {} at first: {test}", first.name());
        }
        results.add(test, second);
    }
    Ok(())
}
