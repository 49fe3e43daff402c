//! A cable that is pulled, and a server that is killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::mount::{at, bytes, drop_caches, names, read, write_durably};
use super::{KILL, MOUNT, SERVER_IP, TREE};
use crate::lab::guest::server::Server;
use crate::lab::guest::{Guest, kernel_version, net, wait_for};

/// Pulls the cable for some seconds while a file is written.
pub(super) fn pulled_cable(guest: &mut Guest) -> anyhow::Result<()> {
    // As behind a router, nothing tells the client that the server cannot be reached.
    let server = net::ip(&format!("neigh show {SERVER_IP} dev lan"))?;
    let mut words = server.split_whitespace().skip_while(|word| *word != "lladdr");
    let address = words.nth(1).with_context(|| format!("no neighbour: {server}"))?;
    net::ip(&format!("neigh replace {SERVER_IP} lladdr {address} dev lan nud permanent"))?;
    let out = if kernel_version()? < (6, 10) { OUT } else { OUT_SHORTLY };
    write_or_write_again(guest, "cable", out)?;
    net::ip(&format!("neigh change {SERVER_IP} lladdr {address} dev lan nud reachable"))?;
    expect_bytes("cable")
}

/// Tests a server whose client hears that no host answers there.
pub(super) fn unreachable(guest: &mut Guest) -> anyhow::Result<()> {
    write_or_write_again(guest, "unreachable", UNREACHABLE)?;
    expect_bytes("unreachable")
}

/// Writes a file without the cable, and again if that fails. Linux sends an interrupted store again, but only those of
/// its bytes that it had not sent before. It fails the store with what the server says of that: 6.1 where no host
/// answered, 6.12 in any case. The writing program gets the error, and can write again.
fn write_or_write_again(guest: &mut Guest, name: &'static str, out: Duration) -> anyhow::Result<()> {
    if let Err(error) = write_without_cable(guest, name, out) {
        guest.note(format!("{name}: a write without the cable fails: {error}"))?;
        ensure!(name != "cable" || kernel_version()? >= (6, 10), "Linux 6.1 goes on when the cable is back");
        let again = || write_durably(at(name), &bytes(LARGE)).ok();
        wait_for("the server to be found again", again)?;
    }
    Ok(())
}

fn write_without_cable(guest: &mut Guest, name: &'static str, out: Duration) -> anyhow::Result<()> {
    let writing = std::thread::spawn(move || write_durably(at(name), &bytes(LARGE)));
    wait_for("the first bytes", || fs::metadata(at(name)).ok())?;
    guest.set_carrier("lan", false)?;
    std::thread::sleep(out);
    guest.set_carrier("lan", true)?;
    writing.join().expect("it panics at nothing")
}

fn expect_bytes(name: &str) -> anyhow::Result<()> {
    drop_caches()?;
    ensure!(fs::read(at(name))? == bytes(LARGE), "what was written while the cable was out is another");
    Ok(())
}

