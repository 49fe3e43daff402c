//! Manners of every command: files of others, pipes, full disks, terminals.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::share::{PASSWORD, Share, USER};
use crate::support::{linerate, output, patterned, tool};

/// Has `get` fetch a file with this content over all that may have the name already. What is no file stays what it is.
pub(crate) fn get_replaces_nothing_but_files(get: impl Fn() -> Command, home: &Path, body: &[u8]) {
    let at = |name: &str| home.join(name);
    let kind_of = |name: &str| std::fs::symlink_metadata(at(name)).unwrap();
    // A device: written to.
    tool("mknod", "coreutils").arg(at("null")).args(["c", "1", "3"]).status().unwrap();
    let device = if at("null").exists() { at("null") } else { "/dev/null".into() };
    let device = device.to_str().unwrap();
    output(get().args(["--overwrite", "-o", device]));
    output(get().args(["-o", device]));
    let found = std::fs::symlink_metadata(device).unwrap();
    assert!(found.file_type().is_char_device(), "{device} is another thing now");
    // A pipe: its reader gets it.
    output(tool("mkfifo", "coreutils").arg(at("pipe")));
    let reader = std::thread::spawn({
        let pipe = at("pipe");
        move || std::fs::read(pipe).unwrap()
    });
    output(get().args(["--overwrite", "--verify", "-o"]).arg(at("pipe")));
    assert!(reader.join().unwrap() == body && kind_of("pipe").file_type().is_fifo());
    // Standard output too.
    let mut piped = get();
    let piped = piped.args(["-o", "/dev/stdout"]).stdout(Stdio::piped()).stdin(Stdio::null());
    let Output { status, stdout, .. } = piped.output().unwrap();
    assert!(status.success() && stdout.starts_with(body));
    // Links: what they lead to is the file, there or not yet.
    std::fs::create_dir(at("elsewhere")).unwrap();
    std::fs::write(at("elsewhere/target"), "old").unwrap();
    std::os::unix::fs::symlink("elsewhere/target", at("link")).unwrap();
    std::os::unix::fs::symlink("elsewhere/new", at("dangling")).unwrap();
    std::os::unix::fs::symlink("loop", at("loop")).unwrap();
    let taken = get().arg("-o").arg(at("link")).output().unwrap();
    assert!(!taken.status.success() && String::from_utf8_lossy(&taken.stderr).contains("--overwrite"));
    for (link, target) in [("link", "elsewhere/target"), ("dangling", "elsewhere/new")] {
        output(get().args(["--overwrite", "-o"]).arg(at(link)));
        assert!(std::fs::read(at(target)).unwrap() == body && kind_of(link).is_symlink(), "{link}");
    }
    assert!(!get().args(["--overwrite", "-o"]).arg(at("loop")).output().unwrap().status.success());
    assert!(kind_of("loop").is_symlink());
    // A file keeps its mode, and its owner where that can be.
    for mode in [0o600, 0o640, 0o666] {
        std::fs::write(at("secret"), "old").unwrap();
        std::fs::set_permissions(at("secret"), PermissionsExt::from_mode(mode)).unwrap();
        let is_root = std::os::unix::fs::chown(at("secret"), Some(12), Some(34)).is_ok();
        output(get().args(["--overwrite", "-o"]).arg(at("secret")));
        let found = kind_of("secret");
        assert!(found.mode() & 0o7777 == mode && std::fs::read(at("secret")).unwrap() == body, "{mode:o}");
        assert!(!is_root || (found.uid(), found.gid()) == (12, 34));
    }
    // A directory of a tree is no place for a tree's file, and the other way round nothing goes either.
    std::fs::create_dir(at("directory")).unwrap();
    output(get().args(["--overwrite", "-o"]).arg(at("directory")));
    assert!(kind_of("directory").is_dir());
    // Nothing is left beside them.
    let mut names: Vec<_> = std::fs::read_dir(home)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| name.contains("linerate-"));
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn get_over_smb_replaces_nothing_but_files() {
    let (home, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let body = patterned(300_001);
    std::fs::write(tree.path().join("file"), &body).unwrap();
    let share = Share::new(home.path(), tree.path(), "", "");
    let there = format!("smb://{USER}@{}/tree/file", share.address);
    let get = || {
        let mut get = linerate(["get", &there]);
        get.env("LINERATE_PASSWORD", PASSWORD);
        get
    };
    let here = tempfile::tempdir().unwrap();
    get_replaces_nothing_but_files(get, here.path(), &body);
}

/// Commands that say something on standard output, with nothing around them.
const SAY: [&[&str]; 16] = [
    &["--help"],
    &["--version"],
    &["help", "serve"],
    &["serve", "--help"],
    &["completions", "bash"],
    &["completions", "zsh"],
    &["man"],
    &["man", "volume", "check"],
    &["volume", "list"],
    &["volume", "list", "--json"],
    &["volume", "check"],
    &["user", "list", "--accounts", "accounts.toml"],
    &["group", "list", "--accounts", "accounts.toml"],
    &["acl", "get", "."],
    &["acl", "list", "."],
    &["doctor", "--json"],
];

#[test]
fn lost_output_is_a_failure_and_a_reader_that_has_left_is_none() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("accounts.toml"), "version = 1\n[user.alice]\nid = 1001\n").unwrap();
    std::fs::set_permissions(dir.path().join("accounts.toml"), PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::create_dir(dir.path().join("state")).unwrap();
    let command = |line: &[&str]| {
        let mut command = linerate(line);
        command.current_dir(dir.path()).env("LINERATE_STATE", "state").stdin(Stdio::null());
        command
    };
    for line in SAY {
        let whole = command(line).output().unwrap();
        assert!(!whole.stdout.is_empty(), "{line:?} says nothing");
        let full = command(line).stdout(File::create("/dev/full").unwrap()).output().unwrap();
        let told = String::from_utf8_lossy(&full.stderr);
        assert_eq!(full.status.code(), Some(1), "{line:?}: {told}");
        assert_eq!(told.matches("cannot write to standard output").count(), 1, "{line:?}: {told}");
        assert!(!told.contains("panicked"), "{line:?}: {told}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let left = command(line).stdout(writer).output().unwrap();
        assert_eq!(left.stderr, whole.stderr, "{line:?}: {}", String::from_utf8_lossy(&left.stderr));
        assert!([whole.status.code(), Some(0)].contains(&left.status.code()), "{line:?}: {}", left.status);
    }
    // What is wrong is not reported then, and the code stays.
    for line in [&["serve"][..], &["volume", "status", "none"], &["get", "smb://nobody"], &["frobnicate"]] {
        let whole = command(line).output().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        for to in [Stdio::from(writer), File::create("/dev/full").unwrap().into()] {
            let unheard = command(line).stderr(to).output().unwrap();
            assert_eq!(unheard.status.code(), whole.status.code(), "{line:?}");
        }
    }
}

#[test]
fn a_terminal_shows_what_is_typed_again_however_the_prompt_ends() {
    let home = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/prompt.py");
    // By the line, by Ctrl-D, by Ctrl-C, by Ctrl-Z and `fg`, and by signals of others. A script goes on after all but SIGINT.
    for (how, goes_on) in [
        ("line", true),
        ("end", true),
        ("stop", true),
        ("key", false),
        ("SIGINT", true),
        ("SIGTERM", true),
        ("SIGHUP", true),
    ] {
        let mut asked = tool("python3", "python3");
        asked.arg(&script).arg(how).arg(assert_cmd::cargo::cargo_bin!("linerate"));
        asked.args([
            "user",
            "add",
            &format!("u-{}", how.to_lowercase()),
            "--nt",
            "--accounts",
            "accounts.toml",
        ]);
        let told: Value = serde_json::from_slice(&output(asked.current_dir(home.path()))).unwrap();
        assert_eq!((&told["hidden"], &told["shown"]), (&true.into(), &true.into()), "{how}: {told}");
        assert!(!told["said"].as_str().unwrap().contains("Secret007"), "{how}: {told}");
        if how == "end" {
            let said = told["said"].as_str().unwrap();
            assert!(said.contains("no password was given") && !said.contains("Once more"), "{told}");
        }
        if how == "stop" {
            let stop = &told["stop"];
            assert_eq!((&stop["shown"], &stop["hidden_after"]), (&true.into(), &true.into()), "{told}");
            assert!(stop["asks"] == 2 && told["said"].as_str().unwrap().contains("u-stop is user"), "{told}");
        }
        // The terminal gives Ctrl-C to bash itself too; a signal to the command alone does not reach it.
        if !["SIGINT", "stop"].contains(&how) {
            assert_eq!(told["after"], goes_on, "{how}: {told}");
        }
    }
}

#[test]
fn a_password_on_standard_input_is_its_first_line_and_not_waited_for_longer() {
    let home = tempfile::tempdir().unwrap();
    for (name, typed) in [("a", "Secret007\n"), ("b", "Secret007\r\nand more"), ("c", "Secret007")] {
        let mut add =
            linerate(["user", "add", name, "--nt", "--password-stdin", "--accounts", "accounts.toml"]);
        let mut child =
            add.current_dir(home.path()).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(typed.as_bytes()).unwrap();
        // Where there is no line's end the input has one; else it goes on.
        let input = typed.contains('\n').then_some(input);
        let began = Instant::now();
        let status = crate::support::wait_for("the command to end", || child.try_wait().unwrap());
        assert!(status.success() && began.elapsed() < Duration::from_secs(20), "{name}");
        drop(input);
    }
    let mut text = String::new();
    File::open(home.path().join("accounts.toml")).unwrap().read_to_string(&mut text).unwrap();
    let hashes: Vec<_> = text.lines().filter(|line| line.starts_with("nt")).collect();
    assert!(hashes.len() == 3 && hashes.iter().all(|hash| *hash == hashes[0]), "{text}");
}

#[test]
fn an_input_that_ends_before_a_line_is_no_empty_password() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("accounts.toml"), "version = 1\n[user.alice]\nid = 1001\n").unwrap();
    std::fs::set_permissions(home.path().join("accounts.toml"), PermissionsExt::from_mode(0o600)).unwrap();
    for line in [
        &["user", "add", "bob", "--password-stdin", "--accounts", "accounts.toml"][..],
        &["user", "passwd", "alice", "--password-stdin", "--accounts", "accounts.toml"],
        &["ls", "smb://alice@127.0.0.1:1/pub", "--password-stdin"],
        &["get", "smb://alice@127.0.0.1:1/pub/a", "--password-stdin"],
    ] {
        let done = linerate(line).current_dir(home.path()).stdin(Stdio::null()).output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(1) && told.contains("no password was given"), "{line:?}: {told}");
    }
}

