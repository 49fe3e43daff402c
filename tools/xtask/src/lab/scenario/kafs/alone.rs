//! Steps of one client by itself.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::time::Instant;

use anyhow::{Context, ensure};
use rustix::io::Errno;

use super::TREE;
use super::mount::{
    at, by_http, bytes, drop_caches, listed, make_directory, read, remove, remove_directory, rename,
    write_durably,
};
use crate::lab::guest::Guest;

/// Checks that files of many sizes come back as they were written, to this client and by HTTP.
pub(super) fn contents(guest: &mut Guest) -> anyhow::Result<()> {
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

pub(super) fn names_and_links() -> anyhow::Result<()> {
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

/// Prepares the tree before it is served.
pub(super) fn prepare() -> anyhow::Result<()> {
    fs::create_dir_all(format!("{TREE}/many"))?;
    fs::write(format!("{TREE}/hello"), "hello from the tree\n")?;
    for number in 0..MANY {
        fs::write(format!("{TREE}/many/n{number}"), format!("{number}"))?;
    }
    Ok(())
}

/// Checks that a large directory is listed, looked up in and changed.
pub(super) fn many_names() -> anyhow::Result<()> {
    ensure!(listed("many")? == MANY, "not every name is listed");
    for number in [0, 1, MANY / 2, MANY - 1] {
        ensure!(read(&format!("many/n{number}"))? == number.to_string(), "n{number} is another file");
    }
    // The client looks through the directory for each name, and this machine is slow.
    for number in (0..MANY).step_by(100) {
        let len = fs::metadata(at(&format!("many/n{number}")))?.len();
        ensure!(len == number.to_string().len() as u64, "n{number} is {len} bytes");
    }
    fs::write(at("many/one more"), "1")?;
    rename("many/n77", "many/renamed")?;
    remove("many/n78")?;
    // The client has edited its copy; what it fetches anew says the same.
    ensure!(listed("many")? == MANY, "a name is missing");
    drop_caches()?;
    ensure!(listed("many")? == MANY, "a name is missing in what is fetched anew");
    ensure!(read("many/renamed")? == "77" && read("many/one more")? == "1", "what was changed is another");
    ensure!(!fs::exists(at("many/n77"))? && !fs::exists(at("many/n78"))?, "a name is left");
    Ok(())
}

const LARGE: usize = 8 << 20;
/// Enough for a directory of several pages.
const NAMES: usize = 300;
const MANY: usize = 10_000;
