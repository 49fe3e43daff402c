//! Both sides of a row: Linerate and its peer over the same directory in memory, and their clients.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde::Deserialize;
use tempfile::TempDir;

use super::line::Run;
use super::row::{FILE_BYTES, Peer, Row, SMALL_BYTES};
use crate::compare::programs::{BenchReport, CLIENT_CPU, Programs, SERVER_CPU, json};
use crate::compare::stock::run::Counts;
use crate::compare::{gib, wrk};
use crate::process::{Killed, Server};
use crate::server::{self, Subject, Uploads};

/// Running servers.
pub(super) struct Site<'p> {
    programs: &'p Programs<'p>,
    row: Row,
    work: TempDir,
    linerate: Killed,
    peer: Running,
}

enum Running {
    Bare(Server, SocketAddr),
    Nginx(Box<Subject>),
}

/// Fields that the comparison reads from the report of `linerate bench tcp`.
#[derive(Debug, Deserialize)]
struct BareReport {
    bytes: u64,
    bits_per_second: f64,
    server_cpu_seconds: f64,
    client_cpu_seconds: f64,
}

impl<'p> Site<'p> {
    pub(super) fn new(row: &Row, programs: &'p Programs<'p>) -> anyhow::Result<Self> {
        let work = tempfile::Builder::new().prefix("linerate-compare").tempdir_in(MEMORY)?;
        let tree = work.path().join("tree");
        std::fs::create_dir(&tree)?;
        let bytes = if row.peer == Peer::Nginx { SMALL_BYTES } else { FILE_BYTES };
        std::io::copy(
            &mut std::io::Read::take(std::fs::File::open("/dev/urandom")?, bytes),
            &mut std::fs::File::create(tree.join(FILE))?,
        )?;
        let linerate = serve(row, work.path(), programs)?;
        Counts::ask((Ipv4Addr::LOCALHOST, PORT).into())?;
        let peer = match row.peer {
            Peer::BareSend => bare(programs, &["--send"], &tree.join(FILE))?,
            Peer::BareReceive => {
                let size = FILE_BYTES.to_string();
                bare(programs, &["--file-size", &size, "--into"], &work.path().join("written"))?
            }
            Peer::Nginx => {
                let (cert, key) = server::make_certificate(work.path())?;
                let nginx = server::nginx(work.path(), &tree, &cert, &key, Uploads::Refused)?;
                Running::Nginx(Box::new(nginx))
            }
        };
        Ok(Self { programs, row: *row, work, linerate, peer })
    }

    /// Runs the load against Linerate.
    pub(super) fn ours(&self, seconds: u32) -> anyhow::Result<Run> {
        let mut command = self.client();
        let (mode, path) = match self.row.peer {
            Peer::BareReceive => ("store", ""),
            _ => ("fetch", FILE),
        };
        command.args(["bench", "oob", &format!("afs://127.0.0.1:{PORT}/{VOLUME}/{path}"), "--json"]);
        command.args(["--mode", mode, "--seconds", &seconds.to_string()]);
        command.args(["--pid", &self.linerate.0.id().to_string()]);
        match self.row.peer {
            Peer::Nginx => command.args(["--clients", CLIENTS, "--chunk", &SMALL_BYTES.to_string()]),
            _ => command.args(["--threads", "1", "--file-size", &FILE_BYTES.to_string()]),
        };
        // What it stores lies in memory too.
        let report = BenchReport::of(command.env("TMPDIR", self.work.path()), "Linerate")?;
        ensure!(report.over_tcp > 0 && report.fell_back == 0, "not all went over TCP: {report:?}");
        let gib = gib(report.bytes());
        Ok(Run {
            gbit_per_second: report.bytes() as f64 * 8e-9 / report.seconds,
            server_cpu_s_per_gib: report.server_cpu_seconds / gib,
            client_cpu_s_per_gib: Some(report.client_cpu_seconds / gib),
        })
    }

    /// Runs the load against the peer.
    pub(super) fn peer(&self, seconds: u32) -> anyhow::Result<Run> {
        let (process, address) = match &self.peer {
            Running::Nginx(subject) => {
                let clients = CLIENTS.parse()?;
                let run = wrk::run(subject, &subject.url(false, FILE), clients, seconds, SMALL_BYTES)?;
                return Ok(Run {
                    gbit_per_second: run.gbit_per_second,
                    server_cpu_s_per_gib: run.cpu_s_per_gib,
                    client_cpu_s_per_gib: None,
                });
            }
            Running::Bare(process, address) => (process.pid(), address),
        };
        let mut command = self.client();
        command.args(["bench", "tcp", &address.to_string(), "--json"]);
        command.args(["--seconds", &seconds.to_string(), "--pid", &process.to_string()]);
        if self.row.peer == Peer::BareReceive {
            command.arg("--send").arg(self.work.path().join("tree").join(FILE));
        }
        let report: BareReport = json(&mut command)?;
        let gib = gib(report.bytes);
        Ok(Run {
            gbit_per_second: report.bits_per_second / 1e9,
            server_cpu_s_per_gib: report.server_cpu_seconds / gib,
            client_cpu_s_per_gib: Some(report.client_cpu_seconds / gib),
        })
    }

    /// Makes the command of the client, which has a CPU of its own where the server has one.
    fn client(&self) -> Command {
        self.programs.command(self.programs.linerate, self.row.is_apart().then_some(CLIENT_CPU))
    }
}

/// Starts `linerate serve` over the tree.
fn serve(row: &Row, work: &Path, programs: &Programs<'_>) -> anyhow::Result<Killed> {
    let apart = row.is_apart();
    let lanes = if apart { "lanes = 1\n" } else { "" };
    let config = work.join("linerate.toml");
    let text = format!(
        "[server]\n{lanes}drain_seconds = 1\nstate_dir = '{}'\n[http]\nlisten = []\n[https]\nlisten = []\n\
         [admin]\nlisten = 'off'\n[afs]\nlisten = '127.0.0.1:{PORT}'\n[[volume]]\nname = '{VOLUME}'\npath = '{}'\n\
         writable = 'anyone'\n",
        work.join("state").display(),
        work.join("tree").display(),
    );
    std::fs::write(&config, text)?;
    let mut command = programs.command(programs.linerate, apart.then_some(SERVER_CPU));
    command.arg("serve").arg("--config").arg(&config).stdout(Stdio::null());
    Ok(Killed(command.spawn().context("cannot start linerate")?))
}

/// Starts `linerate bench tcp-server`, and waits until it listens.
fn bare(programs: &Programs<'_>, flags: &[&str], file: &Path) -> anyhow::Result<Running> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, BARE_PORT));
    let mut command = programs.command(programs.linerate, Some(SERVER_CPU));
    command.args(["bench", "tcp-server", "--listen", &address.to_string()]).args(flags).arg(file);
    command.stdout(Stdio::null());
    Ok(Running::Bare(Server::start("the bare server", command, &[address])?, address))
}

const MEMORY: &str = "/dev/shm";
const VOLUME: &str = "files";
const FILE: &str = "file";
const CLIENTS: &str = "100";
const PORT: u16 = 7000;
const BARE_PORT: u16 = 7999;
