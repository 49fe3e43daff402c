//! `linerate get`, `put` and `ls` of SMB shares, at a server of ours and at Debian's smbd.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testkit::metrics::Scrape;
use testkit::netns::Namespace;
use testkit::stock_smbd::StockSmbd;

/// A share, its tree on this machine, and its users.
struct Share {
    url: String,
    tree: PathBuf,
    /// Directory of clients' own files.
    home: TempDir,
}

impl Share {
    fn new(address: SocketAddr, share: &str, tree: &Path) -> Self {
        let url = format!("smb://{}@{address}/{share}", StockSmbd::USER);
        Self { url, tree: tree.to_owned(), home: tempfile::tempdir().unwrap() }
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.env("LINERATE_PASSWORD", StockSmbd::PASSWORD).current_dir(self.home.path());
        command.args(words).output().unwrap()
    }

    /// Returns what it says where it goes well.
    fn said(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}{complained}");
        said
    }

    fn json(&self, words: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.said(words)).unwrap()
    }

    /// Returns what it complains of where it fails.
    fn refused(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(!output.status.success(), "{words:?} went well");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.url)
    }

    fn local(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }
}

fn patterned(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 253) as u8).collect()
}

/// Names below a directory, with what files hold.
fn content(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut content = Vec::new();
    let mut ahead = vec![directory.to_owned()];
    while let Some(next) = ahead.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                content.push((name, Vec::new()));
                ahead.push(path);
            } else {
                content.push((name, std::fs::read(path).unwrap()));
            }
        }
    }
    content.sort();
    content
}

/// Everything that the commands do, at one server.
fn files_go_there_and_back(share: &Share) {
    let bytes = patterned(3_000_001);
    std::fs::write(share.local("one"), &bytes).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
    std::fs::File::options().write(true).open(share.local("one")).unwrap().set_modified(old).unwrap();
    // A file, under a new name, compared; with its time.
    let put = share.json(&["put", "one", &share.at("there"), "--verify", "--json"]);
    assert_eq!((put["bytes"].as_u64(), put["files"].as_u64()), (Some(3_000_001), Some(1)), "{put}");
    assert_eq!(std::fs::read(share.tree.join("there")).unwrap(), bytes);
    let words = share.refused(&["put", "one", &share.at("there")]);
    assert!(words.contains("--overwrite"), "{words}");
    std::fs::write(share.local("one"), b"short").unwrap();
    share.said(&["put", "one", &share.at("there"), "--overwrite"]);
    assert_eq!(std::fs::read(share.tree.join("there")).unwrap(), b"short");
    // Into a directory, by its own name; signed and encrypted.
    std::fs::create_dir(share.tree.join("below")).unwrap();
    std::fs::write(share.local("one"), &bytes).unwrap();
    share.said(&["put", "one", &share.at("below"), "--sign"]);
    let got = share.json(&["get", &share.at("below/one"), "-o", "back", "--seal", "--verify", "--json"]);
    assert_eq!(got["sha256"].as_str().map(str::len), Some(64), "{got}");
    assert_eq!(std::fs::read(share.local("back")).unwrap(), bytes);
    let words = share.refused(&["get", &share.at("below/one"), "-o", "back"]);
    assert!(words.contains("--overwrite"), "{words}");
    // Nothing is left of what was under way.
    assert_eq!(content(&share.tree).len(), 3, "{:?}", share.tree);
    assert_eq!(content(share.home.path()).len(), 2);
    // Trees.
    let tree = share.local("tree");
    std::fs::create_dir_all(tree.join("a/b")).unwrap();
    for (name, len) in [("empty", 0), ("a/größe", 70_000), ("a/b/deep", 1_100_000)] {
        std::fs::write(tree.join(name), patterned(len)).unwrap();
    }
    let put = share.json(&["put", "-r", "tree", &share.at(""), "--json"]);
    assert_eq!((put["directories"].as_u64(), put["files"].as_u64()), (Some(3), Some(3)), "{put}");
    assert_eq!(content(&share.tree.join("tree")), content(&tree));
    share.said(&["get", "-r", &share.at("tree"), "-o", "again"]);
    assert_eq!(content(&share.local("again")), content(&tree));
    let words = share.refused(&["get", &share.at("tree")]);
    assert!(words.contains("--recursive"), "{words}");
    // Listings, and what is not there.
    let listed = share.said(&["ls", &share.at("tree"), "--json"]);
    let names: Vec<serde_json::Value> =
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> =
        names.iter().map(|line| (line["name"].as_str().unwrap(), line["type"].as_str().unwrap())).collect();
    assert_eq!(told, [("a", "directory"), ("empty", "file")]);
    let one = share.said(&["ls", &share.at("tree/a/größe"), "--json"]);
    assert!(one.contains("\"size\":70000"), "{one}");
    for words in [["get", "nothing"], ["ls", "nothing"], ["ls", "no/where"]] {
        let said = share.refused(&[words[0], &share.at(words[1])]);
        assert!(said.contains("no such file") || said.contains("STATUS_OBJECT_PATH_NOT_FOUND"), "{said}");
    }
}

