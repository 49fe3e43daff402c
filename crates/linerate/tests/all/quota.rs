//! Volumes that may hold no more than so much: uploads with curl, a reload, a stop in order and a kill.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Launch, Server, linerate, output, patterned, tool, wait_for};
use rustix::process::Signal;
use serde_json::Value;

/// The directory of a server, with its configuration.
struct Place(PathBuf);

impl Place {
    /// Has the configuration give the volume these limits.
    fn limit(&self, limits: &str) {
        let text = format!(
            "[server]\nlanes = 2\nstate_dir = 'state'\n[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n\
             [admin]\nlisten = '127.0.0.1:0'\n[[volume]]\nname = 'pub'\npath = 'tree'\nwritable = 'anyone'\n{limits}\n"
        );
        std::fs::write(self.config(), text).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.0.join("linerate.toml")
    }

    fn tree(&self, name: &str) -> PathBuf {
        self.0.join("tree").join(name)
    }

    fn usage(&self, server: Option<&Server>) -> Value {
        let mut command = linerate(["volume", "status", "pub", "--json"]);
        if let Some(server) = server {
            command.args(["--server", &server.admin.to_string()]);
        }
        let said = output(command.env("LINERATE_STATE", self.0.join("state")));
        serde_json::from_slice::<Value>(&said).unwrap()["usage"].clone()
    }

    /// Once the server says that all is counted.
    fn counted(&self, server: &Server) -> Value {
        wait_for("the count", || Some(self.usage(Some(server))).filter(|usage| usage["state"] == "counted"))
    }
}

/// Uploads so many bytes; `chunked`, so that the length is not known before. The status, and what was said.
fn upload(server: &Server, to: &str, len: usize, chunked: bool) -> (u16, String) {
    let mut curl = tool("curl", "curl");
    curl.args(["--silent", "--max-time", "60", "--write-out", "\n%{http_code}", "--upload-file", "-"]);
    if !chunked {
        curl.args(["--header", &format!("Content-Length: {len}"), "--header", "Transfer-Encoding:"]);
    }
    let mut child = curl.arg(server.url(to)).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // A client that is refused early is not read to its end.
    let _ = child.stdin.take().unwrap().write_all(&patterned(len));
    let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let (said, status) = said.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), said.to_owned())
}

fn delete(server: &Server, path: &str) {
    output(Command::new("curl").args(["--silent", "--fail", "--request", "DELETE"]).arg(server.url(path)));
}

