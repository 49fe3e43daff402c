//! A scenario from outside: its guests are started, listened to, and ended.

use std::collections::BTreeSet;
use std::io::{empty, sink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::channel::{Channel, FromGuest, FromHost};
use super::kernel::Kernel;
use super::machine::{Machine, Wires};
use super::qemu::{Boot, Guest, Terminal};
use super::report::{Figure, Report};
use super::scenario::Scenario;
use super::{BOOT_LIMIT, Binaries, Options, initrd};

/// Boots the scenario's guests and waits for the end.
pub(crate) fn run(
    scenario: &'static dyn Scenario,
    kernel: &Kernel,
    binaries: &Binaries,
    options: Options,
) -> Report {
    let started = Instant::now();
    let mut report = Report::new(scenario.name(), &kernel.version);
    if !options.json {
        eprintln!("lab: {} on {}: {}", scenario.name(), kernel.version, scenario.about());
    }
    let machines = scenario.machines();
    let runs = Runs { scenario: scenario.name(), kernel: &kernel.version };
    runs.forget_old();
    let consoles: Vec<PathBuf> = machines.iter().map(|machine| runs.console(machine)).collect();
    let boot = |report: &mut Report| {
        let (guests, work) = start(scenario, &machines, &consoles, kernel, binaries, options)?;
        let mut lab = Lab::new(guests, options, report)?;
        let outcome = lab.watch(scenario.limit());
        drop((lab, work));
        outcome
    };
    let mut outcome = boot(&mut report);
    for _ in 1..BOOTS {
        let Some(error) = outcome.as_ref().err().filter(|error| error.is::<NotUp>()) else { break };
        eprintln!("    booted once more: {error}");
        report.figures.clear();
        outcome = boot(&mut report);
    }
    report.took(started.elapsed());
    match outcome {
        Ok(()) => consoles.iter().for_each(|console| {
            // Only a failure needs them.
            let _ = std::fs::remove_file(console);
            let _ = std::fs::remove_file(console.with_extension("qemu"));
        }),
        Err(error) => {
            report.error = Some(format!("{error:#}"));
            report.consoles = consoles;
        }
    }
    report
}

/// Files that runs of a scenario on a kernel leave behind. Each has names of its own, so that two at once do
/// not write into one file.
struct Runs<'a> {
    scenario: &'a str,
    kernel: &'a str,
}

impl Runs<'_> {
    fn console(&self, machine: &Machine) -> PathBuf {
        let file = format!("{}{}.console", self.prefix(std::process::id()), machine.name);
        super::directory().join(file)
    }

    /// Removes what failures of runs that are over have left: the last one's is enough.
    fn forget_old(&self) {
        let Ok(files) = std::fs::read_dir(super::directory()) else { return };
        for file in files.flatten() {
            let name = file.file_name();
            if self.run_of(&name.to_string_lossy()).is_some_and(|run| !is_alive(run)) {
                // Another process that removes it does the same.
                let _ = std::fs::remove_file(file.path());
            }
        }
    }

    /// Returns which run a file is of, if it is one of these.
    fn run_of(&self, file: &str) -> Option<u32> {
        let (run, _) = file.strip_prefix(&format!("{}-{}-", self.scenario, self.kernel))?.split_once('-')?;
        run.parse().ok()
    }

    fn prefix(&self, run: u32) -> String {
        format!("{}-{}-{run}-", self.scenario, self.kernel)
    }
}

fn is_alive(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

fn start(
    scenario: &dyn Scenario,
    machines: &[Machine],
    consoles: &[PathBuf],
    kernel: &Kernel,
    binaries: &Binaries,
    options: Options,
) -> anyhow::Result<(Vec<Guest>, tempfile::TempDir)> {
    std::fs::create_dir_all(super::directory())?;
    let work = tempfile::tempdir()?;
    let wires = Wires::new(machines, work.path());
    let linerate = path_text(&binaries.linerate)?;
    let mut guests = Vec::new();
    for (machine, console) in machines.iter().zip(consoles) {
        let initrd = work.path().join(format!("{}.initrd", machine.name));
        let mut args = vec!["lab-guest", scenario.name(), machine.name, "--linerate", linerate];
        args.extend(options.shell.then_some("--shell"));
        let needed = binaries.directories();
        initrd::write(&initrd, kernel, &binaries.agent, &args, &needed)?;
        let terminal = match options {
            Options { shell: true, .. } if guests.is_empty() => Terminal::Connected,
            Options { console: true, .. } => Terminal::Shown,
            _ => Terminal::Hidden,
        };
        let boot =
            Boot { machine, wires: &wires, kernel, initrd: &initrd, work: work.path(), console, terminal };
        guests.push(Guest::start(&boot).with_context(|| format!("guest {}", machine.name))?);
    }
    Ok((guests, work))
}

fn path_text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("the path of the program is not UTF-8")
}

/// The guests of one run, and what they have told each other.
struct Lab<'a> {
    guests: Vec<Guest>,
    answers: Vec<Channel<std::io::Empty, UnixStream>>,
    heard: Receiver<(usize, Heard)>,
    events: BTreeSet<String>,
    waiting: Vec<(usize, String)>,
    options: Options,
    report: &'a mut Report,
}

/// Returns how many tasks share a processor of this machine: as much longer guests take, up to [`CROWD_MAX`].
fn crowd() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(1.0);
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (load / cpus as f64).clamp(1.0, CROWD_MAX)
}

/// Factor by which other work may make a scenario last longer.
const CROWD_MAX: f64 = 4.0;

