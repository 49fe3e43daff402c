//! `linerate volume`: a volume from its making to its end, with a server between, and a server that has no place for its index.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::share::Share;
use crate::support::{Launch, Server, linerate, output, raw, tool};
use rustix::fs::XattrFlags;
use rustix::process::Signal;
use rustix::thread::CapabilitySet;
use serde_json::Value;
use testkit::netns::Namespace;

const ANY_PORT: &str = "[server]\nlanes = 2\nstate_dir = 'state'\n[http]\nlisten = '127.0.0.1:0'\n\
                        [https]\nlisten = 'off'\n[admin]\nlisten = '127.0.0.1:0'\n";

fn volume(dir: &Path, args: &[&str]) -> Command {
    let mut command = linerate([&["volume"], args].concat());
    command.env("LINERATE_STATE", dir.join("state")).current_dir(dir);
    command
}

fn said(dir: &Path, args: &[&str]) -> String {
    String::from_utf8(output(&mut volume(dir, args))).unwrap()
}

fn json(dir: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&said(dir, args)).unwrap()
}

/// Returns whether a server of this user keeps what it knows of files where none but root reaches it.
fn is_trusted() -> bool {
    rustix::thread::capabilities(None).unwrap().effective.contains(CapabilitySet::SYS_ADMIN)
}

/// A descriptor as Samba keeps it: a list of nothing.
const NOTHING: [u8; 36] = [
    1, 0, 1, 0, 0, 0, 2, 0, 1, 0, 4, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 2, 0, 8, 0, 0, 0,
    0, 0,
];

/// Returns how it ends, and what it says on standard output.
fn said_by(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, .. } = volume(dir, args).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap())
}

/// Returns what it says on standard error as it fails.
fn refused(dir: &Path, args: &[&str]) -> String {
    let Output { status, stderr, .. } = volume(dir, args).output().unwrap();
    assert_eq!(status.code(), Some(1), "{args:?}");
    String::from_utf8(stderr).unwrap()
}

fn upload(server: &Server, path: &str) -> String {
    let mut curl = tool("curl", "curl");
    curl.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", "-T", "Cargo.toml"]).arg(server.url(path));
    String::from_utf8(output(&mut curl)).unwrap()
}