#[test]
fn files_go_to_smbd_and_back() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let (tree, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(smbd) = StockSmbd::start_or_skip(tree.path(), work.path(), "") else { return };
    files_go_there_and_back(&Share::new(smbd.address(), "plain", tree.path()));
}

/// `linerate serve` with one share for the user of the tests.
struct Ours {
    child: Child,
    work: TempDir,
    address: SocketAddr,
    admin: SocketAddr,
}

impl Ours {
    fn start() -> Self {
        Self::start_with("")
    }

    /// With these tables of the configuration beside.
    fn start_with(tables: &str) -> Self {
        let work = tempfile::tempdir().unwrap();
        std::fs::create_dir(work.path().join("tree")).unwrap();
        let linerate = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
            command.current_dir(work.path());
            command
        };
        let mut add = linerate();
        add.args(["user", "add", StockSmbd::USER, "--nt", "--password-stdin", "--accounts", "accounts.toml"]);
        let mut add = add.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        writeln!(add.stdin.take().unwrap(), "{}", StockSmbd::PASSWORD).unwrap();
        assert!(add.wait().unwrap().success());
        let (address, admin) = (testkit::free_address(), testkit::free_address());
        let text = format!(
            "[server]\nlanes = 2\ndrain_seconds = 1\nstate_dir = 'state'\n[admin]\nlisten = '{admin}'\n\
             [http]\nlisten = []\n[https]\nlisten = []\n[identity]\naccounts = 'accounts.toml'\n\
             [smb]\nlisten = '{address}'\n{tables}\n\
             [[volume]]\nname = 'files'\npath = 'tree'\nwritable = '{}'\n",
            StockSmbd::USER
        );
        std::fs::write(work.path().join("linerate.toml"), text).unwrap();
        let child = linerate()
            .args(["serve", "--config", "linerate.toml"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let ours = Self { child, work, address, admin };
        let give_up = Instant::now() + Duration::from_secs(60);
        while std::net::TcpStream::connect(address).is_err() {
            assert!(Instant::now() < give_up, "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        ours
    }

    fn share(&self) -> Share {
        Share::new(self.address, "files", &self.work.path().join("tree"))
    }

    /// The sum of a family's samples that have these labels.
    fn metric(&self, family: &str, labels: &[&str]) -> f64 {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, text) = answer.split_once("\r\n\r\n").expect("a head and a body");
        Scrape::parse(text).unwrap().sum(family, labels).unwrap()
    }

    /// `linerate smb` with these words, and how it ended.
    fn smb(&self, words: &[&str]) -> (String, bool) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        let output =
            command.arg("smb").args(words).args(["--server", &self.admin.to_string()]).output().unwrap();
        let said = [&output.stdout[..], &output.stderr].concat();
        (String::from_utf8_lossy(&said).into_owned(), output.status.success())
    }

    /// Returns what it shows of these, in its JSON, once it shows something.
    fn shown(&self, what: &str) -> serde_json::Value {
        let shown = || {
            let (said, went_well) = self.smb(&[what, "--json"]);
            assert!(went_well, "{said}");
            let shown: serde_json::Value = serde_json::from_str(&said).unwrap();
            shown.as_array().is_some_and(|shown| !shown.is_empty()).then_some(shown)
        };
        testkit::wait_for(what, Duration::from_secs(60), shown)
    }
}

/// A program that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

#[test]
fn files_go_to_a_server_of_ours_and_back() {
    let ours = Ours::start();
    files_go_there_and_back(&ours.share());
}

#[test]
fn what_broke_off_goes_on_and_what_changed_does_not() {
    let ours = Ours::start();
    let share = ours.share();
    let bytes = patterned(900_000);
    std::fs::write(share.tree.join("file"), &bytes).unwrap();
    share.said(&["get", &share.at("file"), "-o", "whole"]);
    // As an attempt leaves it that broke off: named after the time of writing and the length.
    let listed = std::fs::metadata(share.tree.join("file")).unwrap();
    let written = listed.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    let filetime = smb_wire::time::from_unix(written.as_secs() as i64, written.subsec_nanos());
    let part = share.local(&format!(".rest.{filetime:x}.{:x}.linerate-part", bytes.len()));
    let half = 400_000;
    std::fs::write(&part, &bytes[..half]).unwrap();
    let got = share.json(&["get", &share.at("file"), "-o", "rest", "--resume", "--verify", "--json"]);
    assert_eq!(got["bytes"].as_u64(), Some((bytes.len() - half) as u64), "{got}");
    assert_eq!(std::fs::read(share.local("rest")).unwrap(), bytes);
    assert!(!part.exists());
    // A part of another state of the file is left alone.
    std::fs::write(&part, &bytes[..half]).unwrap();
    std::fs::write(share.tree.join("file"), patterned(5_000)).unwrap();
    let words = ["get", &share.at("file"), "-o", "rest", "--resume", "--overwrite", "--json"];
    assert_eq!(share.json(&words)["bytes"].as_u64(), Some(5_000));
    assert!(part.exists());
}

#[test]
fn a_load_over_four_channels_on_two_lanes_moves_what_it_should() {
    let ours = Ours::start();
    let share = ours.share();
    std::fs::write(share.tree.join("file"), patterned(2_000_000)).unwrap();
    std::fs::create_dir(share.tree.join("written")).unwrap();
    let common = ["bench", "smb", "--json", "--seconds", "1", "--lanes", "2", "--depth", "2"];
    let channels =
        ["--channels", "4", "--interfaces", "127.0.0.1,127.0.0.1", "--connections", "1", "--verify"];
    for (name, words) in [
        ("file", &["--mode", "read", "--size", "256K", "--sign"][..]),
        ("file", &["--mode", "random", "--size", "4K", "--seal"]),
        ("written", &["--mode", "write", "--size", "128K", "--file-size", "1M"]),
    ] {
        let url = share.at(name);
        let report = share.json(&[&common[..], &channels, words, &[&url]].concat());
        let count = |field: &str| report[field].as_u64().unwrap();
        assert!(count("requests") > 0 && count("verified") > 0, "{words:?}: {report}");
        assert_eq!((count("sessions"), count("channels"), count("wrong_signatures")), (1, 4, 0), "{report}");
    }
    assert_eq!(std::fs::read_dir(share.tree.join("written")).unwrap().count(), 0, "what it made is gone");
    // All sessions of one client sign in at once.
    let url = share.at("");
    let storm = ["--mode", "idle", "--connections", "40", "--one-client"];
    let report = share.json(&[&common[..], &storm, &[&url]].concat());
    assert_eq!(report["sessions"].as_u64(), Some(40), "{report}");
    assert!(report["slowest_sign_in_seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn channels_that_are_killed_in_the_middle_of_a_load_cost_no_request() {
    let ours = Ours::start();
    let share = ours.share();
    std::fs::write(share.tree.join("file"), patterned(2_000_000)).unwrap();
    std::fs::create_dir(share.tree.join("written")).unwrap();
    let common =
        ["bench", "smb", "--json", "--seconds", "2", "--connections", "1", "--channels", "4", "--verify"];
    for (name, words) in [
        ("file", &["--mode", "read", "--size", "256K", "--lanes", "2"][..]),
        ("written", &["--mode", "write", "--size", "128K", "--file-size", "1M", "--lanes", "2"]),
        ("written", &["--mode", "mixed", "--size", "64K", "--sign", "--lanes", "1"]),
        ("file", &["--mode", "open-close", "--seal", "--lanes", "1"]),
    ] {
        let url = share.at(name);
        let report = share.json(&[&common[..], &["--kill-every", "50"], words, &[&url]].concat());
        let count = |field: &str| report[field].as_u64().unwrap();
        assert!(count("requests") > 0 && count("kills") > 3 && count("replays") > 0, "{words:?}: {report}");
        assert_eq!((&report["errors"], count("wrong_signatures")), (&serde_json::json!({}), 0), "{report}");
    }
    assert_eq!(std::fs::read_dir(share.tree.join("written")).unwrap().count(), 0, "what it made is gone");
    assert!(ours.metric("linerate_smb_channels_lost", &[]) > 12.0);
    assert!(ours.metric("linerate_smb_address_bytes_out", &["address=\"127.0.0.1\""]) > 2e6);
    assert!(ours.metric("linerate_smb_address_requests", &["address=\"127.0.0.1\""]) > 100.0);
    let url = share.at("file");
    let words = share.refused(&["bench", "smb", "--kill-every", "50", &url]);
    assert!(words.contains("--channels"), "{words}");
}

#[test]
fn who_uses_a_share_is_shown_and_ended() {
    let ours = Ours::start();
    let share = ours.share();
    std::fs::create_dir(share.tree.join("deep")).unwrap();
    std::fs::write(share.tree.join("deep/file"), patterned(300_000)).unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_linerate"));
    bench.env("LINERATE_PASSWORD", StockSmbd::PASSWORD).stdout(Stdio::null()).stderr(Stdio::null());
    bench.args([
        "bench",
        "smb",
        "--size",
        "64K",
        "--seconds",
        "600",
        "--lanes",
        "1",
        "--connections",
        "1",
        "--channels",
        "2",
    ]);
    let _load = Running(bench.arg(share.at("deep/file")).spawn().unwrap());
    let wide = ["channels=\"2\""];
    testkit::wait_for("a session of two channels", Duration::from_secs(60), || {
        (ours.metric("linerate_smb_sessions_by_channels", &wide) > 0.0).then_some(())
    });
    let busy = testkit::wait_for("two channels at work", Duration::from_secs(60), || {
        let sessions = ours.shown("sessions");
        let channels = sessions[0]["channels"].as_array().unwrap();
        let works = |channel: &serde_json::Value| channel["bytes_out"].as_u64() > Some(300_000);
        (channels.len() == 2 && channels.iter().all(works)).then(|| sessions[0].clone())
    });
    assert_eq!(busy["user"], StockSmbd::USER);
    assert_eq!(busy["shares"], serde_json::json!(["files"]));
    let open = ours.shown("opens")[0].clone();
    assert_eq!((&open["path"], &open["session"]), (&"deep/file".into(), &busy["id"]), "{open}");
    assert!(open["access"].as_str().unwrap().contains('r'), "{open}");
    let (table, _) = ours.smb(&["sessions"]);
    let number = format!("{:x}", busy["id"].as_u64().unwrap());
    assert!(table.contains(&number) && table.contains(StockSmbd::USER), "{table}");
    assert!(ours.smb(&["opens"]).0.contains(&number), "the same everywhere");
    assert!(ours.smb(&["opens"]).0.contains("deep/file"));
    assert_eq!(ours.smb(&["locks", "--json"]), ("[]\n".to_owned(), true));
    assert_eq!(ours.smb(&["close", "open", &open["id"].to_string()]), (String::new(), true));
    let (said, went_well) = ours.smb(&["close", "open", &open["id"].to_string()]);
    assert!(!went_well && said.contains("SMB has no open "), "{said}");
    assert_eq!(ours.smb(&["close", "session", &number]), (String::new(), true));
    for number in [&*number, &busy["id"].to_string(), "no number"] {
        let (said, went_well) = ours.smb(&["close", "session", number]);
        assert!(!went_well && said.contains(&format!("SMB has no session {number}: ")), "{said}");
    }
}

#[test]
fn a_server_s_interfaces_are_shown_as_it_tells_them() {
    let ours = Ours::start_with(
        "[[smb.interface]]\naddress = '192.0.2.1'\nspeed = 25000000000\nrss = true\n[[smb.interface]]\naddress = '2001:db8::1'\nspeed = 1000000000\n",
    );
    let share = ours.share();
    let told = share.json(&["smb", "interfaces", &share.url, "--json"]);
    assert_eq!(told["multichannel"], true);
    let interfaces = told["interfaces"].as_array().unwrap();
    let shown = |at: usize| {
        let one = &interfaces[at];
        (
            one["address"].as_str().unwrap(),
            one["bits_per_second"].as_u64().unwrap(),
            one["rss"].as_bool().unwrap(),
        )
    };
    assert_eq!(
        (shown(0), shown(1)),
        (("192.0.2.1", 25_000_000_000, true), ("2001:db8::1", 1_000_000_000, false))
    );
    assert_ne!(interfaces[0]["index"], interfaces[1]["index"]);
    let table = share.said(&["smb", "interfaces", &share.url]);
    assert!(table.contains("25.00 Gb/s") && table.contains("192.0.2.1"), "{table}");
    let words = share.refused(&["smb", "interfaces", &share.url.replace("/files", "/none")]);
    assert!(words.contains("STATUS_BAD_NETWORK_NAME"), "{words}");
}