#[test]
fn a_file_that_goes_to_standard_output_has_nothing_beside_it_there() {
    let (home, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let body = patterned(300_001);
    std::fs::write(tree.path().join("file"), &body).unwrap();
    let share = Share::new(home.path(), tree.path(), "", "");
    let there = format!("smb://{USER}@{}/tree", share.address);
    let here = tempfile::tempdir().unwrap();
    let command = |args: &[&str]| {
        let mut command = linerate(args);
        command.env("LINERATE_PASSWORD", PASSWORD).current_dir(here.path());
        command
    };
    let file = format!("{there}/file");
    for output in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        for (flags, said) in
            [(&[][..], "KiB in"), (&["--json"], "\"bytes\":300001"), (&["--verify"], "sha256 ")]
        {
            let get = [&["get", &file, "-o", output], flags].concat();
            // A pipe, and a file, which is written to and not replaced.
            let piped = command(&get).output().unwrap();
            let told = String::from_utf8_lossy(&piped.stderr);
            assert!(piped.status.success() && piped.stdout == body && told.contains(said), "{get:?}: {told}");
            let at = here.path().join("out");
            let out = File::create(&at).unwrap();
            let number = out.metadata().unwrap().ino();
            let done = command(&get).stdout(out).output().unwrap();
            let told = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success() && told.contains(said), "{get:?}: {told}");
            assert!(std::fs::read(&at).unwrap() == body && at.metadata().unwrap().ino() == number, "{get:?}");
            std::fs::remove_file(&at).unwrap();
        }
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert!(
            command(&["get", &file, "-o", output]).stdout(writer).status().unwrap().success(),
            "{output}"
        );
        let tree = command(&["get", "-r", &there, "-o", output]).output().unwrap();
        let told = String::from_utf8_lossy(&tree.stderr);
        assert!(!tree.status.success() && told.contains("leave --recursive and --resume out"), "{told}");
    }
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0, "nothing is made");

    // A slash is behind a directory's name.
    for flags in [&[][..], &["--overwrite"], &["--resume"]] {
        let done = command(&[&["get", &file, "-o", "none/"], flags].concat()).output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && told.contains("there is no directory none/"), "{told}");
    }
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0, "nothing is made");

    // A socket is told of before anybody is asked for the file.
    let _socket = std::os::unix::net::UnixListener::bind(here.path().join("socket")).unwrap();
    let done = command(&["get", "smb://alice@127.0.0.1:1/tree/file", "-o", "socket"]).output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && told.contains("socket is a socket, which takes no files"), "{told}");

    // The other way.
    let put = |to: &str| {
        let mut put = command(&["put", "-", to, "--verify"]);
        let mut child =
            put.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(&body[..77_777]);
        let done = child.wait_with_output().unwrap();
        (done.status.success(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
    };
    let (good, told) = put(&format!("{there}/new"));
    assert!(good && std::fs::read(tree.path().join("new")).unwrap() == body[..77_777], "{told}");
    for directory in [there.clone(), format!("{there}/")] {
        let (good, told) = put(&directory);
        assert!(!good && told.contains("standard input has no name"), "{told}");
    }
    let mut both = command(&["put", "-", &format!("{there}/more"), "--password-stdin"]);
    let done = both.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && told.contains("standard input is the file"), "{told}");
    assert_eq!(std::fs::read_dir(tree.path()).unwrap().count(), 2);
}

