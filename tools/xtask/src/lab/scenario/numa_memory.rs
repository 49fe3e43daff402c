//! Memory lies on the node that serves with it: the page cache a transfer fills, buffers, and the state of
//! connections. Held against the server's own figures and against the kernel's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::Scenario;
use super::numa_listeners::{Client, wire_up};
use crate::lab::guest::Guest;
use crate::lab::guest::disk;
use crate::lab::guest::metrics::{Looks, Scrape};
use crate::lab::guest::server::Server;
use crate::lab::machine::Machine;

pub(crate) struct NumaMemory;

impl Scenario for NumaMemory {
    fn name(&self) -> &'static str {
        "numa-memory"
    }

    fn about(&self) -> &'static str {
        "file pages, buffers and the state of connections lie on the node that serves, beside one silo over both nodes"
    }

    fn machines(&self) -> Vec<Machine> {
        vec![Machine { disk_mib: Some(512), ..Machine::two_nodes() }]
    }

    fn packages(&self) -> &'static [&'static str] {
        &["e2fsprogs", "numactl", "vmtouch"]
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(1200)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        let clients = wire_up()?;
        disk::mount(Path::new(DISK))?;
        std::fs::create_dir(TREE)?;
        // It would bring pages home that the server had put elsewhere.
        std::fs::write("/proc/sys/kernel/numa_balancing", "0")?;
        let silos = guest.serve(CONFIG)?;
        let with = Trial { name: "silos", server: &silos, clients }.run(guest)?;
        threads_keep_to_their_node(&silos)?;
        stat_tells(guest)?;
        drop(silos);

        let mut numactl = Command::new("numactl");
        numactl.arg("--interleave=all").arg(guest.linerate().get_program());
        let scattered = guest.serve_as(numactl, CONFIG, &[])?;
        let inherited =
            Trial { name: "silos, by numactl --interleave", server: &scattered, clients }.run(guest)?;
        drop(scattered);

        let one = guest.serve_with(CONFIG, &["--no-silo"])?;
        let without = Trial { name: "no silo", server: &one, clients }.run(guest)?;
        for found in [with, inherited] {
            ensure!(found.files <= REMOTE_MAX, "{found:?}");
            ensure!(found.served <= REMOTE_MAX, "{found:?}");
            ensure!(found.pools == 0.0 && found.state <= REMOTE_MAX, "{found:?}");
            ensure!(found.anonymous <= REMOTE_MAX, "{found:?}");
        }
        ensure!(without.files > with.files, "one silo keeps pages as near as two: {without:?}, {with:?}");
        guest.note(format!(
            "file pages away from the card: {:.1} % with silos, {:.1} % with one silo over both nodes",
            with.files, without.files
        ))
    }
}

/// Clients behind either card fetch files of their own, cold.
struct Trial<'a> {
    name: &'a str,
    server: &'a Server,
    clients: [Client; 2],
}

/// Remote shares, percent.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// Share of the files' pages that are not on the node of the card they left by; from numa_maps of another process.
    files: f64,
    /// The same share of the pages that the server's memory grew by; from the server's numa_maps.
    anonymous: f64,
    /// Share of the file pages that the server has looked up that are not on the node of the lane that used them.
    served: f64,
    pools: f64,
    state: f64,
}