#[test]
fn a_volume_is_made_served_asked_for_and_forgotten_and_its_files_stay() {
    // A directory whose file system keeps attributes, which that of temporary files may not.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = &dir.path().canonicalize().unwrap();
    for look in [&["list"][..], &["list", "--json"], &["status", "home"], &["check"], &["check", "home"]] {
        let told = refused(dir, look);
        assert!(told.contains("there is no directory ") && told.contains("--state"), "{look:?}: {told}");
    }
    assert!(refused(dir, &["remove", "home", "--yes"]).contains("there is no directory "));
    assert!(!dir.join("state").exists(), "a look makes nothing");
    std::fs::create_dir(dir.join("state")).unwrap();
    assert!(said(dir, &["list"]).starts_with("no volumes: there is no index in "));
    assert!(said(dir, &["check"]).starts_with("no volumes: "));
    assert_eq!(json(dir, &["list", "--json"]), serde_json::json!([]));
    assert!(refused(dir, &["remove", "home", "--yes"]).contains("there is no index in "));

    let made = said(dir, &["create", "home", "tree"]);
    assert!(made.starts_with("home is volume 536870913. "), "{made}");
    let (_, lines) = made.split_once(":\n\n").unwrap();
    assert!(refused(dir, &["create", "home", "other"]).contains("there is a volume home"));
    assert!(refused(dir, &["create", "twice", "tree"]).contains("is volume home already"));
    assert!(refused(dir, &["status", "none"]).contains("there is no volume none"));
    let idle = json(dir, &["status", "home", "--json"]);
    let of = |name: &str| &idle[name];
    assert_eq!((of("id"), of("served"), of("trouble")), (&536_870_913.into(), &false.into(), &Value::Null));
    assert_eq!(*of("path"), dir.join("tree").to_str().unwrap());

    // What it proposes is a configuration, and the index it names is the one that was written.
    let (server, rest) = lines.split_once("\n\n").unwrap();
    assert_eq!(server, format!("[server]\nstate_dir = {:?}", dir.join("state")));
    let rest = rest.replace("\"listed\"", "\"anyone\"");
    std::fs::write(dir.join("linerate.toml"), format!("{ANY_PORT}{rest}")).unwrap();
    let mut server = Launch::config(&dir.join("linerate.toml")).start();
    assert_eq!(upload(&server, "/a.toml"), "201");
    let admin = server.admin.to_string();
    let live = json(dir, &["status", "home", "--json", "--server", &admin]);
    assert_eq!((&live["id"], &live["served"]), (of("id"), &true.into()));
    assert!(live["generation"].as_u64() > of("generation").as_u64(), "{live}");
    let table = said(dir, &["list", "--server", &admin]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.len() == 2 && lines[0].find("served") == lines[1].find("yes"), "{table}");
    for wanted in ["number      536870913", "served      yes", "trouble     none"] {
        let status = said(dir, &["status", "home", "--server", &admin]);
        assert!(status.contains(wanted), "{status}");
    }
    let stopped = testkit::free_address().to_string();
    assert!(refused(dir, &["list", "--server", &stopped]).contains("a server holds the index, and is asked"));
    assert!(refused(dir, &["remove", "home", "--yes"]).contains("a server holds the index: stop it first"));
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    drop(server);

    let after = json(dir, &["status", "home", "--json"]);
    assert_eq!((&after["generation"], &after["served"]), (&live["generation"], &false.into()));
    let asked = volume(dir, &["remove", "home"]).output().unwrap();
    assert_eq!(asked.status.code(), Some(1));
    let asked = String::from_utf8(asked.stdout).unwrap();
    assert!(asked.contains("would be forgotten") && asked.contains("--yes"), "{asked}");
    assert_eq!(json(dir, &["list", "--json"]).as_array().unwrap().len(), 1);
    assert!(said(dir, &["remove", "home", "--yes"]).starts_with("volume home is forgotten; "));
    assert_eq!(json(dir, &["list", "--json"]), serde_json::json!([]));
    assert_eq!(std::fs::read("Cargo.toml").unwrap(), std::fs::read(dir.join("tree/a.toml")).unwrap());
    let again = said(dir, &["create", "home", "tree"]);
    assert!(again.starts_with("home is volume 536870916. "), "no number is given twice: {again}");
}

#[test]
fn a_volume_that_is_served_read_only_is_listed_as_that() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = &dir.path().canonicalize().unwrap();
    let mut config = ANY_PORT.to_owned();
    for (name, writable) in [("changed", Some("listed")), ("fixed", Some("nobody")), ("idle", None)] {
        said(dir, &["create", name, name]);
        if let Some(writable) = writable {
            config += &format!(
                "[[volume]]\nname = '{name}'\npath = '{name}'\nmount = '/{name}'\nwritable = '{writable}'\n"
            );
        }
    }
    std::fs::write(dir.join("linerate.toml"), config).unwrap();
    let server = Launch::config(&dir.join("linerate.toml")).start();
    let admin = server.admin.to_string();
    for (name, word, served, writable) in
        [("changed", "yes", true, true), ("fixed", "read-only", true, false), ("idle", "no", false, false)]
    {
        let volume = json(dir, &["status", name, "--json", "--server", &admin]);
        assert_eq!((&volume["served"], &volume["writable"]), (&served.into(), &writable.into()), "{volume}");
        let status = said(dir, &["status", name, "--server", &admin]);
        assert!(status.contains(&format!("served      {word}")), "{status}");
    }
}