#[test]
fn what_a_server_keeps_is_its_users_alone_whatever_the_umask_is_and_no_log_goes_there() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("tree")).unwrap();
    let config = |log: &str| {
        let text = format!(
            "[server]\nlanes = 1\nstate_dir = 'deep/state'\n[identity]\naccounts = 'other/accounts.toml'\n[log]\n{log}\n\
             [http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\n\
             [afs]\nlisten = '127.0.0.1:0'\nlocation_port = 0\nprotection_port = 0\nvolume_port = 0\n\
             [smb]\nlisten = '127.0.0.1:0'\n[[volume]]\nname = 'tree'\npath = 'tree'\nwritable = 'anyone'\n"
        );
        std::fs::write(at("linerate.toml"), text).unwrap();
    };
    config("access = 'access.log'\naudit = 'audit.log'");
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    let add = ["user", "add", "alice", "--no-password", "--accounts", "other/accounts.toml"];
    output(linerate(add).current_dir(dir.path()));
    let mut server = crate::support::Launch::config(&at("linerate.toml")).start();
    rustix::process::umask(mask);
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o7777;
    for directory in ["deep", "deep/state", "other"] {
        assert_eq!(mode(&at(directory)), 0o700, "{directory}");
    }
    for file in ["other/accounts.toml", "other/accounts.toml.lock", "access.log", "audit.log"] {
        assert_eq!(mode(&at(file)), 0o600, "{file}");
    }
    let mut kept = 0;
    let mut look = || {
        for entry in std::fs::read_dir(at("deep/state")).unwrap() {
            let path = entry.unwrap().path();
            let is_public = path.extension().is_some_and(|ending| ending == "crt");
            assert_eq!(mode(&path), if is_public { 0o644 } else { 0o600 }, "{}", path.display());
            // Nor is it taken for a log's.
            for log in ["access", "audit"] {
                config(&format!("{log} = '{}'", path.display()));
                let check = ["serve", "--check=reload", "--config", "linerate.toml"];
                let done = linerate(check).current_dir(dir.path()).output().unwrap();
                let told = String::from_utf8_lossy(&done.stderr);
                let is_told =
                    told.contains(&format!("log.{log}: ")) && told.contains("linerate.toml, line 7)");
                assert!(!done.status.success() && is_told, "{told}");
            }
            kept += 1;
        }
    };
    look();
    // Nor by a reload, which leaves the index as it is.
    config("access = 'deep/state/index.redb'");
    server.reload("[reload-refused]");
    server.says("log.access: ");
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().success());
    look();
    assert!(kept >= 10, "{kept}");
    let listed = output(linerate(["volume", "list", "--state", "deep/state"]).current_dir(dir.path()));
    assert!(String::from_utf8_lossy(&listed).contains("tree"));
}

