//! A server that is killed, or told to stop, while clients of AFS store and rename, and started again: what was acknowledged is there, files have the numbers,
//! versions and rights that they had, a stock client that lives through it believes nothing older, and `linerate volume check` finds nothing.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::netns::Namespace;

use crate::support::afs_mount::AfsMount;
use crate::support::{Launch, linerate, output};

const CELL: &str = "killed.example";
/// Command of a stock client that reaches the server.
const FIXED: &str = "test \"$(cat mnt/killed.example/tree/fixed/a)\" = a";
/// Number of times that the server is ended: the last time it is told to stop, else it is killed.
const ROUNDS: u64 = 4;
/// Number of clients that put files beside each other, and of files that each puts in turn.
const PUTTERS: u64 = 2;
const FILES: u64 = 4;
/// Lines of a file: more than one store's window.
const LINES: usize = 20_000;

#[test]
fn what_clients_were_told_outlives_a_server_that_is_killed_among_stores_and_renames() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    // A directory whose file system keeps attributes, which that of temporary files may not.
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = &home.path().canonicalize().unwrap();
    let tree = home.join("tree");
    for name in ["d", "fixed", "closed"] {
        fs::create_dir_all(tree.join(name)).unwrap();
    }
    for name in ["a", "b", "c"] {
        fs::write(tree.join("fixed").join(name), name).unwrap();
    }
    let config = configured(home);
    acl(home, &["set", "--clear"], &["system:authuser=all"]);
    let rights = acl(home, &["get", "--json"], &[]);

    let mut server = Launch::config(&config).start();
    // One of them the server has changed itself, and given its name.
    put_once(home, "afs://127.0.0.1/tree/fixed/c");
    let numbers = numbers();
    is_closed();
    let mut client = AfsMount::start_or_skip(&home.join("client"), CELL);
    if let Some(client) = &mut client {
        client.waits_for(FIXED);
    }
    let puts = Puts::new(home);
    std::thread::scope(|scope| {
        for putter in 0..PUTTERS {
            let puts = &puts;
            scope.spawn(move || puts.run(putter));
        }
        let _stop = Stop(&puts);
        for round in 0..ROUNDS {
            let enough = puts.done.load(SeqCst) + 4 + 3 * round;
            testkit::wait_for("files to be put", PATIENCE, || {
                (puts.done.load(SeqCst) >= enough).then_some(())
            });
            let told = puts.told();
            let is_last = round + 1 == ROUNDS;
            server.signal(if is_last { Signal::TERM } else { Signal::KILL });
            assert_eq!(server.wait().success(), is_last);
            for (name, told) in told {
                let there = serial(&fs::read(tree.join("d").join(&name)).unwrap());
                assert!(
                    there >= told,
                    "round {round}: {name} is of put {there}, and {told} was acknowledged"
                );
            }
            // No client reaches the tree but by the server, which is not there.
            let kinds = problems(home);
            assert!(
                kinds.iter().all(|kind| AFTER_A_KILL.contains(&kind.as_str())),
                "round {round}: {kinds:?}"
            );
            assert_eq!(acl(home, &["get", "--json"], &[]), rights);
            server = Launch::config(&config).start();
            assert_eq!(self::numbers(), numbers, "round {round}");
            is_closed();
            puts.pause(true);
            if let Some(client) = &mut client {
                agrees(client, &tree, puts.told().into_keys());
            }
            puts.pause(false);
        }
    });
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    drop(client);
    // Every name that is there was used since the last kill, and is recorded where it is; what went away a moment before one is not.
    let kinds = problems(home);
    assert!(kinds.iter().all(|kind| kind == "gone"), "{kinds:?}");
}

#[test]
fn files_that_were_replaced_while_the_server_had_them_open_are_forgotten_over_a_kill() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = &home.path().canonicalize().unwrap();
    fs::create_dir_all(home.join("tree/d")).unwrap();
    let mut server = Launch::config(&configured(home)).start();
    let file = "afs://127.0.0.1/tree/d/f";
    for _ in 0..8 {
        put_once(home, file);
        output(linerate(["get", "--overwrite", file, "-o"]).arg(home.join("got")));
    }
    server.signal(Signal::KILL);
    server.wait();
    let kinds = problems(home);
    assert!(kinds.iter().all(|kind| kind != "gone"), "{kinds:?}");
}