#[test]
fn volumes_that_are_made_at_once_are_all_made_and_a_directory_is_open_to_nobody_elses_writes() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = &dir.path().canonicalize().unwrap();
    let create = |at: usize| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask 0; exec \"$0\" volume create v$1 above/tree$1"]);
        shell.arg(assert_cmd::cargo::cargo_bin!("linerate")).arg(at.to_string());
        shell.env("LINERATE_STATE", dir.join("state")).current_dir(dir);
        shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let made: Vec<_> = (0..8).map(create).collect();
    for child in made {
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    }
    assert_eq!(json(dir, &["list", "--json"]).as_array().unwrap().len(), 8);
    for made in ["above", "above/tree0", "above/tree7"] {
        let mode = std::fs::metadata(dir.join(made)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o755, "{made}: {mode:o}");
    }
}

#[test]
fn a_tree_that_another_server_writes_to_is_neither_compared_nor_called_good() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = &dir.path().canonicalize().unwrap();
    std::fs::create_dir(dir.join("tree")).unwrap();
    let volume_of = "[[volume]]\nname = 'pub'\npath = 'tree'\nwritable = 'anyone'\n";
    let [config, other] = ["linerate.toml", "other.toml"].map(|name| dir.join(name));
    std::fs::write(&config, format!("{ANY_PORT}{volume_of}")).unwrap();
    let text = ANY_PORT.replace("state_dir = 'state'", "state_dir = 'other'");
    std::fs::write(&other, format!("{text}{volume_of}")).unwrap();
    let mut server = Launch::config(&config).start();
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    drop(server);

    let check = |how: &str| {
        let Output { status, stderr, .. } =
            linerate(["serve", how, "--config"]).arg(&config).output().unwrap();
        (status.success(), String::from_utf8(stderr).unwrap())
    };
    let (good, said) = check("--check");
    assert!(good && !said.contains("[volume-in-use]"), "{said}");
    assert_eq!(said_by(dir, &["check", "--dry-run"]).0, Some(0));

    let server = Launch::config(&other).start();
    // What it has in use.
    std::fs::write(dir.join("tree/.linerate-1f-0-7"), "in use").unwrap();
    for how in [&["check", "--dry-run"][..], &["check"], &["check", "--dry-run", "--json"]] {
        let (code, told) = said_by(dir, how);
        assert_eq!(code, Some(1), "{how:?}: {told}");
        assert!(told.contains("a server that runs writes to"), "{how:?}: {told}");
        assert!(!told.contains("left by a crash") && !told.contains("(left)"), "{how:?}: {told}");
    }
    assert!(dir.join("tree/.linerate-1f-0-7").exists());
    let (good, said) = check("--check");
    assert!(good && said.contains("volume pub: another server that runs writes to "), "{said}");
    let (good, said) = check("--check=reload");
    assert!(good && !said.contains("[volume-in-use]"), "{said}");
    drop(server);
}