#[test]
fn a_log_is_told_from_what_the_server_keeps_and_from_the_other_behind_a_mount_too() {
    let Some(_namespace) = testkit::netns::Namespace::new_or_skip() else { return };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for name in ["state", "mounted", "tree"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    for (log, refused) in [
        ("access = 'mounted/index.redb'", true),
        ("audit = 'mounted/rights.left'", true),
        ("access = 'mounted/a.log'\naudit = 'state/a.log'", true),
        ("access = 'mounted/a.log'\naudit = 'state/b.log'", false),
    ] {
        let text = format!(
            "[server]\nstate_dir = 'state'\n[log]\n{log}\n[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n\
             [admin]\nlisten = 'off'\n[[volume]]\nname = 'tree'\npath = 'tree'\n"
        );
        std::fs::write(dir.path().join("linerate.toml"), text).unwrap();
        let mut check = tool("unshare", "util-linux");
        check.args([
            "--mount",
            "sh",
            "-c",
            "mount --bind state mounted && exec \"$0\" serve --check -c linerate.toml",
        ]);
        check.arg(assert_cmd::cargo::cargo_bin!("linerate")).current_dir(dir.path());
        let done = check.output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.success(), !refused, "{log}: {told}");
        assert_eq!(told.contains("linerate: log.a"), refused, "{log}: {told}");
    }
}

