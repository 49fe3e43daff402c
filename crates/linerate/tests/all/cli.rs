//! Every other command of the program, and the words of its help and errors.

use std::process::Command;

use serde_json::Value;

use crate::support::site::Site;
use crate::support::{linerate, output, patterned, tool};

/// The transcripts are in `tests/cmd`; `TRYCMD=overwrite` writes them anew.
#[test]
fn help_and_errors_read_as_written_down() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}

#[test]
fn stat_shows_the_load_that_is_there() {
    let site = Site::new(&[("f", &patterned(100_000))], "");
    let server = site.start();
    let mut load = linerate(["bench", "http", &server.url("/f"), "--seconds", "3", "--json"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    crate::support::wait_for("the load", || {
        (server.counted("linerate_http_requests", "method=\"GET\"") > 0).then_some(())
    });
    let admin = server.admin.to_string();
    let line = output(&mut linerate(["stat", "-n", "1", "--json", &admin]));
    let line: Value = serde_json::from_slice(&line).expect("one JSON object");
    let total = &line["total"];
    for name in [
        "requests_per_second",
        "bits_out_per_second",
        "bits_in_per_second",
        "connections",
        "cpu_percent",
        "syscalls_per_second",
    ] {
        assert!(total[name].as_f64().unwrap() > 0.0, "{name}: {line}");
    }
    // Payload alone is a lower bound of what the network carries.
    let payload = total["requests_per_second"].as_f64().unwrap() * 100_000.0 * 8.0;
    assert!(total["bits_out_per_second"].as_f64().unwrap() > payload * 0.9, "{line}");
    assert!(line["silos"]["0"]["requests_per_second"].as_f64().unwrap() > 0.0);

    let table =
        String::from_utf8(output(&mut linerate(["stat", "-n", "2", "-s", "-i", "0.1", &admin]))).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].contains("req/s") && lines[0].contains("ctxsw/s"), "{table}");
    assert!(lines.len() >= 5, "a line for the whole and one a silo, twice: {table}");
    assert!(load.wait().unwrap().success());
}

#[test]
fn bench_verifies_every_body() {
    let body = patterned(50_000);
    let site = Site::new(&[("f", &body)], "");
    let server = site.start();
    for url in [server.url("/f"), server.https_url("/f").replace("localhost", "127.0.0.1")] {
        let mut bench = linerate(["bench", "http", &url, "--seconds", "1", "--connections", "8"]);
        bench.args(["--verify", "--json", "--insecure"]);
        let report: Value = serde_json::from_slice(&output(&mut bench)).unwrap();
        let file = site.path("f");
        let sum = String::from_utf8(output(tool("sha256sum", "coreutils").arg(file))).unwrap();
        assert_eq!(report["body_sha256"], sum.split(' ').next().unwrap(), "{report}");
        assert!(report["requests"].as_u64().unwrap() > 10, "{report}");
        assert_eq!(report["verified"], report["requests"], "{report}");
        assert_eq!(report["errors"], serde_json::json!({}), "{report}");
    }
    for (url, word) in [(server.url("/none"), "404"), (server.https_url("/f"), "--cacert")] {
        let refused = linerate(["bench", "http", &url, "--seconds", "1"]).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(word), "{said}");
    }
}

