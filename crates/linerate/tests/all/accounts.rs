//! Users, groups and access lists as an operator makes them, and a server that reads them.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::site::{ANY_PORT, Site};
use crate::support::{Launch, linerate, output, patterned, raw, tool};
use identity::{Accounts, Acl, Secret};
use serde_json::Value;
use tempfile::TempDir;

struct Scene {
    dir: TempDir,
}

impl Scene {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> std::path::PathBuf {
        self.dir.path().join("accounts.toml")
    }

    /// `linerate ARGS` with these accounts.
    fn command(&self, args: &str) -> Command {
        let mut command = linerate(args.split_whitespace());
        command.env("LINERATE_ACCOUNTS", self.file());
        command
    }

    fn does(&self, args: &str) -> String {
        String::from_utf8(output(&mut self.command(args))).unwrap()
    }

    fn fails(&self, args: &str) -> String {
        told(self.command(args).stdin(Stdio::null()).output().unwrap())
    }

    /// With a password on standard input.
    fn with_password(&self, args: &str, password: &[u8]) -> Output {
        let mut command = self.command(args);
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = streams.spawn().unwrap();
        child.stdin.take().unwrap().write_all(password).unwrap();
        child.wait_with_output().unwrap()
    }

    fn accounts(&self) -> std::sync::Arc<Accounts> {
        Accounts::parse(&std::fs::read_to_string(self.file()).unwrap()).unwrap()
    }

    fn signs_in(&self, name: &str, password: &str) -> bool {
        self.accounts().verify(name, &Secret::from(password)).is_ok()
    }
}