#[test]
fn what_a_command_keeps_is_its_users_alone_whatever_the_umask_is() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut made = tool("sh", "dash");
    made.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(assert_cmd::cargo::cargo_bin!("linerate"));
    made.args(["volume", "create", "pub", "tree"])
        .env("LINERATE_STATE", "deep/state")
        .current_dir(dir.path());
    output(&mut made);
    let mode = |name: &str| dir.path().join(name).metadata().unwrap().mode() & 0o7777;
    assert_eq!([mode("deep/state"), mode("deep/state/index.redb")], [0o700, 0o600]);
}

#[test]
fn names_act_on_no_terminal() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let name = "a\u{1b}[31m\u{9b}2J\r\n\u{202e}b\u{200b}c\u{2060}\u{e0041}";
    std::fs::create_dir(dir.path().join(name)).unwrap();
    output(linerate(["acl", "set", name, "anyone=read"]).current_dir(dir.path()));
    let shows: [&[&str]; 6] = [
        &["acl", "list", "."],
        &["acl", "list", ".", "--json"],
        &["acl", "get", name],
        &["acl", "get", "gone\u{1b}[31m"],
        &["volume", "status", "gone\u{1b}[31m\u{9b}"],
        &["get", "smb://localhost/\u{1b}[31m"],
    ];
    for line in shows {
        let Output { stdout, stderr, .. } =
            linerate(line).current_dir(dir.path()).env("LINERATE_STATE", ".").output().unwrap();
        for said in [stdout, stderr] {
            let said = String::from_utf8(said).unwrap();
            let acts = |char: char| {
                char.is_control() && !"\n\t".contains(char)
                    || ['\u{202e}', '\u{200b}', '\u{2060}', '\u{e0041}'].contains(&char)
            };
            assert!(!said.contains(acts), "{line:?}: {said:?}");
        }
    }
}

#[test]
fn no_user_or_group_is_made_by_a_name_that_means_something_else() {
    let home = tempfile::tempdir().unwrap();
    output(
        linerate(["user", "add", "alice", "--no-password", "--accounts", "a.toml"]).current_dir(home.path()),
    );
    let before = std::fs::read(home.path().join("a.toml")).unwrap();
    for name in ["anyone", "listed", "nobody"] {
        for line in [&["user", "add", name, "--no-password"][..], &["group", "add", name]] {
            let refused =
                linerate(line).args(["--accounts", "a.toml"]).current_dir(home.path()).output().unwrap();
            let told = String::from_utf8_lossy(&refused.stderr);
            assert!(
                refused.status.code() == Some(1) && told.contains("means something else"),
                "{line:?}: {told}"
            );
        }
    }
    assert_eq!(std::fs::read(home.path().join("a.toml")).unwrap(), before);
    // Nor read where it was written by hand.
    for name in ["anyone", "listed", "nobody"] {
        let text = format!("version = 1\n[user.{name}]\nid = 5\n");
        std::fs::write(home.path().join("a.toml"), text).unwrap();
        let list =
            linerate(["user", "list", "--accounts", "a.toml"]).current_dir(home.path()).output().unwrap();
        let told = String::from_utf8_lossy(&list.stderr).into_owned();
        assert!(
            !list.status.success() && told.contains(name) && told.contains("means something else"),
            "{told}"
        );
    }
}

#[test]
fn a_server_on_a_terminal_has_colours_unless_the_user_wants_none() {
    let home = tempfile::tempdir().unwrap();
    let tree = home.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    // What a terminal shows of a check that warns of something.
    let shown = |name: &str, value: &str| {
        let mut on_terminal = tool("python3", "python3");
        on_terminal.args(["-c", "import pty, sys; pty.spawn(sys.argv[1:])"]);
        on_terminal.arg(assert_cmd::cargo::cargo_bin!("linerate")).args(["serve", "--check"]).arg(&tree);
        on_terminal.args([
            "--http",
            "0.0.0.0:0",
            "--https",
            "off",
            "--afs",
            "off",
            "--smb",
            "off",
            "--admin",
            "off",
        ]);
        on_terminal.args(["--writable", "anyone"]).env("XDG_STATE_HOME", home.path());
        on_terminal.env_remove("NO_COLOR").env("TERM", "xterm").env(name, value);
        let shown = String::from_utf8(output(&mut on_terminal)).unwrap();
        assert!(shown.contains("volume-open-to-all"), "{shown}");
        shown
    };
    for (name, value, has_colours) in
        [("NO_COLOR", "1", false), ("TERM", "dumb", false), ("NO_COLOR", "", true), ("TERM", "xterm", true)]
    {
        let shown = shown(name, value);
        assert_eq!(shown.contains('\x1b'), has_colours, "{name}={value}: {shown:?}");
    }
}

