//! Volumes that some user may write to: what a start says of them, and whose rights count before and after a
//! reload.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

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
    let mut add = linerate(["user", "add", "alice", "--password-stdin", "--accounts"]);
    let mut added = add.arg(&accounts).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    added.stdin.take().unwrap().write_all(b"sesame and more\n").unwrap();
    assert!(added.wait().unwrap().success());
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
        // An authenticated user may be let in.
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
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for rest in ["writable = 'listed'", "writable = 'nobody'", &format!("[smb]\nlisten = '{free}'\n"), ""] {
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

    configure(dir.path(), &identity);
    server.reload("reloaded");
    // A change counts when the command that makes it has ended, at whatever depth.
    let set = |args: &[&str]| {
        let admin = server.admin.to_string();
        let mut acl = linerate([&["acl", "set", "--server", &admin], args].concat());
        let made = acl.output().unwrap();
        let told = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success() && !told.contains("no server was told"), "{told}");
    };
    let at = |below: &str| dir.path().join("pub").join(below).display().to_string();
    set(&["--inherit", &at("closed")]);
    for below in ["", "closed", "closed/in", "closed/in/there"] {
        for _ in 0..3 {
            status("/closed/in/there/a.txt", 200);
            set(&["--clear", &at(below), "system:authuser=read"]);
            status("/closed/in/there/a.txt", 401);
            assert_eq!(as_alice("/closed/in/there/a.txt"), 200);
            set(&["--inherit", &at(below)]);
        }
    }
    status("/closed/in/there/a.txt", 200);
    let nobody = "127.0.0.1:1";
    let made =
        linerate(["acl", "set", "--server", nobody, "--clear", &at("open"), "system:authuser=read"]).output();
    let told = String::from_utf8(made.unwrap().stderr).unwrap();
    assert!(told.contains("no server was told") && told.contains("within about a second"), "{told}");
}

