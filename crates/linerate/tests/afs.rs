//! `linerate get`, `put`, `ls` and `bench afs` against a stock cell and against our own server, which serves a directory over AFS
//! without being asked to.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use testkit::netns::Namespace;
use testkit::stock_cell::StockCell;

use support::{Launch, linerate, output, patterned, raw};

mod support;

fn failure(command: &mut Command) -> (i32, String) {
    let Output { status, stderr, .. } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8_lossy(&stderr).into_owned())
}

fn json(command: &mut Command) -> Value {
    serde_json::from_slice(&output(command)).expect("one JSON object")
}

fn lines(command: &mut Command) -> Vec<Value> {
    let text = String::from_utf8(output(command)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn files_and_trees_of_a_stock_cell_are_put_listed_and_got() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let Some(_cell) = StockCell::start_or_skip() else { return };
    files_and_trees_are_put_listed_and_got(&StockCell::ADDRESS.to_string());
}

#[test]
fn files_and_trees_of_our_own_server_are_put_listed_and_got() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("pub");
    std::fs::create_dir(&tree).unwrap();
    let config = dir.path().join("linerate.toml");
    let text = format!(
        "[server]\nlanes = 2\nstate_dir = 'state'\n[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n\
         [admin]\nlisten = '127.0.0.1:0'\n[afs]\nlisten = '127.0.0.1:7000'\n[[volume]]\nname = 'pub'\npath = {tree:?}\n\
         writable = 'anyone'\n"
    );
    std::fs::write(&config, text).unwrap();
    let server = Launch::config(&config).start();
    files_and_trees_are_put_listed_and_got("127.0.0.1");
    // What came by AFS is there by HTTP and on disk, byte for byte.
    let body = std::fs::read(tree.join("file")).unwrap();
    assert!(body == patterned(9_000_001));
    let first = raw::get(server.http[0], "/file");
    assert!(first.body == body);
    // What is written over one is there by the other at once, as something else.
    let (new, there) = (dir.path().join("new"), "afs://127.0.0.1/pub/file");
    std::fs::write(&new, "by AFS").unwrap();
    output(linerate(["put", "--overwrite"]).arg(&new).arg(there));
    let second = raw::get(server.http[0], "/file");
    assert_eq!(second.body, b"by AFS");
    assert_ne!(second.expect("etag"), first.expect("etag"));
    std::fs::write(&new, "by HTTP").unwrap();
    let mut curl = support::tool("curl", "curl");
    output(curl.args(["-sf", "-T"]).arg(&new).arg(server.url("/file")));
    let got = dir.path().join("got");
    output(linerate(["get", there, "-o"]).arg(&got));
    assert_eq!(std::fs::read(got).unwrap(), b"by HTTP");
    assert_ne!(raw::get(server.http[0], "/file").expect("etag"), second.expect("etag"));
}

#[test]
fn a_directory_is_served_over_afs_unless_something_is_in_its_way() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(dir.path().join("page"), "text").unwrap();
    let launch = || Launch::every_protocol(dir.path());
    let first = launch().state(state.path()).start();
    let greeting = first.stdout();
    let volume = greeting.split_once(" as volume ").expect("it says what AFS serves").1;
    let (volume, rest) = volume.split_once(' ').unwrap();
    assert!(rest.starts_with("of the AFS cell linerate.internal"), "{greeting}");
    for told in ["afs://127.0.0.1:7000/", "mount -t afs", "CellServDB", "vos listvldb"] {
        assert!(greeting.contains(told), "{told}: {greeting}");
    }
    let page = format!("afs://127.0.0.1/{volume}/page");
    let got = state.path().join("got");
    output(linerate(["get", &page, "-o"]).arg(&got));
    assert_eq!(std::fs::read(got).unwrap(), b"text");

    // Another server of the same machine has the ports already, and one of the same user the index: all else goes on.
    for (launch, why) in [
        (launch(), "AFS is not served: UDP 127.0.0.1:7000 cannot be had"),
        (launch().state(state.path()).arg("--afs").arg("127.0.0.2:7000"), "AFS is not served: the index in"),
    ] {
        let other = launch.start();
        other.says(why);
        assert!(!other.stdout().contains("afs://"), "{}", other.stdout());
        assert_eq!(raw::get(other.http[0], "/page").body, b"text");
    }
    drop(first);
    let again = launch().state(state.path()).start();
    assert!(again.stdout().contains("afs://127.0.0.1:7000/"), "{}", again.stdout());
}