#[test]
fn progress_is_drawn_on_a_terminal_unless_the_user_wants_plain_text() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tree = home.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    (0..3000).for_each(|at| drop(File::create(tree.join(format!("f{at}"))).unwrap()));
    let state = home.path().join("state");
    output(linerate(["volume", "create", "home"]).arg(&tree).env("LINERATE_STATE", &state));
    for (name, value, is_drawn) in
        [("NO_COLOR", "1", false), ("TERM", "dumb", false), ("NO_COLOR", "", true), ("TERM", "xterm", true)]
    {
        let mut on_terminal = tool("python3", "python3");
        on_terminal.args(["-c", "import pty, sys; pty.spawn(sys.argv[1:])"]);
        on_terminal.arg(assert_cmd::cargo::cargo_bin!("linerate")).args(["volume", "check", "--dry-run"]);
        on_terminal.env("LINERATE_STATE", &state);
        on_terminal.env_remove("NO_COLOR").env("TERM", "xterm").env(name, value);
        let shown = String::from_utf8(output(&mut on_terminal)).unwrap();
        assert!(shown.contains("home"), "{shown:?}");
        assert_eq!(shown.contains(" names compared ["), is_drawn, "{name}={value}: {shown:?}");
    }
}

#[test]
fn an_empty_variable_of_the_environment_is_as_good_as_none() {
    let home = tempfile::tempdir().unwrap();
    let by_default = |line: &[&str]| {
        let mut command = linerate(line);
        command
            .env("XDG_CONFIG_HOME", home.path())
            .env("XDG_STATE_HOME", home.path())
            .current_dir(home.path());
        for name in ["LINERATE_ACCOUNTS", "LINERATE_STATE", "LINERATE_LOG"] {
            command.env(name, "");
        }
        String::from_utf8(output(&mut command)).unwrap()
    };
    std::fs::create_dir(home.path().join("linerate")).unwrap();
    by_default(&["group", "add", "staff"]);
    assert!(home.path().join("linerate/accounts.toml").exists());
    assert!(by_default(&["group", "list"]).contains("staff"));
    by_default(&["volume", "create", "home", "tree"]);
    assert!(by_default(&["volume", "list"]).contains("home"));
    let off = ["--http", "127.0.0.1:0", "--https", "off", "--afs", "off", "--smb", "off", "--admin", "off"];
    let check = [&["serve", "tree", "--check"], &off[..]].concat();
    assert!(by_default(&check).contains("the configuration is good"));
    // What is said on the command line is no omission.
    let empty = linerate(["group", "list", "--accounts", ""]).output().unwrap();
    assert_eq!(empty.status.code(), Some(2));
}

#[test]
fn a_password_in_an_address_is_repeated_nowhere() {
    for address in
        ["afs://u:Secret007@h/v", "afs://u:Secret007@h", "smb://u:Secret007@h/s", "smb://u:Secret007@h"]
    {
        for line in
            [&["ls", address][..], &["get", address], &["put", "x", address], &["ls", "smb://h/s", address]]
        {
            let refused = linerate(line).output().unwrap();
            let told = String::from_utf8_lossy(&refused.stderr);
            assert!(refused.status.code() == Some(2) && !told.contains("Secret007"), "{line:?}: {told}");
        }
    }
}

#[test]
fn another_web_server_is_told_from_an_admin_address_in_words() {
    for (answer, named) in [
        ("HTTP/1.1 404 Not Found\r\nServer: nginx/1.22\r\n\r\n", " (nginx/1.22)"),
        ("HTTP/1.1 301 Moved Permanently\r\nLocation: /\r\n\r\n", ""),
        ("HTTP/1.0 400 Bad Request\r\nserver: a\u{1b}[31mb\r\n\r\n", " (a\\u{1b}[31mb)"),
        ("HTTP/1.1 200 OK\r\n\r\n<html>", ""),
    ] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                asked.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let Output { status, stderr, .. } = linerate(["stat", &address.to_string()]).output().unwrap();
        server.join().unwrap();
        let told = String::from_utf8(stderr).unwrap();
        let words = format!("{address} is no admin address of Linerate: a web server{named} answers there");
        assert!(!status.success() && told.contains(&words) && !told.contains("HTTP/1."), "{told}");
    }
}