/// Returns what a command says that fails.
fn told(output: Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_user_gets_a_password_another_one_and_none_any_more() {
    let scene = Scene::new();
    let added = scene.with_password("user add alice --password-stdin --uid 501", b"correct horse\nrest\n");
    let said = String::from_utf8(added.stdout).unwrap();
    assert!(added.status.success() && said.starts_with("alice is user 1000\n"), "{said}");
    assert!(said.contains("SIGHUP") && !said.contains("horse"), "{said}");
    assert!(said.contains("linerate user passwd alice --nt"), "what SMB lacks is said: {said}");
    assert!(scene.signs_in("alice", "correct horse") && !scene.signs_in("alice", "correct horse\n"));
    assert_eq!(std::fs::metadata(scene.file()).unwrap().permissions().mode() & 0o777, 0o600);

    let again = told(scene.with_password("user add alice --password-stdin", b"another horse"));
    assert!(again.contains("linerate user passwd alice"), "{again}");
    let changed = scene.with_password("user passwd alice --password-stdin --nt", b"battery staple\r\n");
    assert!(changed.status.success(), "{changed:?}");
    let said = String::from_utf8(changed.stdout).unwrap();
    assert!(said.contains("\n  smbclient -U alice //SERVER/VOLUME\n"), "{said}");
    assert!(scene.signs_in("alice", "battery staple") && !scene.signs_in("alice", "correct horse"));
    let nt = |scene: &Scene| {
        scene.accounts().users()[0].has_nt.then(|| *scene.accounts().nt_hash("alice").expose())
    };
    let first = nt(&scene).expect("it was asked for");
    scene.with_password("user passwd alice --password-stdin", b"paper towel 9");
    assert!(nt(&scene).is_some_and(|second| second != first), "an NT hash of the old password must not stay");
    scene.with_password("user passwd alice --password-stdin --no-nt", b"paper towel 10");
    assert_eq!(nt(&scene), None);

    for (password, words) in [
        (&b"short"[..], "at least 8 characters"),
        (b"\n", "at least 8 characters"),
        (b"", "no password was given"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff", "no UTF-8"),
        (b"with a \x07 bell", "control characters"),
    ] {
        let told = told(scene.with_password("user passwd alice --password-stdin", password));
        assert!(told.contains(words), "{told}");
    }
    let asked = scene.fails("user passwd alice");
    assert!(asked.contains("--password-stdin"), "no terminal to ask at: {asked}");
    assert!(scene.signs_in("alice", "paper towel 10"));

    scene.does("user disable alice");
    assert!(!scene.signs_in("alice", "paper towel 10"));
    scene.does("user enable alice");
    assert!(scene.signs_in("alice", "paper towel 10"));
    scene.does("user del alice");
    assert!(scene.accounts().users().is_empty());
    scene.does("user add bob --no-password");
    assert_eq!(json(&scene.does("user list --json"))[0]["id"], 1001, "1000 stays alice's");
}

#[test]
fn a_posix_number_that_means_no_change_or_root_is_given_to_nobody() {
    let scene = Scene::new();
    for number in ["4294967295", "0", "-1", "4294967296", "x"] {
        for line in [
            format!("user add bob --no-password --uid={number}"),
            format!("user add bob --no-password --gid={number}"),
            format!("group add staff --gid={number}"),
        ] {
            let told = scene.fails(&line);
            let why = match number {
                "0" => "nobody acts as root",
                "4294967295" => "is -1, by which system calls mean no change",
                _ => "give a number from 1 to 4294967294",
            };
            assert!(told.contains(why) && told.contains("id <"), "{line}: {told}");
        }
    }
    assert!(!scene.file().exists());
    let text = "version = 1\n[user.bob]\nid = 1001\nuid = 4294967295\n";
    std::fs::write(scene.file(), text).unwrap();
    std::fs::set_permissions(scene.file(), PermissionsExt::from_mode(0o600)).unwrap();
    let tree = scene.dir.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let check = format!("serve --check=reload {} --accounts {}", tree.display(), scene.file().display());
    for line in ["user list", "user add alice --no-password", &check] {
        let told = scene.fails(line);
        let place = format!("{}: line 4: user.bob.uid: 4294967295 is -1", scene.file().display());
        assert!(told.contains(&place), "{line}: {told}");
    }
    // The greatest that there is.
    std::fs::write(scene.file(), text.replace("4294967295", "4294967294")).unwrap();
    scene.does("group add staff --gid 4294967294");
}

#[test]
fn lists_are_for_people_and_for_scripts() {
    let scene = Scene::new();
    scene.does("user add alice --no-password --uid 501 --gid 500 --principal alice@EXAMPLE.COM");
    scene.does("user add bob --no-password");
    scene.does("group add staff --gid 50");
    scene.does("group add alice:friends");
    scene.does("group add-member alice:friends bob");
    scene.does("group add-member staff alice alice:friends");
    scene.does("group add-member system:administrators alice");
    scene.does("user disable bob");
    let users = scene.does("user list");
    let lines: Vec<Vec<&str>> = users.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["user", "id", "uid", "password", "groups", "principals"]);
    assert_eq!(
        lines[1],
        ["alice", "1000", "501", "none", "staff", "system:administrators", "alice@EXAMPLE.COM"]
    );
    assert_eq!(lines[2], ["bob", "1001", "disabled", "(none)", "alice:friends", "staff"]);
    let users = json(&scene.does("user list --json"));
    assert_eq!(users[0]["groups"], serde_json::json!(["staff", "system:administrators"]));
    assert_eq!((&users[1]["disabled"], &users[1]["password"]), (&Value::Bool(true), &Value::Null));
    let groups = json(&scene.does("group list --json"));
    assert_eq!(groups[1]["members"], serde_json::json!(["alice", "alice:friends"]));
    assert!(scene.does("group list").contains("system:administrators"));

    let circle = scene.fails("group add-member alice:friends staff");
    assert!(circle.contains("a group holds itself: "), "{circle}");
    let nobody = scene.fails("group add-member staff eve");
    assert!(nobody.contains("there is no user or group \"eve\""), "{nobody}");
    scene.does("group remove-member staff alice:friends");
    scene.does("group del alice:friends");
    assert_eq!(json(&scene.does("group list --json"))[0]["members"], serde_json::json!(["alice"]));
}

#[test]
fn two_commands_at_once_lose_nothing() {
    let scene = Scene::new();
    let children: Vec<_> = (0..8)
        .map(|n| {
            scene.command(&format!("user add u{n} --no-password")).stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(scene.accounts().users().len(), 8);
}

#[test]
fn accounts_that_others_can_read_are_refused_with_what_to_do() {
    let scene = Scene::new();
    scene.does("user add alice --no-password");
    std::fs::set_permissions(scene.file(), PermissionsExt::from_mode(0o644)).unwrap();
    let mend = format!("chmod 600 {}", scene.file().display());
    for args in ["user list", "user add bob --no-password", "group list"] {
        let told = scene.fails(args);
        assert!(told.contains(&mend), "{args}: {told}");
    }
    let told = scene.fails(&format!("serve {} --check", scene.dir.path().display()));
    assert!(told.contains("--accounts: ") && told.contains(&mend), "{told}");
}

#[test]
fn a_reload_takes_good_accounts_over_and_goes_on_with_the_old_ones_otherwise() {
    let scene = Scene::new();
    scene.does("user add alice --no-password");
    let site =
        Site::new(&[("a.txt", b"a\n")], &format!("[identity]\naccounts = '{}'", scene.file().display()));
    let server = site.start();
    scene.does("user add bob --no-password");
    server.reload("reloaded");
    let good = std::fs::read_to_string(scene.file()).unwrap();
    std::fs::write(scene.file(), good.replace("id = 1001", "id = 1000")).unwrap();
    server.reload("stays");
    let said = server.stderr();
    assert!(said.contains("user.bob.id: user.alice has 1000 too"), "{said}");
    let health = String::from_utf8(raw::get(server.admin, "/health").body).unwrap();
    assert!(
        health.contains("reload: the last one was refused") && health.contains("user.bob.id"),
        "{health}"
    );
    std::fs::write(scene.file(), good).unwrap();
    server.reload("reloaded");
    assert_eq!(raw::get(server.admin, "/health").body, b"ok\n");
}

/// A directory on a file system that keeps `user.*` attributes, as the temporary directory may not.
fn tree() -> TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    for below in ["pub/in", "pub/out", "own"] {
        std::fs::create_dir_all(dir.path().join(below)).unwrap();
    }
    dir
}

fn kept(dir: &Path) -> Option<String> {
    let mut bytes = [0; Acl::BYTES_MAX];
    let file = std::fs::File::open(dir).unwrap();
    let length = rustix::fs::fgetxattr(file, c"user.linerate.acl", &mut bytes).ok()?;
    Some(Acl::decode(&bytes[..length]).unwrap().to_string())
}

#[test]
fn access_lists_are_set_inherited_and_taken_away() {
    let (scene, tree) = (Scene::new(), tree());
    scene.does("user add alice --no-password");
    scene.does("user add mallory --no-password");
    scene.does("group add staff");
    let at = |below: &str| tree.path().join(below).display().to_string();
    let set = |below: &str, rest: &str| scene.does(&format!("acl set --attribute user {} {rest}", at(below)));
    let get = |below: &str| scene.does(&format!("acl get --attribute user {}", at(below)));

    assert!(get("pub/in").contains("has no access list, nor has a directory above it"));
    let shown = set("pub", "alice=write staff=rl -mallory=w");
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    let all = [
        ["who", "rights"],
        ["alice", "rlidwk"],
        ["staff", "rl"],
        // Every user could read it before, and still can.
        ["system:anyuser", "rl"],
        ["-mallory", "w"],
    ];
    assert_eq!(rows, all);
    assert_eq!(kept(&tree.path().join("pub")).unwrap(), "alice=rlidwk staff=rl system:anyuser=rl -mallory=w");

    let inherited = get("pub/in");
    assert!(inherited.contains("has no list of its own; what counts is that of"), "{inherited}");
    assert!(inherited.contains("alice"), "{inherited}");
    set("pub/in", "system:anyuser=none");
    assert_eq!(kept(&tree.path().join("pub/in")).unwrap(), "alice=rlidwk staff=rl -mallory=w");
    set("pub/out", "--clear --negative alice=all");
    assert_eq!(kept(&tree.path().join("pub/out")).unwrap(), "-alice=rlidwka");

    let lists = scene.does(&format!("acl list --attribute user {}", tree.path().display()));
    assert_eq!(lists.lines().count(), 4, "a header and three lists: {lists}");
    let lists = json(&scene.does(&format!("acl list --json --attribute user {}", at("pub"))));
    let real = std::fs::canonicalize(tree.path().join("pub/in")).unwrap();
    assert_eq!(lists[1]["directory"], real.to_str().unwrap());
    assert_eq!(lists[1]["negative"], serde_json::json!([{ "who": "mallory", "rights": "w" }]));

    set("pub/in", "--inherit");
    assert!(get("pub/in").contains("has no list of its own"));
    assert_eq!(kept(&tree.path().join("pub/in")), None);
    set("own", "--clear");
    assert!(get("own").contains("nobody has any right"));
}

#[test]
fn two_changes_of_one_list_at_once_are_both_made() {
    let (scene, tree) = (Scene::new(), tree());
    let set = |n: u32| format!("acl set --attribute user {} u{n}=rl", tree.path().display());
    let children: Vec<_> =
        (0..8).map(|n| scene.command(&set(n)).stdout(Stdio::null()).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let kept = kept(tree.path()).unwrap();
    assert!((0..8).all(|n| kept.contains(&format!("u{n}=rl"))), "{kept}");
}

#[test]
fn lists_are_kept_where_a_server_run_as_oneself_looks_for_them() {
    let (scene, tree) = (Scene::new(), tree());
    let dir = tree.path().display();
    scene.does(&format!("acl set {dir} x=rl"));
    let file = std::fs::File::open(tree.path()).unwrap();
    let has = |name: &std::ffi::CStr| rustix::fs::fgetxattr(&file, name, &mut [0; Acl::BYTES_MAX]).is_ok();
    let sets = rustix::thread::capabilities(None).unwrap();
    let is_privileged = sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN);
    assert_eq!([has(c"trusted.linerate.acl"), has(c"user.linerate.acl")], [is_privileged, !is_privileged]);
    if is_privileged {
        let got = scene.command(&format!("acl get --attribute user {dir}")).output().unwrap();
        let remark = String::from_utf8(got.stderr).unwrap();
        assert!(
            remark.contains("trusted.linerate.acl") && remark.contains("--attribute trusted"),
            "{remark}"
        );
    }
}

#[test]
fn a_list_of_people_whom_nobody_knows_is_refused() {
    let (scene, tree) = (Scene::new(), tree());
    let dir = tree.path().display();
    // Without accounts it cannot be told.
    scene.does(&format!("acl set --attribute user {dir} eve=rl"));
    scene.does("user add alice --no-password");
    let text = std::fs::read_to_string(scene.file()).unwrap();
    std::fs::write(scene.file(), text.replace("version = 1", "version = 1\nrealm = \"HERE\"")).unwrap();
    let told = scene.fails(&format!("acl set --attribute user {dir} bob=rl"));
    assert!(told.contains("there is no user or group bob in") && told.contains("--unknown"), "{told}");
    scene.does(&format!("acl set --attribute user --clear --unknown {dir} bob=rl alice=rl"));
    assert_eq!(kept(tree.path()).unwrap(), "alice@HERE=rl bob@HERE=rl", "the tree may travel");
    let full = (0..20).map(|n| format!(" u{n}=rl")).collect::<String>();
    let told = scene.fails(&format!("acl set --attribute user --unknown {dir} {full}"));
    assert!(told.contains("at most 20 entries") && told.contains("group"), "{told}");
}

#[test]
fn a_damaged_list_is_told_and_can_be_replaced() {
    let (scene, tree) = (Scene::new(), tree());
    let below = tree.path().join("pub");
    let file = std::fs::File::open(&below).unwrap();
    rustix::fs::fsetxattr(file, c"user.linerate.acl", b"??", rustix::fs::XattrFlags::empty()).unwrap();
    let dir = below.display();
    for args in [format!("acl get --attribute user {dir}/in"), format!("acl set --attribute user {dir} x=rl")]
    {
        let told = scene.fails(&args);
        assert!(told.contains("cannot be read, so it gives nothing") && told.contains("--clear"), "{told}");
    }
    let whole =
        scene.command(&format!("acl list --attribute user {}", tree.path().display())).output().unwrap();
    assert!(
        !whole.status.success() && String::from_utf8_lossy(&whole.stderr).contains("damaged"),
        "{whole:?}"
    );
    scene.does(&format!("acl set --attribute user --clear {dir} x=rl"));
    assert_eq!(kept(&below).unwrap(), "x=rl");
}

/// Lines as `pdbedit -Lw` prints them.
fn samba(users: &[(&str, &str, &str, &str)]) -> String {
    let line = |(name, uid, nt, flags): &(&str, &str, &str, &str)| {
        format!("{name}:{uid}:{}:{nt}:[{flags:<11}]:LCT-65A1B2C3:\n", "X".repeat(32))
    };
    users.iter().map(line).collect()
}

#[test]
fn sambas_users_come_along_with_what_they_sign_in_with() {
    let scene = Scene::new();
    let file = scene.dir.path().join("users");
    // Of the password "Password" (MS-NLMP 4.2.2.1.1).
    let (hash, none) = ("A4F49C406510BDCAB6824EE7C30FD852", &*"X".repeat(32));
    let with = |users: &[(&str, &str, &str, &str)]| std::fs::write(&file, samba(users)).unwrap();
    let import = |flags: &str| format!("user import {} {flags}", file.display());
    let has_it = |name: &str| {
        let accounts = scene.accounts();
        *identity::NtHash::new(&"Password".into()).unwrap().expose() == *accounts.nt_hash(name).expose()
    };
    with(&[
        ("Alice", "1001", hash, "U"),
        ("ws1$", "1002", hash, "W"),
        ("bob", "1003", hash, "DU"),
        ("carol", "1004", none, "U"),
        ("dave", "0", hash, "U"),
    ]);
    let told = json(&scene.does(&import("--dry-run --json")));
    assert_eq!((&told["dry_run"], told["taken"].as_array().unwrap().len()), (&true.into(), 2), "{told}");
    assert!(!scene.file().exists(), "nothing was done");
    let told = json(&scene.does(&import("--json")));
    let alice = serde_json::json!(
        { "line": 1, "name": "alice", "id": 1000, "uid": 1001, "gid": null, "replaced": false }
    );
    assert_eq!(told["taken"][0], alice);
    let left: Vec<_> = told["left_out"].as_array().unwrap().iter().map(|left| left["why"].clone()).collect();
    assert_eq!(left, ["the account of a machine or a domain", "disabled", "no NT hash"]);
    assert!(has_it("alice") && has_it("dave") && !has_it("bob"));
    let users = json(&scene.does("user list --json"));
    assert_eq!((&users[0]["uid"], &users[1]["uid"]), (&1001.into(), &Value::Null), "nobody acts as root");

    // All or nothing, each line that is in the way told.
    scene.does("group add staff");
    with(&[("erin", "1005", hash, "U"), ("alice", "1001", hash, "U"), ("staff", "1006", hash, "U")]);
    let said = scene.fails(&import(""));
    assert!(said.contains("nothing has changed") && said.contains("line 2: there is a user alice"), "{said}");
    assert!(said.contains("line 3: there is a group staff") && !said.contains("line 1"), "{said}");
    std::fs::write(&file, "alice\nno line at all\n").unwrap();
    let said = scene.fails(&import(""));
    assert!(said.contains("line 1: ") && said.contains("line 2: ") && said.contains("pdbedit -Lw"), "{said}");
    std::fs::write(&file, "").unwrap();
    assert!(scene.fails(&import("")).contains("nobody in it"));
    assert_eq!(scene.accounts().users().len(), 2);

    // An existing user keeps all but its hash.
    assert!(
        scene.with_password("user passwd alice --password-stdin --nt", b"battery staple").status.success()
    );
    assert!(!has_it("alice"));
    with(&[("alice", "77", hash, "U"), ("frank", "1007", hash, "U")]);
    let said = scene.does(&import("--replace --no-uid"));
    assert!(said.contains("2 taken, 0 left out") && said.contains("has the file's hash"), "{said}");
    assert!(!said.contains(hash) && said.contains("SIGHUP"), "{said}");
    assert!(has_it("alice") && has_it("frank") && scene.signs_in("alice", "battery staple"));
    let users = json(&scene.does("user list --json"));
    assert_eq!(
        (&users[0]["uid"], &users[2]["name"], &users[2]["uid"]),
        (&1001.into(), &"frank".into(), &Value::Null)
    );

    // By a pipe.
    let piped = scene.with_password("user import -", samba(&[("gina", "1008", hash, "U")]).as_bytes());
    assert!(piped.status.success() && has_it("gina"), "{piped:?}");
}

/// A server of which bob, alice and carol's group may change everything, and its two files.
fn served(scene: &Scene) -> (TempDir, crate::support::Server) {
    for name in ["alice", "bob", "carol"] {
        let added = scene.with_password(&format!("user add {name} --password-stdin"), b"sesame and more\n");
        assert!(added.status.success(), "{added:?}");
    }
    scene.does("group add staff");
    scene.does("group add-member staff carol");
    let dir = tree();
    std::fs::write(dir.path().join("pub/big"), patterned(64 << 20)).unwrap();
    std::fs::write(dir.path().join("up"), patterned(3 << 20)).unwrap();
    let text = format!(
        "[server]\nstate_dir = 'state'\n[identity]\naccounts = '{}'\n{ANY_PORT}[[volume]]\nname = 'pub'\npath = 'pub'\n\
         writable = 'alice,bob,staff'\n",
        scene.file().display()
    );
    std::fs::write(dir.path().join("linerate.toml"), text).unwrap();
    let server = Launch::config(&dir.path().join("linerate.toml")).start();
    (dir, server)
}

#[test]
fn users_that_are_disabled_or_deleted_lose_uploads_and_downloads_at_the_reload() {
    for end in ["user disable bob", "user del bob"] {
        let scene = Scene::new();
        let (dir, server) = served(&scene);
        let up = dir.path().join("up").display().to_string();
        let curl = |user: &str, rate: &str, version: &str, rest: &[&str]| {
            let mut curl = tool("curl", "curl");
            curl.args(["--silent", "--insecure", "--max-time", "60", "--output", "/dev/null", version]);
            curl.args(["--write-out", "%{http_code} %{size_download}", "--limit-rate", rate]);
            curl.args(["--user", &format!("{user}:sesame and more")]).args(rest);
            curl.stdout(Stdio::piped()).spawn().unwrap()
        };
        let mut running = Vec::new();
        for (version, number) in [("--http1.1", 1), ("--http2", 2)] {
            for (user, rate) in [("bob", "50k"), ("alice", "700k")] {
                let to = server.https_url(&format!("/{user}{number}"));
                running.push((user, true, curl(user, rate, version, &["--upload-file", &up, &to])));
            }
            let from = server.https_url("/big");
            running.push(("bob", false, curl("bob", "200k", version, &[&from])));
            running.push(("alice", false, curl("alice", "20M", version, &[&from])));
        }
        server.wait_counted("linerate_http_uploads_open", "", 4);
        server.wait_counted("linerate_http_requests", "method=\"GET\"", 4);
        scene.does(end);
        server.reload("reloaded");
        for (user, is_upload, child) in running {
            let done = child.wait_with_output().unwrap();
            let told = String::from_utf8(done.stdout).unwrap();
            let (status, bytes) = told.split_once(' ').unwrap();
            let bytes: usize = bytes.parse().unwrap();
            match (user, is_upload) {
                ("alice", true) => assert_eq!(status, "201", "{end}"),
                ("alice", false) => assert!(done.status.success() && bytes == 64 << 20, "{end}: {told}"),
                (_, true) => assert_eq!(status, "401", "{end}"),
                (_, false) => assert!(!done.status.success() && bytes < 32 << 20, "{end}: {told}"),
            }
        }
        let there = |name: &str| dir.path().join("pub").join(name).exists();
        assert!(there("alice1") && there("alice2") && !there("bob1") && !there("bob2"), "{end}");
        assert_eq!(server.counted("linerate_http_aborted", "cause=\"user_gone\""), 2, "{end}");
    }
}

#[test]
fn an_upload_is_judged_at_its_end_by_the_accounts_of_then() {
    let scene = Scene::new();
    let (dir, server) = served(&scene);
    // carol:sesame and more
    let login = "Authorization: Basic Y2Fyb2w6c2VzYW1lIGFuZCBtb3Jl";
    let begin = |name: &str| {
        let mut stream = raw::connect(server.http[0]);
        let head = format!("PUT /{name} HTTP/1.1\r\nHost: a\r\n{login}\r\nContent-Length: 10\r\n\r\n12345");
        raw::send_all(&mut stream, head.as_bytes());
        stream
    };
    let end = |mut stream: std::net::TcpStream| {
        raw::send_all(&mut stream, b"67890");
        raw::read_head(&mut stream).status
    };
    let (stays, leaves) = (begin("stays"), begin("leaves"));
    server.wait_counted("linerate_http_uploads_open", "", 2);
    scene.does("user add dave --no-password");
    server.reload("reloaded");
    assert_eq!(end(stays), 201, "of other users' changes nothing is felt");
    scene.does("group remove-member staff carol");
    server.reload("reloaded");
    assert_eq!(end(leaves), 403);
    assert!(dir.path().join("pub/stays").exists() && !dir.path().join("pub/leaves").exists());
}
