//! The commands for SMB servers, beside Debian's smbd.

use std::path::Path;
use std::process::Command;

use testkit::netns::Namespace;
use testkit::stock_smbd::StockSmbd;

/// `linerate bench smb` with these words, on a name of the share.
fn bench(smbd: &StockSmbd, name: &str, words: &[&str]) -> serde_json::Value {
    let url = format!("smb://{}@{}/plain/{name}", StockSmbd::USER, smbd.address());
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.env("LINERATE_PASSWORD", StockSmbd::PASSWORD);
    command.args(["bench", "smb", "--json", "--seconds", "1", "--lanes", "1", "--depth", "2"]);
    let output = command.args(words).arg(url).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{words:?}: {said} {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&said).unwrap()
}

fn names(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn every_load_of_bench_smb_is_answered_and_compared() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let (tree, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(smbd) = StockSmbd::start_or_skip(tree.path(), work.path(), "") else { return };
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at * 31 + at / 253) as u8).collect();
    std::fs::write(tree.path().join("file"), bytes).unwrap();
    std::fs::create_dir(tree.path().join("written")).unwrap();
    for (name, words, is_compared) in [
        ("file", &["--mode", "read", "--size", "256K", "--connections", "2", "--verify", "--sign"][..], true),
        ("file", &["--mode", "read", "--size", "256K", "--connections", "1", "--verify", "--seal"], true),
        ("file", &["--mode", "random", "--size", "4K", "--connections", "2", "--verify"], true),
        (
            "written",
            &["--mode", "write", "--size", "128K", "--file-size", "1M", "--connections", "2", "--verify"],
            true,
        ),
        (
            "written",
            &["--mode", "mixed", "--size", "4K", "--connections", "1", "--verify", "--channels", "2"],
            true,
        ),
        ("file", &["--mode", "open-close", "--connections", "2", "--dialect", "2.1"], false),
        ("", &["--mode", "idle", "--connections", "20"], false),
    ] {
        let report = bench(&smbd, name, words);
        let count = |field: &str| report[field].as_u64().unwrap();
        assert!(count("requests") > 0 && count("wrong_signatures") == 0, "{words:?}: {report}");
        assert_eq!(count("verified") > 0, is_compared, "{words:?}: {report}");
        assert_eq!(names(&tree.path().join("written")), 0, "what it made is gone: {words:?}");
    }
    let wrong = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .env("LINERATE_PASSWORD", "wrong")
        .args(["bench", "smb", &format!("smb://{}@{}/plain/file", StockSmbd::USER, smbd.address())])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("STATUS_LOGON_FAILURE"), "{said}");
}