#[test]
fn every_listing_in_json_tells_files_apart_whose_names_are_no_utf8() {
    use std::collections::BTreeSet;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use identity::ATTRIBUTE_UNPRIVILEGED;
    use rustix::fs::XattrFlags;

    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tree = home.path().join("tree");
    let names: [&[u8]; 6] = [b"a\xff", b"a\xfe", b"a\xff\xfe", "a\u{fffd}".as_bytes(), b"a%ff", b"a\xc3"];
    for name in names {
        std::fs::create_dir_all(tree.join(OsStr::from_bytes(name))).unwrap();
        output(linerate(["acl", "set"]).arg(tree.join(OsStr::from_bytes(name))).arg("anyone=read"));
    }
    let unescaped = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let [first, tail @ ..] = rest {
            rest = match (first, tail.split_at_checked(2)) {
                (b'%', Some((digits, behind))) => {
                    bytes.push(u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap());
                    behind
                }
                _ => {
                    bytes.push(*first);
                    tail
                }
            };
        }
        bytes
    };
    let wanted: BTreeSet<Vec<u8>> = names.iter().map(|name| name.to_vec()).collect();
    let told = |command: &mut Command| serde_json::from_slice::<Value>(&output(command)).unwrap();
    let lists = told(linerate(["acl", "list", "--json"]).arg(&tree));
    let of_lists = lists.as_array().unwrap().iter().map(|list| unescaped(list["path"].as_str().unwrap()));
    let found: BTreeSet<_> =
        of_lists.map(|path| path.rsplit(|byte| *byte == b'/').next().unwrap().to_vec()).collect();
    assert_eq!(found, wanted, "{lists}");
    let one = told(linerate(["acl", "get", "--json"]).arg(tree.join(OsStr::from_bytes(names[0]))));
    assert!(unescaped(one["path"].as_str().unwrap()).ends_with(b"/a\xff"), "{one}");

    let server = crate::support::Launch::dir(&tree).start();
    let mut curl = tool("curl", "curl");
    let listing = told(curl.args(["-sSf", "-H", "Accept: application/json"]).arg(server.url("/")));
    let rows = listing["entries"].as_array().unwrap();
    let found: BTreeSet<_> =
        rows.iter().map(|row| unescaped(row["href"].as_str().unwrap().trim_end_matches('/'))).collect();
    assert_eq!(found, wanted, "{listing}");

    drop(server);
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Each has a list in either place, and the two differ.
    for name in names {
        let dir = tree.join(OsStr::from_bytes(name));
        rustix::fs::setxattr(&dir, ATTRIBUTE_UNPRIVILEGED, b"1 anyone=a\n", XattrFlags::empty()).unwrap();
    }
    let convert = linerate(["acl", "convert", "--to", "user", "--dry-run", "--json"]).arg(&tree).output();
    let converted: Value = serde_json::from_slice(&convert.unwrap().stdout).unwrap();
    let conflicts = converted["conflicts"].as_array().unwrap();
    let paths = conflicts.iter().map(|conflict| unescaped(conflict["path"].as_str().unwrap()));
    let found: BTreeSet<_> =
        paths.map(|path| path.rsplit(|byte| *byte == b'/').next().unwrap().to_vec()).collect();
    assert_eq!(found, wanted, "{converted}");
}

/// A command's help, as a terminal of so many columns shows it, without colours.
fn help(command: &[String], flag: &str, columns: usize) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/terminal.py");
    let mut shown = tool("python3", "python3");
    shown.arg(&script).arg(columns.to_string()).arg(assert_cmd::cargo::cargo_bin!("linerate"));
    let told = String::from_utf8(output(shown.args(command).arg(flag).env("TERM", "xterm"))).unwrap();
    let mut parts = told.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').unwrap().1)
}

