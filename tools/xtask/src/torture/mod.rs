//! `cargo xtask torture`: a process changes a tree through `vfs`, on several lanes, until it is killed at some moment, or
//! its file system loses its power; then what is there is held against what was asked for and what was acknowledged, and
//! index and tree are compared, as `linerate volume check` does: after its repair they agree.
//!
//! A loss of power is what journalling file systems offer for such tests: an image is told to shut down at once and write
//! nothing more, not even its log, and mounted again. What the disk itself may lose or put in another order is the
//! simulated disk's part.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use testkit::Disk;

use crate::process::Killed;

mod agreement;
pub(crate) mod child;
mod choice;
mod model;
mod record;
mod step;
mod verify;

use model::{Model, SHARED};
use record::Record;
use step::Step;
use verify::{Contest, End, History, Versions};

/// Flags of `cargo xtask torture`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Lives of the process, each ended by force
    #[arg(long, default_value_t = 1000)]
    rounds: u32,
    /// File systems to do it on, in images of their own
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Tmpfs])]
    file_system: Vec<FileSystem>,
    /// Of every so many lives, one ends by a loss of power (never on tmpfs); 0 for none
    #[arg(long, default_value_t = 4, value_name = "LIVES")]
    power_cut: u32,
    /// What is done, and when it ends; the machine's own timing adds to it
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum FileSystem {
    Ext4,
    Xfs,
    Tmpfs,
}

/// Result of all lives on one file system.
#[derive(Debug, serde::Serialize)]
struct Line {
    file_system: FileSystem,
    rounds: u32,
    power_cuts: u32,
    acknowledged: u64,
    acknowledged_synced: u64,
    /// Changes under way at the end, and how many of these took effect.
    under_way: u64,
    under_way_made: u64,
    /// Acknowledged changes that a loss of power took back, none of them synced.
    lost_unsynced: u64,
    versions: usize,
    /// Ends after which index and tree agreed as they were.
    agreed: u32,
    /// Problems after the other lives, which were mended, by kind.
    mended: BTreeMap<&'static str, u64>,
    seconds: f64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    for &kind in &args.file_system {
        let disk = kind.disk().context("images need root, loop devices and the mkfs programs")?;
        let line = torture(kind, &disk, args)?;
        println!("{}", serde_json::to_string(&line)?);
    }
    Ok(())
}

/// Runs a few lives, as a part of `cargo xtask test`. Where no image can be mounted they are skipped, and the reason
/// is the answer.
pub(crate) fn run_for_tests() -> anyhow::Result<Vec<String>> {
    let mut skipped = Vec::new();
    for kind in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Tmpfs] {
        match kind.disk() {
            Ok(disk) => {
                let args = Args { rounds: ROUNDS_OF_TESTS, file_system: vec![kind], power_cut: 4, seed: 1 };
                let line = torture(kind, &disk, &args)?;
                eprintln!("killed and explained: {}", serde_json::to_string(&line)?);
            }
            Err(error) => skipped.push(format!("torture on {}: {error}", kind.name())),
        }
    }
    Ok(skipped)
}

fn torture(kind: FileSystem, disk: &Disk, args: &Args) -> anyhow::Result<Line> {
    let mut torture = Torture::new(kind, disk, args)?;
    for round in 0..args.rounds {
        let seed = torture.rng.random();
        let is_cut =
            kind != FileSystem::Tmpfs && args.power_cut > 0 && round % args.power_cut == args.power_cut - 1;
        let end = if is_cut { End::PowerCut } else { End::Killed };
        torture
            .life(seed, end)
            .with_context(|| format!("{}, --seed {}, round {round}, {end:?}", kind.name(), args.seed))?;
    }
    Ok(torture.line)
}

struct Torture<'d> {
    disk: &'d Disk,
    tree: PathBuf,
    /// Directory of the index, on the same disk.
    state: PathBuf,
    boot: u8,
    rng: SmallRng,
    versions: Versions,
    line: Line,
    began: Instant,
}

/// Record of one life of the process.
struct Told {
    histories: Vec<History>,
    contest: Contest,
    /// Workers whose last step was for the contest.
    in_contest: BTreeMap<usize, usize>,
    lines: usize,
    /// Set once nothing that is acknowledged counts: xfs answers the sync of a directory well after its power is cut.
    is_cut: bool,
}

impl<'d> Torture<'d> {
    fn new(kind: FileSystem, disk: &'d Disk, args: &Args) -> anyhow::Result<Self> {
        let (tree, state) = (disk.path().join("tree"), disk.path().join("state"));
        for worker in 0..WORKERS {
            for directory in Model::fixed(worker) {
                std::fs::create_dir_all(tree.join(directory))?;
            }
        }
        std::fs::create_dir_all(tree.join(SHARED))?;
        let line = Line {
            file_system: kind,
            rounds: 0,
            power_cuts: 0,
            acknowledged: 0,
            acknowledged_synced: 0,
            under_way: 0,
            under_way_made: 0,
            lost_unsynced: 0,
            versions: 0,
            agreed: 0,
            mended: BTreeMap::new(),
            seconds: 0.0,
        };
        let rng = SmallRng::seed_from_u64(args.seed);
        Ok(Self {
            disk,
            tree,
            state,
            boot: 1,
            rng,
            versions: Versions::default(),
            line,
            began: Instant::now(),
        })
    }

    fn life(&mut self, seed: u64, end: End) -> anyhow::Result<()> {
        if end == End::PowerCut {
            // What earlier lives left unsynced is not this one's to lose.
            rustix::fs::syncfs(std::fs::File::open(&self.tree)?)?;
        }
        let told = self.live(seed, end)?;
        self.explain(&told, end)?;
        self.line.rounds += 1;
        self.line.versions = self.versions.count();
        self.line.seconds = self.began.elapsed().as_secs_f64();
        Ok(())
    }

