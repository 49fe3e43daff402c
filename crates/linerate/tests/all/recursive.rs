//! `linerate get -r` and `put -r` of trees of which something cannot be moved: the rest is, each failure is named, nothing is left.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::netns::Namespace;

use crate::support::share::{PASSWORD, Share, USER};
use crate::support::{Launch, linerate, output};

/// The names in a directory of this machine.
fn names(dir: &Path) -> BTreeSet<Vec<u8>> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().as_bytes().to_vec()).collect()
}

/// Returns what it told as JSON and complained of, where it failed in the end.
fn failed(command: &mut Command) -> (Value, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let complained = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(1), "{complained}");
    (serde_json::from_slice(&stdout).unwrap_or_else(|error| panic!("{error}: {complained}")), complained)
}

/// Names that begin with the same 200 bytes.
fn alike(n: usize) -> String {
    format!("{}{n}", "n".repeat(200))
}

/// Moves a tree there and back, something of which cannot be. `command` is linerate, `volume` the address of what `tree` holds.
fn the_rest_is_moved(command: impl Fn(&[&str]) -> Command, volume: &str, tree: &Path, here: &Path) {
    let there = format!("{volume}/t");
    std::fs::create_dir_all(tree.join("t/d")).unwrap();
    for n in 0..40 {
        std::fs::write(tree.join("t").join(alike(n)), n.to_string()).unwrap();
        std::fs::write(tree.join("t/d").join(format!("f{n}")), n.to_string()).unwrap();
    }
    // What is there already, as something else, and what is in a directory's place.
    std::fs::create_dir_all(here.join("got/t/d/f3")).unwrap();
    std::fs::write(here.join("got/t/d/f4"), "mine").unwrap();
    let (told, complained) = failed(command(&["get", "-r", "--json", &there, "-o", "got"]).current_dir(here));
    assert!(told["files"] == 78 && told["failed"] == 2 && told["directories"] == 2, "{told}");
    assert!(complained.contains("linerate: t/d/f3: "), "{complained}");
    assert!(complained.contains("d/f4: f4 is there already"), "{complained}");
    assert_eq!(complained.lines().count(), 2, "{complained}");
    for n in 0..40 {
        let at = here.join("got/t").join(alike(n));
        assert_eq!(std::fs::read_to_string(at).unwrap(), n.to_string());
    }
    assert_eq!(std::fs::read_to_string(here.join("got/t/d/f4")).unwrap(), "mine");
    assert_eq!((names(&here.join("got/t")).len(), names(&here.join("got/t/d")).len()), (41, 40));
    // Its text says so as well.
    let Output { status, stdout, .. } =
        command(&["get", "-r", &there, "-o", "got"]).current_dir(here).output().unwrap();
    let said = String::from_utf8(stdout).unwrap();
    assert!(!status.success() && said.contains(" 80 failed"), "{said}");

    // A pipe without a reader is not waited for.
    output(Command::new("mkfifo").arg(here.join("pipe")));
    let began = Instant::now();
    let Output { status, stderr, .. } =
        command(&["get", "-r", "--overwrite", &there, "-o", "pipe"]).current_dir(here).output().unwrap();
    let complained = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!status.success() && complained.contains("takes the bytes of one whole file"), "{complained}");
    assert!(began.elapsed() < Duration::from_secs(20));

    // The other way: what is taken, a directory in a file's place, a pipe.
    std::fs::create_dir_all(here.join("up/d")).unwrap();
    for n in 0..20 {
        std::fs::write(here.join(format!("up/d/f{n}")), n.to_string()).unwrap();
    }
    symlink("f1", here.join("up/d/link")).unwrap();
    output(Command::new("mkfifo").arg(here.join("up/d/pipe")));
    std::fs::write(here.join("up/.dot"), "hidden there").unwrap();
    std::fs::create_dir_all(tree.join("up/d/f5")).unwrap();
    std::fs::write(tree.join("up/d/f6"), "theirs").unwrap();
    let (told, complained) =
        failed(command(&["put", "-r", "--json", "up", &format!("{volume}/")]).current_dir(here));
    assert!(told["files"] == 18 && told["failed"] == 3, "{told} {complained}");
    for name in ["up/d/f5: ", "up/d/f6: ", "up/.dot: "] {
        assert!(complained.contains(&format!("linerate: {name}")), "{name}: {complained}");
    }
    let there = names(&tree.join("up/d"));
    assert!(there.iter().all(|name| !name.ends_with(b".linerate-put")), "{there:?}");
    assert_eq!(std::fs::read_to_string(tree.join("up/d/f19")).unwrap(), "19");
    assert_eq!(std::fs::read_to_string(tree.join("up/d/f6")).unwrap(), "theirs");
}