fn files_and_trees_are_put_listed_and_got(host: &str) {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let there = |path: &str| format!("afs://{host}/pub{path}");
    let body = patterned(9_000_001);
    std::fs::write(at("file"), &body).unwrap();
    std::fs::create_dir_all(at("tree/below")).unwrap();
    std::fs::write(at("tree/below/x"), b"x").unwrap();

    let put = json(linerate(["put", "--verify", "--json"]).arg(at("file")).arg(there("/file")));
    assert_eq!(put["bytes"], body.len(), "{put}");
    assert!(put["sha256"].as_str().unwrap().len() == 64, "{put}");
    let put = json(linerate(["put", "--recursive", "--json"]).arg(at("tree")).arg(there("")));
    assert_eq!((&put["files"], &put["directories"]), (&1.into(), &2.into()), "{put}");

    let listed = lines(&mut linerate(["ls", "--json", &there("")]));
    let told: Vec<_> = listed.iter().map(|line| (line["name"].as_str(), line["type"].as_str())).collect();
    assert_eq!(told, [(Some("file"), Some("file")), (Some("tree"), Some("directory"))]);
    assert_eq!(listed[0]["size"], body.len());
    let table = String::from_utf8(output(&mut linerate(["ls", &there("/tree/")]))).unwrap();
    assert!(table.lines().any(|line| line.contains("drwx") && line.contains("below")), "{table}");

    output(linerate(["get", "--verify", &there("/file"), "-o"]).arg(at("back")));
    assert!(std::fs::read(at("back")).unwrap() == body);
    output(linerate(["get", "--recursive", &there("/tree"), "-o"]).arg(at("tree-back")));
    assert_eq!(std::fs::read(at("tree-back/below/x")).unwrap(), b"x");

    let (code, said) = failure(linerate(["get", &there("/file"), "-o"]).arg(at("back")));
    assert!(code == 1 && said.contains("--overwrite"), "{said}");
    let (code, said) = failure(linerate(["put"]).arg(at("file")).arg(there("/file")));
    assert!(code == 1 && said.contains("--overwrite"), "{said}");
    let (code, said) = failure(&mut linerate(["get", &there("/tree")]));
    assert!(code == 1 && said.contains("--recursive"), "{said}");
    let (code, said) = failure(&mut linerate(["ls", &format!("afs://{host}/none")]));
    assert!(code == 1 && said.contains("VL_NOENT (363524)"), "{said}");

    interrupted_transfers_leave_nothing_half_done(&at("large"), &there(""));

    for (mode, target) in
        [("fetch", "/file"), ("stat", "/file"), ("store", "/tree"), ("names", "/tree"), ("mixed", "/tree")]
    {
        let mut bench = linerate(["bench", "afs", &there(target), "--mode", mode, "--verify"]);
        bench.args(["--clients", "3", "--seconds", "1", "--chunk", "64k", "--threads", "1", "--json"]);
        let report = json(&mut bench);
        assert_eq!(report["errors"], serde_json::json!({}), "{report}");
        assert!(report["calls"].as_u64().unwrap() > 3, "{report}");
    }
    // What a load stored is gone with it.
    let listed = lines(&mut linerate(["ls", "--json", &there("/tree")]));
    assert_eq!(listed.len(), 1, "{listed:?}");
}

/// A put takes away what it made, a get keeps what came for another attempt.
fn interrupted_transfers_leave_nothing_half_done(large: &Path, root: &str) {
    std::fs::File::create(large).unwrap().set_len(2 << 30).unwrap();
    let mut put = linerate(["put"]).arg(large).arg(root).stderr(Stdio::piped()).spawn().unwrap();
    let names = || {
        let listed = lines(&mut linerate(["ls", "--json", root]));
        listed.iter().map(|line| line["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    support::wait_for("the file under way", || {
        names().contains(&"large.linerate-put".to_owned()).then_some(())
    });
    let interrupt = |pid: u32| {
        output(Command::new("kill").args(["-INT", &pid.to_string()]));
    };
    interrupt(put.id());
    assert_eq!(put.wait().unwrap().code(), Some(130));
    assert!(!names().iter().any(|name| name.contains("large")), "{:?}", names());
}