    /// Runs one life of the process, from its start to its end.
    fn live(&mut self, seed: u64, end: End) -> anyhow::Result<Told> {
        let models = (0..WORKERS).map(|worker| Ok(History::new(Model::of_tree(&self.tree, worker)?)));
        let histories = models.collect::<anyhow::Result<_>>()?;
        let contest = Contest { base: read(&self.tree.join(Step::CONTEST))?, ..Contest::default() };
        let mut told = Told { histories, contest, in_contest: BTreeMap::new(), lines: 0, is_cut: false };
        // This very program, also where a build has put another at its path.
        let mut command = Command::new("/proc/self/exe");
        command.arg("torture-child").arg("--tree").arg(&self.tree).arg("--state").arg(&self.state);
        for (flag, value) in [
            ("--seed", seed),
            ("--lanes", LANES),
            ("--workers", WORKERS as u64),
            ("--boot", self.boot.into()),
        ] {
            command.args([flag, &value.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        if end == End::PowerCut {
            command.stderr(Stdio::null());
        }
        let mut child = Killed(command.spawn().context("starting the process that is killed")?);
        let mut lines = BufReader::new(child.0.stdout.take().context("it is a pipe")?);
        let moment = self.rng.random_range(1..=LINES_MAX);
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 {
            told.note(&line, &mut self.versions)?;
            line.clear();
            if told.lines == moment {
                let spin = self.rng.random_range(0..SPIN_MAX);
                (0..spin).for_each(|_| std::hint::spin_loop());
                if end == End::PowerCut {
                    told.is_cut = true;
                    self.disk.cut_power()?;
                }
                child.0.kill()?;
            }
        }
        let status = child.0.wait()?;
        ensure!(told.lines >= moment, "the process ended by itself: {status}");
        drop(lines);
        if end == End::PowerCut {
            self.disk.restore_power().context("mounting it again")?;
            self.line.power_cuts += 1;
            self.boot = self.boot.wrapping_add(1);
        }
        Ok(told)
    }

    fn explain(&mut self, told: &Told, end: End) -> anyhow::Result<()> {
        for (worker, history) in told.histories.iter().enumerate() {
            let found = Model::of_tree(&self.tree, worker)?;
            let shown = history.explain(&found, end).with_context(|| format!("worker {worker}"))?;
            self.line.acknowledged += history.acknowledged as u64;
            let synced = history.steps[..history.acknowledged].iter().filter(|step| step.is_sync());
            self.line.acknowledged_synced += synced.count() as u64;
            self.line.under_way += (history.steps.len() - history.acknowledged) as u64;
            self.line.under_way_made += shown.saturating_sub(history.acknowledged) as u64;
            self.line.lost_unsynced += history.acknowledged.saturating_sub(shown) as u64;
        }
        let contested = read(&self.tree.join(Step::CONTEST))?;
        told.contest.explain(contested.as_deref(), end)?;
        let compared =
            agreement::compare(&self.state, &self.tree, self.boot).context("linerate volume check")?;
        self.line.agreed += u32::from(compared.is_empty());
        for (word, count) in compared {
            *self.line.mended.entry(word).or_default() += count;
        }
        Ok(())
    }
}

impl Told {
    fn note(&mut self, line: &str, versions: &mut Versions) -> anyhow::Result<()> {
        let record: Record = serde_json::from_str(line).with_context(|| format!("a line: {line:?}"))?;
        self.lines += 1;
        match record {
            Record::Found { worker, path, version } => {
                versions.note(&version, self.histories[worker].base.content(&path))?;
            }
            Record::Begin { worker, step: Step::Publish { path, bytes, .. } } if path == Step::CONTEST => {
                self.in_contest.insert(worker, self.contest.published.len());
                self.contest.published.push((self.lines, None, bytes));
            }
            Record::Begin { worker, step } => {
                self.histories[worker].steps.push(step);
            }
            Record::Done { .. } | Record::Refused { .. } if self.is_cut => {}
            Record::Done { worker, version } => match self.in_contest.remove(&worker) {
                Some(published) => self.contest.published[published].1 = Some(self.lines),
                None => {
                    let history = &mut self.histories[worker];
                    history.acknowledged += 1;
                    ensure!(history.acknowledged == history.steps.len(), "steps follow each other");
                    if let Some(version) = version {
                        let mut model = history.base.clone();
                        history.steps.iter().try_for_each(|step| model.apply(step))?;
                        let path = history.steps.last().and_then(Step::path_of_content);
                        versions.note(&version, model.content(path.context("it has a content")?))?;
                    }
                }
            },
            Record::Refused { worker, why } => {
                let step = self.histories[worker].steps.last();
                bail!("worker {worker} was refused: {why}: {step:?}");
            }
        }
        Ok(())
    }
}

impl FileSystem {
    fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Tmpfs => "tmpfs",
        }
    }

    fn disk(self) -> std::io::Result<Disk> {
        match self {
            Self::Ext4 | Self::Xfs => Disk::new(self.name(), IMAGE_MIB, &[]),
            Self::Tmpfs => Disk::in_memory(IMAGE_MIB),
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

const LANES: u64 = 2;
const WORKERS: usize = 5;
/// A life is at most so long.
const LINES_MAX: usize = 700;
/// Turns between a line and the end, so that it falls anywhere into what follows it.
const SPIN_MAX: u32 = 20_000;
const IMAGE_MIB: u64 = 320;
const ROUNDS_OF_TESTS: u32 = 12;
