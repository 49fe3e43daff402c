//! One run: a server of its own, one stock client for some seconds, and what both counted.

use std::net::{SocketAddr, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rxdebug::{DebugRequest, Query, RxStats};
use serde::Deserialize;

use super::link::{Link, SERVER};
use super::load::{Mode, Row};
use crate::compare::programs::{CLIENT_CPU, Programs, SERVER_CPU, json};
use crate::compare::{median, rounded};
use crate::cpu;
use crate::process::Killed;

/// The server that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Linerate,
    Stock,
}

/// Result of one run.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Run {
    /// Bits of payload, in Gbit/s.
    pub(super) gbit_per_second: f64,
    pub(super) calls_per_second: f64,
    pub(super) server_cpu_s_per_gib: f64,
    pub(super) server_cpu_us_per_call: f64,
    /// Share that the server uses of its CPU.
    pub(super) server_cpu_share: f64,
    pub(super) client_cpu_share: f64,
    pub(super) client_cpu_s_per_gib: f64,
    /// ACKs that the receiver of the payload sent for each full packet.
    pub(super) acks_per_packet: f64,
    /// Packets that the sender of the payload resent, per cent of the full packets.
    pub(super) resends_percent: f64,
    /// Resent packets that had arrived before, per cent of the full packets.
    pub(super) needless_percent: f64,
}

/// Report of the client.
#[derive(Debug, Deserialize)]
struct Report {
    calls: u64,
    seconds: f64,
    cpu_s: f64,
    acks_sent: u64,
    data_resent: u64,
    duplicates_read: u64,
}

/// Runs `subject` under one row's load.
pub(super) fn run(
    subject: Subject,
    row: &Row,
    link: &Link,
    programs: &Programs<'_>,
    seconds: u32,
) -> anyhow::Result<Run> {
    let server = link.at_server(|| Serving::start(subject, link.next_port(), row, programs))?;
    let before = (link.at_client(|| Counts::ask(server.address()))?, server.cpu()?);
    let report: Report = link.at_client(|| client(row, server.port, programs, seconds))?;
    let after = (link.at_client(|| Counts::ask(server.address()))?, server.cpu()?);
    ensure!(report.calls > 0, "no call ended in {seconds} s");
    let (counts, cpu_s) = (after.0.since(&before.0), after.1 - before.1);
    let bytes = report.calls as f64 * f64::from(row.bytes_per_call());
    let (gib, packets) = (bytes / f64::from(1 << 30), bytes / PACKET_BYTES);
    let (acks, resends, needless) = match row.mode {
        Mode::Recv | Mode::Small => (report.acks_sent, counts.resent, report.duplicates_read),
        Mode::Send => (counts.acks_sent, report.data_resent, counts.duplicates),
    };
    Ok(Run {
        gbit_per_second: bytes * 8.0 / 1e9 / report.seconds,
        calls_per_second: report.calls as f64 / report.seconds,
        server_cpu_s_per_gib: cpu_s / gib,
        server_cpu_us_per_call: cpu_s * 1e6 / report.calls as f64,
        server_cpu_share: cpu_s / report.seconds,
        client_cpu_share: report.cpu_s / report.seconds,
        client_cpu_s_per_gib: report.cpu_s / gib,
        acks_per_packet: acks as f64 / packets,
        resends_percent: resends as f64 / packets * 100.0,
        needless_percent: needless as f64 / packets * 100.0,
    })
}

impl Run {
    /// Returns the median of each field.
    pub(super) fn median_of(runs: &[Self]) -> Self {
        let of = |field: fn(&Self) -> f64| rounded(median(runs.iter().map(field)));
        Self {
            gbit_per_second: of(|run| run.gbit_per_second),
            calls_per_second: of(|run| run.calls_per_second),
            server_cpu_s_per_gib: of(|run| run.server_cpu_s_per_gib),
            server_cpu_us_per_call: of(|run| run.server_cpu_us_per_call),
            server_cpu_share: of(|run| run.server_cpu_share),
            client_cpu_share: of(|run| run.client_cpu_share),
            client_cpu_s_per_gib: of(|run| run.client_cpu_s_per_gib),
            acks_per_packet: of(|run| run.acks_per_packet),
            resends_percent: of(|run| run.resends_percent),
            needless_percent: of(|run| run.needless_percent),
        }
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:.2} Gb/s, {:.0} calls/s, {:.2} CPU s/GiB, {:.1} us/call, {:.2} ACKs/packet, {:.2} % resent, {:.2} % needlessly, \
             CPU {:.0} % and {:.0} % (client, {:.2} s/GiB)",
            self.gbit_per_second,
            self.calls_per_second,
            self.server_cpu_s_per_gib,
            self.server_cpu_us_per_call,
            self.acks_per_packet,
            self.resends_percent,
            self.needless_percent,
            self.server_cpu_share * 100.0,
            self.client_cpu_share * 100.0,
            self.client_cpu_s_per_gib,
        )
    }
}

