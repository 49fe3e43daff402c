//! Linux's own AFS client (kafs): two guests mount the tree that a third serves, and use it as people use a file system.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::io::Errno;

use super::Scenario;
use crate::lab::guest::{Guest, modprobe, net, wait_for};
use crate::lab::machine::{Machine, Model, Nic};
use crate::process;

pub(crate) struct Kafs;

impl Scenario for Kafs {
    fn name(&self) -> &'static str {
        "kafs"
    }

    fn about(&self) -> &'static str {
        "Linux's AFS client reads and writes the tree, sees at once what others change, and outlives a pulled cable"
    }

    fn machines(&self) -> Vec<Machine> {
        vec![machine(SERVER), machine(FIRST), machine(SECOND)]
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        if guest.name() == SERVER {
            join_wires()?;
            return serve(guest);
        }
        let host = if guest.name() == FIRST { 2 } else { 3 };
        net::set_up("lan", &format!("10.73.0.{host}/24"))?;
        guest.await_signal("serving")?;
        mount()?;
        let outcome = if guest.name() == SECOND { second(guest) } else { first(guest) };
        if outcome.is_err() {
            // The server tells first what it was asked last.
            guest.signal(OVER)?;
            guest.await_signal(TOLD)?;
        }
        outcome
    }
}

/// The wires of both clients are one network.
fn join_wires() -> anyhow::Result<()> {
    modprobe(&["bridge"])?;
    net::ip("link add lan type bridge")?;
    for nic in [FIRST, SECOND] {
        net::ip(&format!("link set {nic} master lan"))?;
        net::ip(&format!("link set {nic} up"))?;
    }
    net::set_up("lan", &format!("{SERVER_IP}/24"))
}

fn serve(guest: &mut Guest) -> anyhow::Result<()> {
    fs::create_dir_all(TREE)?;
    fs::write(format!("{TREE}/hello"), "hello from the tree\n")?;
    let _server = guest.serve(&format!(
        "[[volume]]\nname = \"tree\"\npath = \"{TREE}\"\nwritable = \"anyone\"\nafs_name = \"root.cell\"\n\
         [http]\nlisten = [\"{SERVER_IP}:8080\"]\n[https]\nlisten = []\n\
         [log]\naudit = \"{AUDIT}\"\naudit_format = \"openafs\"\n\
         [afs]\nlisten = \"{SERVER_IP}:7000\"\ncell = \"{CELL}\"\n"
    ))?;
    guest.signal("serving")?;
    guest.await_signal(OVER)?;
    let names = names(TREE, "race-")?;
    if names.len() != 2 * RACING {
        // What was asked last is on its way to the log.
        std::thread::sleep(Duration::from_secs(3));
        let calls = fs::read_to_string(AUDIT)?;
        let calls: Vec<&str> = calls.lines().collect();
        guest.note(calls[calls.len().saturating_sub(CALLS_TOLD)..].join("\n"))?;
        guest.signal(TOLD)?;
        bail!("{} of {} names of the race are in the tree", names.len(), 2 * RACING);
    }
    Ok(())
}

/// The cell's one volume at [`MOUNT`].
fn mount() -> anyhow::Result<()> {
    process::output("/sbin/modprobe", &["kafs", &format!("rootcell={CELL}:{SERVER_IP}")])?;
    fs::create_dir_all(MOUNT)?;
    process::output("mount", &["-t", "afs", &format!("%{CELL}:root.cell."), MOUNT])?;
    Ok(())
}

fn first(guest: &mut Guest) -> anyhow::Result<()> {
    ensure!(read("hello")? == "hello from the tree\n", "another file is there");
    contents(guest).context("contents")?;
    names_and_links().context("names and links")?;
    others(guest).context("changes of others")?;
    pulled_cable(guest).context("a pulled cable")?;
    race(guest, "one")?;
    guest.await_signal("second is done")?;
    guest.signal(OVER)
}

fn second(guest: &mut Guest) -> anyhow::Result<()> {
    guest.await_signal("written by the first")?;
    expect("shared", "one\n")?;
    guest.signal("seen by the second")?;
    guest.await_signal("written again")?;
    expect("shared", "two\n")?;
    fs::write(at("shared"), "three\n")?;
    guest.signal("written by the second")?;
    race(guest, "two")?;
    guest.signal("second is done")
}

