//! What `/health`, the log, `--check` and commands tell of what somebody should mend: file systems, logs, certificates, accounts, keys
//! without effect, calls that the kernel refuses.

use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;
use testkit::Disk;

use crate::support::share::Share;
use crate::support::site::{ANY_PORT, Site};
use crate::support::{Launch, Server, linerate, output, raw, tool, wait_for};

fn health(server: &Server) -> String {
    String::from_utf8(raw::get(server.admin, "/health").body).unwrap()
}

/// Waits until `/health` has a line that begins so, or has none.
fn tells(server: &Server, begins: &str, is_told: bool) {
    wait_for(&format!("{begins} {is_told}"), || {
        (health(server).lines().any(|line| line.starts_with(begins)) == is_told).then_some(())
    });
}

fn remount(disk: &Disk, how: &str) {
    let option = format!("remount,{how}");
    // The server tries now and then whether it can write, and has a file open for as long.
    wait_for(&option, || {
        let done = Command::new("mount").args(["-o", &option]).arg(disk.path()).output().unwrap();
        done.status.success().then_some(())
    });
}

fn put(server: &Server, name: &str) -> String {
    let mut curl = tool("curl", "curl");
    curl.args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--max-time", "30"]);
    let sent = output(curl.args(["--upload-file", "/etc/passwd"]).arg(server.url(name)));
    String::from_utf8(sent).unwrap()
}

#[test]
fn health_tells_of_the_directory_that_is_served() {
    let home = tempfile::tempdir().unwrap();
    let (file, tree) = (home.path().join("linerate.toml"), home.path().join("pub"));
    std::fs::create_dir(&tree).unwrap();
    let text = format!(
        "[server]\nstate_dir = 'state'\n{ANY_PORT}[[volume]]\nname = 'pub'\npath = 'pub'\nwritable = 'anyone'\n"
    );
    std::fs::write(&file, text).unwrap();
    let server = Launch::config(&file).start();
    assert_eq!((put(&server, "/a"), health(&server)), ("201".to_owned(), "ok\n".to_owned()));
    // Another directory, and the right one again: what is told of the other goes with it.
    let aside = home.path().join("aside");
    std::fs::rename(&tree, &aside).unwrap();
    std::fs::create_dir(&tree).unwrap();
    tells(&server, "volume pub, writing: ", true);
    std::fs::remove_dir(&tree).unwrap();
    std::fs::rename(&aside, &tree).unwrap();
    wait_for("the right directory", || {
        (put(&server, "/b") == "201" || put(&server, "/b") == "204").then_some(())
    });
    tells(&server, "volume pub, writing: ", false);
}