impl Trial<'_> {
    fn run(&self, guest: &mut Guest) -> anyhow::Result<Found> {
        let tree = Path::new(TREE);
        for side in 0..self.clients.len() {
            write_files(&tree.join(side.to_string()))?;
        }
        disk::drop_caches()?;
        let before = self.server.scrape()?;
        let (mut files, mut anonymous) = (Pages::default(), Pages::default());
        for client in self.clients {
            let memory = self.anonymous()?;
            self.fetch_all(client)?;
            let grown =
                self.anonymous()?.iter().zip(memory).map(|(now, then)| now.saturating_sub(then)).collect();
            anonymous.add(grown, client.node);
            let there = tree.join(client.node.to_string());
            files.add(disk::file_pages_by_node(&there, 2 * FILES * FILE_BYTES)?, client.node);
        }
        ensure!(anonymous.all >= GROWTH_MIN, "{}: only {} pages of new memory", self.name, anonymous.all);
        let looked = self.looked_at(before)?;
        for side in 0..self.clients.len() {
            std::fs::remove_dir_all(tree.join(side.to_string()))?;
        }
        let found = Found {
            files: files.remote_percent(),
            anonymous: anonymous.remote_percent(),
            served: looked.remote_percent("file")?,
            pools: looked.remote_percent("pool")?,
            state: looked.remote_percent("state")?,
        };
        for (what, share) in [
            ("file pages away from the card's node", found.files),
            ("new memory away from the card's node", found.anonymous),
            ("file pages remote, by the server", found.served),
            ("buffers remote, by the server", found.pools),
            ("state remote, by the server", found.state),
        ] {
            guest.figure(&format!("{}: {what}", self.name), share, "%")?;
        }
        Ok(found)
    }

    /// Fetches every file once, over HTTP or HTTPS, each by a connection of its own.
    fn fetch_all(&self, client: Client) -> anyhow::Result<()> {
        for scheme in ["http", "https"] {
            let names: Vec<String> = (0..FILES).map(|n| format!("{scheme}-{n}")).collect();
            fetch(client, scheme, &names, "100G")?;
        }
        Ok(())
    }

    /// Pages of the server that are of no file, by node.
    fn anonymous(&self) -> anyhow::Result<Vec<u64>> {
        disk::pages_by_node(self.server.pid(), |line| !line.contains(" file="))
    }

    /// Goes on fetching, slowly so that connections live, until the server has looked at enough of what it serves.
    fn looked_at(&self, before: Scrape) -> anyhow::Result<Looks> {
        let names: Vec<String> = (0..FILES).map(|n| format!("https-{n}")).collect();
        let mut looks = Looks { now: before.clone(), before };
        let give_up = Instant::now() + Duration::from_secs(240);
        loop {
            std::thread::scope(|scope| {
                let fetching = self.clients.map(|client| {
                    let names = &names;
                    scope.spawn(move || fetch(client, "https", names, "200K"))
                });
                // The server looks at what it serves for those that ask.
                while fetching.iter().any(|thread| !thread.is_finished()) {
                    self.server.scrape()?;
                    std::thread::sleep(Duration::from_secs(1));
                }
                let done = fetching.map(|thread| thread.join().expect("a fetch does not panic"));
                done.into_iter().collect::<anyhow::Result<()>>()
            })?;
            looks.now = self.server.scrape()?;
            if looks.are_enough()? {
                return Ok(looks);
            }
            ensure!(
                Instant::now() < give_up,
                "the server has hardly looked at its memory:\n{}",
                self.server.log()
            );
        }
    }
}

/// Pages by whether they lie where they should.
#[derive(Default)]
struct Pages {
    local: u64,
    all: u64,
}

impl Pages {
    fn add(&mut self, by_node: Vec<u64>, wanted: usize) {
        self.local += by_node.get(wanted).copied().unwrap_or(0);
        self.all += by_node.iter().sum::<u64>();
    }

    fn remote_percent(&self) -> f64 {
        percent((self.all - self.local) as f64, self.all as f64)
    }
}

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole.max(1.0)
}

fn write_files(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    for scheme in ["http", "https"] {
        for n in 0..FILES {
            std::fs::write(directory.join(format!("{scheme}-{n}")), vec![b'x'; FILE_BYTES])?;
        }
    }
    Ok(())
}

