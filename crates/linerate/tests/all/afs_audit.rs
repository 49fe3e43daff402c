//! The audit log of AFS's calls by a running server: in both formats, to a file and to a unix socket.

use std::io::Read;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use afs_wire::code::EROFS;
use serde_json::Value;
use testkit::netns::Namespace;

use crate::support::{Launch, linerate, output};

#[test]
fn calls_leave_lines_in_both_formats_in_a_file_and_at_a_socket() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    for (format, is_socket) in [("json", false), ("json", true), ("openafs", false), ("openafs", true)] {
        // A directory whose file system keeps attributes, which that of temporary files may not.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::create_dir(dir.path().join("pub")).unwrap();
        // What a socket is called by has 108 bytes.
        let short = tempfile::tempdir().unwrap();
        let log = short.path().join("audit");
        let listener = is_socket.then(|| UnixListener::bind(&log).unwrap());
        let config = dir.path().join("linerate.toml");
        let text = format!(
            "[server]\nlanes = 2\nstate_dir = 'state'\n[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n\
             [admin]\nlisten = '127.0.0.1:0'\n[afs]\nlisten = '127.0.0.1:7000'\n[log]\naudit = {log:?}\n\
             audit_format = '{format}'\n[[volume]]\nname = 'pub'\npath = 'pub'\nwritable = 'anyone'\n"
        );
        std::fs::write(&config, text).unwrap();
        let server = Launch::config(&config).start();
        call(dir.path());
        // The volume's own directory is fetched by a client that looks for the file.
        let (fetched, own) = if format == "json" { ("FetchData", ".1.1\"") } else { ("FchData", ":1:1 ") };
        // Each lane hands over its lines by itself, and each client is one lane's.
        let (json, openafs) = (format!("\"code\":{EROFS}"), format!("CODE {EROFS}"));
        let others = match format {
            "json" => ["\"Rename\"", "StoreData", &json],
            _ => ["RNmFile", "StData", &openafs],
        };
        let is_whole = |text: &str| {
            let has_fetched = text.lines().any(|line| line.contains(fetched) && !line.contains(own));
            has_fetched && others.iter().all(|other| text.contains(other))
        };
        let text = match listener {
            Some(listener) => {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                let mut bytes = Vec::new();
                while !is_whole(&String::from_utf8_lossy(&bytes)) || bytes.last() != Some(&b'\n') {
                    let mut more = [0; 4096];
                    let count = stream.read(&mut more).unwrap();
                    assert!(count > 0, "the server goes on");
                    bytes.extend(&more[..count]);
                }
                String::from_utf8(bytes).unwrap()
            }
            None => crate::support::wait_for("the log to tell of the last call", || {
                let text = std::fs::read_to_string(&log).ok()?;
                (is_whole(&text) && text.ends_with('\n')).then_some(text)
            }),
        };
        match format {
            "json" => tells_as_json(&text),
            _ => tells_as_openafs(&text),
        }
        assert_eq!(server.counted("linerate_audit_log_lines_lost", ""), 0);
    }
}

/// A file is made under another name, stored and renamed, then not made in a copy, then fetched.
fn call(dir: &Path) {
    let (local, got) = (dir.join("local"), dir.join("got"));
    std::fs::write(&local, "text").unwrap();
    output(linerate(["put"]).arg(&local).arg("afs://127.0.0.1/pub/a file"));
    let refused = linerate(["put"]).arg(&local).arg("afs://127.0.0.1/pub.readonly/b").output().unwrap();
    assert!(!refused.status.success());
    output(linerate(["get", "afs://127.0.0.1/pub/a file", "-o"]).arg(&got));
    assert_eq!(std::fs::read(got).unwrap(), b"text");
}

fn tells_as_json(text: &str) {
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let find = |call: &str, code: i32| {
        let is_it = |line: &&Value| line["call"] == call && line["code"] == code;
        lines.iter().find(is_it).unwrap_or_else(|| panic!("no {call} that came to {code}: {text}"))
    };
    for line in &lines {
        assert_eq!((&line["peer"], &line["user_id"]), (&"127.0.0.1".into(), &32766.into()), "{line}");
        assert!(line["time"].is_string() && line["port"].is_u64() && line["duration_us"].is_u64(), "{line}");
    }
    let made = &find("CreateFile", 0)["files"];
    let fid = &made[1]["fid"];
    assert_eq!(made[0]["name"], transfer::staged_name("a file"), "{made}");
    for call in ["StoreData", "FetchData"] {
        let is_it =
            |line: &Value| line["call"] == call && line["code"] == 0 && line["files"][0]["fid"] == *fid;
        assert!(lines.iter().any(is_it), "no {call} of {fid}: {text}");
    }
    let renamed = &find("Rename", 0)["files"];
    assert_eq!((&renamed[0]["name"], &renamed[1]["name"]), (&made[0]["name"], &"a file".into()));
    find("CreateFile", EROFS);
}

fn tells_as_openafs(text: &str) {
    let who = "NAME --UnAuth-- HOST 127.0.0.1 ID 32766";
    let find = |call: &str, code: i32| {
        let head = format!("EVENT AFS_SRX_{call} CODE {code} {who} ");
        let rest = text.lines().find_map(|line| Some(line.split_once(&head)?.1.trim_end()));
        rest.unwrap_or_else(|| panic!("no {head}: {text}"))
    };
    let (made, fid) = find("CrFile", 0).rsplit_once("FID ").unwrap();
    let staged = transfer::staged_name("a file").replace(' ', "\\x20");
    assert!(made.ends_with(&format!("STR {staged} ")), "{made}");
    for call in ["StData", "FchData"] {
        let line = format!("EVENT AFS_SRX_{call} CODE 0 {who} FID {fid} ");
        assert!(text.contains(&line), "no {line}: {text}");
    }
    assert!(find("RNmFile", 0).ends_with("STR a\\x20file"));
    find("CrFile", EROFS);
}
