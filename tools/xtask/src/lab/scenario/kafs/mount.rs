//! The mount as programs use it, and the same tree by HTTP.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, ensure};

use super::{CELL, MOUNT, SERVER_IP};
use crate::lab::guest::{kernel_version, modprobe};
use crate::process;

/// Mounts the cell's one volume at [`MOUNT`].
pub(super) fn mount() -> anyhow::Result<()> {
    // As its parameter `rootcell` a cell with an address has no socket yet to find that by: 6.12 dies of it.
    modprobe(&["kafs"])?;
    fs::write("/proc/fs/afs/cells", format!("add {CELL} {SERVER_IP}")).context("/proc/fs/afs/cells")?;
    fs::create_dir_all(MOUNT)?;
    process::output("mount", &["-t", "afs", &format!("%{CELL}:root.cell."), MOUNT])?;
    Ok(())
}

pub(super) fn names(directory: &str, prefix: &str) -> io::Result<BTreeSet<String>> {
    let entries = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    entries.filter(|name| name.as_ref().is_ok_and(|name| name.starts_with(prefix))).collect()
}

pub(super) fn read(name: &str) -> anyhow::Result<String> {
    fs::read_to_string(at(name)).with_context(|| format!("reading {name}"))
}

pub(super) fn expect(name: &str, text: &str) -> anyhow::Result<()> {
    let found = read(name)?;
    ensure!(found == text, "{name} says {found:?} instead of {text:?}");
    Ok(())
}

/// Returns the number of names in a directory.
pub(super) fn listed(name: &str) -> anyhow::Result<usize> {
    Ok(fs::read_dir(at(name)).with_context(|| format!("listing {name}"))?.count())
}

pub(super) fn rename(from: &str, to: &str) -> anyhow::Result<()> {
    fs::rename(at(from), at(to)).with_context(|| format!("renaming {from} to {to}"))
}

pub(super) fn remove(name: &str) -> anyhow::Result<()> {
    fs::remove_file(at(name)).with_context(|| format!("removing {name}"))
}

pub(super) fn make_directory(name: &str) -> anyhow::Result<()> {
    fs::create_dir(at(name)).with_context(|| format!("making {name}"))
}

pub(super) fn remove_directory(name: &str) -> anyhow::Result<()> {
    fs::remove_dir(at(name)).with_context(|| format!("removing {name}"))
}

pub(super) fn at(name: &str) -> String {
    format!("{MOUNT}/{name}")
}

/// Makes bytes that are the same for the same size, and nothing that compresses or repeats at a page's
/// length.
pub(super) fn bytes(size: usize) -> Vec<u8> {
    (0..size as u64).map(|place| (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

pub(super) fn write_durably(path: impl AsRef<Path>, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(())
}

/// Waits until what this client has read or written a moment ago may be evicted. Linux before 6.10 leaves a page in
/// place although its server has reported another version of the file, as long as it counts as used. It does while it
/// waits on a list of its CPU, until fifteen pages together get a place among those that may be evicted.
pub(super) fn settle() -> anyhow::Result<()> {
    if kernel_version()? >= (6, 10) {
        return Ok(());
    }
    let other = File::open(at("hello"))?;
    rustix::fs::fadvise(&other, 0, None, rustix::fs::Advice::DontNeed).context("fadvise")
}

/// Drops caches, so that what is read next comes from the server.
pub(super) fn drop_caches() -> anyhow::Result<()> {
    crate::lab::guest::disk::drop_caches()
}

pub(super) fn by_http(name: &str) -> anyhow::Result<Vec<u8>> {
    let to = "/tmp/by-http";
    let url = format!("http://{SERVER_IP}:8080/{name}");
    process::output("curl", &["-sSf", "--max-time", "60", "-o", to, &url])?;
    Ok(fs::read(to)?)
}

pub(super) fn put(name: &str, text: &str) -> anyhow::Result<()> {
    fs::write("/tmp/put", text)?;
    let url = format!("http://{SERVER_IP}:8080/{name}");
    process::output("curl", &["-sSf", "--max-time", "60", "--upload-file", "/tmp/put", &url])?;
    Ok(())
}
