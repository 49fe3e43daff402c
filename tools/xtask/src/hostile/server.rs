//! The server under attack, in its namespace: `linerate serve` over a generated tree, or rxperf's service.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use identity::{AccountsStore, NewUser, NtHash, Secret};

use super::arena::{Arena, SERVER, inside};
use super::smb;
use crate::cpu;
use crate::lab::guest::metrics::{Scrape, scrape};

/// Wishes of a scenario for its server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    /// Further text of the configuration of `linerate serve`.
    pub(crate) config: String,
    /// Keys of the `[smb]` section.
    pub(crate) smb: &'static str,
    /// Descriptors that the server may have; `None` for the limit of this process.
    pub(crate) open_files: Option<u64>,
    /// Set if the server's standard error is a pipe, which only the scenario reads.
    pub(crate) stderr_piped: bool,
}

/// A running server, killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
}

/// Levels that go back to what they were when no client does anything.
pub(crate) type Levels = BTreeMap<&'static str, f64>;

impl Server {
    /// Starts `linerate serve`, and waits until it accepts connections.
    pub(crate) fn http(
        arena: &Arena,
        program: &Path,
        work: &Path,
        tree: &Path,
        wishes: &Wishes,
    ) -> anyhow::Result<Self> {
        let config = work.join("linerate.toml");
        let text = format!(
            "{}\n[[volume]]\nname = 'files'\npath = '{}'\n[http]\nlisten = ['{HTTP}']\n\
             [https]\nlisten = ['{HTTPS}']\n[admin]\nlisten = '{ADMIN}'\n",
            wishes.config,
            tree.display()
        );
        std::fs::write(&config, text)?;
        let mut command = limited(program, wishes.open_files);
        command.arg("serve").arg("--config").arg(&config).env("XDG_STATE_HOME", work.join("state"));
        Self::start(arena, command, work, wishes.stderr_piped)
    }

    /// Starts the server for SMB, once it accepts, with users that may write.
    pub(crate) fn smb(
        arena: &Arena,
        program: &Path,
        work: &Path,
        tree: &Path,
        wishes: &Wishes,
    ) -> anyhow::Result<Self> {
        let (config, accounts) = (work.join("linerate.toml"), work.join("accounts.toml"));
        let add = |edit: &mut identity::Edit| {
            for name in smb::USERS {
                let nt = NtHash::new(&Secret::from(smb::PASSWORD));
                let (id, uid, gid, principals, password) = (None, None, None, Vec::new(), None);
                edit.add_user(&NewUser { name: name.to_owned(), id, uid, gid, principals, password, nt })?;
            }
            Ok(())
        };
        AccountsStore::new(&accounts).change(add)?;
        let text = format!(
            "{}\n[identity]\naccounts = '{}'\n[[volume]]\nname = 'files'\npath = '{}'\nwritable = '{}'\n\
             [smb]\nlisten = ['{SMB}']\nsigning = 'allowed'\n{}\n[admin]\nlisten = '{ADMIN}'\n",
            wishes.config,
            accounts.display(),
            tree.display(),
            smb::USERS.join(","),
            wishes.smb
        );
        std::fs::write(&config, text)?;
        let mut command = limited(program, wishes.open_files);
        command.arg("serve").arg("--config").arg(&config).env("XDG_STATE_HOME", work.join("state"));
        Self::start(arena, command, work, wishes.stderr_piped)
    }

    /// Starts rxperf's service, and waits until it listens.
    pub(crate) fn rx(arena: &Arena, program: &Path, work: &Path) -> anyhow::Result<Self> {
        let mut command = limited(program, None);
        let (listen, admin) = (RX.to_string(), ADMIN.to_string());
        command.args(["bench", "rx-server", "--listen", &listen, "--admin", &admin]);
        Self::start(arena, command, work, false)
    }