/// A guest has ended before all were up, so that nothing has been tried yet. Emulated processors run, now and then,
/// into an instruction that another is just replacing, and the kernel that boots dies of it ("Oops: int3").
#[derive(Debug, thiserror::Error)]
#[error("a guest ended before all were up\n    | {0}")]
struct NotUp(String);

enum Heard {
    Said(FromGuest),
    Closed,
}

impl<'a> Lab<'a> {
    fn new(guests: Vec<Guest>, options: Options, report: &'a mut Report) -> anyhow::Result<Self> {
        let (tell, heard) = channel();
        let mut answers = Vec::new();
        for (index, guest) in guests.iter().enumerate() {
            let (stream, tell) = (guest.channel()?, tell.clone());
            answers.push(Channel::new(empty(), guest.channel()?));
            std::thread::spawn(move || listen(index, stream, &tell));
        }
        let (events, waiting) = (BTreeSet::new(), Vec::new());
        Ok(Self { guests, answers, heard, events, waiting, options, report })
    }

    /// Watches the guests until every one has passed, one has failed, or time is up.
    fn watch(&mut self, limit: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        let mut ready = 0;
        let mut passed = BTreeSet::new();
        while passed.len() < self.guests.len() {
            let limit = if self.options.shell { NO_LIMIT } else { limit };
            let limit = if ready < self.guests.len() { limit.min(BOOT_LIMIT) } else { limit };
            let left = (started + limit).saturating_duration_since(Instant::now());
            let heard = self.heard.recv_timeout(left).or_else(|_| {
                let left = (started + limit.mul_f64(crowd())).saturating_duration_since(Instant::now());
                self.heard.recv_timeout(left)
            });
            let (guest, heard) = match heard {
                Ok(heard) => heard,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    bail!("killed after {} s\n    | {}", started.elapsed().as_secs(), self.consoles());
                }
            };
            match heard {
                Heard::Said(FromGuest::Ready) => ready += 1,
                Heard::Said(FromGuest::Passed) => _ = passed.insert(guest),
                Heard::Said(FromGuest::Failed { error }) => bail!("{error}"),
                Heard::Said(other) => self.obey(guest, other)?,
                Heard::Closed if passed.contains(&guest) => {}
                Heard::Closed if self.options.shell => return Ok(()),
                Heard::Closed => {
                    self.guests[guest].wait(Duration::from_secs(2));
                    if ready < self.guests.len() {
                        return Err(NotUp(self.consoles()).into());
                    }
                    bail!("the guest ended without a word\n    | {}", self.consoles());
                }
            }
        }
        // They turn themselves off; a console is complete only then.
        for guest in &mut self.guests {
            guest.wait(Duration::from_secs(5));
        }
        Ok(())
    }

    fn obey(&mut self, guest: usize, message: FromGuest) -> anyhow::Result<()> {
        match message {
            FromGuest::Note { text } if self.options.json => eprintln!("{text}"),
            FromGuest::Note { text } => println!("    {text}"),
            FromGuest::Figure { name, value, unit } => self.report.figures.push(Figure { name, value, unit }),
            FromGuest::Carrier { nic, up } => {
                let answer = match self.guests[guest].set_carrier(&nic, up) {
                    Ok(()) => FromHost::Done,
                    Err(error) => FromHost::Refused { error: format!("{error:#}") },
                };
                self.answers[guest].say(&answer)?;
            }
            FromGuest::Signal { event } => {
                self.events.insert(event);
                self.wake()?;
            }
            FromGuest::Await { event } => {
                self.waiting.push((guest, event));
                self.wake()?;
            }
            FromGuest::Ready | FromGuest::Passed | FromGuest::Failed { .. } => {}
        }
        Ok(())
    }

    /// Answers those whose event has come.
    fn wake(&mut self) -> anyhow::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let (come, waiting) = waiting.into_iter().partition(|(_, event)| self.events.contains(event));
        self.waiting = waiting;
        come.into_iter().try_for_each(|(guest, _)| self.answers[guest].say(&FromHost::Done))
    }

    fn consoles(&self) -> String {
        let tails = self.guests.iter().map(|guest| guest.console_tail(CONSOLE_LINES));
        tails.collect::<Vec<_>>().join("\n    | ")
    }
}

fn listen(guest: usize, stream: UnixStream, tell: &Sender<(usize, Heard)>) {
    let mut channel = Channel::new(stream, sink());
    // What is not understood ends the run as an end without a word does.
    while let Ok(Some(message)) = channel.hear() {
        if tell.send((guest, Heard::Said(message))).is_err() {
            return;
        }
    }
    // No process listens any more after the end of a run.
    let _ = tell.send((guest, Heard::Closed));
}

/// Times that a scenario's guests are booted until they are up.
const BOOTS: u32 = 3;
const CONSOLE_LINES: usize = 15;
/// A person works in the guest.
const NO_LIMIT: Duration = Duration::from_secs(24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_tells_its_run_and_no_other_scenarios_or_kernels_is_taken_for_it() {
        let runs = Runs { scenario: "kafs", kernel: "6.1.0-9-amd64" };
        assert_eq!(runs.run_of(&format!("{}first.console", runs.prefix(17))), Some(17));
        for other in [
            "kafs-fsx-6.1.0-9-amd64-17-first.console",
            "kafs-6.12-17-first.console",
            "kafs-6.1.0-9-amd64",
            "x",
        ] {
            assert_eq!(runs.run_of(other), None, "{other}");
        }
    }
}
