//! Volumes that somebody may write to: what a start says of them, and whose rights count before and after a reload.

use std::path::Path;

use crate::support::{Launch, linerate, output, raw};
use tempfile::TempDir;

/// A directory whose file system keeps attributes, which that of temporary files may not.
fn place() -> TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for sub in ["pub", "pub/open", "pub/closed"] {
        std::fs::create_dir(dir.path().join(sub)).unwrap();
        std::fs::write(dir.path().join(sub).join("a.txt"), sub).unwrap();
    }
    let closed = dir.path().join("pub/closed").display().to_string();
    output(&mut linerate(["acl", "set", "--clear", &closed, "system:authuser=read"]));
    dir
}

fn configure(dir: &Path, rest: &str) {
    let text = format!(
        "{}[[volume]]\nname = 'pub'\npath = 'pub'\n{rest}\n",
        crate::support::site::ANY_PORT.replace("[http]", "[server]\nlanes = 2\n[http]")
    );
    std::fs::write(dir.join("linerate.toml"), text).unwrap();
}

#[test]
fn lists_count_whoever_may_write_and_whatever_else_is_configured() {
    let dir = place();
    let accounts = dir.path().join("accounts.toml");
    let identity = format!("[identity]\naccounts = '{}'\n", accounts.display());
    let mut added = linerate(["user", "add", "alice", "--accounts"]);
    output(added.arg(&accounts).env("LINERATE_PASSWORD", "sesame and more"));
    let deep = dir.path().join("pub/closed/in/there");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("a.txt"), "deep").unwrap();
    configure(dir.path(), &identity);
    let server = Launch::config(&dir.path().join("linerate.toml")).start();
    assert!(server.stdout().contains("serves, read-only:"), "{}", server.stdout());
    let http = server.http[0];
    let status = |path: &str, wanted: u16| {
        for _ in 0..16 {
            assert_eq!(raw::get(http, path).status, wanted, "{path}, whatever lane it is");
        }
    };
    let as_alice = |path: &str| {
        let login = "Authorization: Basic YWxpY2U6c2VzYW1lIGFuZCBtb3Jl\r\n";
        let asked = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{login}Connection: close\r\n\r\n");
        raw::Response::parse(&raw::talk(http, asked.as_bytes())).status
    };
    let closed_alone = || {
        // Who says who he is may be let in.
        for closed in ["/closed/", "/closed/a.txt", "/closed/none", "/closed/in/", "/closed/in/there/a.txt"] {
            status(closed, 401);
        }
        for open in ["/", "/open/", "/open/a.txt"] {
            status(open, 200);
        }
        assert_eq!(["/closed/", "/closed/a.txt", "/closed/in/there/a.txt"].map(as_alice), [200; 3]);
    };
    closed_alone();
    let state = dir.path().join("state");
    let state_dir = format!("lanes = 2\nstate_dir = '{}'", state.display());
    for rest in [
        "writable = 'listed'",
        "writable = 'nobody'",
        "[smb]\nlisten = ['127.0.0.1:0']\n",
        "[afs]\nlisten = ['127.0.0.1:0']\ncell = 'linerate.internal'\n",
        "",
    ] {
        configure(dir.path(), &format!("{rest}\n{identity}"));
        let text = std::fs::read_to_string(dir.path().join("linerate.toml")).unwrap();
        std::fs::write(dir.path().join("linerate.toml"), text.replace("lanes = 2", &state_dir)).unwrap();
        server.reload("reloaded");
        closed_alone();
    }
    configure(dir.path(), "writable = 'no such name'");
    server.reload("stays");
    server.says("volume[0].writable: ");
    closed_alone();

    // The volume's own list, set while it is served.
    let root = dir.path().join("pub").display().to_string();
    output(&mut linerate(["acl", "set", "--clear", &root, "system:authuser=read"]));
    std::thread::sleep(std::time::Duration::from_millis(1500));
    status("/", 401);
    status("/open/a.txt", 401);
    assert_eq!(["/", "/open/a.txt", "/closed/a.txt"].map(as_alice), [200; 3]);
}

#[test]
fn a_start_says_who_may_write_where() {
    let dir = place();
    let root = dir.path().join("pub");
    let accounts = dir.path().join("accounts.toml").display().to_string();
    output(&mut linerate(["user", "add", "alice", "--no-password", "--accounts", &accounts]));
    let serve = |who: &str| Launch::dir(&root).arg("--writable").arg(who).env("LINERATE_ACCOUNTS", &accounts);
    let server = serve("anyone").start();
    let said = server.stdout();
    let wanted = format!("{} may be written to by everybody who reaches the address", root.display());
    assert!(said.contains(&wanted) && !said.contains("read-only"), "{said}");
    assert!(said.contains("\n  curl --insecure --upload-file FILE https://127.0.0.1:"), "{said}");
    assert_eq!(raw::get(server.http[0], "/closed/a.txt").status, 401);
    assert_eq!(raw::get(server.http[0], "/open/a.txt").body, b"pub/open");

    // One server at a time writes to a tree.
    drop(server);
    let server = serve("alice,bob").start();
    let said = server.stdout();
    assert!(said.contains("may be written to by alice, bob, and whom"), "{said}");
    assert!(said.contains("\n  curl --insecure --user NAME --upload-file FILE https://127.0.0.1:"), "{said}");
    server.says("there is no user or group bob");
    assert!(!server.stderr().contains("user or group alice"), "{}", server.stderr());

    let mut check = linerate(["serve", "--check", "--http", "*:0", "--https", "off", "--admin", "off"]);
    check.args(["--writable", "anyone", "--accounts", &accounts]).arg(&root);
    let checked = check.output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && said.contains("everybody who reaches this machine"), "{said}");
}