#[test]
fn room_that_a_killed_server_had_taken_ahead_of_a_store_is_given_back_by_the_next() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = &home.path().canonicalize().unwrap();
    let directory = home.join("tree/d");
    fs::create_dir_all(&directory).unwrap();
    fs::File::create(home.join("big")).unwrap().set_len(512 << 20).unwrap();
    // Of each file its length, and what of its room lies beyond that.
    let beyond = || -> Vec<(PathBuf, u64, u64)> {
        let files = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
        let seen = files.filter_map(|path| fs::metadata(&path).ok().map(|meta| (path, meta)));
        seen.map(|(path, meta)| (path, meta.len(), (512 * meta.blocks()).saturating_sub(meta.len())))
            .collect()
    };
    let mut server = Launch::config(&configured(home)).start();
    let mut left = Vec::new();
    for _ in 0..10 {
        // One after another, so that the file is as long as what has come.
        let mut put = linerate(["put", "--overwrite", "--connections", "1", "--oob-threshold", "0"]);
        put.arg(home.join("big")).arg("afs://127.0.0.1/tree/d/big");
        let mut put = put.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Its first piece lasts some milliseconds: from the second on the file is as long as all of it.
        let is_ahead = || beyond().iter().any(|(_, size, beyond)| *size > 1 << 20 && *beyond > 1 << 20);
        while put.try_wait().unwrap().is_none() && !is_ahead() {
            std::thread::sleep(Duration::from_millis(1));
        }
        server.signal(Signal::KILL);
        server.wait();
        put.kill().unwrap();
        put.wait().unwrap();
        left = beyond();
        // It may have come to the end of its room just then.
        if left.iter().any(|(_, _, beyond)| *beyond > 512 << 10) {
            break;
        }
        left.iter().for_each(|(path, ..)| fs::remove_file(path).unwrap());
        wait_for_port();
        server = Launch::config(&configured(home)).start();
    }
    assert!(left.iter().any(|(_, _, beyond)| *beyond > 512 << 10), "{left:?}");
    wait_for_port();
    let server = Launch::config(&configured(home)).start();
    testkit::wait_for("the room to be given back", PATIENCE, || {
        beyond().iter().all(|(_, _, beyond)| *beyond < 64 << 10).then_some(())
    });
    server.wait_counted("linerate_vfs_room_given_back", "", 1);
    let sizes = |all: Vec<(PathBuf, u64, u64)>| -> BTreeMap<PathBuf, u64> {
        all.into_iter().map(|(path, size, _)| (path, size)).collect()
    };
    assert_eq!(sizes(left), sizes(beyond()), "nothing but room was cut off");
}

/// The kernel lets go of the sockets of a process with rings a moment after it is gone.
fn wait_for_port() {
    let port = || std::net::UdpSocket::bind("127.0.0.1:7000").ok();
    drop(testkit::wait_for("the port of the server that was killed", PATIENCE, port));
}

/// The file that has `home`'s directory `tree` served over AFS.
fn configured(home: &Path) -> PathBuf {
    let config = home.join("linerate.toml");
    let text = format!(
        "[server]\nlanes = 2\ndrain_seconds = 20\nstate_dir = 'state'\n[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n\
         [admin]\nlisten = '127.0.0.1:0'\n[afs]\nlisten = '127.0.0.1:7000'\ncell = '{CELL}'\n[[volume]]\nname = 'tree'\n\
         path = 'tree'\nwritable = 'anyone'\n"
    );
    fs::write(&config, text).unwrap();
    config
}

/// `linerate acl` of the closed directory.
fn acl(home: &Path, how: &[&str], changes: &[&str]) -> String {
    let mut command = linerate([&["acl"], how].concat());
    command.current_dir(home).arg("tree/closed").args(changes);
    String::from_utf8(output(&mut command)).unwrap()
}

/// Kinds of what `linerate volume check` would mend.
fn problems(home: &Path) -> Vec<String> {
    let mut command = linerate(["volume", "check", "--dry-run", "--json"]);
    command.env("LINERATE_STATE", home.join("state")).current_dir(home);
    let told: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let problems = told[0]["problems"].as_array().unwrap();
    problems.iter().map(|problem| problem["kind"].as_str().unwrap().to_owned()).collect()
}

/// A file that is stored under another name and renamed.
fn put_once(home: &Path, to: &str) {
    let local = home.join("once");
    fs::write(&local, "c").unwrap();
    testkit::wait_for("a file to be put", PATIENCE, || {
        let put = linerate(["put", "--overwrite"]).arg(&local).arg(to).output().unwrap();
        put.status.success().then_some(())
    });
}