fn names(tree: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(tree).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_upload_over_quota_is_refused_and_leaves_the_old_file_and_limits_hold_over_reloads_stops_and_kills() {
    // A directory whose file system keeps attributes, which that of temporary files may not.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = Place(dir.path().canonicalize().unwrap());
    std::fs::create_dir(place.tree("")).unwrap();
    std::fs::write(place.tree("old"), "as it was").unwrap();
    place.limit("quota = '100K'\nmax_files = 3");
    let mut server = Launch::config(&place.config()).start();
    let usage = place.counted(&server);
    assert_eq!((&usage["bytes"], &usage["files"]), (&9.into(), &1.into()), "{usage}");
    assert_eq!((&usage["quota_bytes"], &usage["quota_files"]), (&102_400.into(), &3.into()));

    assert_eq!(upload(&server, "/a", 60_000, false).0, 201);
    let taken = server.counted("linerate_http_upload_bytes", "");
    for chunked in [false, true] {
        let (status, said) = upload(&server, "/old", 60_000, chunked);
        assert!(status == 507 && said.contains("quota is used up"), "{status} {said}");
        assert_eq!(std::fs::read(place.tree("old")).unwrap(), b"as it was");
        if !chunked {
            assert_eq!(server.counted("linerate_http_upload_bytes", ""), taken, "nothing of it was taken");
        }
    }
    wait_for("what was given up to be gone", || (names(&place.tree("")) == ["a", "old"]).then_some(()));
    assert!(server.counted("linerate_vfs_refused", "reason=\"quota\"") >= 2);
    delete(&server, "/a");
    assert_eq!(upload(&server, "/old", 60_000, true).0, 204);
    for (path, status) in [("/b", 201), ("/c", 201), ("/d", 507)] {
        assert_eq!(upload(&server, path, 10, false).0, status, "{path}");
    }

    // A reload changes what may be there, and what is there stays.
    for (limits, status) in [("quota = '1M'\nmax_files = 4", 201), ("quota = '1K'", 507)] {
        place.limit(limits);
        server.signal(Signal::HUP);
        wait_for("the reload", || {
            let found = upload(&server, "/d", 10, false).0;
            (found == status).then_some(())
        });
    }
    assert_eq!(std::fs::read(place.tree("old")).unwrap().len(), 60_000);

    server.signal(Signal::TERM);
    assert!(server.wait().success());
    drop(server);
    let usage = place.usage(None);
    let all: usize =
        names(&place.tree("")).iter().map(|name| std::fs::read(place.tree(name)).unwrap().len()).sum();
    assert_eq!(
        (&usage["bytes"], &usage["files"], &usage["state"]),
        (&all.into(), &4.into(), &"counted".into())
    );

    // What comes behind the server's back is counted by a check, or not at all.
    std::fs::write(place.tree("copied"), "seven b").unwrap();
    let check = |flags: &[&str], code: i32| {
        let mut command = linerate(["volume", "check", "--json"]);
        let done = command.args(flags).env("LINERATE_STATE", place.0.join("state")).output().unwrap();
        assert_eq!(done.status.code(), Some(code), "{}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice::<Value>(&done.stdout).unwrap()[0].clone()
    };
    let found = check(&["--dry-run"], 4);
    assert_eq!((&found["problems"][0]["kind"], &found["mended"]), (&"usage".into(), &0.into()), "{found}");
    let says = format!("{all} bytes in 4 files are recorded, and it holds {} bytes in 5 files", all + 7);
    assert_eq!(found["problems"][0]["what"], says);
    assert_eq!(check(&[], 3)["holds"], serde_json::json!({ "bytes": all + 7, "files": 5 }));
    check(&[], 0);
    let all = all + 7;

    // It is known after a stop in order, and counted again after a kill.
    let mut server = Launch::config(&place.config()).start();
    assert_eq!(place.usage(Some(&server))["state"], "counted", "at once");
    assert_eq!(server.counted("linerate_vfs_counts_begun", ""), 0);
    assert_eq!(place.usage(Some(&server))["bytes"], all);
    let admin = server.admin.to_string();
    let table = String::from_utf8(output(&mut linerate(["stat", "-n", "1", "-i", "0.1", &admin]))).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[1].contains("uploads") && lines[3].starts_with("trees "), "{table}");
    assert_eq!(lines[1].len(), lines[3].len(), "{table}");
    assert!(lines[4].starts_with("  volume pub: ") && lines[4].ends_with(" of 1.0 KiB, 5 files"), "{table}");
    let line = output(&mut linerate(["stat", "-n", "1", "-i", "0.1", "--json", &admin]));
    let line: Value = serde_json::from_slice(&line).unwrap();
    assert!(line["trees"]["changes_per_second"].is_number(), "{line}");
    assert_eq!(line["volumes"][0]["usage"]["quota_bytes"], 1024);
    server.signal(Signal::KILL);
    server.wait();
    drop(server);
    let server = Launch::config(&place.config()).start();
    assert_eq!(place.counted(&server)["bytes"], all);
    assert_eq!(server.counted("linerate_vfs_counts_begun", ""), 1);
    assert_eq!(server.counted("linerate_volume_used_bytes", "volume=\"pub\""), all as u64);
}

#[test]
fn a_volume_with_a_quota_is_not_counted_where_its_configuration_is_only_checked() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = Place(dir.path().canonicalize().unwrap());
    std::fs::create_dir(place.tree("")).unwrap();
    std::fs::write(place.tree("old"), "as it was").unwrap();
    place.limit("quota = '100K'");
    let checked = linerate(["serve", "--check", "--config"]).arg(place.config()).output().unwrap();
    let said = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
    assert!(checked.status.success() && said.contains("the configuration is good"), "{said}");
    assert!(!said.contains("ERROR") && !said.contains("volume-not-counted"), "{said}");
}
