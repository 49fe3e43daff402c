//! Two guests with a long and lossy link between them.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::Scenario;
use crate::lab::guest::server::Background;
use crate::lab::guest::{Guest, modprobe, net};
use crate::lab::machine::{Machine, Model, Nic};
use crate::process;

pub(crate) struct LongLink;

impl Scenario for LongLink {
    fn name(&self) -> &'static str {
        "long-link"
    }

    fn about(&self) -> &'static str {
        "files and Rx calls arrive whole over a link of 40 ms with 1 % loss and a cable that is pulled"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["openssl"]
    }

    fn machines(&self) -> Vec<Machine> {
        vec![machine(SERVER), machine(CLIENT)]
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        let address = if guest.name() == SERVER { SERVER_IP } else { CLIENT_IP };
        net::set_up("wan", &format!("{address}/24"))?;
        modprobe(&["sch_netem"])?;
        // Half of the delay each way.
        let words = ["qdisc", "add", "dev", "wan", "root", "netem", "delay", "20ms", "loss", "1%"];
        process::output("tc", &words)?;
        if guest.name() == SERVER { serve(guest) } else { fetch(guest) }
    }
}

fn serve(guest: &mut Guest) -> anyhow::Result<()> {
    std::fs::create_dir_all("/tmp/tree")?;
    process::output("openssl", &["rand", "-out", "/tmp/tree/file", &FILE_BYTES.to_string()])?;
    process::output("sh", &["-c", "cd /tmp/tree && sha256sum file > file.sha256"])?;
    let _server = guest.serve(
        "[[volume]]\nname = \"tree\"\npath = \"/tmp/tree\"\n\
         [http]\nlisten = [\"0.0.0.0:8080\"]\n[https]\nlisten = [\"0.0.0.0:8443\"]\n",
    )?;
    let mut rx = guest.linerate();
    let _rx = Background::start(rx.args(["bench", "rx-server", "--listen", &format!("{SERVER_IP}:7009")]))?;
    guest.signal("serving")?;
    guest.await_signal("fetched")
}

fn fetch(guest: &mut Guest) -> anyhow::Result<()> {
    guest.await_signal("serving")?;
    // Both directions carry the delay: a round trip is 40 ms.
    let pinged = process::output("busybox", &["ping", "-q", "-c", "3", SERVER_IP])?;
    guest.note(pinged.lines().last().unwrap_or_default().to_owned())?;
    for base in [format!("http://{SERVER_IP}:8080"), format!("https://{SERVER_IP}:8443")] {
        let started = Instant::now();
        for file in ["file", "file.sha256"] {
            let (to, url) = (format!("/tmp/{file}"), format!("{base}/{file}"));
            process::output("curl", &["-sSf", "--insecure", "--max-time", "60", "-o", &to, &url])?;
        }
        let seconds = started.elapsed().as_secs_f64();
        process::output("sh", &["-c", "cd /tmp && sha256sum --check --status file.sha256"])?;
        let scheme = base.split(':').next().unwrap_or_default();
        guest.figure(
            &format!("{scheme}, one connection"),
            FILE_BYTES as f64 * 8.0 / seconds / 1e6,
            "Mb/s",
        )?;
    }
    survives_a_pulled_cable(guest)?;
    let report = bench_rx(guest)?;
    let calls = report["calls"].as_u64().unwrap_or_default();
    let errors = report["errors"].as_object();
    ensure!(calls > 0 && errors.is_some_and(|errors| errors.is_empty()), "Rx calls failed: {report}");
    guest.figure("Rx calls of 64 KiB", calls as f64, "calls")?;
    guest.signal("fetched")
}

/// Pulls the cable for two seconds in the middle of a transfer.
fn survives_a_pulled_cable(guest: &mut Guest) -> anyhow::Result<()> {
    let mut curl = Command::new("curl");
    curl.args(["-sSf", "--max-time", "90", "--limit-rate", "1M", "-o", "/tmp/file"]);
    let mut transfer = curl.arg(format!("http://{SERVER_IP}:8080/file")).spawn()?;
    std::thread::sleep(Duration::from_secs(1));
    guest.set_carrier("wan", false)?;
    std::thread::sleep(Duration::from_secs(2));
    ensure!(transfer.try_wait()?.is_none(), "the transfer ended before the cable was out");
    guest.set_carrier("wan", true)?;
    ensure!(transfer.wait()?.success(), "the transfer did not survive a pulled cable");
    process::output("sh", &["-c", "cd /tmp && sha256sum --check --status file.sha256"])?;
    Ok(())
}

fn bench_rx(guest: &Guest) -> anyhow::Result<serde_json::Value> {
    let mut bench = guest.linerate();
    bench.args(["bench", "rx", &format!("{SERVER_IP}:7009"), "--clients", "4", "--recv-bytes", "64K"]);
    let output = bench.args(["--seconds", "5", "--json"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn machine(name: &'static str) -> Machine {
    let nic = Nic { name: "wan", model: Model::Virtio, node: None, wire: "link" };
    let (nodes, cpus_per_node, memory_mib_per_node) = (1, 2, 768);
    Machine { name, nodes, cpus_per_node, memory_mib_per_node, nics: vec![nic], disk_mib: None }
}

const SERVER: &str = "server";
const CLIENT: &str = "client";
const SERVER_IP: &str = "10.72.0.1";
const CLIENT_IP: &str = "10.72.0.2";
const FILE_BYTES: usize = 4 << 20;