fn fetch(client: Client, scheme: &str, names: &[String], rate: &str) -> anyhow::Result<()> {
    let port = if scheme == "http" { 8080 } else { 8443 };
    let mut curl = client.namespace.command("curl");
    curl.args(["--silent", "--show-error", "--fail", "--insecure", "--http1.1", "--max-time", "120"]);
    curl.args(["--parallel", "--parallel-immediate", "--limit-rate", rate, "--header", "Connection: close"]);
    curl.args(["--write-out", "%{size_download}\n"]);
    for name in names {
        let url = format!("{scheme}://{}:{port}/{}/{name}", client.server, client.node);
        curl.args(["--output", "/dev/null", &url]);
    }
    let output = curl.output()?;
    ensure!(output.status.success(), "curl: {}", String::from_utf8_lossy(&output.stderr));
    let sizes = String::from_utf8(output.stdout)?;
    let whole = FILE_BYTES.to_string();
    ensure!(
        sizes.lines().count() == names.len() && sizes.lines().all(|size| size == whole),
        "sizes: {sizes}"
    );
    Ok(())
}

/// Threads that touch memory for a silo may run on its CPUs alone: lanes, helpers, and the rings' own
/// workers, of which there are some after cold reads.
fn threads_keep_to_their_node(server: &Server) -> anyhow::Result<()> {
    let mut nodes = Vec::new();
    for node in 0..2 {
        let list = std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist"))?;
        nodes.push(cpus(list.trim())?);
    }
    let mut kept = BTreeMap::<&str, usize>::new();
    for task in std::fs::read_dir(format!("/proc/{}/task", server.pid()))? {
        // Workers come and go.
        let Ok(status) = std::fs::read_to_string(task?.path().join("status")) else { continue };
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let name = field("Name:").context("a thread has a name")?;
        let Some(&kind) = ["lane", "helper", "iou-wrk"].iter().find(|kind| name.starts_with(*kind)) else {
            continue;
        };
        let allowed = cpus(field("Cpus_allowed_list:").context("a thread has CPUs")?)?;
        let all_on_one = nodes.iter().any(|node| allowed.is_subset(node));
        ensure!(all_on_one, "{name} may run on CPUs {allowed:?}; the nodes' are {nodes:?}");
        *kept.entry(kind).or_default() += 1;
    }
    ensure!(kept.get("lane") == Some(&4) && kept.get("helper") >= Some(&4), "{kept:?}");
    Ok(())
}

/// Parses a list of CPUs as the kernel writes it: `0-3,8`.
fn cpus(list: &str) -> anyhow::Result<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<u32>()?..=last.parse()?);
    }
    Ok(cpus)
}

/// Checks what a person sees: a line for each silo with shares, and the same as JSON.
fn stat_tells(guest: &Guest) -> anyhow::Result<()> {
    let output = guest.linerate().args(["stat", "--silos", "--count", "1", "--json"]).output()?;
    ensure!(output.status.success(), "stat: {}", String::from_utf8_lossy(&output.stderr));
    let line: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    for silo in ["0", "1"] {
        let pages = &line["silos"][silo]["memory_pages"];
        for kind in ["buffers", "state", "files"] {
            let local =
                pages[kind]["local"].as_u64().with_context(|| format!("no {kind} of silo {silo}: {line}"))?;
            ensure!(local > 0, "stat knows no {kind} of silo {silo}: {line}");
        }
    }
    let output = guest.linerate().args(["stat", "--silos", "--count", "1"]).output()?;
    let table = String::from_utf8(output.stdout)?;
    ensure!(table.contains("remote: bufs") && table.matches('%').count() >= 9, "{table}");
    Ok(())
}

const DISK: &str = "/tmp/disk";
const TREE: &str = "/tmp/disk/tree";
/// Files of each scheme, behind each card.
const FILES: usize = 8;
const FILE_BYTES: usize = 1 << 20;
/// Least number of pages of new memory that the fetches must take for their nodes to mean something.
const GROWTH_MIN: u64 = 512;
/// Largest remote share, per cent: a page here and there is taken by the CPU that comes first, as for the directory's
/// blocks and a shared allocator.
const REMOTE_MAX: f64 = 5.0;
const CONFIG: &str = r#"
[[volume]]
name = "tree"
path = "/tmp/disk/tree"
[http]
listen = ["0.0.0.0:8080"]
[https]
listen = ["0.0.0.0:8443"]
kernel_tls = false
"#;
