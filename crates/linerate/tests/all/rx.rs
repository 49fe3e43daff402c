//! interop: the rxperf service, the load generator and `linerate rxdebug` as programs.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

fn linerate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_linerate"))
}

/// An rxperf service on a free port.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(flags: &[&str]) -> Self {
        let mut command = linerate();
        command.args(["bench", "rx-server", "--listen", "127.0.0.1:0"]).args(flags);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split_whitespace().last().expect("the greeting names the address").to_owned();
        Self { child, address }
    }

    fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn json(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn load_of_every_mode_ends_without_errors() {
    let server = Server::start(&["--lanes", "1"]);
    for (mode, sent, received) in [("recv", 0, 5000), ("send", 3000, 0), ("rpc", 3000, 5000)] {
        let mut command = linerate();
        command.args(["bench", "rx", &server.address, "--json", "-s", "1", "-c", "5", "-t", "1", "-m", mode]);
        let report = json(command.args(["--send-bytes", "3000", "--recv-bytes", "5000"]));
        let calls = report["calls"].as_u64().unwrap();
        assert!(calls > 10, "{report}");
        assert_eq!(report["bytes_sent"], calls * sent);
        // Calls that the end cuts off count with what came of them: one per connection at most.
        let came = report["bytes_received"].as_u64().unwrap();
        assert!((calls * received..=(calls + 5) * received).contains(&came), "{report}");
        assert_eq!(report["errors"], serde_json::json!({}));
        assert!(report["latency"]["p50_us"].as_u64().unwrap() > 0);
        assert!(report["startup_seconds"].as_f64() > Some(0.0) && report["seconds"].as_f64() > Some(0.9));
    }
}

#[test]
fn rxdebug_tells_version_packets_connections_and_peers() {
    let server = Server::start(&["--lanes", "1", "--packets", "2000"]);
    json(linerate().args(["bench", "rx", &server.address, "--json", "-s", "1", "-c", "3", "-t", "1"]));
    let mut command = linerate();
    command.args(["rxdebug", "127.0.0.1", server.port(), "--json", "--all", "--peers", "--rxstats"]);
    let found = json(&mut command);
    assert!(found["version"].as_str().unwrap().starts_with("linerate"), "{found}");
    assert_eq!(found["stats"]["packets"], 2000);
    assert_eq!(
        found["connections"].as_array().unwrap().len(),
        4,
        "one to try and three of the load: {found}"
    );
    assert!(found["peers"].as_array().unwrap().iter().all(|peer| peer["bytes_sent"].as_u64() > Some(0)));
    assert!(found["counters"]["data_sent"].as_u64() > Some(1000), "{found}");
    let text = linerate().args(["rxdebug", "127.0.0.1", server.port(), "-a", "-p"]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("4 connections") && text.contains("peers") && text.contains("of 2000"), "{text}");
}

#[test]
fn rxdebug_tells_of_all_lanes_of_a_server() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return testkit::skip("one CPU has no two lanes");
    }
    let server = Server::start(&["--lanes", "2", "--packets", "2000"]);
    let load =
        json(linerate().args(["bench", "rx", &server.address, "--json", "-s", "1", "-c", "150", "-t", "1"]));
    let mut command = linerate();
    command.args(["rxdebug", "127.0.0.1", server.port(), "--json", "--all", "--peers", "--rxstats"]);
    let found = json(&mut command);
    assert_eq!(found["stats"]["packets"], 4000);
    let connections = found["connections"].as_array().unwrap();
    let ids: BTreeSet<_> =
        connections.iter().map(|known| (known["epoch"].as_u64(), known["cid"].as_u64())).collect();
    assert_eq!((connections.len(), ids.len()), (151, 151), "one to try and those of the load, each once");
    assert_eq!(found["counters"]["server_connections"], 151);
    assert!(found["stats"]["calls_executed"].as_u64() > load["calls"].as_u64(), "{found}");
    let peers = found["peers"].as_array().unwrap();
    let ports: BTreeSet<_> = connections.iter().map(|known| known["port"].as_u64()).collect();
    assert_eq!(peers.iter().map(|peer| peer["port"].as_u64()).collect::<BTreeSet<_>>(), ports);
    assert_eq!(peers.len(), ports.len(), "each address once");
}

#[test]
fn silent_port_is_said_to_be_silent() {
    let holder = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    let output = linerate().args(["rxdebug", "127.0.0.1", &port, "--timeout", "1"]).output().unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("no answer from 127.0.0.1") && error.contains("within 1 s"), "{error}");
}