#[test]
fn a_file_system_that_turns_read_only_is_told_within_seconds_and_so_is_its_recovery() {
    let disk = match Disk::in_memory(16) {
        Ok(disk) => disk,
        Err(error) => return testkit::skip(format_args!("mounts need root: {error}")),
    };
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("linerate.toml");
    for (name, writable, is_told) in [("pub", "anyone", true), ("read", "nobody", false)] {
        let tree = disk.path().join(name);
        std::fs::create_dir(&tree).unwrap();
        std::fs::set_permissions(&tree, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let text = format!(
            "[server]\nstate_dir = 'state'\n{ANY_PORT}[[volume]]\nname = '{name}'\npath = '{}'\nwritable = '{writable}'\n",
            tree.display()
        );
        std::fs::write(&file, text).unwrap();
        let server = Launch::config(&file).start();
        assert_eq!(health(&server), "ok\n");
        for round in 1..3 {
            remount(&disk, "ro");
            let begins = format!("volume {name}, writing: ");
            match is_told {
                true => tells(&server, &begins, true),
                // As long as two looks take.
                false => std::thread::sleep(std::time::Duration::from_secs(2)),
            }
            let told = health(&server);
            assert_eq!(told.contains("is mounted read-only"), is_told, "{told}");
            let lines = server.stderr().matches("[volume-not-writable]").count();
            assert_eq!(lines, if is_told { round } else { 0 }, "{}", server.stderr());
            assert!(!put(&server, "/new").starts_with('2'));
            remount(&disk, "rw");
            tells(&server, &begins, false);
            assert_eq!(health(&server), "ok\n");
            if is_told {
                server.says("it can be written to again");
                assert!(put(&server, &format!("/new{round}")).starts_with('2'));
            }
        }
        // A start on one says so once, and the check by its own name.
        drop(server);
        remount(&disk, "ro");
        let checked = Launch::config(&file).arg("--check").fail().1;
        assert_eq!(checked.matches("[volume-mounted-read-only]").count(), usize::from(is_told), "{checked}");
        let server = Launch::config(&file).start();
        if is_told {
            tells(&server, &format!("volume {name}, writing: "), true);
        }
        std::thread::sleep(std::time::Duration::from_secs(2));
        let told = server.stderr().lines().filter(|line| line.contains("ead-only file system")).count();
        let all = server.stderr().lines().filter(|line| line.contains(&format!("volume {name}:"))).count();
        assert_eq!((told, all), (usize::from(is_told), usize::from(is_told)), "{}", server.stderr());
        drop(server);
        remount(&disk, "rw");
    }
}

#[test]
fn a_log_whose_file_is_removed_is_told_before_the_next_line() {
    for (key, of) in [("access", "access log"), ("audit", "audit log")] {
        let home = tempfile::tempdir().unwrap();
        let (tree, log) = (home.path().join("tree"), home.path().join(key));
        std::fs::create_dir(&tree).unwrap();
        let share = Share::new(home.path(), &tree, &format!("[log]\n{key} = '{}'\n", log.display()), "");
        let server = &share.server;
        assert_eq!(health(server), "ok\n");
        std::fs::remove_file(&log).unwrap();
        tells(server, &format!("{of}, file: its file was removed"), true);
        assert_eq!(server.stderr().matches("[log-file-removed]").count(), 1, "{}", server.stderr());
        server.signal(Signal::USR1);
        tells(server, &format!("{of}, file: "), false);
        assert!(log.exists() && health(server) == "ok\n", "{}", health(server));
    }
}

/// What a check says, which it passes.
fn checked(file: &Path) -> String {
    let (status, told) = Launch::config(file).arg("--check").fail();
    assert!(status.success(), "{told}");
    told
}

#[test]
fn what_is_wrong_with_names_of_a_configuration_is_told_by_check_start_and_health_until_it_is_mended() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let at = |name: &str| site.beside(name);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        std::fs::write(at("crt"), made.pem()).unwrap();
    };
    std::fs::write(at("key"), key.serialize_pem()).unwrap();
    std::fs::set_permissions(at("key"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let accounts = |more: &[&str]| {
        let _ = std::fs::remove_file(at("accounts.toml"));
        for name in more {
            crate::support::share::add_user(site.beside("").as_path(), name, &[]);
        }
        if more.is_empty() {
            let mut add = linerate(["group", "add", "nobodies", "--accounts"]);
            output(add.arg(at("accounts.toml")));
        }
    };
    let configure = |keys: &str, names: &str, volume: &str| {
        let text = format!(
            "[server]\nstate_dir = 'state'\n[identity]\naccounts = 'accounts.toml'\n{ANY_PORT}[smb]\nlisten = '127.0.0.1:0'\n{keys}\n\
             [[https.certificate]]\ncert = 'crt'\nkey = 'key'\n{names}\n[[volume]]\nname = 'files'\npath = 'root'\n{volume}\n"
        );
        std::fs::write(site.config(), text).unwrap();
    };
    certificate(&["files.example", "www.example"]);
    accounts(&["alice"]);
    configure("", "", "");
    for (names, volume, has_users, name, begins) in [
        ("names = ['other.example']", "", true, "[certificate-other-name]", "certificate "),
        ("names = ['www.example', 'w.example']", "", true, "[certificate-other-name]", "certificate "),
        ("", "auth = 'always'", false, "[volume-auth-nobody]", "volume files, HTTP: auth is \"always\""),
        ("", "writable = 'alice,nosuch'", true, "[volume-writer-unknown]", "volume files, writer nosuch: "),
        ("", "writable = 'staff'", true, "[volume-writer-unknown]", "volume files, writer staff: "),
        ("", "", false, "[smb-no-users]", "SMB: nobody can sign in yet"),
    ] {
        if !has_users {
            accounts(&[]);
        }
        configure("", names, volume);
        let told = checked(&site.config());
        assert_eq!(told.matches(name).count(), 1, "{names} {volume}: {told}");
        let server = site.start();
        let is_told = || health(&server).lines().any(|line| line.starts_with(begins));
        server.says(name);
        assert!(is_told(), "{begins}: {}", health(&server));
        assert_eq!(server.stderr().matches(name).count(), 1, "{}", server.stderr());
        let users = std::fs::read(at("accounts.toml")).unwrap();
        accounts(&["alice"]);
        configure("", "", "");
        server.reload("reloaded");
        assert_eq!(health(&server), "ok\n");
        std::fs::write(at("accounts.toml"), users).unwrap();
        configure("", names, volume);
        server.reload("reloaded");
        assert!(is_told(), "{begins}: {}", health(&server));
        accounts(&["alice"]);
    }
}

#[test]
fn names_of_access_lists_that_no_account_has_are_told_by_the_command_the_check_and_the_start() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tree = home.path().join("tree");
    std::fs::create_dir_all(tree.join("sub")).unwrap();
    let set = |dir: &str, entry: &[&str]| -> Output {
        let mut set = linerate(["acl", "set", dir]);
        set.args(entry).args(["--accounts", "accounts.toml"]).current_dir(home.path()).output().unwrap()
    };
    let told = |done: &Output| String::from_utf8_lossy(&done.stderr).into_owned();
    // Without accounts there is nobody but those whom every server knows.
    let done = set("tree/sub", &["alice=read", "bob=read", "system:anyuser=read", "system:authuser=read"]);
    assert!(done.status.success(), "{}", told(&done));
    let line = told(&done).lines().find(|line| line.contains("no accounts")).map(str::to_owned);
    let line = line.unwrap_or_else(|| panic!("{}", told(&done)));
    assert!(line.contains("nobody is alice, bob:"), "{line}");
    for quiet in [&["system:anyuser=read"][..], &["alice=read", "--unknown"], &["alice=none"]] {
        let done = set("tree/sub", quiet);
        assert!(done.status.success() && !told(&done).contains("no accounts"), "{quiet:?}: {}", told(&done));
    }
    output(&mut {
        let mut set = linerate(["acl", "set", "tree/sub", "alice=read", "bob=read"]);
        set.args(["--accounts", "none.toml"]).current_dir(home.path());
        set
    });
    crate::support::share::add_user(home.path(), "alice", &[]);
    let text = format!(
        "[server]\nstate_dir = 'state'\n[identity]\naccounts = 'accounts.toml'\n{ANY_PORT}[[volume]]\nname = 'v'\npath = 'tree'\n"
    );
    let file = home.path().join("linerate.toml");
    std::fs::write(&file, text).unwrap();
    let is_told = |said: &str| {
        let lines: Vec<_> = said.lines().filter(|line| line.contains("[list-names-unknown]")).collect();
        assert!(
            lines.len() == 1 && lines[0].contains("names bob,") && lines[0].contains("tree/sub"),
            "{said}"
        );
    };
    is_told(&checked(&file));
    let server = Launch::config(&file).start();
    server.says("[list-names-unknown]");
    is_told(&server.stderr());
    drop(server);
    // Whoever has accounts is told of a new one before the list has it, and takes an old one out by its name.
    let refused = set("tree/sub", &["carol=read"]);
    assert!(
        !refused.status.success() && told(&refused).contains("no user or group carol"),
        "{}",
        told(&refused)
    );
    let done = set("tree/sub", &["bob=none"]);
    assert!(done.status.success(), "{}", told(&done));
    assert!(!checked(&file).contains("[list-names-unknown]"));
}