#[test]
fn no_help_is_wider_than_its_terminal_or_than_people_read() {
    let mut waiting = vec![Vec::new()];
    let (mut looked_at, mut words_of) = (0, std::collections::BTreeMap::new());
    while let Some(command) = waiting.pop() {
        let mut told = String::new();
        for (columns, flag) in [(60, "-h"), (80, "-h"), (60, "--help"), (200, "--help")] {
            told = help(&command, flag, columns);
            for line in told.lines() {
                let width = line.chars().count();
                assert!(width <= columns.min(100), "{columns}: {command:?} {flag}: {width}\n{told}");
            }
            // Nothing is lost by where lines end.
            let words: Vec<String> = told.split_whitespace().map(str::to_owned).collect();
            let key = (command.clone(), flag);
            let before = words_of.entry(key).or_insert_with(|| words.clone());
            assert_eq!(*before, words, "{columns}: {command:?} {flag}");
        }
        looked_at += 1;
        let listed =
            told.split_once("Commands:\n").map_or("", |(_, behind)| behind.split("\n\n").next().unwrap());
        let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
            waiting.push([command.clone(), vec![name.to_owned()]].concat());
        }
    }
    assert!(looked_at > 45, "{looked_at} commands");
}

#[test]
fn completions_offer_what_help_shows_and_nothing_that_is_hidden() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = String::from_utf8(output(&mut linerate(["completions", shell]))).unwrap();
        for shown in ["serve-dotfiles", "access-log", "add-member", "clear"] {
            assert!(script.contains(shown), "{shell}: {shown}");
        }
        // What an option was called before, and what the program makes of `-NAME=RIGHTS` by itself.
        for line in script.lines() {
            let mut words = line.split(|char: char| !(char.is_ascii_alphanumeric() || char == '-'));
            let is_hidden = words.any(|word| ["--hidden", "--deny"].contains(&word));
            let is_hidden = is_hidden || ["-l hidden", "-l deny"].iter().any(|option| line.contains(option));
            assert!(!is_hidden, "{shell}: {line}");
        }
    }
}

#[test]
fn no_command_writes_a_line_that_is_wider_than_its_terminal() {
    let Some(_namespace) = testkit::netns::Namespace::new_or_skip() else { return };
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tree = home.path().join("tree");
    for name in ["short", &"a name of many words ".repeat(10), &"x".repeat(240)] {
        std::fs::create_dir_all(tree.join(name)).unwrap();
        std::fs::write(tree.join(name).join("file"), "text").unwrap();
        output(linerate(["acl", "set"]).arg(tree.join(name)).args(["anyone=read", "system:authuser=write"]));
    }
    let share = Share::new(home.path(), &tree, "guest = true\n[afs]\nlisten = '127.0.0.1:7000'", "");
    let mut client = share.smbclient();
    // It has a session for as long as its input is open.
    let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = client.stdin.take().unwrap();
    input.write_all(b"cd short\nget file /dev/null\n").unwrap();
    let (admin, smb) = (share.server.admin.to_string(), share.address);
    let smb = format!("smb://{USER}@{smb}/tree");
    crate::support::wait_for("a session", || {
        let told = output(&mut linerate(["smb", "sessions", "--server", &admin]));
        String::from_utf8(told).unwrap().contains(USER).then_some(())
    });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/terminal.py");
    let lines: [&[&str]; 10] = [
        &["ls", "afs://127.0.0.1/"],
        &["ls", "afs://127.0.0.1/tree"],
        &["ls", &smb],
        &["volume", "list", "--server", &admin],
        &["volume", "status", "tree", "--server", &admin],
        &["smb", "sessions", "--server", &admin],
        &["smb", "opens", "--server", &admin],
        &["acl", "list", "tree"],
        &["user", "list", "--accounts", "accounts.toml"],
        &["doctor", "tree"],
    ];
    for columns in [40, 60, 80, 132, 200] {
        for line in lines {
            let mut shown = tool("python3", "python3");
            shown.arg(&script).arg(columns.to_string()).arg(assert_cmd::cargo::cargo_bin!("linerate"));
            // Another server's state is nothing to this one's users.
            shown.env("LINERATE_STATE", "state").env("LINERATE_PASSWORD", PASSWORD);
            let shown = shown.args(line).current_dir(home.path());
            let told = String::from_utf8(output(shown)).unwrap();
            assert!(!told.trim().is_empty(), "{line:?}");
            // Commands that are to be copied stand further in.
            let is_copied = |line: &&str| !line.starts_with("       ") || line.trim_start().starts_with('-');
            for text in told.lines().filter(is_copied) {
                let is_one_word = text.split_whitespace().count() == 1;
                let width = text.chars().count();
                assert!(width <= columns || is_one_word, "{columns}, {line:?}: {width}\n{told}");
            }
        }
    }
    drop(input);
    client.wait().unwrap();
}
