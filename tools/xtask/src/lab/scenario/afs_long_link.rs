//! AFS over a way of 40 ms that loses 1 %: a stock file server and Linerate, with a stock client and Linerate's own.

use std::fs::{self, File};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::Scenario;
use super::afs_sites::{self, OURS, STOCK, Site, Sites};
use crate::lab::guest::net::Namespace;
use crate::lab::guest::{Guest, modprobe};
use crate::lab::machine::Machine;
use crate::process;

pub(crate) struct AfsLongLink;

impl Scenario for AfsLongLink {
    fn name(&self) -> &'static str {
        "afs-long-link"
    }

    fn about(&self) -> &'static str {
        "files go to and from a stock AFS server and this one over 40 ms with 1 % loss, by a stock client and by ours"
    }

    fn packages(&self) -> &'static [&'static str] {
        afs_sites::PACKAGES
    }

    fn machines(&self) -> Vec<Machine> {
        vec![Machine { nodes: 1, memory_mib_per_node: 1536, nics: Vec::new(), ..Machine::two_nodes() }]
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(1500)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        modprobe(&["sch_netem"])?;
        fs::create_dir_all("/etc/openafs")?;
        fs::write("/etc/openafs/ThisCell", OURS.cell)?;
        let cell = |site: &Site| format!(">{}\n{} #{}\n", site.cell, site.address, site.name);
        fs::write("/etc/openafs/CellServDB", cell(&STOCK) + &cell(&OURS))?;
        process::output("openssl", &["rand", "-out", FILE, &FILE_BYTES.to_string()])?;

        let _sites = Sites::start(guest)?;
        let client = Namespace::new("client")?;
        afs_sites::join(client, "client", 81)?;
        for device in [STOCK.device, OURS.device, "client1"] {
            // Half of the delay each way.
            let words = ["qdisc", "add", "dev", device, "root", "netem", "delay", "20ms", "loss", "1%"];
            process::output("tc", &words)?;
        }
        for site in [STOCK, OURS] {
            let output = client.command("busybox").args(["ping", "-q", "-c", "3", site.address]).output()?;
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            guest.note(format!("{}: {}", site.name, told.lines().last().unwrap_or_default()))?;
            site.by_stock_client(guest, client).with_context(|| format!("{}, stock client", site.name))?;
            site.by_ours(guest, client, "Rx", "0").with_context(|| format!("{}, our client", site.name))?;
        }
        OURS.by_ours(guest, client, "TCP", "1M").context("our client over TCP")
    }
}

impl Site {
    /// Runs `afsio`, which knows files by number: it makes none itself without dying.
    fn by_stock_client(&self, guest: &mut Guest, client: Namespace) -> anyhow::Result<()> {
        fs::write("/tmp/stock", "made for who comes")?;
        run(client.command(program(guest)).arg("put").arg("/tmp/stock").arg(self.root()))?;
        let listed = client.command(program(guest)).args(["ls", "--json", &self.file("stock")]).output()?;
        let fid: serde_json::Value = serde_json::from_slice(&listed.stdout)?;
        let fid = format!("{}.{}.{}", fid["volume"], fid["vnode"], fid["uniquifier"]);
        let afsio = |words: &[&str]| {
            let mut command = client.command("afsio");
            command.args(words).args(["-cell", self.cell]);
            command
        };
        self.timed(guest, "afsio, store", || {
            run(afsio(&["fidwrite", "-vnode", &fid, "-force"]).stdin(File::open(FILE)?))
        })?;
        self.timed(guest, "afsio, fetch", || {
            run(afsio(&["fidread", "-fid", &fid]).stdout(File::create(BACK)?))
        })?;
        is_the_same()
    }

    /// Runs `linerate put` and `get` with four connections, by TCP from so many bytes on.
    fn by_ours(&self, guest: &mut Guest, client: Namespace, way: &str, tcp_from: &str) -> anyhow::Result<()> {
        let ours = |command: &str| {
            let mut ours = client.command(program(guest));
            ours.args([command, "--oob-threshold", tcp_from]);
            ours
        };
        let (mut put, mut get) = (ours("put"), ours("get"));
        // What came before must not serve as a part of it.
        let _ = fs::remove_file(BACK);
        self.timed(guest, &format!("linerate put over {way}"), || {
            run(put.arg("--overwrite").arg(FILE).arg(self.root()))
        })?;
        let from = self.file("file");
        self.timed(guest, &format!("linerate get over {way}"), || run(get.arg(from).args(["-o", BACK])))?;
        is_the_same()
    }

    fn timed(
        &self,
        guest: &mut Guest,
        what: &str,
        work: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let started = Instant::now();
        work().with_context(|| what.to_owned())?;
        let rate = FILE_BYTES as f64 * 8.0 / started.elapsed().as_secs_f64() / 1e6;
        guest.figure(&format!("{}, {what}", self.name), rate, "Mb/s")
    }

    fn root(&self) -> String {
        format!("afs://{}/{}", self.address, self.volume)
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.root())
    }
}

fn program(guest: &Guest) -> std::ffi::OsString {
    guest.linerate().get_program().to_owned()
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().context("cannot start it")?;
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn is_the_same() -> anyhow::Result<()> {
    ensure!(fs::read(FILE)? == fs::read(BACK)?, "what came back is another");
    Ok(())
}

const FILE: &str = "/tmp/file";
const BACK: &str = "/tmp/back";
/// A stock client's window of 32 packets takes minutes for so much.
const FILE_BYTES: usize = 16 << 20;
