//! Steps of both clients at once, and what one sees of the other.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};

use anyhow::{Context, ensure};
use rustix::io::Errno;

use super::MOUNT;
use super::mount::{at, expect, names, put, settle, write_durably};
use crate::lab::guest::{Guest, kernel_version, wait_for};

/// Checks that what another AFS client, or HTTP, writes is seen at once by a client that has it cached.
pub(super) fn others(guest: &mut Guest) -> anyhow::Result<()> {
    write_durably(at("shared"), b"one\n")?;
    guest.signal("written by the first")?;
    guest.await_signal("seen by the second")?;
    write_durably(at("shared"), b"two\n")?;
    guest.signal("written again")?;
    guest.await_signal("written by the second")?;
    settle()?;
    expect("shared", "three\n")?;
    put("shared", "four\n")?;
    expect("shared", "four\n")?;
    put("new", "five\n")?;
    expect("new", "five\n")
}

/// Does the second client's part.
pub(super) fn others_seen(guest: &mut Guest) -> anyhow::Result<()> {
    guest.await_signal("written by the first")?;
    expect("shared", "one\n")?;
    settle()?;
    guest.signal("seen by the second")?;
    guest.await_signal("written again")?;
    expect("shared", "two\n")?;
    fs::write(at("shared"), "three\n")?;
    guest.signal("written by the second")
}

/// Creates, renames and removes names in the volume's root by both clients at the same time.
pub(super) fn race(guest: &mut Guest, who: &str) -> anyhow::Result<()> {
    guest.signal(&format!("{who} is ready"))?;
    guest.await_signal("one is ready")?;
    guest.await_signal("two is ready")?;
    for number in 0..RACING {
        let (before, after) = (at(&format!("tmp-{who}-{number}")), at(&format!("race-{who}-{number}")));
        unless_it_grew(|| fs::write(&before, who))?;
        unless_it_grew(|| fs::rename(&before, &after))?;
    }
    let won = make_same(who)?;
    guest.signal(&format!("{who} has raced"))?;
    guest.await_signal("one has raced")?;
    guest.await_signal("two has raced")?;
    let seen = wait_for("the names of both", || {
        let names = names(MOUNT, "race-").ok()?;
        (names.len() == 2 * RACING).then_some(names)
    })?;
    for other in ["one", "two"] {
        for number in 0..RACING {
            let name = format!("race-{other}-{number}");
            ensure!(seen.contains(&name), "{name} is not there");
            expect(&name, other)?;
        }
    }
    let other = if who == "one" { "two" } else { "one" };
    (0..RACING).try_for_each(|number| expect(&same(number), if won.contains(&number) { who } else { other }))
}

/// Acts, and again where Linux up to 6.12 fails because others have made the directory longer. It asks for a directory
/// by whole pages of memory, and has room for no more bytes than the directory had before. What needs the directory
/// then fails before anything is done. Some kernels have no room for the rest, some drop it and find zeros there (6.1:
/// "bad magic").
fn unless_it_grew<T>(act: impl Fn() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..GROWN_MAX {
        match act() {
            Err(error)
                if matches!(Errno::from_io_error(&error), Some(Errno::FAULT | Errno::IO))
                    && kernel_version().is_ok_and(|kernel| kernel < (6, 13)) => {}
            outcome => return outcome,
        }
    }
    act()
}

/// Makes names that the other client makes too, each of which only one of them can make; returns those that this one
/// has made.
fn make_same(who: &str) -> anyhow::Result<BTreeSet<usize>> {
    let mut won = BTreeSet::new();
    for number in 0..RACING {
        match unless_it_grew(|| File::create_new(at(&same(number)))) {
            Ok(mut file) => {
                file.write_all(who.as_bytes())?;
                won.insert(number);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| same(number)),
        }
    }
    Ok(won)
}

fn same(number: usize) -> String {
    format!("same-{number}")
}

/// A directory grows a page at a time, and by some hundred names a few times.
const GROWN_MAX: usize = 8;
/// Names that each client makes in the race.
const RACING: usize = 100;