#[test]
fn a_check_finds_mends_and_then_has_nothing_to_do() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = &dir.path().canonicalize().unwrap();
    std::fs::create_dir(dir.join("state")).unwrap();
    assert!(said(dir, &["check"]).starts_with("no volumes: "));
    assert!(refused(dir, &["check", "pub"]).contains("there is no index in "));
    std::fs::create_dir(dir.join("tree")).unwrap();
    let text = format!("{ANY_PORT}[[volume]]\nname = 'pub'\npath = 'tree'\nwritable = 'anyone'\n");
    std::fs::write(dir.join("linerate.toml"), text).unwrap();
    let mut server = Launch::config(&dir.join("linerate.toml")).start();
    for path in ["/gone", "/moved", "/stays"] {
        assert_eq!(upload(&server, path), "201");
    }
    assert!(refused(dir, &["check"]).contains("a server holds the index: stop it first"));
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    drop(server);

    let json = |args: &[&str], code: i32| {
        let Output { status, stdout, stderr } = volume(dir, args).output().unwrap();
        assert_eq!(status.code(), Some(code), "{args:?}: {}", String::from_utf8_lossy(&stderr));
        let all: Value = serde_json::from_slice(&stdout).unwrap();
        let kinds = |volume: &Value| {
            let problems = volume["problems"].as_array().unwrap().iter();
            let mut kinds: Vec<_> =
                problems.map(|problem| problem["kind"].as_str().unwrap().to_owned()).collect();
            kinds.sort_unstable();
            kinds
        };
        (kinds(&all[0]), all[0].clone())
    };
    let (kinds, sound) = json(&["check", "--json"], 0);
    assert_eq!((kinds.len(), &sound["names"], &sound["records"]), (0, &3.into(), &4.into()), "{sound}");

    std::fs::remove_file(dir.join("tree/gone")).unwrap();
    std::fs::rename(dir.join("tree/moved"), dir.join("tree/elsewhere")).unwrap();
    std::fs::write(dir.join("tree/.linerate-1f-0-7"), "left").unwrap();
    let wrong = ["gone", "leftover", "moved"];
    let (kinds, seen) = json(&["check", "pub", "--dry-run", "--json"], 4);
    assert_eq!((&kinds[..], &seen["mended"]), (&wrong.map(str::to_owned)[..], &0.into()));
    assert!(dir.join("tree/.linerate-1f-0-7").exists());
    let told = volume(dir, &["check", "--dry-run"]).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("last seen as gone, is gone (left)"), "{told}");
    assert!(told.lines().last().unwrap().ends_with("3       0     3"), "{told}");
    let (kinds, seen) = json(&["check", "pub", "--json"], 3);
    assert_eq!((&kinds[..], &seen["mended"]), (&wrong.map(str::to_owned)[..], &3.into()));
    assert!(!dir.join("tree/.linerate-1f-0-7").exists());
    assert_eq!(json(&["check", "--json"], 0).1["records"], 3);

    // A descriptor that cannot be read is told with its name, and left.
    let attribute = if is_trusted() { c"security.NTACL" } else { c"user.NTACL" };
    let described = |name: &str, value: &[u8]| {
        rustix::fs::setxattr(dir.join("tree").join(name), attribute, value, XattrFlags::empty()).unwrap();
    };
    described("elsewhere", &NOTHING);
    described("stays", &NOTHING[..12]);
    let (kinds, seen) = json(&["check", "pub", "--json"], 4);
    assert_eq!((&kinds[..], &seen["descriptors"]), (&["descriptor".to_owned()][..], &2.into()));
    let what = seen["problems"][0]["what"].as_str().unwrap();
    assert!(what.starts_with("the security descriptor of stays: it is damaged"), "{what}");
    assert!(what.contains("Nobody gets at it but administrators"), "{what}");
    described("stays", &NOTHING);
    assert_eq!(json(&["check", "--json"], 0).1["descriptors"], 2);

    // What only the administrator can mend stays wrong until mended.
    said(dir, &["create", "other", "other"]);
    std::fs::rename(dir.join("other"), dir.join("tree/other")).unwrap();
    std::os::unix::fs::symlink("tree/other", dir.join("other")).unwrap();
    let (_, inside) = json(&["check", "other", "--json"], 4);
    assert_eq!(inside["overlaps"], serde_json::json!(["pub"]));
    assert!(refused(dir, &["create", "third", "tree/third"]).contains("lie one inside the other"));
    assert!(refused(dir, &["check", "none"]).contains("there is no volume none"));
}

