//! A scenario from inside: what runs in the guest as its first program, and what it offers to scenarios.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::channel::{Channel, FromGuest};
use super::scenario::{self, Scenario};
use super::{machine::Machine, qemu};
use crate::process;

pub(crate) mod disk;
pub(crate) mod https;
pub(crate) mod metrics;
pub(crate) mod net;
pub(crate) mod server;

/// Flags of `cargo xtask lab-guest`, which only guests call.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario
    scenario: String,
    /// This guest's role in it
    machine: String,
    /// The program under test
    #[arg(long)]
    linerate: PathBuf,
    /// A shell instead of the scenario
    #[arg(long)]
    shell: bool,
}

/// The guest, for the scenario that runs in it.
pub(crate) struct Guest {
    machine: Machine,
    linerate: PathBuf,
    channel: Channel<File, File>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(std::process::id() != 1 && Path::new("/sys/class/virtio-ports").exists(), "only guests run this");
    mount_the_rest()?;
    let chosen = scenario::choose(std::slice::from_ref(&args.scenario))?;
    let scenario = chosen.first().context("a guest runs a scenario")?;
    let machine = scenario.machines().into_iter().find(|machine| machine.name == args.machine);
    let machine = machine.with_context(|| format!("{} has no guest {}", args.scenario, args.machine))?;
    let mut guest = Guest { machine, linerate: args.linerate.clone(), channel: open_channel()? };
    let outcome = guest.live(*scenario, args.shell);
    let last = match &outcome {
        Ok(()) => FromGuest::Passed,
        Err(error) => FromGuest::Failed { error: format!("{error:#}") },
    };
    guest.channel.say(&last)?;
    outcome
}

impl Guest {
    fn live(&mut self, scenario: &dyn Scenario, shell: bool) -> anyhow::Result<()> {
        net::name_cards(&self.machine)?;
        self.channel.say(&FromGuest::Ready)?;
        if shell {
            return self.shell();
        }
        // A panic of an assertion is told like any failure, and the guest ends.
        let run = std::panic::AssertUnwindSafe(|| scenario.run(self));
        std::panic::catch_unwind(run).unwrap_or_else(|panic| {
            let words = panic.downcast_ref::<String>().cloned();
            let words = words.or_else(|| panic.downcast_ref::<&str>().map(|&words| words.to_owned()));
            bail!("panicked: {}", words.unwrap_or_default())
        })
    }

    fn shell(&self) -> anyhow::Result<()> {
        eprintln!("`linerate` is in $PATH; `exit` turns the guest off.");
        let path = self.linerate.parent().map_or_else(String::new, |home| home.display().to_string());
        let path = format!("{path}:{}", std::env::var("PATH").unwrap_or_default());
        // A session of its own gets the terminal, so that Ctrl-C works.
        let mut shell = Command::new("setsid");
        shell.args(["--ctty", "--wait", "bash"]).env("PATH", path).status()?;
        Ok(())
    }

    /// Returns the guest's role in the scenario.
    pub(crate) fn name(&self) -> &'static str {
        self.machine.name
    }

    /// The program under test.
    pub(crate) fn linerate(&self) -> Command {
        Command::new(&self.linerate)
    }

    /// Tells the person who watches.
    pub(crate) fn note(&mut self, text: impl Into<String>) -> anyhow::Result<()> {
        self.channel.say(&FromGuest::Note { text: text.into() })
    }

    /// A measured figure for the report.
    pub(crate) fn figure(&mut self, name: &str, value: f64, unit: &str) -> anyhow::Result<()> {
        self.channel.say(&FromGuest::Figure { name: name.to_owned(), value, unit: unit.to_owned() })
    }

    /// A part of the scenario; how long it took is a figure of its name.
    pub(crate) fn step(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let started = Instant::now();
        work(self).with_context(|| name.to_owned())?;
        self.figure(name, started.elapsed().as_secs_f64(), "s")
    }

    /// Pulls or plugs the cable of a card.
    pub(crate) fn set_carrier(&mut self, nic: &str, up: bool) -> anyhow::Result<()> {
        self.channel.ask(&FromGuest::Carrier { nic: nic.to_owned(), up })
    }

    /// Tells the other guests that something has happened.
    pub(crate) fn signal(&mut self, event: &str) -> anyhow::Result<()> {
        self.channel.say(&FromGuest::Signal { event: event.to_owned() })
    }

    /// Waits until some guest has told so.
    pub(crate) fn await_signal(&mut self, event: &str) -> anyhow::Result<()> {
        self.channel.ask(&FromGuest::Await { event: event.to_owned() })
    }
}

/// Major and minor number of the guest's kernel.
pub(crate) fn kernel_version() -> anyhow::Result<(u32, u32)> {
    let release = process::output("uname", &["-r"])?;
    let mut numbers = release.split(['.', '-', '+']).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => bail!("which kernel is {release}?"),
    }
}

/// Loads modules with what they need.
pub(crate) fn modprobe(names: &[&str]) -> anyhow::Result<()> {
    let args: Vec<&str> = std::iter::once("-a").chain(names.iter().copied()).collect();
    process::output("/sbin/modprobe", &args)?;
    Ok(())
}

/// Asks again every few milliseconds until there is an answer.
pub(crate) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        ensure!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn mount_the_rest() -> anyhow::Result<()> {
    for directory in ["/dev/pts", "/dev/shm"] {
        std::fs::create_dir_all(directory)?;
    }
    process::output("mount", &["-t", "devpts", "devpts", "/dev/pts"])?;
    process::output("mount", &["-t", "tmpfs", "tmpfs", "/dev/shm"])?;
    process::output("mount", &["-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"])?;
    // It has booted quietly. From here on the console has all that the kernel says, so that a task which hangs is told with its stack.
    std::fs::write("/proc/sys/kernel/printk", "7")?;
    // devtmpfs makes device nodes alone; shells and tools want these as well.
    for (link, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        std::os::unix::fs::symlink(format!("/proc/self/fd{target}"), Path::new("/dev").join(link))?;
    }
    Ok(())
}

fn open_channel() -> anyhow::Result<Channel<File, File>> {
    let port = wait_for("the channel", || {
        let ports = std::fs::read_dir("/sys/class/virtio-ports").ok()?;
        let mut ports = ports.filter_map(|port| Some(port.ok()?.path()));
        ports.find(|port| std::fs::read_to_string(port.join("name")).is_ok_and(|n| n.trim() == qemu::PORT))
    })?;
    let name = port.file_name().context("a port has a name")?;
    let file = File::options().read(true).write(true).open(Path::new("/dev").join(name))?;
    Ok(Channel::new(file.try_clone()?, file))
}

/// Software emulation makes everything slow.
const PATIENCE: Duration = Duration::from_secs(60);