/// The numbers of files that are not touched, and what their contents have come to.
fn numbers() -> Vec<[String; 4]> {
    // A server that has just begun may say of one to ask again.
    let lines = testkit::wait_for("all to be told", PATIENCE, || {
        let output = linerate(["ls", "--json", "afs://127.0.0.1/tree/fixed"]).output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        let is_whole = output.status.success() && lines.lines().all(|line| line.contains("data_version"));
        is_whole.then_some(lines)
    });
    let number = |line: &str| {
        let told: Value = serde_json::from_str(line).unwrap();
        ["name", "vnode", "uniquifier", "data_version"].map(|key| told[key].to_string())
    };
    let numbers: Vec<_> = lines.lines().map(number).collect();
    assert_eq!(numbers.len(), 3, "{lines}");
    numbers
}

/// Checks that no anonymous client sees what is there.
fn is_closed() {
    testkit::wait_for("a refusal", PATIENCE, || {
        let output = linerate(["ls", "afs://127.0.0.1/tree/closed"]).output().unwrap();
        let [told, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(!output.status.success(), "it is listed: {told}");
        let is_refused = said.contains("EACCES");
        if !is_refused {
            eprintln!("asked again for what is closed: {said}");
        }
        is_refused.then_some(())
    });
}

/// Files that are put again and again, each whole or not at all: stored under another name, and renamed.
struct Puts {
    home: PathBuf,
    /// Of each name the last put that was acknowledged.
    told: Mutex<BTreeMap<String, u64>>,
    done: AtomicU64,
    under_way: AtomicU64,
    is_paused: AtomicBool,
    is_over: AtomicBool,
}

/// Ends them, whatever becomes of the test.
struct Stop<'a>(&'a Puts);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, SeqCst);
    }
}

impl Puts {
    fn new(home: &Path) -> Self {
        Self {
            home: home.to_owned(),
            told: Mutex::default(),
            done: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
            is_paused: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    fn told(&self) -> BTreeMap<String, u64> {
        self.told.lock().unwrap().clone()
    }

    fn run(&self, putter: u64) {
        let local = self.home.join(format!("local-{putter}"));
        for put in 1.. {
            // Counted before the look, so that a test that pauses them and sees none knows that there is
            // none.
            self.under_way.fetch_add(1, SeqCst);
            while self.is_paused.load(SeqCst) && !self.is_over.load(SeqCst) {
                self.under_way.fetch_sub(1, SeqCst);
                std::thread::sleep(Duration::from_millis(10));
                self.under_way.fetch_add(1, SeqCst);
            }
            if self.is_over.load(SeqCst) {
                return;
            }
            let name = format!("f-{putter}-{}", put % FILES);
            fs::write(&local, format!("{put}\n").repeat(LINES)).unwrap();
            let program = assert_cmd::cargo::cargo_bin!("linerate");
            let mut command = Command::new("timeout");
            command.args(["-s", "KILL", "30"]).arg(program).args(["put", "--overwrite"]).arg(&local);
            command.arg(format!("afs://127.0.0.1/tree/d/{name}")).stdin(Stdio::null());
            // One that fails may have come to its end or not.
            if command.output().unwrap().status.success() {
                self.told.lock().unwrap().insert(name, put);
                self.done.fetch_add(1, SeqCst);
            }
            self.under_way.fetch_sub(1, SeqCst);
        }
    }

    /// Returns when none is under way.
    fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, SeqCst);
        if is_paused {
            let none = || (self.under_way.load(SeqCst) == 0).then_some(());
            testkit::wait_for("puts to end", PATIENCE, none);
        }
    }
}

/// Returns which put a file is of; all of it is of one.
fn serial(bytes: &[u8]) -> u64 {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut lines = text.lines();
    let first = lines.next().expect("it is not empty");
    assert!(lines.all(|line| line == first) && text.lines().count() == LINES, "a file of several puts");
    first.parse().unwrap()
}

/// Once a stock client has found the server again, it has each file as that is on disk, at once.
fn agrees(client: &mut AfsMount, tree: &Path, names: impl Iterator<Item = String>) {
    client.waits_for(FIXED);
    for name in names {
        let there = tree.join("d").join(&name);
        let same = format!("cmp mnt/{CELL}/tree/d/{name} {}", there.display());
        assert!(client.does(&same), "{name} is not as it is on disk");
    }
}

/// Problems that the index had not heard of when the server was killed: names are written to it a moment
/// after they are changed, and looked at anew by the next run (docs/design/index.md). What a client was
/// putting has its own name until it is whole, and the next start removes it.
const AFTER_A_KILL: [&str; 3] = ["moved", "gone", "leftover"];
/// Longer than anything takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
