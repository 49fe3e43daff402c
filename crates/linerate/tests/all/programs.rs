//! Debian's rclone and gvfs, as people have them: they list, fetch, store, move and remove in a share, and fetch by HTTP.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::support::share::{PASSWORD, Share, USER};
use crate::support::{patterned, tool};

/// Makes files with names that SMB takes as they are. Returns what they hold.
fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = ["plain.txt", "with space.txt", "größe", "a&b #1 100%", "x/in", "x/y/deep", "empty"];
    let mut files: BTreeMap<_, _> =
        names.iter().map(|name| ((*name).to_owned(), format!("{name} holds this").into_bytes())).collect();
    files.insert("empty".to_owned(), Vec::new());
    files.insert("x/large".to_owned(), patterned(5_000_001));
    for (name, content) in &files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    files
}

/// Serves [`tree`] from `tree` in a directory of its own. Returns that directory, and what the files hold.
fn serve() -> (TempDir, BTreeMap<String, Vec<u8>>, Share) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (served, home) = (dir.path().join("tree"), dir.path().join("home"));
    fs::create_dir_all(&home).unwrap();
    let expected = tree(&served);
    let share = Share::new(&home, &served, "", "");
    (dir, expected, share)
}

/// Returns the files below a directory, by their names in it.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

/// rclone, which is to try everything once: what it would hide by trying again is seen.
fn rclone() -> Command {
    let mut command = tool("rclone", "rclone");
    command.env("RCLONE_CONFIG", "/dev/null");
    command.args(["--retries", "1", "--low-level-retries", "1"]);
    command
}

/// Has it do something, and returns what it writes and what it says of it.
#[track_caller]
fn does(command: &mut Command) -> (Vec<u8>, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(status.success() && !said.contains("ERROR"), "{command:?}: {said}");
    (stdout, said)
}

#[test]
fn rclone_copies_compares_moves_and_removes_in_a_share_and_copies_from_listings() {
    let (dir, expected, share) = serve();
    let served = dir.path().join("tree");
    let text = |command: &mut Command| String::from_utf8(does(command).0).unwrap();
    let obscured = text(rclone().args(["obscure", PASSWORD]));
    let remote = |path: &str| {
        let port = share.address.port();
        format!(":smb,host=127.0.0.1,port={port},user={USER},pass='{}':tree{path}", obscured.trim())
    };
    let list = text(rclone().args(["lsf", "-R", "--files-only", &remote("")]));
    let mut listed: Vec<_> = list.lines().map(str::to_owned).collect();
    listed.sort();
    assert_eq!(listed, expected.keys().cloned().collect::<Vec<_>>());

    // There, back, and once more where nothing is to be done.
    let fetched = dir.path().join("fetched");
    for _ in 0..2 {
        does(rclone().args(["copy", &remote("")]).arg(&fetched));
        assert!(files(&fetched) == expected);
    }
    does(rclone().args(["copy"]).arg(&fetched).arg(remote("/stored")));
    assert!(files(&served.join("stored")) == expected);
    does(rclone().args(["check", "--download"]).arg(&fetched).arg(remote("/stored")));
    let (_, said) = does(rclone().args(["copy", "-v"]).arg(&fetched).arg(remote("/stored")));
    assert!(!said.contains("Copied"), "times and sizes are told as they were set: {said}");

    // A change goes over, and what is gone goes there too.
    fs::write(fetched.join("plain.txt"), "changed, and longer than before").unwrap();
    fs::remove_file(fetched.join("x/y/deep")).unwrap();
    let (_, said) = does(rclone().args(["sync", "-v"]).arg(&fetched).arg(remote("/stored")));
    assert!(said.contains("plain.txt: Copied") && said.contains("deep: Deleted"), "{said}");
    assert!(files(&served.join("stored")) == files(&fetched));

    does(rclone().args(["moveto", &remote("/stored/x/large"), &remote("/stored/moved")]));
    assert!(!served.join("stored/x/large").exists());
    assert!(fs::read(served.join("stored/moved")).unwrap() == expected["x/large"]);
    let part = ["cat", "--offset", "1000000", "--count", "26", &remote("/stored/moved")];
    assert_eq!(does(rclone().args(part)).0, expected["x/large"][1_000_000..1_000_026]);
    does(rclone().args(["purge", &remote("/stored")]));
    assert!(files(&served) == expected && !served.join("stored").exists());

    let by_http = dir.path().join("by-http");
    does(rclone().args(["copy", "--http-url", &share.server.url("/"), ":http:"]).arg(&by_http));
    assert!(files(&by_http) == expected);
}

#[test]
fn gvfs_lists_fetches_saves_moves_and_removes_in_a_share_and_fetches_by_http() {
    let (dir, expected, share) = serve();
    let served = dir.path().join("tree");
    let root = format!("smb://{USER}@127.0.0.1:{}/tree", share.address.port());
    let large = dir.path().join("large");
    fs::write(&large, &expected["x/large"]).unwrap();
    let script = format!(
        "set -eu\n\
         printf '%s\\n' WORKGROUP {PASSWORD} | gio mount {root} >&2\n\
         gio list {root}\n\
         gio info -a standard::size {root}/x/large\n\
         gio copy {root}/x/large {local}-back\n\
         gio copy {local} {root}/stored\n\
         gio rename {root}/stored renamed\n\
         gio mkdir {root}/made\n\
         gio move {root}/renamed {root}/made\n\
         echo saved | gio save {root}/plain.txt\n\
         gio cat {root}/plain.txt\n\
         gio remove {root}/empty\n\
         gio mount -u {root}\n\
         gio cat {http}x/y/deep\n\
         gio copy {http}x/large {local}-http\n",
        local = large.display(),
        http = share.server.url("/"),
    );
    let mut session = tool("dbus-run-session", "dbus-daemon");
    session.args(["--", "timeout", "120", "sh", "-c", &script]).env("HOME", &share.home).stdin(Stdio::null());
    session
        .env_remove("DISPLAY")
        .env("GIO_USE_VOLUME_MONITOR", "unix")
        .env("LC_ALL", "C.UTF-8")
        .env("XDG_RUNTIME_DIR", &share.home);
    let Output { status, stdout, stderr } = session.output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(
        status.success(),
        "gvfs is installed: apt-get install gvfs-backends libglib2.0-bin: {said}\n{errors}"
    );
    for name in ["plain.txt", "with space.txt", "größe", "a&b #1 100%", "x"] {
        assert!(said.lines().any(|line| line == name), "{name}: {said}");
    }
    assert!(said.contains("standard::size: 5000001"), "{said}");
    assert!(said.contains("\nsaved\n") && said.contains("x/y/deep holds this"), "{said}");
    for copy in ["large-back", "large-http", "tree/made/renamed"] {
        assert!(fs::read(dir.path().join(copy)).unwrap() == expected["x/large"], "{copy}");
    }
    assert_eq!(fs::read(served.join("plain.txt")).unwrap(), b"saved\n");
    assert!(!served.join("empty").exists() && !served.join("stored").exists());
}
