//! `linerate rxdebug HOST [PORT]`: what a running Rx server says about itself. Asks any Rx server, as the stock tool
//! does, and is answered by ours.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ::rxdebug::{
    CallState, DebugConn, DebugFeature, DebugPeer, DebugRequest, DebugStats, PACKET_TYPES, Query, RxStats,
    decode_version,
};
use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::output::{self, bytes, say};

/// Flags of `linerate rxdebug`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server
    host: String,
    /// Its UDP port: 7000 is an AFS file server's, 7001 a client's, 7009 rxperf's
    #[arg(default_value_t = 7000)]
    port: u16,
    /// Only the version
    #[arg(long)]
    version: bool,
    /// Every counter too
    #[arg(long)]
    rxstats: bool,
    /// Connections without a call too
    #[arg(short, long)]
    all: bool,
    /// The peers too
    #[arg(short, long)]
    peers: bool,
    /// Seconds to wait for each answer
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    timeout: u32,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// All that was asked for.
struct Findings {
    version: String,
    stats: Option<DebugStats>,
    counters: Option<RxStats>,
    connections: Vec<DebugConn>,
    peers: Vec<DebugPeer>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let server = (args.host.as_str(), args.port)
        .to_socket_addrs()
        .with_context(|| format!("cannot find {}", args.host))?
        .next()
        .with_context(|| format!("{} has no address", args.host))?;
    let mut client = DebugClient::new(server, Duration::from_secs(args.timeout.into()))?;
    let findings = ask(&mut client, args)?;
    if args.json {
        say!("{}", serde_json::to_string(&findings.to_json())?);
    } else {
        findings.print();
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(client: &mut DebugClient, args: &Args) -> anyhow::Result<Findings> {
    let version = decode_version(&client.ask(Query::version)?);
    let mut findings =
        Findings { version, stats: None, counters: None, connections: Vec::new(), peers: Vec::new() };
    if args.version {
        return Ok(findings);
    }
    let stats = DebugStats::decode(&client.debug(DebugRequest::Stats)?)?;
    if args.rxstats && stats.supports(DebugFeature::AlignedConnections) {
        findings.counters = Some(RxStats::decode(&client.debug(DebugRequest::RxStats)?)?);
    }
    for index in 0..ENTRIES_MAX {
        let request = match args.all {
            true => DebugRequest::Connection(index),
            false => DebugRequest::InterestingConnection(index),
        };
        let Some(connection) = DebugConn::decode(&client.debug(request)?, &stats)? else { break };
        findings.connections.push(connection);
    }
    if args.peers && stats.supports(DebugFeature::Peers) {
        for index in 0..ENTRIES_MAX {
            let Some(peer) = DebugPeer::decode(&client.debug(DebugRequest::Peer(index))?)? else { break };
            findings.peers.push(peer);
        }
    }
    findings.stats = Some(stats);
    Ok(findings)
}

/// Sends questions until they are answered.
struct DebugClient {
    socket: UdpSocket,
    server: SocketAddr,
    timeout: Duration,
    number: u32,
}

impl DebugClient {
    fn new(server: SocketAddr, timeout: Duration) -> anyhow::Result<Self> {
        let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).context("cannot open a UDP socket")?;
        socket.connect(server).with_context(|| format!("cannot reach {server}"))?;
        Ok(Self { socket, server, timeout, number: 0 })
    }

    fn debug(&mut self, request: DebugRequest) -> anyhow::Result<Vec<u8>> {
        self.ask(|number| Query::debug(number, request))
    }

    fn ask(&mut self, query: impl FnOnce(u32) -> Query) -> anyhow::Result<Vec<u8>> {
        self.number += 1;
        let query = query(self.number);
        let give_up = Instant::now() + self.timeout;
        let mut buffer = [0; 2048];
        for wait in ::rxdebug::RETRY_AFTER {
            let again = (Instant::now() + wait).min(give_up);
            self.socket.send(query.packet()).with_context(|| format!("cannot ask {}", self.server))?;
            while let Some(left) = again.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            {
                self.socket.set_read_timeout(Some(left))?;
                match self.socket.recv(&mut buffer) {
                    Ok(len) => {
                        if let Some(payload) = query.answer(&buffer[..len]) {
                            return Ok(payload.to_vec());
                        }
                    }
                    Err(error) if is_timeout(&error) => break,
                    Err(error) => {
                        return Err(error).with_context(|| format!("no answer from {}", self.server));
                    }
                }
            }
        }
        bail!("no answer from {} within {} s: is an Rx server there?", self.server, self.timeout.as_secs())
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

impl Findings {
    fn print(&self) {
        say!("version {}", self.version);
        let Some(stats) = &self.stats else { return };
        say!(
            "packets {} free of {}; {} executed, {} waiting",
            stats.free_packets,
            stats.packets,
            output::counted(stats.calls_executed.into(), "call", "calls"),
            stats.waiting_calls
        );
        if let Some(counters) = &self.counters {
            print_counters(counters);
        }
        self.print_connections();
        if !self.peers.is_empty() {
            self.print_peers();
        }
    }

    fn print_connections(&self) {
        let headers = ["peer", "kind", "connection", "epoch", "security", "serial", "error", "calls"];
        let mut table = output::table(headers, &[5, 6]);
        for connection in &self.connections {
            let calls = connection.calls.iter().filter(|call| call.state != CallState::NotInit);
            let calls: Vec<_> =
                calls.map(|call| format!("{} {}", call.number, word(call.state)).to_lowercase()).collect();
            table.add_row([
                format!("{}:{}", connection.host, connection.port),
                word(connection.kind),
                format!("{:08x}", connection.cid),
                format!("{:08x}", connection.epoch),
                connection.security_index.to_string(),
                connection.serial.to_string(),
                connection.error.to_string(),
                calls.join(", "),
            ]);
        }
        say!("{}", output::counted(self.connections.len() as u64, "connection", "connections"));
        if !self.connections.is_empty() {
            say!("{table}");
        }
    }

    fn print_peers(&self) {
        let headers = ["peer", "mtu", "rtt", "timeout", "packets", "resends", "sent", "received", "window"];
        let mut table = output::table(headers, &[1, 2, 3, 4, 5, 6, 7, 8]);
        for peer in &self.peers {
            table.add_row([
                format!("{}:{}", peer.host, peer.port),
                peer.mtu.to_string(),
                format!("{:?}", peer.rtt),
                format!("{:?}", peer.timeout),
                peer.packets_sent.to_string(),
                peer.resends.to_string(),
                bytes(peer.bytes_sent),
                bytes(peer.bytes_received),
                peer.cwind.to_string(),
            ]);
        }
        say!("{}\n{table}", output::counted(self.peers.len() as u64, "peer", "peers"));
    }

    fn to_json(&self) -> Value {
        let mut all = json!({ "version": self.version });
        let Some(stats) = &self.stats else { return all };
        all["stats"] = json!({
            "packets": stats.packets, "packets_free": stats.free_packets,
            "packets_waited_for": stats.waiting_for_packets, "calls_executed": stats.calls_executed,
            "calls_waiting": stats.waiting_calls, "calls_waited": stats.waited_calls,
            "threads_idle": stats.idle_threads,
        });
        if let Some(counters) = &self.counters {
            all["counters"] = counters_json(counters);
        }
        all["connections"] = self.connections.iter().map(connection_json).collect();
        all["peers"] = self.peers.iter().map(peer_json).collect();
        all
    }
}

fn print_counters(counters: &RxStats) {
    let mut table = output::table(["counter", ""], &[1]);
    let Value::Object(fields) = counters_json(counters) else { return };
    for (name, value) in fields {
        match value {
            Value::Object(kinds) => {
                for (kind, value) in kinds {
                    table.add_row([format!("{} {kind}", name.replace('_', " ")), value.to_string()]);
                }
            }
            value => {
                table.add_row([name.replace('_', " "), value.to_string()]);
            }
        }
    }
    say!("{table}");
}

fn counters_json(counters: &RxStats) -> Value {
    let by_kind = |counts: &[u32; PACKET_TYPES]| -> Value {
        let named = PACKET_NAMES.iter().zip(counts).filter(|(name, _)| !name.is_empty());
        named
            .map(|(name, count)| ((*name).to_owned(), (*count).into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let c = counters;
    json!({
        "packets_read": by_kind(&c.packets_read), "packets_sent": by_kind(&c.packets_sent),
        "data_read": c.data_packets_read, "acks_read": c.ack_packets_read, "duplicates_read": c.dup_packets_read,
        "spurious_read": c.spurious_packets_read, "bogus_read": c.bogus_packet_on_read,
        "dropped_without_buffer": c.no_packet_buffers_on_read, "dropped_after_call": c.ignore_packet_dally,
        "data_sent": c.data_packets_sent, "data_resent": c.data_packets_resent, "acks_sent": c.ack_packets_sent,
        "pings_sent": c.ping_packets_sent, "aborts_sent": c.abort_packets_sent, "busies_sent": c.busy_packets_sent,
        "packets_requested": c.packet_requests, "receive_allocations_refused": c.receive_alloc_failures,
        "send_allocations_refused": c.send_alloc_failures, "sends_refused": c.net_send_failures,
        "rtt_samples": c.rtt_samples, "rtt_min_ms": c.rtt.min.as_secs_f64() * 1e3,
        "rtt_max_ms": c.rtt.max.as_secs_f64() * 1e3, "server_connections": c.server_conns,
        "client_connections": c.client_conns, "peers": c.peers, "calls": c.calls, "calls_free": c.free_calls,
        "busies": c.busies, "fatal_errors": c.fatal_errors,
    })
}

fn connection_json(connection: &DebugConn) -> Value {
    let calls = connection.calls.iter().enumerate();
    let calls: Vec<_> = calls
        .filter(|(_, call)| call.state != CallState::NotInit)
        .map(|(channel, call)| {
            json!({
                "channel": channel, "number": call.number, "state": word(call.state), "mode": word(call.mode),
                "has_input": call.has_input, "has_output": call.has_output,
            })
        })
        .collect();
    json!({
        "host": connection.host, "port": connection.port, "kind": word(connection.kind),
        "epoch": connection.epoch, "cid": connection.cid, "serial": connection.serial,
        "security_index": connection.security_index, "error": connection.error, "calls": calls,
    })
}

fn peer_json(peer: &DebugPeer) -> Value {
    json!({
        "host": peer.host, "port": peer.port, "mtu": peer.mtu, "rtt_ms": peer.rtt.as_secs_f64() * 1e3,
        "timeout_ms": peer.timeout.as_secs_f64() * 1e3, "packets_sent": peer.packets_sent,
        "resends": peer.resends, "bytes_sent": peer.bytes_sent, "bytes_received": peer.bytes_received,
        "congestion_window": peer.cwind,
    })
}

/// Returns the name of a state or kind in lower case.
fn word(value: impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

/// Names of packet types, by type less one; types 9 to 12 are reserved.
const PACKET_NAMES: [&str; 13] =
    ["data", "ack", "busy", "abort", "ackall", "challenge", "response", "debug", "", "", "", "", "version"];
/// Entries asked for at most, of a server that never says it has no more.
const ENTRIES_MAX: u32 = 100_000;
