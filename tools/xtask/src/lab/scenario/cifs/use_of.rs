//! Use of the mount by programs, and its effect on the served tree.

use std::fs::{self, File};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};

use super::{MOUNT, TREE, at};
use crate::lab::guest::{disk, wait_for};

/// Checks that files of many sizes come back as they were written, to this client and in the tree.
pub(super) fn contents() -> anyhow::Result<()> {
    for size in [0, 1, 4095, 65_537, 9 << 20] {
        let name = format!("file-{size}");
        fs::write(at(&name), bytes(size))?;
        ensure!(fs::read(format!("{TREE}/{name}"))? == bytes(size), "{name} is another in the tree");
        disk::drop_caches()?;
        ensure!(fs::read(at(&name))? == bytes(size), "{name} is another to its writer");
    }
    let file = File::options().write(true).open(at("file-4095"))?;
    file.set_len(100)?;
    file.sync_all()?;
    ensure!(fs::read(format!("{TREE}/file-4095"))? == bytes(100), "what is cut");
    // A change beside the client: it asks again once what it remembers of the file is a second old.
    fs::write(format!("{TREE}/file-1"), "changed beside it")?;
    let seen = || fs::read(at("file-1")).ok().filter(|bytes| bytes == b"changed beside it");
    wait_for("a change of the tree", seen)?;
    Ok(())
}

pub(super) fn names_and_links() -> anyhow::Result<()> {
    for directory in ["dir", "dir/sub"] {
        fs::create_dir(at(directory))?;
    }
    let names =
        ["dir/a name with spaces", "dir/Grüße", "dir/with \"quotes\" and <brackets>: a|b?*", "dir/.hidden"];
    for name in names {
        fs::write(at(name), name).with_context(|| name.to_owned())?;
        ensure!(
            fs::read_to_string(format!("{TREE}/{name}")).is_ok_and(|text| text == name),
            "{name} in the tree"
        );
    }
    ensure!(fs::read_dir(at("dir"))?.count() == names.len() + 1, "not every name is listed");
    fs::rename(at("dir/.hidden"), at("dir/sub/z"))?;
    ensure!(fs::read_to_string(at("dir/sub/z"))? == "dir/.hidden", "what was renamed is lost");
    for link in ["dir/across", "dir/sub/link"] {
        fs::hard_link(at("dir/sub/z"), at(link)).with_context(|| format!("the link {link}"))?;
    }
    fs::remove_file(at("dir/sub/z"))?;
    for link in ["dir/across", "dir/sub/link"] {
        ensure!(fs::read_to_string(at(link))? == "dir/.hidden", "{link}: its file went with its other name");
    }
    fs::rename(at("dir/sub/link"), at("dir/link"))?;
    fs::write(at("dir/sub/full"), "")?;
    let not_empty = fs::remove_dir(at("dir/sub")).err().context("a full directory is removed")?;
    ensure!(not_empty.kind() == io::ErrorKind::DirectoryNotEmpty, "a full directory: {not_empty}");
    // An open file stays readable after its name has gone.
    let file = File::open(at("dir/link"))?;
    fs::remove_file(at("dir/link"))?;
    ensure!(io::read_to_string(&file)? == "dir/.hidden", "a removed file that is open");
    drop(file);
    // The client may keep the file open for a second more, in case a program opens it again, and shows its
    // name for as long.
    wait_for("a removed file to go", || (!fs::exists(format!("{TREE}/dir/link")).ok()?).then_some(()))?;
    ensure!(!fs::exists(at("dir/link"))?, "a removed file has its name");
    wait_for("an empty directory", || fs::remove_dir_all(at("dir")).ok())?;
    ensure!(!fs::exists(format!("{TREE}/dir"))?, "a removed directory is in the tree");
    Ok(())
}