#[test]
fn doctor_tells_what_it_found_and_what_to_change() {
    let done = linerate(["doctor", "--json"]).output().unwrap();
    let findings: Value = serde_json::from_slice(&done.stdout).unwrap();
    let findings = findings.as_array().unwrap();
    assert!(findings.len() > 5, "{findings:?}");
    for finding in findings {
        assert!(["area", "name", "found", "verdict"].iter().all(|key| finding[key].is_string()), "{finding}");
        let good = finding["verdict"] == "good" || finding["verdict"] == "ok";
        assert!(good || finding["advice"].is_string(), "no advice: {finding}");
    }
    let text = String::from_utf8(linerate(["doctor"]).output().unwrap().stdout).unwrap();
    assert!(findings.iter().all(|finding| text.contains(finding["name"].as_str().unwrap())), "{text}");

    // Directories by name, or those of a configuration, with its state directory.
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("pub")).unwrap();
    std::fs::write(dir.path().join("state"), "no directory").unwrap();
    let config = dir.path().join("linerate.toml");
    std::fs::write(&config, "[server]\nstate_dir = 'state'\n[[volume]]\nname = 'pub'\npath = 'pub'\n")
        .unwrap();
    let tree = dir.path().join("pub").display().to_string();
    for flags in [&[&*tree][..], &["--config", config.to_str().unwrap()]] {
        let done = linerate(["doctor", "--json"]).args(flags).output().unwrap();
        let findings: Value = serde_json::from_slice(&done.stdout).unwrap();
        let of_trees = |name: &str| {
            let mut found = findings.as_array().unwrap().iter();
            found.find(|found| found["area"] == "trees" && found["name"] == name).cloned()
        };
        for name in ["CAP_DAC_READ_SEARCH", &format!("{tree} handles"), &format!("{tree} attributes")] {
            assert!(of_trees(name).is_some(), "{name}: {findings}");
        }
        let state = of_trees("state directory").unwrap();
        let is_blocked = state["found"].as_str().unwrap().ends_with("state is no directory");
        assert_eq!(is_blocked, flags.len() == 2, "{state}");
    }
}

#[test]
fn completions_are_taken_by_the_shell_and_the_manual_by_man() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("linerate.bash");
    std::fs::write(&script, output(&mut linerate(["completions", "bash"]))).unwrap();
    let probe = format!(
        "source {} && COMP_WORDS=(linerate se) COMP_CWORD=1 && _linerate linerate se linerate && echo ${{COMPREPLY[@]}}",
        script.display()
    );
    let completed = output(Command::new("bash").args(["-c", &probe]));
    assert_eq!(completed, b"serve\n");
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        assert!(!output(&mut linerate(["completions", shell])).is_empty());
    }
    // A reader that has seen enough is no failure.
    for args in [&["completions", "zsh"][..], &["completions", "bash"], &["man"], &["man", "bench", "http"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = linerate(args.iter().copied()).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && said.is_empty(), "{args:?}: {said}");
    }
    let page = String::from_utf8(output(&mut linerate(["man"]))).unwrap();
    assert!(page.contains(".TH linerate 1") && page.contains(".SH NAME") && page.contains("serve"), "{page}");
    let page = String::from_utf8(output(&mut linerate(["man", "bench", "http"]))).unwrap();
    assert!(
        page.contains(".TH linerate\\-bench\\-http 1") || page.contains(".TH linerate-bench-http 1"),
        "{page}"
    );
    let unknown = linerate(["man", "nothing"]).output().unwrap();
    assert!(!unknown.status.success() && String::from_utf8_lossy(&unknown.stderr).contains("nothing"));
    // It makes the directory, replaces pages, and follows no link of a page's name.
    let pages = dir.path().join("share/man1");
    let kept = dir.path().join("kept");
    output(linerate(["man", "--dir"]).arg(&pages));
    std::fs::write(&kept, "kept").unwrap();
    std::fs::write(pages.join("linerate-stat.1"), "an old page").unwrap();
    std::fs::remove_file(pages.join("linerate.1")).unwrap();
    std::os::unix::fs::symlink(&kept, pages.join("linerate.1")).unwrap();
    output(linerate(["man", "--dir"]).arg(&pages));
    assert_eq!(std::fs::read(&kept).unwrap(), b"kept");
    for name in [
        "linerate",
        "linerate-serve",
        "linerate-bench-rx",
        "linerate-stat",
        "linerate-user-add",
        "linerate-acl-set",
        "linerate-acl-convert",
        "linerate-acl-accept",
    ] {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH OPTIONS"), "{name}: {page}");
    }
    if std::path::Path::new("/usr/bin/man").exists() {
        let mut man = Command::new("man");
        let shown = output(man.args(["--warnings", "--local-file"]).arg(pages.join("linerate-serve.1")));
        assert!(String::from_utf8_lossy(&shown).contains("access-log"));
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let site = Site::new(&[("f", b"x")], "");
    let server = site.start();
    let program = assert_cmd::cargo::cargo_bin!("linerate");
    let command = format!("set -o pipefail; {} stat -i 0.1 {} | head -n 1", program.display(), server.admin);
    assert!(!output(Command::new("bash").args(["-c", &command])).is_empty());
}
