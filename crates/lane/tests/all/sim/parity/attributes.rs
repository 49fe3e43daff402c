//! Tests of attributes, room, handles and locks. A seeded mix of operations on a few files brings the same in
//! a world and on the disk, error by error.

use std::ffi::CString;
use std::path::PathBuf;

use lane::fs::{
    Allocate, AttributeChange, CreateHow, Dir, File, FileKind, LockKeeper, LockKind, OpenHow, SetTime, Stat,
    Timestamp, XattrHow,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{errno, same_in_any_mix};

#[test]
fn any_mix_of_changes_of_files_brings_alike() {
    same_in_any_mix(mix);
}

async fn mix(root: PathBuf, seed: u64) -> Vec<String> {
    let mut dice = StdRng::seed_from_u64(seed);
    let root = Dir::open_root(&root).unwrap();
    let how = CreateHow { mode: 0o640, exclusive: true };
    let mut files = [
        root.create(&name("one"), how).await.unwrap(),
        root.open(&name("one"), OpenHow::WRITE).await.unwrap(),
        root.open(&name("one"), OpenHow::FOLLOW).await.unwrap(),
        root.create(&name("two"), how).await.unwrap(),
        root.create_unnamed(0o600).await.unwrap(),
        root.open(&name("."), OpenHow::FOLLOW).await.unwrap(),
    ];
    let mut keepers = Vec::new();
    let mut told = Vec::new();
    for _ in 0..STEPS {
        let at = dice.random_range(0..files.len());
        let other = dice.random_range(0..files.len());
        let what = dice.random_range(0..12);
        let brought = match what {
            0 => attributes(&mut dice, &files[at]).await,
            1 | 2 => extended_attributes(&mut dice, &files[at]).await,
            3 => room(&mut dice, &files[at]).await,
            4 | 5 => locks(&mut dice, &files[at]).await,
            6 => copies(&mut dice, &files[at], &files[other]).await,
            7 | 8 => links(&mut dice, &root, &files[at]).await,
            9 => handles(&mut dice, &root, &files[at]).await,
            10 => kept_locks(&mut dice, &root, &mut keepers).await,
            _ => {
                // Another open of the same file, with locks of its own.
                let reopened = root.open_handle(&files[at].handle().await.unwrap(), dice.random()).await;
                let brought = format!("{:?}", errno(reopened.as_ref().map(drop).map_err(again)));
                if let Ok(file) = reopened {
                    files[at] = file;
                    // What is dropped is closed when the lane turns to its ring.
                    lane::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                brought
            }
        };
        told.push(format!(
            "{what} on {at} and {other}: {brought}, then {:?}",
            seen(files[at].stat().unwrap())
        ));
    }
    told
}

async fn attributes(dice: &mut StdRng, file: &File) -> String {
    let id = |dice: &mut StdRng| [None, None, Some(1), Some(2)][dice.random_range(0..4)];
    let time = |dice: &mut StdRng| {
        let at = Timestamp { secs: dice.random_range(0..1 << 31), nanos: 5 };
        let bad = Timestamp { secs: 1, nanos: 2_000_000_000 };
        [SetTime::Keep, SetTime::At(at), SetTime::At(bad)][dice.random_range(0..3)]
    };
    let modes = [None, Some(0o600), Some(0o6750), Some(0o7644), Some(0o444)];
    let change = AttributeChange {
        uid: id(dice),
        gid: id(dice),
        mode: modes[dice.random_range(0..5)],
        atime: time(dice),
        mtime: time(dice),
    };
    let set = file.set_attributes(change).await;
    let after = file.stat().unwrap();
    let secs = |set, time: Timestamp| if set == SetTime::Keep { 0 } else { time.secs };
    let secs = (secs(change.atime, after.atime), secs(change.mtime, after.mtime));
    // Writable again, as a process that owns a file and no more may not write to it otherwise.
    let back = AttributeChange { mode: Some(file.stat().unwrap().mode | 0o700), ..AttributeChange::NONE };
    let stat = file.stat().unwrap();
    file.set_attributes(back).await.unwrap();
    let applied = set.is_ok().then_some(secs);
    format!(
        "{change:?} {:?} {applied:?} {:?} {:o}",
        errno(set),
        (owner(stat.uid), owner(stat.gid)),
        stat.mode
    )
}

async fn extended_attributes(dice: &mut StdRng, file: &File) -> String {
    let names = ["user.a", "user.b", "user.c", "user.", "other.a", "none", "", "user.long", "user.too long"];
    let text = names[dice.random_range(0..names.len())];
    let name = match text {
        "user.long" => name(&format!("user.{}", "n".repeat(250))),
        "user.too long" => name(&format!("user.{}", "n".repeat(251))),
        text => name(text),
    };
    let how = [XattrHow::Any, XattrHow::Create, XattrHow::Replace][dice.random_range(0..3)];
    let len = [0, 1, 100, 300, 65_537][dice.random_range(0..5)];
    let brought = match dice.random_range(0..4) {
        0 => format!("set {how:?} {len} {:?}", errno(file.set_xattr(&name, vec![len as u8; len], how).await)),
        1 => {
            let max = [0, 1, 99, 1000, 100_000][dice.random_range(0..5)];
            format!("get {max} {:?}", errno(file.xattr(&name, max).await.map(|value| value.len())))
        }
        2 => format!("remove {:?}", errno(file.remove_xattr(&name).await)),
        _ => {
            let mut names = file.xattrs().await.unwrap();
            names.retain(|name| name.as_bytes().starts_with(b"user."));
            names.sort();
            format!("list {names:?}")
        }
    };
    format!("{text} {brought}")
}

async fn room(dice: &mut StdRng, file: &File) -> String {
    let offset = [0, 1, 4096, 10_000, 1 << 63, u64::MAX][dice.random_range(0..6)];
    let len = [0, 1, 4096, 9000, 1 << 63, u64::MAX][dice.random_range(0..6)];
    if dice.random_range(0..3) == 0 {
        return format!("truncate {len} {:?}", errno(file.truncate(len).await));
    }
    let what = [Allocate::Extend, Allocate::KeepSize, Allocate::Punch][dice.random_range(0..3)];
    format!("{what:?} {offset} {len} {:?}", errno(file.allocate(what, offset, len).await))
}

async fn locks(dice: &mut StdRng, file: &File) -> String {
    let offset = [0, 5, 10, 15, (1 << 63) - 1, 1 << 63][dice.random_range(0..6)];
    let len = [0, 1, 5, 10, 1 << 62, 1 << 63][dice.random_range(0..6)];
    let kind = if dice.random() { LockKind::Shared } else { LockKind::Exclusive };
    if file.stat().unwrap().kind != FileKind::File {
        return String::new();
    }
    match dice.random_range(0..4) {
        0 | 1 => format!("lock {offset} {len} {kind:?} {:?}", errno(file.try_lock(offset, len, kind).await)),
        2 => format!("unlock {offset} {len} {:?}", errno(file.unlock(offset, len).await)),
        _ => {
            let found = file.lock_in_the_way(offset, len, kind).await;
            format!("find {offset} {len} {kind:?} {:?}", errno(found.map(|found| found.is_some())))
        }
    }
}

/// Changes locks of opens that are on no lane, beside those of the files.
async fn kept_locks(dice: &mut StdRng, root: &Dir, keepers: &mut Vec<LockKeeper>) -> String {
    let offset = [0, 5, 10, 15, (1 << 63) - 1][dice.random_range(0..5)];
    let len = [0, 1, 5, 10, 1 << 62][dice.random_range(0..5)];
    let kind = [None, Some(LockKind::Shared), Some(LockKind::Exclusive)][dice.random_range(0..3)];
    let how = if dice.random() { OpenHow::WRITE } else { OpenHow::FOLLOW };
    if keepers.len() < 2 {
        let opened = root.open(&name("one"), how).await;
        let brought = format!("{:?}", errno(opened.as_ref().map(drop).map_err(again)));
        keepers.extend(opened.map(|file| file.into_keeper().unwrap()));
        return brought;
    }
    if dice.random_range(0..8) == 0 {
        drop(keepers.remove(0));
        lane::time::sleep(std::time::Duration::from_millis(1)).await;
        return "let go".to_owned();
    }
    let at = dice.random_range(0..keepers.len());
    format!("{at} {offset} {len} {kind:?} {:?}", errno(keepers[at].set(offset, len, kind).await))
}

async fn copies(dice: &mut StdRng, from: &File, to: &File) -> String {
    let (offset, to_offset) = (dice.random_range(0..10_000), dice.random_range(0..10_000));
    let len = [0, 1, 5000, 50_000][dice.random_range(0..4)];
    let copied = errno(from.copy_range(offset, to, to_offset, len).await);
    format!("{offset} {to_offset} {len} {copied:?} {:?}", seen(to.stat().unwrap()))
}

async fn links(dice: &mut StdRng, root: &Dir, file: &File) -> String {
    let names = ["x", "y", "z", "one", "two"];
    let text = names[dice.random_range(0..names.len())];
    let brought = match dice.random_range(0..4) {
        0 => errno(root.link(file, &name(text)).await),
        1 => errno(root.unlink(&name(text)).await),
        2 => {
            let target = ["one", "", "../outside", "/absolute"][dice.random_range(0..4)];
            errno(root.symlink(&name(text), &name(target)).await)
        }
        _ => {
            let mtime = SetTime::At(Timestamp { secs: 7, nanos: 7 });
            let change = AttributeChange { uid: Some(3), mtime, ..AttributeChange::NONE };
            errno(root.set_attributes_at(&name(text), change).await)
        }
    };
    let stat = root.stat_at(&name(text)).await;
    format!("{text} {brought:?} {:?}", errno(stat.map(|stat| (stat.kind, stat.nlink, owner(stat.uid)))))
}

async fn handles(dice: &mut StdRng, root: &Dir, file: &File) -> String {
    let names = ["x", "one", "two", "."];
    let text = names[dice.random_range(0..names.len())];
    let there = root.handle_at(&name(text)).await;
    let own = file.handle().await.unwrap();
    let is_same = there.as_ref().ok().map(|there| *there == own);
    let opened = match &there {
        Ok(handle) => errno(root.open_handle(handle, true).await.map(|file| seen(file.stat().unwrap()))),
        Err(error) => Err(error.raw_os_error()),
    };
    format!("{text} {is_same:?} {opened:?} {:?}", root.as_file().born().await.unwrap().is_some())
}

/// Returns the attributes that must be alike: all but times and numbers, and the size of a directory.
fn seen(stat: Stat) -> (FileKind, u64, u32, u32) {
    let size = if stat.kind == FileKind::Directory { 0 } else { stat.size };
    (stat.kind, size, stat.mode, stat.nlink)
}

/// Returns the owner that the file was given to; at first the owner is the process's.
fn owner(id: u32) -> Option<u32> {
    (1..=3).contains(&id).then_some(id)
}

fn name(name: &str) -> CString {
    CString::new(name).unwrap()
}

fn again(error: &std::io::Error) -> std::io::Error {
    std::io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0))
}

const STEPS: usize = 500;