/// Files of many sizes come back as they were written, to this client and by HTTP.
fn contents(guest: &mut Guest) -> anyhow::Result<()> {
    for size in [0, 1, 4095, 65_537, 1 << 20] {
        let (name, bytes) = (format!("file-{size}"), bytes(size));
        write_durably(at(&name), &bytes)?;
        drop_caches()?;
        ensure!(fs::read(at(&name))? == bytes, "{name} is another to its writer");
        ensure!(by_http(&name)? == bytes, "{name} is another by HTTP");
    }
    let mut file = File::options().append(true).open(at("file-4095"))?;
    file.write_all(b"and more")?;
    file.sync_all()?;
    ensure!(by_http("file-4095")? == [bytes(4095), b"and more".to_vec()].concat(), "what is appended");
    file.set_len(100)?;
    file.sync_all()?;
    ensure!(by_http("file-4095")? == bytes(100), "what is cut");
    let started = Instant::now();
    write_durably(at("large"), &bytes(LARGE))?;
    guest.figure("write of 8 MiB", LARGE as f64 * 8.0 / started.elapsed().as_secs_f64() / 1e6, "Mb/s")?;
    drop_caches()?;
    let started = Instant::now();
    ensure!(fs::read(at("large"))? == bytes(LARGE), "the large file is another");
    guest.figure("read of 8 MiB", LARGE as f64 * 8.0 / started.elapsed().as_secs_f64() / 1e6, "Mb/s")
}

fn names_and_links() -> anyhow::Result<()> {
    make_directory("dir")?;
    make_directory("dir/sub")?;
    let long = |number| format!("dir/a rather long name of a file, number {number}");
    for number in 0..NAMES {
        File::create_new(at(&long(number))).with_context(|| format!("making name {number}"))?;
    }
    ensure!(listed("dir")? == NAMES + 1, "not every name is listed");
    drop_caches()?;
    ensure!(listed("dir")? == NAMES + 1, "not every name is listed anew");
    fs::write(at("dir/x"), "x")?;
    rename("dir/x", "dir/y")?;
    rename("dir/y", "dir/sub/z")?;
    ensure!(read("dir/sub/z")? == "x", "what was renamed is lost");
    fs::hard_link(at("dir/sub/z"), at("dir/sub/other")).context("a link")?;
    let across = fs::hard_link(at("dir/sub/z"), at("dir/across")).unwrap_err();
    // EXDEV is among the abort codes that this client does not know.
    let known = [Errno::XDEV, Errno::REMOTEIO].map(Some);
    ensure!(known.contains(&Errno::from_io_error(&across)), "a link across directories: {across}");
    remove("dir/sub/z")?;
    ensure!(read("dir/sub/other")? == "x", "a link's file went with its other name");
    symlink("sub/other", at("dir/link")).context("a symbolic link")?;
    ensure!(read("dir/link")? == "x", "a symbolic link leads elsewhere");
    let not_empty = fs::remove_dir(at("dir/sub")).unwrap_err();
    ensure!(not_empty.kind() == io::ErrorKind::DirectoryNotEmpty, "a full directory: {not_empty}");
    for number in 0..NAMES {
        remove(&long(number))?;
    }
    remove("dir/link")?;
    remove("dir/sub/other")?;
    remove_directory("dir/sub")?;
    ensure!(listed("dir")? == 0, "something is left");
    remove_directory("dir")
}

/// What is written by another AFS client, and by HTTP, is seen at once by who has it cached.
fn others(guest: &mut Guest) -> anyhow::Result<()> {
    write_durably(at("shared"), b"one\n")?;
    guest.signal("written by the first")?;
    guest.await_signal("seen by the second")?;
    write_durably(at("shared"), b"two\n")?;
    guest.signal("written again")?;
    guest.await_signal("written by the second")?;
    expect("shared", "three\n")?;
    put("shared", "four\n")?;
    expect("shared", "four\n")?;
    put("new", "five\n")?;
    expect("new", "five\n")?;
    Ok(())
}

/// The cable is out for some seconds while a file is written.
fn pulled_cable(guest: &mut Guest) -> anyhow::Result<()> {
    let writing = std::thread::spawn(|| write_durably(at("cable"), &bytes(LARGE)));
    std::thread::sleep(Duration::from_millis(500));
    guest.set_carrier("lan", false)?;
    std::thread::sleep(Duration::from_secs(4));
    guest.set_carrier("lan", true)?;
    writing.join().expect("it panics at nothing")?;
    drop_caches()?;
    ensure!(fs::read(at("cable"))? == bytes(LARGE), "what was written while the cable was out is another");
    Ok(())
}