/// Checks that a directory of so many names is listed, looked up in and changed.
pub(super) fn many_names(many: usize) -> anyhow::Result<()> {
    let inside = format!("{TREE}/many");
    fs::create_dir(&inside)?;
    for number in 0..many {
        fs::write(format!("{inside}/n{number}"), number.to_string())?;
    }
    let listed = || -> io::Result<usize> { Ok(fs::read_dir(at("many"))?.count()) };
    ensure!(listed()? == many, "not every name is listed");
    for number in (0..many).step_by(500) {
        ensure!(fs::read_to_string(at(&format!("many/n{number}")))? == number.to_string(), "n{number}");
    }
    fs::rename(at("many/n77"), at("many/renamed"))?;
    fs::remove_file(at("many/n78"))?;
    fs::write(at("many/one more"), "1")?;
    ensure!(listed()? == many, "a name is missing");
    Ok(())
}

/// Moves names between two directories by several threads, over each other's, while each makes new ones.
pub(super) fn renames() -> anyhow::Result<()> {
    for directory in SIDES {
        fs::create_dir(at(directory))?;
    }
    let done = &AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let storms: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || storm(thread, done))).collect();
        storms.into_iter().try_for_each(|storm| storm.join().expect("it panics at nothing"))
    })?;
    ensure!(done.load(Ordering::Relaxed) == THREADS * RENAMES, "not every rename was done");
    let names = |side: &str| -> io::Result<Vec<String>> {
        let mut names: Vec<String> = fs::read_dir(format!("{TREE}/{side}"))?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<_>>()?;
        names.sort();
        Ok(names)
    };
    let mut left: Vec<String> = (0..THREADS).map(|thread| format!("moved-{thread}")).collect();
    left.push("same".to_owned());
    for side in SIDES {
        ensure!(names(side)? == left, "{side} has {:?}", names(side)?);
    }
    Ok(())
}

fn storm(thread: usize, done: &AtomicUsize) -> anyhow::Result<()> {
    for number in 0..RENAMES {
        let (from, to) = (SIDES[number % 2], SIDES[(number + 1) % 2]);
        let new = at(&format!("{from}/new-{thread}"));
        // Every third goes over a name that all threads use.
        let (name, own) = if number % 3 == 0 && number + 2 < RENAMES {
            (at(&format!("{to}/same")), false)
        } else {
            (at(&format!("{to}/moved-{thread}")), true)
        };
        let text = format!("{thread}, {number}");
        fs::write(&new, &text).with_context(|| format!("making {new}"))?;
        if own {
            fs::rename(&new, &name).with_context(|| format!("rename {number} from {new} to {name}"))?;
            let found =
                fs::read_to_string(&name).with_context(|| format!("reading {name} after rename {number}"))?;
            ensure!(found == text, "rename {number} left {found}");
        } else {
            over_what_others_use(&new, &name)
                .with_context(|| format!("rename {number} from {new} to {name}"))?;
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Replaces a file unless another thread has it open just then: SMB has that refused. Linux's client then
/// removes it before it tries again, so for a moment there may be nothing of that name.
fn over_what_others_use(new: &str, name: &str) -> anyhow::Result<()> {
    let rename = || match fs::rename(new, name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
        outcome => Some(outcome),
    };
    wait_for("others to close it", rename)??;
    match fs::read_to_string(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        found => {
            let found = found.context("reading it")?;
            ensure!(found.contains(", "), "it is {found}");
            Ok(())
        }
    }
}

pub(super) fn remove_all() -> anyhow::Result<()> {
    for entry in fs::read_dir(MOUNT)? {
        let path = entry?.path();
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("removing {}", path.display()))?;
    }
    ensure!(fs::read_dir(TREE)?.count() == 0, "something is left in the tree that is served");
    Ok(())
}

/// Makes bytes that are the same for the same size, and nothing that compresses or repeats at a page's
/// length.
fn bytes(size: usize) -> Vec<u8> {
    (0..size as u64).map(|place| (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

const SIDES: [&str; 2] = ["here", "there"];
const THREADS: usize = 4;
const RENAMES: usize = 60;
