//! Linerate inside a guest.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};

use super::metrics::{Scrape, scrape};
use super::{Guest, wait_for};

/// A running server, killed when its owner goes.
pub(crate) struct Server {
    child: Child,
    admin: SocketAddr,
    config: std::path::PathBuf,
    log: std::path::PathBuf,
}

impl Guest {
    /// Starts `linerate serve` with this configuration, to which the admin address is added, and waits until
    /// it listens.
    pub(crate) fn serve(&self, config: &str) -> anyhow::Result<Server> {
        self.serve_with(config, &[])
    }

    /// Starts the server as [`Guest::serve`] does, with further arguments.
    pub(crate) fn serve_with(&self, config: &str, args: &[&str]) -> anyhow::Result<Server> {
        self.serve_as(self.linerate(), config, args)
    }

    /// Starts the server by `command`, which ends with the program under test and becomes it, as numactl does.
    pub(crate) fn serve_as(
        &self,
        mut command: Command,
        config: &str,
        args: &[&str],
    ) -> anyhow::Result<Server> {
        let file = Path::new("/tmp/linerate.toml").to_owned();
        write_config(&file, config)?;
        let log = Path::new("/tmp/linerate.log").to_owned();
        command.arg("serve").arg("--config").arg(&file).args(args).env("XDG_STATE_HOME", "/tmp/state");
        let out = std::fs::File::create(&log)?;
        let child = command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn();
        let child = child.context("cannot start linerate")?;
        let mut server = Server { child, admin: ADMIN, config: file, log };
        let listens = wait_for("linerate to listen", || {
            server.has_ended().or_else(|| server.log().contains("Ctrl-C ends it").then_some(false))
        })?;
        ensure!(!listens, "linerate ended at once:\n{}", server.log());
        Ok(server)
    }
}

impl Server {
    /// Returns the server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns what it has said so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns the server's counters now.
    pub(crate) fn scrape(&self) -> anyhow::Result<Scrape> {
        scrape(self.admin)
    }

    /// Replaces the configuration and waits until it is taken over.
    pub(crate) fn reload(&self, config: &str) -> anyhow::Result<()> {
        write_config(&self.config, config)?;
        let before = self.log().matches(RELOADED).count();
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP)?;
        wait_for("the reload", || (self.log().matches(RELOADED).count() > before).then_some(()))
            .with_context(|| self.log())
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = wait_for("the server to stop", || self.child.try_wait().ok().flatten())?;
        ensure!(status.success(), "the server ended with {status}:\n{}", self.log());
        Ok(())
    }

    fn has_ended(&mut self) -> Option<bool> {
        matches!(self.child.try_wait(), Ok(Some(_))).then_some(true)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Another server or a client that runs beside the scenario, killed when its owner goes.
pub(crate) struct Background(Child);

impl Background {
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let name = format!("{command:?}");
        Ok(Self(command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start {name}"))?))
    }

    /// Returns the process.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn write_config(file: &Path, config: &str) -> anyhow::Result<()> {
    std::fs::write(file, format!("{config}\n[admin]\nlisten = \"{ADMIN}\"\n"))?;
    Ok(())
}

const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8090);
const RELOADED: &str = "reloaded";