#[test]
fn keys_without_effect_are_told_by_check_start_and_reload() {
    let site = Site::new(&[("a.txt", b"hello\n")], "");
    let addresses =
        "[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n[admin]\nlisten = '127.0.0.1:0'\n";
    site.configure(addresses);
    assert!(!checked(&site.config()).contains("no effect"));
    let server = site.start();
    // Nothing of it is read: there are no such files.
    site.configure(&format!(
        "{addresses}[[https.certificate]]\ncert = 'no.crt'\nkey = 'no.key'\n[smb]\nlisten = 'off'\nsigning = 'required'\n"
    ));
    let is_told = |said: &str| {
        let lines: Vec<_> = said.lines().filter(|line| line.contains("[keys-without-effect]")).collect();
        assert_eq!(lines.len(), 2, "{said}");
        assert!(lines.iter().any(|line| line.contains("https.certificate[0] has no effect")), "{said}");
        assert!(lines.iter().any(|line| line.contains("smb.signing has no effect")), "{said}");
    };
    is_told(&checked(&site.config()));
    is_told(&Launch::config(&site.config()).arg("--check=reload").fail().1);
    server.reload("reloaded");
    is_told(&server.stderr());
    let started = site.start();
    started.says("smb.signing");
    is_told(&started.stderr());
}