#[test]
fn a_directory_gives_its_volume_its_name_and_the_volume_is_the_same_under_another() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = &dir.path().canonicalize().unwrap();
    // Where a server that no configuration tells otherwise has its index.
    std::fs::create_dir(dir.join("linerate")).unwrap();
    std::os::unix::fs::symlink("linerate", dir.join("state")).unwrap();
    // As one is recorded that was served when all of them were called so.
    said(dir, &["create", "files", "tree"]);
    let number = &json(dir, &["status", "files", "--json"])["id"];
    for (tree, name) in [("tree", "tree"), ("My Trees", "My-Trees")] {
        if tree != "tree" {
            std::fs::rename(dir.join("tree"), dir.join(tree)).unwrap();
        }
        let launch = Launch::dir(&dir.join(tree)).state(dir);
        let mut server = launch.arg("--writable").arg("anyone").start();
        assert_eq!(upload(&server, &format!("/{name}.toml")), "201");
        for known in ["/tree.toml", &format!("/{name}.toml")] {
            assert_eq!(raw::get(server.http[0], known).status, 200, "its URLs have no name of a volume");
        }
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        let all = json(dir, &["list", "--json"]);
        assert_eq!((&all[0]["name"], &all[0]["id"], &all[1]), (&name.into(), number, &Value::Null));
    }

    // Another directory of that name is another volume, which the name does not lead to.
    let other = dir.join("other/My Trees");
    std::fs::create_dir_all(&other).unwrap();
    let server = Launch::dir(&other).state(dir).arg("--writable").arg("anyone").start();
    server.says("it is another directory, which was not served before");
    assert_eq!(upload(&server, "/a.toml"), "405");
}

#[test]
fn a_start_says_how_the_last_server_ended_when_that_was_not_in_order() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::create_dir(dir.path().join("tree")).unwrap();
    let text = format!("{ANY_PORT}[[volume]]\nname = 'pub'\npath = 'tree'\nwritable = 'anyone'\n");
    std::fs::write(dir.path().join("linerate.toml"), text).unwrap();
    let start = || Launch::config(&dir.path().join("linerate.toml")).start();
    let words = "the last server was killed or crashed";
    let mut first = start();
    assert!(!first.stderr().contains(words), "{}", first.stderr());
    first.signal(Signal::KILL);
    first.wait();
    // A look between changes nothing about it.
    let look = said(dir.path(), &["list"]);
    assert!(look.contains("pub"), "{look}");
    let mut second = start();
    second.says(words);
    second.signal(Signal::TERM);
    assert!(second.wait().success());
    said(dir.path(), &["list"]);
    let third = start();
    assert!(!third.stderr().contains(words), "{}", third.stderr());
}

#[test]
fn without_a_place_for_the_index_a_server_reads_only_and_says_so_everywhere() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (tree, state) = (dir.path().join("tree"), dir.path().join("state"));
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("a.txt"), "a").unwrap();
    std::fs::write(&state, "no directory").unwrap();
    std::fs::write(
        dir.path().join("linerate.toml"),
        format!("{ANY_PORT}[[volume]]\nname = 'pub'\npath = 'tree'\nwritable = 'anyone'\n"),
    )
    .unwrap();
    let server = Launch::config(&dir.path().join("linerate.toml")).start();
    let why = format!("nothing can be written to it: the index in {}: ", state.display());
    server.says(&why);
    let told = format!("tree is read-only, though the configuration says otherwise: {why}");
    assert!(server.stdout().contains(&told), "{}", server.stdout());
    let health = raw::get(server.admin, "/health");
    let health = String::from_utf8(health.body).unwrap();
    assert!(health.starts_with(&format!("ok\nvolume pub, writing: {why}")), "{health}");
    assert_eq!(upload(&server, "/b.txt"), "405");
    let stat = output(&mut linerate(["stat", "-n", "1", "-i", "0.1", &server.admin.to_string()]));
    let stat = String::from_utf8(stat).unwrap();
    assert!(
        stat.contains("volume pub: nothing can be written to it, and AFS does not attach it: "),
        "{stat}"
    );
    assert_eq!(raw::get(server.http[0], "/a.txt").body, b"a");
    assert!(!tree.join("b.txt").exists());
}

