//! Tests with the stock `rxdebug` (Debian: openafs-client) on our server, and with tshark on the packets that
//! we send.

use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::rc::Rc;
use std::time::Duration;

use lane::runtime::{RuntimeOptions, run_here};
use rx_lane::{Anonymous, Connection, Driver, DriverConfig, ServerCall};
use rxperf::{Outbound, Request, Work};

mod lanes;

/// Id of a service whose calls stay open until the client has seen enough.
const SLOW_SERVICE: u16 = 78;

#[track_caller]
fn installed(program: &str) -> bool {
    let found = Command::new(program).arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        testkit::skip(format_args!("{program} is not installed; `cargo xtask test` installs it"));
    }
    found.is_ok()
}

fn run<T: 'static>(test: impl Future<Output = T> + 'static) -> T {
    let bounded = async { lane::time::timeout(Duration::from_secs(60), test).await };
    run_here(RuntimeOptions::default(), bounded).expect("the machine has io_uring").expect("ends in time")
}

fn bind() -> Driver {
    let mut config = DriverConfig::default();
    config.endpoint.packets = 4000;
    Driver::bind(([127, 0, 0, 1], 0).into(), config).expect("loopback has free ports")
}

/// Runs the stock tool while the lane goes on.
async fn rxdebug(server: SocketAddr, flags: &[&str]) -> String {
    let port = server.port().to_string();
    let mut command = Command::new("rxdebug");
    command.args(["-servers", "127.0.0.1", "-port", &port]).args(flags);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is installed");
    let output = finished(child).await;
    assert!(output.status.success(), "rxdebug {flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("its output is text")
}

async fn finished(mut child: Child) -> Output {
    while child.try_wait().expect("it is our child").is_none() {
        lane::time::sleep(Duration::from_millis(10)).await;
    }
    child.wait_with_output().expect("it has ended")
}

async fn perf_call(connection: &Connection, work: Work) {
    let mut outbound = Outbound::request(&Request::new(work)).unwrap();
    let mut call = connection.call().await.unwrap();
    call.write_with(outbound.remaining(), |room| assert_eq!(outbound.fill(room), room.len())).await.unwrap();
    call.finish().await.unwrap();
    call.read_to_end(1 << 24).await.unwrap();
}

#[test]
fn stock_rxdebug_reads_version_stats_connections_and_peers() {
    if !installed("rxdebug") {
        return;
    }
    run(async {
        let (server, client) = (bind(), bind());
        server.serve(rxperf::SERVICE, rxperf::serve);
        let release = Rc::new(std::cell::Cell::new(false));
        let released = Rc::clone(&release);
        server.serve(SLOW_SERVICE, move |mut call: ServerCall| {
            let released = Rc::clone(&released);
            async move {
                call.read_to_end(100).await?;
                while !released.get() {
                    lane::time::sleep(Duration::from_millis(5)).await;
                }
                call.finish().await
            }
        });
        let address = server.local_addr().unwrap();
        let first = client.connect(address, rxperf::SERVICE, &Anonymous).unwrap();
        perf_call(&first, Work::Receive { bytes: 500_000 }).await;
        let connection = client.connect(address, SLOW_SERVICE, &Anonymous).unwrap();
        let mut slow = connection.call().await.unwrap();
        slow.write(b"wait").await.unwrap();
        slow.finish().await.unwrap();
        lane::time::sleep(Duration::from_millis(50)).await;

        let version = rxdebug(address, &["-version"]).await;
        assert!(version.contains("AFS version: linerate"), "{version}");

        let plain = rxdebug(address, &[]).await;
        let (free, all) = (server.endpoint().pool().free_count(), server.endpoint().pool().allocated());
        assert!(plain.contains(&format!("Free packets: {free}/{all}")), "{plain}");
        assert!(plain.contains("calls waiting for a thread"), "{plain}");

        let stats = rxdebug(address, &["-rxstats", "-noconns"]).await;
        let sent = server.endpoint().stats().data_sent;
        assert!(stats.contains("data"), "{stats}");
        assert!(stats.contains(&format!("data {sent}")), "{sent} data packets sent: {stats}");
        assert!(stats.contains("server connections"), "{stats}");

        let port = client.local_addr().unwrap().port();
        let connections = rxdebug(address, &["-allconnections", "-long"]).await;
        assert!(connections.contains(&format!("port {port}")), "{connections}");
        assert!(connections.contains("server") && connections.contains("active"), "{connections}");

        let peers = rxdebug(address, &["-peers", "-long", "-noconns"]).await;
        assert!(peers.contains(&format!("port {port}")) && peers.contains("rtt_dev"), "{peers}");

        release.set(true);
        assert_eq!(slow.read_to_end(1).await, Ok(Vec::new()));
    });
}

#[test]
fn tshark_finds_no_malformed_packet_in_a_captured_run() {
    if !installed("tshark") {
        return;
    }
    if !is_root() {
        return testkit::skip("capturing on loopback needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.pcap");
    let capture_file = file.clone();
    let port = run(async move {
        let (server, client) = (bind(), bind());
        server.serve(rxperf::SERVICE, rxperf::serve);
        server.serve(SLOW_SERVICE, async |call: ServerCall| {
            call.abort(7);
            Ok::<(), rx_lane::CallError>(())
        });
        let address = server.local_addr().unwrap();
        let filter = format!("udp port {}", address.port());
        let mut command = Command::new("dumpcap");
        command.args(["-q", "-P", "-i", "lo", "-f", &filter, "-w"]).arg(&capture_file);
        let capture = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("comes with tshark");
        while std::fs::metadata(&capture_file).map_or(0, |file| file.len()) == 0 {
            lane::time::sleep(Duration::from_millis(20)).await;
        }
        lane::time::sleep(Duration::from_millis(300)).await;
        for work in [
            Work::Receive { bytes: 200_000 },
            Work::Send { bytes: 200_000 },
            Work::Rpc { send: 32, receive: 32 },
        ] {
            perf_call(&client.connect(address, rxperf::SERVICE, &Anonymous).unwrap(), work).await;
        }
        let connection = client.connect(address, SLOW_SERVICE, &Anonymous).unwrap();
        let mut call = connection.call().await.unwrap();
        call.write(b"to be aborted").await.unwrap();
        call.finish().await.unwrap();
        assert!(call.read_to_end(1).await.is_err());
        rxdebug_if_there(address).await;
        // Late ACKs belong to the run.
        lane::time::sleep(Duration::from_millis(400)).await;
        let mut stop = Command::new("kill").args(["-INT", &capture.id().to_string()]).spawn().unwrap();
        stop.wait().unwrap();
        finished(capture).await;
        address.port()
    });
    // RX is not on a standard port here, so tshark must be told; bursts are captured before the kernel cuts them,
    // and only their first packet is dissected.
    let decode = format!("udp.port=={port},rx");
    let read = |filter: &str| {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(&file).args(["-d", &decode, "-Y", filter, "-T", "fields", "-e", "rx.type"]);
        let output = command.output().expect("tshark is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let kinds: std::collections::BTreeSet<String> = read("rx").into_iter().collect();
    for (kind, name) in [("1", "DATA"), ("2", "ACK"), ("4", "ABORT")] {
        assert!(kinds.contains(kind), "no {name} packet among {kinds:?}");
    }
    let malformed = read("_ws.malformed");
    assert!(malformed.is_empty(), "{} malformed packets, of types {malformed:?}", malformed.len());
}

async fn rxdebug_if_there(address: SocketAddr) {
    if installed("rxdebug") {
        rxdebug(address, &["-version"]).await;
        rxdebug(address, &["-rxstats", "-allconnections", "-peers", "-long"]).await;
    }
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}