#[test]
fn handles_that_are_refused_are_told_once_by_the_start_the_check_and_doctor() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for tree in ["one", "two"] {
        std::fs::create_dir(home.path().join(tree)).unwrap();
    }
    let text = format!(
        "[server]\nstate_dir = 'state'\n{ANY_PORT}[[volume]]\nname = 'one'\npath = 'one'\nwritable = 'anyone'\n\
         [[volume]]\nname = 'two'\npath = 'two'\nmount = '/two'\nwritable = 'anyone'\n"
    );
    let file = home.path().join("linerate.toml");
    std::fs::write(&file, text).unwrap();
    let has = rustix::thread::capabilities(None).unwrap().effective;
    let opens = has.contains(rustix::thread::CapabilitySet::DAC_READ_SEARCH);
    let doctor = |calls: &[&'static str]| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/without.py");
        let mut command = tool("python3", "python3");
        command.arg(script).args(calls).arg("--").arg(assert_cmd::cargo::cargo_bin!("linerate"));
        let done = command.args(["doctor", "--json"]).arg(home.path().join("one")).output().unwrap();
        let found: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        let name = format!("{}/one handles", home.path().display());
        let mut found = found.as_array().unwrap().iter();
        found.find(|finding| finding["name"] == name.as_str()).unwrap().clone()
    };
    if doctor(&["300=38"])["found"].as_str().unwrap().starts_with("the file system gives none") {
        return testkit::skip("the file system of the tests gives no handles");
    }
    // name_to_handle_at and open_by_handle_at: of each kind of filter that people have, and of a file system that has none.
    for (calls, words, is_told) in [
        (&["303=1"][..], "name_to_handle_at(2) is refused: ", true),
        (&["303=38"], "name_to_handle_at(2) is refused: ", true),
        (&["303=1", "304=1"], "name_to_handle_at(2) is refused: ", true),
        (&["303=95"], "the file system gives none: ", true),
        (&["304=1"], "given, but open_by_handle_at(2) is refused: ", opens),
        (&["304=38"], "given, but open_by_handle_at(2) is refused: ", opens),
        (&["300=38"], "", false),
    ] {
        let wanted = usize::from(is_told);
        let found = doctor(calls);
        assert_eq!(found["verdict"], if is_told { "warn" } else { "good" }, "{calls:?}: {found}");
        assert!(!is_told || found["found"].as_str().unwrap().starts_with(words), "{calls:?}: {found}");
        let check = Launch::config(&file).without(calls).arg("--check").fail().1;
        let mut server = Launch::config(&file).without(calls).start();
        assert!(put(&server, "/new").starts_with('2'));
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        for said in [check, server.stderr()] {
            assert_eq!(said.matches("[handles-refused]").count(), wanted, "{calls:?}: {said}");
            assert!(!is_told || said.contains("of volumes one, two that"), "{calls:?}: {said}");
            assert!(!is_told || said.contains(&format!("file handles: {words}")), "{calls:?}: {said}");
        }
        // Where nothing is numbered nobody needs them.
        let server = Launch::dir(&home.path().join("two")).without(calls).start();
        assert!(!server.stderr().contains("[handles-refused]"), "{}", server.stderr());
    }
}