#[test]
fn a_file_of_two_volumes_is_served_in_one_and_the_other_says_so() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = &dir.path().canonicalize().unwrap();
    for name in ["one", "two"] {
        std::fs::create_dir(dir.join(name)).unwrap();
        std::fs::write(dir.join(name).join("own"), name).unwrap();
    }
    std::fs::write(dir.join("one/both"), "of two").unwrap();
    std::fs::hard_link(dir.join("one/both"), dir.join("two/both")).unwrap();
    let volumes = |inner: &str| {
        format!(
            "{ANY_PORT}[[volume]]\nname = 'one'\npath = 'one'\nwritable = 'anyone'\n\
             [[volume]]\nname = 'two'\npath = '{inner}'\nmount = '/two'\nwritable = 'anyone'\n"
        )
    };
    let config = dir.join("linerate.toml");
    std::fs::write(&config, volumes("two")).unwrap();
    let server = Launch::config(&config).start();
    assert_eq!(raw::get(server.http[0], "/both").body, b"of two");
    for path in ["/two/both", "/two/both"] {
        assert_eq!(raw::get(server.http[0], path).status, 403, "{path}");
    }
    assert_eq!(raw::get(server.http[0], "/two/own").body, b"two");
    assert_eq!(upload(&server, "/two/new"), "201");
    server.says("[volume-file-of-two]");
    assert!(server.stderr().contains("volume two: a file of it is refused, as it is in volume one too"));
    drop(server);

    // One inside the other they are refused, also where no client writes but clients that keep files are
    // served.
    for smb in [false, true] {
        std::fs::create_dir_all(dir.join("one/in")).unwrap();
        let mut text = volumes("one/in");
        if smb {
            text = text.replace("writable = 'anyone'", "") + "[smb]\nlisten = '127.0.0.1:0'\n";
        }
        std::fs::write(&config, text).unwrap();
        let (status, said) = Launch::config(&config).arg("--check").fail();
        assert!(!status.success() && said.contains("volume one lie one inside the other"), "{said}");
    }
}

/// Something that is mounted, until this is dropped.
pub(crate) struct Mounted(std::path::PathBuf);

