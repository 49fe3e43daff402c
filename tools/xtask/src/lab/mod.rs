//! `cargo xtask lab NAME…`: boots guests with other kernels and other machines than this one and runs a
//! scenario inside. How it is built, and how to add a scenario: `docs/design/lab.md`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::{packages, process};

pub(crate) mod guest;

mod channel;
mod host;
mod initrd;
pub(crate) mod inside;
mod kernel;
mod machine;
mod qemu;
mod report;
mod scenario;

use kernel::{Kernel, Release};
use scenario::Scenario;

/// Flags of `cargo xtask lab`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenarios to run, `all`, or `list`
    #[arg(required = true)]
    names: Vec<String>,
    /// Debian kernel the guests boot: of the stable suite, or of its backports
    #[arg(long, value_enum, default_value = "6.1")]
    kernel: Release,
    /// Give a shell in the scenario's guest instead of running it
    #[arg(long)]
    shell: bool,
    /// Show the guests' consoles while they run
    #[arg(long)]
    console: bool,
    /// One JSON line per scenario instead of words
    #[arg(long)]
    json: bool,
    /// The program to test instead of this tree's build for packages
    #[arg(long, value_name = "PROGRAM")]
    linerate: Option<PathBuf>,
}

/// Options of a run besides the names.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    shell: bool,
    console: bool,
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.names == ["list"] {
        scenario::ALL.iter().for_each(|scenario| println!("{:16}{}", scenario.name(), scenario.about()));
        return Ok(());
    }
    let chosen = scenario::choose(&args.names)?;
    if args.shell && chosen.len() > 1 {
        bail!("--shell takes one scenario");
    }
    packages::install(packages::LAB)?;
    if let Some(reason) = cannot_run(&chosen) {
        bail!("the lab cannot run here: {reason}");
    }
    let options = Options { shell: args.shell, console: args.console, json: args.json };
    run_all(&chosen, args.kernel, args.linerate.as_deref(), options)
}

/// Runs the scenarios that every change must pass, as a part of `cargo xtask test`. On a machine that cannot run a
/// guest they are skipped, and the reason is the answer.
pub(crate) fn run_for_tests(install: bool) -> anyhow::Result<Option<String>> {
    let chosen: Vec<_> =
        scenario::ALL.iter().copied().filter(|scenario| scenario.on_every_change()).collect();
    if install {
        packages::install(packages::LAB)?;
    }
    match cannot_run(&chosen) {
        Some(reason) => Ok(Some(reason)),
        None => {
            let linerate = process::tested_binary()?;
            run_all(&chosen, Release::Stable, Some(&linerate), Options::default()).map(|()| None)
        }
    }
}

fn run_all(
    chosen: &[&'static dyn Scenario],
    release: Release,
    linerate: Option<&Path>,
    options: Options,
) -> anyhow::Result<()> {
    let mut wanted: Vec<&str> = chosen.iter().flat_map(|scenario| scenario.packages()).copied().collect();
    wanted.sort_unstable();
    wanted.dedup();
    packages::install(&wanted)?;
    let kernel = Kernel::fetch(release)?;
    let linerate = match linerate {
        Some(program) => program.canonicalize().with_context(|| program.display().to_string())?,
        None => process::dist_binary()?,
    };
    let binaries = Binaries { linerate, agent: agent()? };
    let mut failed = Vec::new();
    for &scenario in chosen {
        let report = host::run(scenario, &kernel, &binaries, options);
        report.print(options.json)?;
        if let Some(error) = &report.error {
            failed.push(format!("{}: {error}", scenario.name()));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    // With their causes: of a long run only the last lines may be kept.
    bail!("failed in the lab: {}", failed.join("; "))
}

/// Programs that run inside the guests.
struct Binaries {
    linerate: PathBuf,
    /// This very program.
    agent: PathBuf,
}

impl Binaries {
    /// Returns the directories where they lie, and the repository.
    fn directories(&self) -> Vec<&Path> {
        [Some(process::root()), self.linerate.parent(), self.agent.parent()].into_iter().flatten().collect()
    }
}

fn agent() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot tell where this program lies")
}

/// Returns why no guest can be booted here, if so.
fn cannot_run(chosen: &[&'static dyn Scenario]) -> Option<String> {
    if std::env::consts::ARCH != "x86_64" {
        return Some(format!("guests are x86_64 machines, this one is {}", std::env::consts::ARCH));
    }
    if let Some(missing) = packages::LAB_PROGRAMS.iter().find(|program| !process::is_program(program)) {
        return Some(format!("{missing} is missing; the Debian packages are {}", packages::LAB.join(" ")));
    }
    let machines =
        |scenario: &&dyn Scenario| scenario.machines().iter().map(machine::Machine::memory_mib).sum();
    let wanted: u64 = chosen.iter().map(machines).max().unwrap_or(0);
    match available_mib() {
        Some(available) if available < wanted => {
            Some(format!("its guests take {wanted} MiB of memory, {available} MiB are free"))
        }
        _ => None,
    }
}

fn available_mib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib / 1024)
}

/// Returns where kernels and console logs are kept.
fn directory() -> PathBuf {
    process::target().join("lab")
}

/// A guest that says nothing for so long after its start has no working kernel.
const BOOT_LIMIT: Duration = Duration::from_secs(240);
