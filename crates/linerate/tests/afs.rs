//! `linerate get`, `put`, `ls` and `bench afs` against a stock cell.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use testkit::netns::Namespace;
use testkit::stock_cell::StockCell;

use support::{linerate, output, patterned};

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
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let there = |path: &str| format!("afs://{}/pub{path}", StockCell::ADDRESS);
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
    let (code, said) = failure(&mut linerate(["ls", &format!("afs://{}/none", StockCell::ADDRESS)]));
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
