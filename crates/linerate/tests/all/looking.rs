//! Looking never writes: every command that only shows something leaves all that lies on the disk as it is.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::{Launch, linerate, output, tool};
use rustix::process::Signal;

/// Picture of a directory: of each name its kind, mode, time of change and bytes.
type Picture = BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)>;

fn picture(dir: &Path) -> Picture {
    let mut seen = Picture::new();
    let mut ahead = vec![dir.to_owned()];
    while let Some(path) = ahead.pop() {
        let found = std::fs::symlink_metadata(&path).unwrap();
        let bytes = if found.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        if found.is_dir() {
            ahead.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        seen.insert(path, (found.mode(), found.mtime(), found.mtime_nsec(), bytes));
    }
    seen
}

/// Everything that shows and is not to change anything, with the exit code that it ends with where the index can be opened, and where
/// it cannot.
const LOOKS: [(&str, i32, i32); 18] = [
    ("volume list", 0, 1),
    ("volume list --json", 0, 1),
    ("volume status pub", 0, 1),
    ("volume status pub --json", 0, 1),
    ("volume check --dry-run", 4, 1),
    ("volume check --dry-run --json", 4, 1),
    ("volume check pub --dry-run", 4, 1),
    ("volume remove pub", 1, 1),
    ("user list --accounts accounts.toml", 0, 0),
    ("user list --accounts none.toml", 1, 1),
    ("group list --accounts accounts.toml", 0, 0),
    ("acl get tree", 0, 0),
    ("acl list tree", 0, 0),
    ("acl convert tree --dry-run", 0, 0),
    ("serve --config linerate.toml --check", 0, 0),
    ("serve --config linerate.toml --check=reload", 0, 0),
    ("doctor tree", 0, 0),
    ("man volume check", 0, 0),
];

/// The state of a server that has stopped in order or was killed, with something for a check to find.
fn left_by_a_server(is_killed: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir(path("tree")).unwrap();
    std::fs::write(path("accounts.toml"), "version = 1\n[user.alice]\nid = 1001\n").unwrap();
    std::fs::set_permissions(path("accounts.toml"), PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(
        path("linerate.toml"),
        "[server]\nlanes = 2\nstate_dir = 'state'\n[http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = '127.0.0.1:0'\n\
         [admin]\nlisten = '127.0.0.1:0'\n[afs]\nlisten = '127.0.0.1:0'\nprotection_port = 0\nlocation_port = 0\n\
         volume_port = 0\n[identity]\naccounts = 'accounts.toml'\n[[volume]]\nname = 'pub'\npath = 'tree'\n\
         writable = 'anyone'\n",
    )
    .unwrap();
    let mut server = Launch::config(&path("linerate.toml")).start();
    for name in ["gone", "stays"] {
        let mut curl = tool("curl", "curl");
        output(curl.args(["-sSf", "-T", "Cargo.toml"]).arg(server.url(&format!("/{name}"))));
    }
    if is_killed {
        server.signal(Signal::KILL);
        server.wait();
    } else {
        server.signal(Signal::TERM);
        assert!(server.wait().success());
    }
    std::fs::remove_file(path("tree/gone")).unwrap();
    dir
}

/// Looks in every way, and says what each printed on standard error.
fn look_around(dir: &Path, index_opens: bool) -> Vec<(&'static str, String)> {
    let before = picture(dir);
    let of = |(line, sound, unsound): (&'static str, i32, i32)| {
        let mut command = linerate(line.split(' ').collect::<Vec<_>>());
        command.env("LINERATE_STATE", dir.join("state")).current_dir(dir);
        let Output { status, stdout, stderr } = command.output().unwrap();
        let told = String::from_utf8_lossy(&stderr).into_owned();
        let wanted = if index_opens { sound } else { unsound };
        // What a machine lacks is told by a code too.
        let is_right = line.starts_with("doctor") || status.code() == Some(wanted);
        assert!(is_right, "{line} ended with {status}: {}{told}", String::from_utf8_lossy(&stdout));
        let after = picture(dir);
        assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{line}");
        for (path, seen) in &after {
            assert!(*seen == before[path], "{line} has written to {}", path.display());
        }
        (line, told)
    };
    LOOKS.into_iter().map(of).collect()
}

#[test]
fn looking_never_writes_however_the_server_stopped_and_whatever_the_index_is() {
    for is_killed in [false, true] {
        let dir = left_by_a_server(is_killed);
        look_around(dir.path(), true);
        // Nor does it change how the next start finds things.
        let mut server = Launch::config(&dir.path().join("linerate.toml")).start();
        if is_killed {
            server.says("index-after-kill");
        }
        assert!(!server.stderr().contains("index-after-crash"), "{}", server.stderr());
        server.signal(Signal::TERM);
        assert!(server.wait().success());
    }
    let dir = left_by_a_server(false);
    let index = dir.path().join("state/index.redb");
    let sound = std::fs::read(&index).unwrap();
    // A file of a later redb bears its version at the head of both slots for commits.
    let mut later = sound.clone();
    (later[64], later[192]) = (9, 9);
    for (bytes, words) in [
        (b"precious, though no index".to_vec(), "the index is damaged: "),
        (later, "redb's format 9, this program reads 3"),
    ] {
        std::fs::write(&index, &bytes).unwrap();
        for (line, told) in look_around(dir.path(), false) {
            let is_about_it = line.starts_with("volume");
            assert_eq!(is_about_it && told.contains(words), is_about_it, "{line}: {told}");
            assert!(!is_about_it || told.contains("volume check --replace-index"), "{line}: {told}");
            // What a start would say, and does below.
            if line.starts_with("serve") {
                assert!(told.contains(words) && told.contains("[index-unusable]"), "{line}: {told}");
            }
        }
        // A server that cannot read it serves, says so, and lets nothing be written.
        let mut server = Launch::config(&dir.path().join("linerate.toml")).start();
        server.says(words);
        server.says("--replace-index");
        let mut curl = tool("curl", "curl");
        curl.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", "-T", "Cargo.toml"])
            .arg(server.url("/new"));
        assert_ne!(String::from_utf8(output(&mut curl)).unwrap(), "201");
        server.signal(Signal::TERM);
        server.wait();
        assert_eq!(std::fs::read(&index).unwrap(), bytes);
        let run = |args: &[&str]| {
            let mut command = linerate(args.iter().copied());
            command.env("LINERATE_STATE", dir.path().join("state"));
            command.output().unwrap()
        };
        for changes in [&["volume", "check"][..], &["volume", "remove", "pub", "--yes"]] {
            assert_eq!(run(changes).status.code(), Some(1));
            assert_eq!(std::fs::read(&index).unwrap(), bytes, "{changes:?}");
        }
        let replaced = run(&["volume", "check", "--replace-index"]);
        let said = String::from_utf8_lossy(&replaced.stdout).into_owned();
        assert!(replaced.status.success() && said.contains("index.redb.replaced-"), "{said}");
        let again = run(&["volume", "check", "--replace-index"]);
        assert_eq!(again.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&again.stderr).contains("can be opened"));
        let kept: Vec<_> =
            std::fs::read_dir(dir.path().join("state")).unwrap().map(|of| of.unwrap().path()).collect();
        let kept = kept.iter().filter(|path| path.to_string_lossy().contains(".replaced-"));
        assert!(kept.map(|path| std::fs::read(path).unwrap()).any(|kept| kept == bytes));
    }
    // Above the marks that the tree bears.
    let mut server = Launch::config(&dir.path().join("linerate.toml")).start();
    let mut curl = tool("curl", "curl");
    output(curl.args(["-sSf", "-T", "Cargo.toml"]).arg(server.url("/new")));
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}