/// Makes two directories between which names go, one of them with an access list.
pub(super) fn prepare(guest: &Guest) -> anyhow::Result<()> {
    for side in SIDES {
        fs::create_dir_all(Path::new(TREE).join(side))?;
    }
    for number in 0..MOVED {
        fs::write(Path::new(TREE).join(SIDES[0]).join(format!("k-{number}")), format!("file {number}"))?;
    }
    let listed = Path::new(TREE).join(SIDES[0]);
    let output = guest.linerate().args(["acl", "set"]).arg(listed).arg("system:anyuser=rlidwk").output()?;
    ensure!(output.status.success(), "acl set: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Kills the server and starts it again once a client renames files; it is left alone where none does.
pub(super) fn kill(guest: &mut Guest, server: Server) -> anyhow::Result<Server> {
    guest.await_signal(KILL)?;
    if !Path::new(TREE).join(RENAMING).exists() {
        return Ok(server);
    }
    // A number is kept once it is in the index, about a second after it was given.
    let is_kept = || {
        let waiting = server.scrape().ok()?.sum("linerate_index_waiting", &[]).ok()?;
        (waiting == 0.0).then_some(())
    };
    wait_for("what the index has to keep", is_kept)?;
    // Killed, not told to stop.
    drop(server);
    let server = super::start(guest)?;
    guest.signal(BACK)?;
    Ok(server)
}

/// Kills the server while files are renamed. Checks that each is then in one of both places, with its number and
/// content, and that the access list is as it was.
pub(super) fn killed_server(guest: &mut Guest) -> anyhow::Result<()> {
    let before = numbers()?;
    ensure!(before.len() == MOVED, "{} files are there before", before.len());
    let list = attribute(SIDES[0], ACCESS)?;
    ensure!(!list.is_empty(), "the directory has no access list");
    write_durably(at(RENAMING), b"")?;
    let (is_back, renamed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let refused = std::thread::scope(|scope| -> anyhow::Result<_> {
        let renaming = scope.spawn(|| rename_until(&is_back, &renamed));
        wait_for("renames", || (renamed.load(Ordering::Relaxed) > MOVED / 2).then_some(()))?;
        guest.signal(KILL)?;
        let back = guest.await_signal(BACK);
        is_back.store(true, Ordering::Relaxed);
        back?;
        Ok(renaming.join().expect("it panics at nothing"))
    })?;
    let told = refused.map_or_else(|| "none failed".to_owned(), |error| error.to_string());
    guest.note(format!("{} renames around the server's end: {told}", renamed.into_inner()))?;
    // A client that has found a server dead looks for it every 30 s. What it has cached it tells without asking.
    wait_for("the server to be found again", || fs::write(at("found again"), "").ok())?;
    drop_caches()?;
    let after = numbers()?;
    ensure!(before == after, "files and numbers were {before:?} and are {after:?}");
    for side in SIDES {
        for name in names(&at(side), "k-")? {
            let number = name.trim_start_matches("k-");
            ensure!(
                read(&format!("{side}/{name}"))? == format!("file {number}"),
                "{side}/{name} is another file"
            );
        }
    }
    ensure!(attribute(SIDES[0], ACCESS)? == list, "the access list is another");
    fs::rename(at(&format!("{}/k-0", place_of("k-0")?)), at("k-0")).context("a rename afterwards")
}

/// Returns each name and the number of its file, wherever it is. A name in both places is an error.
fn numbers() -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut numbers = BTreeMap::new();
    for side in SIDES {
        for name in names(&at(side), "k-")? {
            let number = attribute(&format!("{side}/{name}"), NUMBER)?;
            if numbers.insert(name.clone(), number).is_some() {
                bail!("{name} is in both places");
            }
        }
    }
    Ok(numbers)
}

fn place_of(name: &str) -> anyhow::Result<&'static str> {
    let found = SIDES.into_iter().find(|side| Path::new(MOUNT).join(side).join(name).exists());
    found.with_context(|| format!("{name} is nowhere"))
}

/// Renames to and fro until it is told to stop, or one fails.
fn rename_until(is_over: &AtomicBool, renamed: &AtomicUsize) -> Option<std::io::Error> {
    for round in 0.. {
        let (from, to) = (SIDES[round % 2], SIDES[(round + 1) % 2]);
        for number in 0..MOVED {
            if is_over.load(Ordering::Relaxed) {
                return None;
            }
            if let Err(error) = fs::rename(at(&format!("{from}/k-{number}")), at(&format!("{to}/k-{number}")))
            {
                return Some(error);
            }
            renamed.fetch_add(1, Ordering::Relaxed);
        }
    }
    None
}

fn attribute(name: &str, attribute: &str) -> anyhow::Result<Vec<u8>> {
    let mut value = vec![0; ATTRIBUTE_MAX];
    let len = rustix::fs::getxattr(at(name), attribute, value.as_mut_slice())
        .with_context(|| format!("{attribute} of {name}"))?;
    value.truncate(len);
    Ok(value)
}

const LARGE: usize = 8 << 20;
const OUT: Duration = Duration::from_secs(5);
/// Linux 6.12 may send the store again after five, without the bytes that had gone. That fails, and as the file has
/// another version then than it knows of, `fsync` may wait for itself for ever: `afs_validate` writes back what it is
/// about to drop, under a lock that `afs_writepages` takes.
const OUT_SHORTLY: Duration = Duration::from_secs(2);
/// Time that is longer than it takes to find that a neighbour does not answer.
const UNREACHABLE: Duration = Duration::from_secs(12);
const SIDES: [&str; 2] = ["here", "there"];
const MOVED: usize = 30;
/// Lies in the tree once files are renamed.
const RENAMING: &str = "renaming";
/// The server runs again.
const BACK: &str = "the server is back";
/// Extended attribute in which Linux's client shows access lists.
const ACCESS: &str = "afs.acl";
const NUMBER: &str = "afs.fid";
const ATTRIBUTE_MAX: usize = 1024;