/// Servers of a common user and of root treat each other's lists alike.
#[test]
fn lists_lie_where_their_volume_keeps_them_whoever_serves_it_and_whoever_sets_them() {
    let sets = rustix::thread::capabilities(None).unwrap();
    if !sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN) {
        return testkit::skip("root, to see trusted. attributes");
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tree = dir.path().join("pub");
    for sub in ["open", "closed"] {
        std::fs::create_dir_all(tree.join(sub)).unwrap();
        std::fs::write(tree.join(sub).join("a.txt"), sub).unwrap();
    }
    let state = format!("[server]\nlanes = 2\nstate_dir = '{}'\n[http]", dir.path().join("state").display());
    let text = crate::support::site::ANY_PORT.replace("[http]", &state);
    let text = format!("{text}[[volume]]\nname = 'pub'\npath = 'pub'\nwritable = 'listed'\n");
    let config = dir.path().join("linerate.toml");
    std::fs::write(&config, text).unwrap();
    let common = || Launch::config(&config).lacking("sys_admin");
    let roots = || Launch::config(&config);
    let statuses = |server: &crate::support::Server| {
        ["/open/a.txt", "/closed/a.txt"].map(|path| raw::get(server.http[0], path).status)
    };
    let health =
        |server: &crate::support::Server| String::from_utf8(raw::get(server.admin, "/health").body).unwrap();
    let [root, closed] = [&tree, &tree.join("closed")].map(|path| path.display().to_string());
    let acl = |args: &[&str]| linerate([&["acl"], args].concat()).output().unwrap();
    let has = |name: &std::ffi::CStr| {
        let file = std::fs::File::open(&closed).unwrap();
        rustix::fs::fgetxattr(file, name, &mut [0; 2048]).is_ok()
    };

    // Root sets a list for a server that is not root's.
    let server = common().start();
    assert_eq!(statuses(&server), [200, 200]);
    let made =
        acl(&["set", "--server", &server.admin.to_string(), "--clear", &closed, "system:authuser=read"]);
    let told = String::from_utf8(made.stderr).unwrap();
    assert!(made.status.success() && told.contains("user.linerate.acl, where the volume at"), "{told}");
    assert_eq!([has(c"trusted.linerate.acl"), has(c"user.linerate.acl")], [false, true]);
    assert_eq!(statuses(&server), [200, 401]);
    drop(server);
    // It counts for root's server too.
    let server = roots().start();
    assert_eq!(statuses(&server), [200, 401]);
    let refused = acl(&["set", "--attribute", "trusted", &closed, "system:anyuser=read"]);
    assert!(!refused.status.success(), "{refused:?}");
    drop(server);

    // Moved, it counts for root's alone; the other says why it serves no client.
    let dry: serde_json::Value =
        serde_json::from_slice(&acl(&["convert", &root, "--to", "trusted", "--dry-run", "--json"]).stdout)
            .unwrap();
    assert_eq!((&dry["lists"], &dry["dry_run"]), (&1.into(), &true.into()));
    assert!(has(c"user.linerate.acl"));
    let moved = acl(&["convert", &root, "--to", "trusted"]);
    assert!(moved.status.success(), "{moved:?}");
    assert_eq!([has(c"trusted.linerate.acl"), has(c"user.linerate.acl")], [true, false]);
    let server = roots().start();
    assert_eq!((statuses(&server), health(&server).contains("alone")), ([200, 401], false));
    drop(server);
    let server = common().start();
    assert_eq!(statuses(&server), [401, 401]);
    assert!(health(&server).contains("served to administrators alone"), "{}", health(&server));
    server.says("served to administrators alone");
    drop(server);
    let mut check = crate::support::tool("setpriv", "util-linux");
    check.arg("--bounding-set=-sys_admin").arg(assert_cmd::cargo::cargo_bin!("linerate"));
    let checked = check.args(["serve", "--check", "--config"]).arg(&config).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(said.contains("served to administrators alone"), "{said}");

    // A list of the other kind closes its directory until it is moved.
    let file = std::fs::File::open(tree.join("open")).unwrap();
    let anyone = std::fs::File::open(&closed).unwrap();
    let mut list = [0; 2048];
    let len = rustix::fs::fgetxattr(anyone, c"trusted.linerate.acl", &mut list[..]).unwrap();
    rustix::fs::fsetxattr(file, c"user.linerate.acl", &list[..len], rustix::fs::XattrFlags::empty()).unwrap();
    let server = roots().start();
    assert_eq!(statuses(&server), [401, 401]);
    server.says("in an attribute of the kind user., which the volume does not use");
    drop(server);
    assert!(acl(&["convert", &root]).status.success());
    assert!(acl(&["set", "--inherit", &tree.join("open").display().to_string()]).status.success());

    // A copy without what takes a privilege.
    rustix::fs::removexattr(&tree, c"trusted.linerate.volume").unwrap();
    rustix::fs::removexattr(&closed[..], c"trusted.linerate.acl").unwrap();
    let server = roots().start();
    assert_eq!((statuses(&server), health(&server).contains("are gone")), ([401, 401], true));
    drop(server);
    assert!(acl(&["accept", &root]).status.success());
    let server = roots().start();
    // What tells of the list that is gone is still there.
    assert_eq!(statuses(&server), [200, 401]);
    drop(server);

    // And back, to be served by a common user's.
    let lost = acl(&["convert", &root, "--to", "user"]);
    assert!(!lost.status.success() && String::from_utf8_lossy(&lost.stderr).contains("is gone"), "{lost:?}");
    assert!(acl(&["set", "--clear", &closed, "system:authuser=read"]).status.success());
    let server = common().start();
    assert_eq!((statuses(&server), health(&server).contains("alone")), ([200, 401], false));
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

#[test]
fn a_list_that_is_back_is_no_trouble_anymore() {
    // Mounts are seen by this thread alone, and by what it starts.
    if let Err(error) = testkit::Disk::in_memory(1) {
        return testkit::skip(format_args!("nothing can be mounted ({error})"));
    }
    let dir = place();
    let root = dir.path().join("pub");
    std::fs::create_dir(dir.path().join("other")).unwrap();
    std::fs::write(dir.path().join("other/a.txt"), "other").unwrap();
    let server = Launch::dir(&root).arg("--writable").arg("anyone").state(&dir.path().join("state")).start();
    let mounts = root.join("closed");
    let status = || raw::get(server.http[0], "/closed/a.txt").status;
    let health = || String::from_utf8(raw::get(server.admin, "/health").body).unwrap();
    assert_eq!((status(), health().contains("access list of")), (401, false));
    for _ in 0..2 {
        output(Command::new("mount").arg("--bind").arg(dir.path().join("other")).arg(&mounts));
        crate::support::wait_for("the loss", || {
            assert_eq!(status(), 401);
            health().contains("access list of").then_some(())
        });
        output(Command::new("umount").arg("--lazy").arg(&mounts));
        // Without a request to it.
        crate::support::wait_for("its end", || (!health().contains("access list of")).then_some(()));
        assert_eq!(status(), 401);
    }
}

/// `rm -rf TOP; cp -r BACKUP TOP` beneath a volume's directory, whose mark stays.
#[test]
fn a_directory_copied_back_without_its_list_is_closed_until_an_operator_accepts_it() {
    let dir = place();
    let root = dir.path().join("pub");
    let deep = root.join("closed/in/there");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("a.txt"), "deep").unwrap();
    let copied_back = || {
        for path in [&deep, &root.join("closed/in"), &root.join("closed")] {
            let fresh = path.with_extension("fresh");
            std::fs::create_dir(&fresh).unwrap();
            for entry in std::fs::read_dir(path).unwrap() {
                let entry = entry.unwrap();
                std::fs::rename(entry.path(), fresh.join(entry.file_name())).unwrap();
            }
            std::fs::remove_dir(path).unwrap();
            std::fs::rename(&fresh, path).unwrap();
        }
    };
    let state = dir.path().join("state");
    let serve = || Launch::dir(&root).arg("--writable").arg("anyone").state(&state);
    let statuses = |server: &crate::support::Server| {
        ["/open/a.txt", "/closed/a.txt", "/closed/in/there/a.txt"]
            .map(|path| raw::get(server.http[0], path).status)
    };
    let ended = |mut server: crate::support::Server| {
        server.signal(rustix::process::Signal::TERM);
        assert!(server.wait().success());
    };
    let server = serve().start();
    assert_eq!(statuses(&server), [200, 401, 401]);
    ended(server);
    copied_back();
    for _ in 0..2 {
        let server = serve().start();
        assert_eq!(statuses(&server), [200, 401, 401]);
        server.says("pub/closed is gone, as after a copy");
        let health = String::from_utf8(raw::get(server.admin, "/health").body).unwrap();
        assert!(health.contains("pub/closed"), "{health}");
        ended(server);
    }
    // While it runs too, and what is accepted counts when the command ends.
    let server = serve().start();
    assert_eq!(statuses(&server), [200, 401, 401]);
    let accept = |server: &crate::support::Server| {
        let closed = root.join("closed").display().to_string();
        output(&mut linerate(["acl", "accept", &closed, "--server", &server.admin.to_string()]));
    };
    accept(&server);
    assert_eq!(statuses(&server), [200, 200, 200]);
    let set = |server: &crate::support::Server, at: &str| {
        let at = root.join(at).display().to_string();
        let admin = server.admin.to_string();
        output(&mut linerate(["acl", "set", "--server", &admin, "--clear", &at, "system:authuser=read"]));
    };
    set(&server, "closed/in");
    assert_eq!(statuses(&server), [200, 200, 401]);
    copied_back();
    crate::support::wait_for("the copy to be seen", || (statuses(&server) == [200, 200, 401]).then_some(()));
    server.says("pub/closed/in is gone");
    accept(&server);
    assert_eq!(statuses(&server), [200, 200, 200]);
    // A list that is taken away by the command is none that was lost, whatever server runs.
    set(&server, "closed/in");
    assert_eq!(statuses(&server), [200, 200, 401]);
    ended(server);
    output(&mut linerate(["acl", "set", "--inherit", &root.join("closed/in").display().to_string()]));
    let server = serve().start();
    assert_eq!(statuses(&server), [200, 200, 200]);

    // The mark vanishes while the server runs.
    for name in [c"user.linerate.volume", c"trusted.linerate.volume"] {
        let _ = rustix::fs::removexattr(&root, name);
    }
    server.says("it is served to administrators alone: ");
    assert_eq!(statuses(&server), [401; 3]);
    let health = String::from_utf8(raw::get(server.admin, "/health").body).unwrap();
    assert!(health.contains("served to administrators alone"), "{health}");
}