#[test]
fn the_rest_of_a_tree_is_moved_over_smb_and_each_name_comes_back_byte_by_byte() {
    let (home, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let share = Share::new(home.path(), tree.path(), "", "");
    let volume = format!("smb://{USER}@{}/tree", share.address);
    let command = |words: &[&str]| {
        let mut command = linerate(words);
        command.env("LINERATE_PASSWORD", PASSWORD);
        command
    };
    let here = tempfile::tempdir().unwrap();
    the_rest_is_moved(command, &volume, tree.path(), here.path());
    let odd = here.path().join("odd");
    let odd_names: [&[u8]; 14] = [
        b"plain",
        b"caf\xe9",
        b"\xff",
        b"\xff\xfe.txt",
        b"a:b",
        b"a\\b",
        b"what?",
        b"<*>|\"",
        b"end.",
        b"blank ",
        b"\x01\x1f",
        "gr\u{f6}\u{df}e".as_bytes(),
        "\u{f022}".as_bytes(),
        "\u{efe9}".as_bytes(),
    ];
    let below = odd.join(OsStr::from_bytes(b"d\xe9."));
    std::fs::create_dir_all(&below).unwrap();
    for name in odd_names {
        for directory in [&odd, &below] {
            std::fs::write(directory.join(OsStr::from_bytes(name)), name).unwrap();
        }
    }
    output(command(&["put", "-r", "odd", &format!("{volume}/")]).current_dir(here.path()));
    let back = here.path().join("back");
    std::fs::create_dir(&back).unwrap();
    output(command(&["get", "-r", &format!("{volume}/odd")]).current_dir(&back));
    for beneath in [&b""[..], b"d\xe9."] {
        let under = |top: &Path| top.join("odd").join(OsStr::from_bytes(beneath));
        for top in [tree.path(), &back] {
            let mut expected = names(&under(here.path()));
            assert_eq!(names(&under(top)), expected, "{beneath:?} of {top:?}");
            expected.remove(&b"d\xe9."[..]);
            for name in expected {
                assert_eq!(std::fs::read(under(top).join(OsStr::from_bytes(&name))).unwrap(), name);
            }
        }
    }
    // Alone, by raw bytes, and by each name that is listed.
    let alone = [volume.as_bytes(), b"/odd/caf\xe9"].concat();
    output(command(&["get"]).arg(OsStr::from_bytes(&alone)).current_dir(here.path()));
    assert_eq!(std::fs::read(here.path().join(OsStr::from_bytes(b"caf\xe9"))).unwrap(), b"caf\xe9");
    let put = command(&["put", "--overwrite"])
        .arg(odd.join(OsStr::from_bytes(b"\xff")))
        .arg(format!("{volume}/odd/"))
        .current_dir(here.path())
        .output();
    assert!(put.unwrap().status.success());
    let listed = output(&mut command(&["ls", "--json", &format!("{volume}/odd")]));
    let mut seen = BTreeSet::new();
    for line in String::from_utf8(listed).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["type"] == "file" {
            let (got, name) = (here.path().join("one"), line["name"].as_str().unwrap());
            output(command(&["get", "--overwrite", &format!("{volume}/odd/{name}"), "-o"]).arg(&got));
            assert!(seen.insert(std::fs::read(got).unwrap()), "{name}");
        }
    }
    assert_eq!(seen, odd_names.iter().map(|name| name.to_vec()).collect());
}

#[test]
fn the_rest_of_a_tree_is_moved_over_afs_hidden_names_are_in_no_listing_and_every_name_opens() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tree = dir.path().join("pub");
    std::fs::create_dir_all(tree.join("odd")).unwrap();
    std::fs::write(tree.join("odd/.dot"), "").unwrap();
    let odd: [&[u8]; 6] =
        [b"caf\xe9", b"caf\xe8", b"caf%e9", b"a b", b"\x1b[1m", "gr\u{f6}\u{df}e".as_bytes()];
    for name in odd {
        std::fs::write(tree.join("odd").join(OsStr::from_bytes(name)), name).unwrap();
    }
    let config = dir.path().join("linerate.toml");
    let text = "[server]\nlanes = 2\nstate_dir = 'state'\n[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n\
                [admin]\nlisten = '127.0.0.1:0'\n[afs]\nlisten = '127.0.0.1:7000'\n[[volume]]\nname = 'pub'\npath = 'pub'\n\
                writable = 'anyone'\n";
    std::fs::write(&config, text).unwrap();
    let _server = Launch::config(&config).start();
    let here = tempfile::tempdir().unwrap();
    let volume = "afs://127.0.0.1/pub";

    let listed = output(&mut linerate(["ls", "--json", &format!("{volume}/odd")]));
    let listed: Vec<Value> =
        String::from_utf8(listed).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let table = String::from_utf8(output(&mut linerate(["ls", &format!("{volume}/odd")]))).unwrap();
    let mut seen = BTreeSet::new();
    for line in listed {
        let path = line["path"].as_str().unwrap();
        assert!(table.lines().any(|line| line.trim_end().ends_with(path)), "{path}: {table}");
        let got = here.path().join("one");
        output(linerate(["get", "--overwrite", &format!("{volume}/odd/{path}"), "-o"]).arg(&got));
        assert!(seen.insert(std::fs::read(got).unwrap()), "{path}");
    }
    assert_eq!(seen, odd.iter().map(|name| name.to_vec()).collect());
    // An address in raw bytes is one as well.
    let raw = [volume.as_bytes(), b"/odd/caf\xe8"].concat();
    output(linerate(["get"]).arg(OsStr::from_bytes(&raw)).current_dir(here.path()));
    assert_eq!(std::fs::read(here.path().join(OsStr::from_bytes(b"caf\xe8"))).unwrap(), b"caf\xe8");
    output(linerate(["get", "-r", &format!("{volume}/odd")]).current_dir(here.path()));
    assert_eq!(names(&here.path().join("odd")), seen);

    the_rest_is_moved(|words| linerate(words), volume, &tree, here.path());
}
