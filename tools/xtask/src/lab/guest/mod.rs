//! A scenario from inside: what runs in the guest as its first program, and what it offers to scenarios.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::channel::{Channel, FromGuest};
use super::machine::Machine;
use crate::process;

pub(crate) mod disk;
pub(crate) mod https;
pub(crate) mod metrics;
pub(crate) mod net;
pub(crate) mod server;

/// The guest, for the scenario that runs in it.
pub(crate) struct Guest {
    pub(super) machine: Machine,
    pub(super) linerate: PathBuf,
    pub(super) channel: Channel<File, File>,
}

impl Guest {
    pub(super) fn shell(&self) -> anyhow::Result<()> {
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

    /// Makes the command of the program under test.
    pub(crate) fn linerate(&self) -> Command {
        Command::new(&self.linerate)
    }

    /// Notes something for the person at the terminal.
    pub(crate) fn note(&mut self, text: impl Into<String>) -> anyhow::Result<()> {
        self.channel.say(&FromGuest::Note { text: text.into() })
    }

    /// Reports a measured figure.
    pub(crate) fn figure(&mut self, name: &str, value: f64, unit: &str) -> anyhow::Result<()> {
        self.channel.say(&FromGuest::Figure { name: name.to_owned(), value, unit: unit.to_owned() })
    }

    /// Runs a part of the scenario; the time it took is a figure of its name.
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

    /// Signals to the other guests that something has happened.
    pub(crate) fn signal(&mut self, event: &str) -> anyhow::Result<()> {
        self.channel.say(&FromGuest::Signal { event: event.to_owned() })
    }

    /// Waits until some guest has signalled it.
    pub(crate) fn await_signal(&mut self, event: &str) -> anyhow::Result<()> {
        self.channel.ask(&FromGuest::Await { event: event.to_owned() })
    }
}

/// Returns the major and minor number of the guest's kernel.
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

/// Software emulation makes everything slow.
const PATIENCE: Duration = Duration::from_secs(60);