    fn start(arena: &Arena, mut command: Command, work: &Path, stderr_piped: bool) -> anyhow::Result<Self> {
        let log = work.join("server.log");
        let file = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?);
        command.stderr(if stderr_piped { Stdio::piped() } else { file.into() });
        let child = inside(&arena.server, move || command.spawn().context("cannot start the server"))?;
        let mut server = Self { child, log };
        let give_up = Instant::now() + START_TIMEOUT;
        while inside(&arena.server, || scrape(ADMIN)).is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("the server ended at once: {status}\n{}", server.said());
            }
            ensure!(Instant::now() < give_up, "the server does not start:\n{}", server.said());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns what it has logged, where nothing else reads that.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Takes the end of its standard error, for a scenario that reads it.
    pub(crate) fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    pub(crate) fn scrape(arena: &Arena) -> anyhow::Result<Scrape> {
        inside(&arena.server, || scrape(ADMIN))
    }

    /// Returns what is in use now, by [`LEVELS`].
    pub(crate) fn levels(&self, arena: &Arena) -> anyhow::Result<Levels> {
        let scrape = Self::scrape(arena)?;
        let mut levels = Levels::new();
        for &(name, _) in LEVELS {
            if let Ok(value) = scrape.sum(name, &[]) {
                levels.insert(name, value);
            }
        }
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.pid()))?.count() as f64;
        let of = |name| scrape.sum(name, &[]).unwrap_or(0.0);
        // Open files that the cache keeps are no leak; it counts them.
        levels.insert(UNEXPLAINED, descriptors - of("linerate_lane_files") - of("linerate_lane_sockets"));
        Ok(levels)
    }

    /// Asks it to end, and says how long that took.
    pub(crate) fn stop(mut self) -> anyhow::Result<Duration> {
        let asked = Instant::now();
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        while self.child.try_wait()?.is_none() {
            ensure!(asked.elapsed() < STOP_TIMEOUT, "SIGTERM has not ended it within {STOP_TIMEOUT:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(asked.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to stop.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns which levels of `levels` are above those of `idle`, by more than goes on beside.
pub(crate) fn held(idle: &Levels, levels: &Levels) -> Vec<String> {
    let slack = |name: &str| LEVELS.iter().find(|(known, _)| *known == name).map_or(4.0, |(_, slack)| *slack);
    let above = levels.iter().filter(|(name, value)| **value > idle.get(*name).unwrap_or(&0.0) + slack(name));
    above.map(|(name, value)| format!("{name} {value} (idle: {})", idle.get(name).unwrap_or(&0.0))).collect()
}

/// Returns whether a counter tells of something that was not done, or was taken back.
pub(crate) fn is_of_refusals(name: &str) -> bool {
    const WORDS: [&str; 16] = [
        "refused",
        "limited",
        "evicted",
        "starved",
        "aborted",
        "lost",
        "dropped",
        "over_share",
        "reaped",
        "paused",
        "closed",
        "copied",
        "exhausted",
        "rebound",
        "shed",
        "moves",
    ];
    WORDS.iter().any(|word| name.contains(word))
}

/// Keeps the larger of each value.
pub(crate) fn merge(into: &mut Levels, levels: Levels) {
    for (name, value) in levels {
        let kept = into.entry(name).or_insert(value);
        *kept = kept.max(value);
    }
}

/// The most resident memory that a process has had while this ran.
#[derive(Debug, Default)]
pub(crate) struct MemoryWatch {
    most: AtomicU64,
    stop: AtomicBool,
}

impl MemoryWatch {
    /// Looks every few milliseconds until told to stop.
    pub(crate) fn run(&self, pid: u32) {
        while !self.stop.load(Ordering::Relaxed) {
            if let Ok(bytes) = cpu::resident_bytes(pid) {
                self.most.fetch_max(bytes, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
}

fn limited(program: &Path, open_files: Option<u64>) -> Command {
    let Some(most) = open_files else { return Command::new(program) };
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={most}:{most}")).arg(program);
    command
}

/// Makes the tree that HTTP scenarios serve. Every file but the large one has content that tells its place.
pub(crate) fn make_tree(root: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(root.join("many"))?;
    std::fs::create_dir_all(root.join("cold"))?;
    std::fs::write(root.join("small"), [b's'; SMALL_BYTES])?;
    // A hole reads like any file and fills no disk.
    File::create(root.join("large"))?.set_len(LARGE_BYTES)?;
    for n in 0..MANY_ENTRIES {
        File::create(root.join("many").join(format!("entry-{n:05}.txt")))?;
    }
    for n in 0..COLD_FILES {
        std::fs::write(root.join("cold").join(format!("{n}")), b"cold")?;
    }
    let mut growing = BufWriter::new(File::create(root.join("growing"))?);
    for at in 0..GROWING_BYTES / 8 {
        growing.write_all(&at.to_le_bytes())?;
    }
    Ok(growing.flush()?)
}

pub(crate) const HTTP: SocketAddr = SocketAddr::new(IpAddr::V4(SERVER), 8080);
pub(crate) const HTTPS: SocketAddr = SocketAddr::new(IpAddr::V4(SERVER), 8443);
pub(crate) const SMB: SocketAddr = SocketAddr::new(IpAddr::V4(SERVER), 445);
pub(crate) const RX: SocketAddr = SocketAddr::new(IpAddr::V4(SERVER), 7009);
pub(crate) const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8090);

pub(crate) const SMALL_BYTES: usize = 1024;
pub(crate) const LARGE_BYTES: u64 = 200_000_000;
pub(crate) const MANY_ENTRIES: usize = 10_000;
pub(crate) const COLD_FILES: usize = 20_000;
pub(crate) const GROWING_BYTES: u64 = 20 << 20;

/// Gauges, and by how much they move while only the good client asks.
const LEVELS: &[(&str, f64)] = &[
    ("linerate_lane_buffers_small_in_use", 8.0),
    ("linerate_lane_buffers_large_in_use", 8.0),
    ("linerate_lane_sockets", 6.0),
    ("linerate_lane_tasks", 12.0),
    ("linerate_http_connections", 6.0),
    ("linerate_smb_connections", 6.0),
    ("linerate_smb_sessions", 6.0),
    ("linerate_smb_waiting", 4.0),
    ("linerate_rx_packets_in_use", 64.0),
    ("linerate_rx_handlers", 4.0),
];
const UNEXPLAINED: &str = "descriptors that are neither sockets nor files of the cache";
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit of a stop, with no transfer under way any more.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
