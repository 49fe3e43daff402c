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

fn configure(dir: &Path, writable: &str) {
    let text = format!(
        "{}[[volume]]\nname = 'pub'\npath = 'pub'\n{writable}\n",
        crate::support::site::ANY_PORT.replace("[http]", "[server]\nlanes = 2\n[http]")
    );
    std::fs::write(dir.join("linerate.toml"), text).unwrap();
}

#[test]
fn lists_count_where_somebody_may_write_and_a_reload_changes_which_volumes_these_are() {
    let dir = place();
    configure(dir.path(), "");
    let server = Launch::config(&dir.path().join("linerate.toml")).start();
    assert!(server.stdout().contains("serves, read-only:"), "{}", server.stdout());
    let status = |path: &str, wanted: u16| {
        for _ in 0..16 {
            assert_eq!(raw::get(server.http[0], path).status, wanted, "{path}, whatever lane it is");
        }
    };
    status("/closed/a.txt", 200);
    server.says("which does not count");

    for _ in 0..2 {
        configure(dir.path(), "writable = 'listed'");
        server.reload("reloaded");
        // Who says who he is may be let in.
        status("/closed/a.txt", 401);
        status("/closed/", 401);
        status("/open/a.txt", 200);
        status("/", 200);
        configure(dir.path(), "writable = 'nobody'");
        server.reload("reloaded");
        status("/closed/a.txt", 200);
    }
    configure(dir.path(), "writable = 'no such name'");
    server.reload("stays");
    server.says("volume[0].writable: ");
    status("/closed/a.txt", 200);
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