/// Both clients create, rename and remove in the volume's root at the same time.
fn race(guest: &mut Guest, who: &str) -> anyhow::Result<()> {
    guest.signal(&format!("{who} is ready"))?;
    guest.await_signal("one is ready")?;
    guest.await_signal("two is ready")?;
    for number in 0..RACING {
        let (before, after) = (at(&format!("tmp-{who}-{number}")), at(&format!("race-{who}-{number}")));
        fs::write(&before, who)?;
        fs::rename(&before, &after)?;
    }
    guest.signal(&format!("{who} has raced"))?;
    guest.await_signal("one has raced")?;
    guest.await_signal("two has raced")?;
    let seen = wait_for("the names of both", || {
        let names = names(MOUNT, "race-").ok()?;
        (names.len() == 2 * RACING).then_some(names)
    })?;
    for other in ["one", "two"] {
        ensure!(fs::read_to_string(at(&format!("race-{other}-0")))? == other, "{seen:?}");
    }
    Ok(())
}

fn names(directory: &str, prefix: &str) -> io::Result<BTreeSet<String>> {
    let entries = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    entries.filter(|name| name.as_ref().is_ok_and(|name| name.starts_with(prefix))).collect()
}

fn read(name: &str) -> anyhow::Result<String> {
    fs::read_to_string(at(name)).with_context(|| format!("reading {name}"))
}

fn expect(name: &str, text: &str) -> anyhow::Result<()> {
    let found = read(name)?;
    ensure!(found == text, "{name} says {found:?} instead of {text:?}");
    Ok(())
}

/// Names in a directory.
fn listed(name: &str) -> anyhow::Result<usize> {
    Ok(fs::read_dir(at(name)).with_context(|| format!("listing {name}"))?.count())
}

fn rename(from: &str, to: &str) -> anyhow::Result<()> {
    fs::rename(at(from), at(to)).with_context(|| format!("renaming {from} to {to}"))
}

fn remove(name: &str) -> anyhow::Result<()> {
    fs::remove_file(at(name)).with_context(|| format!("removing {name}"))
}

fn make_directory(name: &str) -> anyhow::Result<()> {
    fs::create_dir(at(name)).with_context(|| format!("making {name}"))
}

fn remove_directory(name: &str) -> anyhow::Result<()> {
    fs::remove_dir(at(name)).with_context(|| format!("removing {name}"))
}

fn at(name: &str) -> String {
    format!("{MOUNT}/{name}")
}

/// The same for the same size, and nothing that compresses or repeats at a page's length.
fn bytes(size: usize) -> Vec<u8> {
    (0..size as u64).map(|place| (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn write_durably(path: impl AsRef<Path>, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(())
}

/// What is read next comes from the server.
fn drop_caches() -> anyhow::Result<()> {
    crate::lab::guest::disk::drop_caches()
}

fn by_http(name: &str) -> anyhow::Result<Vec<u8>> {
    let to = "/tmp/by-http";
    let url = format!("http://{SERVER_IP}:8080/{name}");
    process::output("curl", &["-sSf", "--max-time", "60", "-o", to, &url])?;
    Ok(fs::read(to)?)
}

fn put(name: &str, text: &str) -> anyhow::Result<()> {
    fs::write("/tmp/put", text)?;
    let url = format!("http://{SERVER_IP}:8080/{name}");
    process::output("curl", &["-sSf", "--max-time", "60", "--upload-file", "/tmp/put", &url])?;
    Ok(())
}

/// A wire leads from the server to each client.
fn machine(name: &'static str) -> Machine {
    let nic = |name, wire| Nic { name, model: Model::Virtio, node: None, wire };
    let nics = match name {
        SERVER => vec![nic(FIRST, FIRST), nic(SECOND, SECOND)],
        client => vec![nic("lan", client)],
    };
    Machine { name, nodes: 1, cpus_per_node: 1, memory_mib_per_node: 768, nics, disk_mib: None }
}

const SERVER: &str = "server";
const FIRST: &str = "first";
const SECOND: &str = "second";
const SERVER_IP: &str = "10.73.0.1";
const CELL: &str = "linerate.test";
const TREE: &str = "/tmp/tree";
const AUDIT: &str = "/tmp/audit.log";
const MOUNT: &str = "/tmp/afs";
const LARGE: usize = 8 << 20;
/// Enough for a directory of several pages.
const NAMES: usize = 300;
/// Names that each client makes in the race.
const RACING: usize = 100;
/// Calls that a failure is told with.
const CALLS_TOLD: usize = 40;
/// The scenario has come to its end, or a client has failed.
const OVER: &str = "over";
/// What the server was asked last is in the report.
const TOLD: &str = "told";