fn client(row: &Row, port: u16, programs: &Programs<'_>, seconds: u32) -> anyhow::Result<Report> {
    let mut command = programs.command(programs.stock, Some(CLIENT_CPU));
    command.args(["client", "-s", &SERVER.to_string(), "-p", &port.to_string()]);
    command.args(["-t", &row.threads.to_string(), "-D", &seconds.to_string()]).args(row.client_flags());
    json(&mut command)
}

/// A server process, stopped when dropped.
struct Serving {
    process: Killed,
    port: u16,
}

impl Serving {
    fn start(subject: Subject, port: u16, row: &Row, programs: &Programs<'_>) -> anyhow::Result<Self> {
        let at = SocketAddr::from((SERVER, port)).to_string();
        let mut command = match subject {
            Subject::Linerate => {
                let mut command = programs.command(programs.linerate, Some(SERVER_CPU));
                command.args(["bench", "rx-server", "--lanes", "1", "--listen", &at]);
                command.args(row.linerate_flags()).args(programs.flags);
                command
            }
            Subject::Stock => {
                let mut command = programs.command(programs.stock, Some(SERVER_CPU));
                command.args(["server", "-p", &port.to_string(), "-S", STOCK_THREADS]);
                command.args(row.stock_flags());
                command
            }
        };
        let child = command.stdout(Stdio::null()).spawn().context("cannot start the server")?;
        Ok(Self { process: Killed(child), port })
    }

    fn address(&self) -> SocketAddr {
        (SERVER, self.port).into()
    }

    fn cpu(&self) -> anyhow::Result<f64> {
        cpu::of_tree(self.process.0.id())
    }
}

/// Counters that the comparison reads from a server.
pub(in crate::compare) struct Counts {
    acks_sent: u32,
    resent: u32,
    duplicates: u32,
}

impl Counts {
    /// Reads the counters by DEBUG packets, as `rxdebug` does, from the calling thread's network namespace. Waits for
    /// a server that has just been started.
    pub(in crate::compare) fn ask(server: SocketAddr) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(Duration::from_millis(200)))?;
        let query = Query::debug(1, DebugRequest::RxStats);
        let (give_up, mut datagram) = (Instant::now() + START_TIMEOUT, [0; 2048]);
        while Instant::now() < give_up {
            // Without a listener, the network says so, and that comes back as an error.
            if socket.send(query.packet()).is_err() {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            match socket.recv(&mut datagram) {
                Ok(len) => {
                    if let Some(answer) = query.answer(&datagram[..len]) {
                        return Ok(Self::of(&RxStats::decode(answer)?));
                    }
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        bail!("the server at {server} does not answer after {START_TIMEOUT:?}")
    }

    fn of(stats: &RxStats) -> Self {
        Self {
            acks_sent: stats.packets_sent[COUNT_OF_ACKS],
            resent: stats.data_packets_resent,
            duplicates: stats.dup_packets_read,
        }
    }

    pub(in crate::compare) fn since(&self, before: &Self) -> Delta {
        let more = |now: u32, then: u32| u64::from(now.wrapping_sub(then));
        Delta {
            acks_sent: more(self.acks_sent, before.acks_sent),
            resent: more(self.resent, before.resent),
            duplicates: more(self.duplicates, before.duplicates),
        }
    }
}

/// Growth of the counters.
pub(in crate::compare) struct Delta {
    pub(in crate::compare) acks_sent: u64,
    pub(in crate::compare) resent: u64,
    duplicates: u64,
}

/// Threads of the stock server at most: one for each call, and more.
const STOCK_THREADS: &str = "100";
/// Payload of a full packet of 1,440 bytes, which every Rx sends where jumbograms are to be had.
const PACKET_BYTES: f64 = 1412.0;
/// Place of ACKs among the counts by packet type.
const COUNT_OF_ACKS: usize = 1;
const START_TIMEOUT: Duration = Duration::from_secs(10);