#[test]
fn one_server_writes_to_a_tree_whether_the_others_directory_is_the_same_or_lies_above_or_beneath() {
    let dir = place();
    let root = dir.path().join("pub");
    let sibling = dir.path().join("sibling");
    std::fs::create_dir(&sibling).unwrap();
    let serve = |at: &Path, who: &str| {
        let launch = Launch::dir(at).arg("--writable").arg(who);
        launch.state(&tempfile::tempdir().unwrap().keep())
    };
    let trouble = |server: &crate::support::Server| {
        let health = String::from_utf8(raw::get(server.admin, "/health").body).unwrap();
        health.lines().find(|line| line.contains("another server writes to")).map(str::to_owned)
    };
    for (first, second, words) in [
        (&root, &root, "writes to this tree"),
        (&root, &root.join("open"), "in which this tree lies"),
        (&root.join("open"), &root, "writes to a directory beneath this tree"),
        (&dir.path().to_owned(), &root.join("open"), "in which this tree lies"),
    ] {
        let one = serve(first, "anyone").start();
        assert_eq!(trouble(&one), None);
        let beside = serve(&sibling, "anyone");
        let other = serve(second, "anyone").start();
        other.says("another server writes to");
        let told = trouble(&other).unwrap();
        assert!(told.contains(words), "{told}");
        assert!(told.contains(&format!("process {}: ", one.pid().as_raw_nonzero())), "{told}");
        if words.contains("in which") {
            assert!(told.contains(&first.display().to_string()), "{told}");
        }
        // It is read all the same, and a reader is in no other's way.
        let page = if *second == root { "/open/a.txt" } else { "/a.txt" };
        assert_eq!(raw::get(other.http[0], page).status, 200);
        assert_eq!(trouble(&serve(second, "nobody").start()), None);
        if *first != dir.path() {
            assert_eq!(trouble(&beside.start()), None);
        }
        drop(other);
        drop(one);
        assert_eq!(trouble(&serve(second, "anyone").start()), None);
    }
}
