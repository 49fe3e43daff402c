//! `cargo xtask smbtorture`: Samba's own tests of SMB 2 and 3 against Linerate, in network namespaces, held against what
//! smbd passes of them (`xtask/smbtorture/baseline.txt`).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Subcommand;

use self::arena::Arena;
use self::results::Results;
use self::run::Torture;
use self::samba::Samba;
use self::subject::Subject;
use self::suite::Suite;

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

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Suites (`lock`, `session@enc`) or single tests (`lock.zerobyteread`); without any, all of them
    suites: Vec<String>,
    /// What takes less than ten minutes, of every part of the protocol
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

fn baseline() -> anyhow::Result<Results> {
    Results::read(&crate::process::root().join("xtask/smbtorture/baseline.txt"))
}

fn run_suites(args: &RunArgs) -> anyhow::Result<()> {
    let suites = match (args.quick, args.suites.is_empty()) {
        (true, _) => suite::QUICK.iter().map(|name| Suite::parse(name)).collect::<Result<_, _>>()?,
        (false, true) => suite::ALL.iter().map(|name| Suite::parse(name)).collect::<Result<_, _>>()?,
        (false, false) => args.suites.iter().map(|name| Suite::parse(name)).collect::<Result<Vec<_>, _>>()?,
    };
    let out = args.out.clone().unwrap_or_else(|| crate::process::target().join("smbtorture/last"));
    std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let samba = Samba::unpacked()?;
    let arena = Arena::new()?;
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
    };
    let results = torture.run(&suites, usize::from(args.jobs))?;
    let path = out.join("results.txt");
    results.write(&path)?;
    drop(subject);
    if results.is_empty() {
        bail!("none of these is a test of smbtorture {}", samba.version());
    }
    let lost = report::tell(&results, &baseline()?, args.json)?;
    eprintln!("smbtorture: {} tests in {:.0?}, kept in {}", results.len(), started.elapsed(), path.display());
    ensure!(!args.strict || lost == 0, "{lost} tests that smbd passes fail");
    Ok(())
}