impl Mounted {
    pub(crate) fn new(at: &Path, args: &[&str]) -> Self {
        output(Command::new("mount").args(args).arg(at));
        Self(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn what_is_mounted_over_a_directory_that_was_served_hides_it_within_a_second_and_has_its_own_rights() {
    if !is_trusted() {
        eprintln!("skipped: mounts need root");
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = &dir.path().canonicalize().unwrap();
    for (writable, port) in [("nobody", 0), ("anyone", 1)] {
        let tree = dir.join(format!("tree{port}"));
        for (at, text) in [("open/in", "of old"), ("shut/in", "hidden"), ("m/1", "of old")] {
            std::fs::create_dir_all(tree.join(at)).unwrap();
            std::fs::write(tree.join(at).join("f"), text).unwrap();
        }
        let config = dir.join("linerate.toml");
        let volume =
            format!("[[volume]]\nname = 'v'\npath = '{}'\nwritable = '{writable}'\n", tree.display());
        std::fs::write(&config, format!("{ANY_PORT}{volume}")).unwrap();
        let server = Launch::config(&config).start();
        let get = |path: &str| raw::get(server.http[0], path);
        for path in ["/open/in/f", "/open/in/", "/m/1/f", "/m/1/", "/m/"] {
            assert_eq!(get(path).status, 200, "{path}");
        }
        // Makes a file system that is open to no user, one whose directory is another, and one bound from a
        // directory that is closed.
        let made = |at: &Path| {
            std::fs::create_dir_all(at).unwrap();
            std::fs::write(at.join("f"), "secret").unwrap();
            std::fs::write(at.join("g"), "secret").unwrap();
        };
        let closed = Mounted::new(&tree.join("m"), &["-t", "tmpfs", "-o", "mode=700", "none"]);
        made(&tree.join("m/1"));
        let other = Mounted::new(&tree.join("open/in"), &["-t", "tmpfs", "-o", "mode=755", "none"]);
        std::fs::write(tree.join("open/in/f"), "of new").unwrap();
        std::thread::sleep(std::time::Duration::from_secs(1));
        for path in ["/m/1/f", "/m/1/g", "/m/1/", "/m/f"] {
            let answer = get(path);
            assert!(matches!(answer.status, 401 | 403 | 404), "{writable}: {path}: {}", answer.status);
        }
        assert_eq!(get("/open/in/f").body, b"of new", "{writable}");
        // What comes to light again has the rights that it had.
        drop(other);
        std::fs::set_permissions(tree.join("shut"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        let over = Mounted::new(&tree.join("shut"), &["-t", "tmpfs", "-o", "mode=755", "none"]);
        std::fs::create_dir(tree.join("shut/in")).unwrap();
        std::fs::write(tree.join("shut/in/f"), "for all").unwrap();
        std::thread::sleep(std::time::Duration::from_secs(1));
        assert_eq!(get("/shut/in/f").body, b"for all", "{writable}");
        assert_eq!(get("/open/in/f").body, b"of old", "{writable}");
        drop((over, closed));
        std::thread::sleep(std::time::Duration::from_secs(1));
        let answer = get("/shut/in/f");
        assert!(matches!(answer.status, 401 | 403 | 404), "{writable}: {}", answer.status);
        assert_eq!(get("/m/1/f").body, b"of old", "{writable}");
    }
}

#[test]
fn what_is_mounted_beneath_a_volume_can_be_unmounted_soon_after_its_files_were_used() {
    if !is_trusted() {
        return testkit::skip("mounts need root");
    }
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = &home.path().canonicalize().unwrap();
    let tree = home.join("tree");
    for place in ["rest", "signal"] {
        std::fs::create_dir_all(tree.join(place)).unwrap();
    }
    std::fs::write(home.join("local"), "new").unwrap();
    let share = Share::new(home, &tree, "[afs]\nlisten = '127.0.0.1:7000'\n", "");
    for (place, signal, seconds) in [("rest", None, 11), ("signal", Some(Signal::HUP), 2)] {
        let mounted = tree.join(place);
        let disk = Mounted::new(&mounted, &["-t", "tmpfs", "-o", "mode=1777", "none"]);
        std::fs::create_dir(mounted.join("dir")).unwrap();
        std::fs::write(mounted.join("dir/f"), "old").unwrap();
        // It is seen within a second.
        std::thread::sleep(Duration::from_millis(1_200));
        assert_eq!(raw::get(share.server.http[0], &format!("/{place}/dir/f")).body, b"old");
        assert_eq!(raw::get(share.server.http[0], &format!("/{place}/dir/")).status, 200);
        share.put_by_http("local", &format!("/{place}/dir/by-http"));
        let commands = r"ls PLACE\dir\*; get PLACE\dir\f got; put local PLACE\dir\by-smb; rename PLACE\dir\by-smb PLACE\dir\renamed";
        share.does(&commands.replace("PLACE", place));
        match signal {
            Some(signal) => share.server.signal(signal),
            // What is mounted over a name that AFS clients know has a number that they do not.
            None => {
                let there = format!("afs://127.0.0.1/tree/{place}/dir/");
                output(
                    linerate(["put", "--overwrite", "local", &format!("{there}by-afs")]).current_dir(home),
                );
                output(linerate(["ls", &there]).current_dir(home));
            }
        }
        let end = Instant::now() + Duration::from_secs(seconds);
        let is_unmounted = || Command::new("umount").arg(&mounted).output().unwrap().status.success();
        while !is_unmounted() {
            assert!(Instant::now() < end, "busy for {seconds} s after {signal:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(disk);
    }
}
