//! interop: Debian's `vos`, `pts` and `rxdebug` (openafs-client) ask a server of this process, in a network namespace: they
//! know the servers of a cell at their usual ports alone.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use server::Server;
use server::config::{Config, Document, Services};
use testkit::netns::{Namespace, ip};

mod mounted;

const ADDRESS: &str = "10.79.0.1";
const CELL: &str = "test.example";
const ACCOUNTS: &str = include_str!("../../accounts.toml");

/// A stock tool, which knows the cell.
struct Tools<'a> {
    config: &'a Path,
}

impl Tools<'_> {
    /// Returns what it says, on both its outputs, and whether it succeeded.
    fn run(&self, tool: &str, words: &str) -> (String, bool) {
        let config = ["-config", self.config.to_str().unwrap()];
        let config = if tool == "rxdebug" { &[][..] } else { &config[..] };
        let output = Command::new(tool).args(words.split(' ')).args(config).output().unwrap();
        let told = [output.stdout, output.stderr].concat();
        (String::from_utf8_lossy(&told).into_owned(), output.status.success())
    }

    /// Has it say all of `wanted`.
    fn says(&self, tool: &str, words: &str, wanted: &[&str]) -> String {
        let (told, is_well) = self.run(tool, words);
        assert!(is_well, "{tool} {words}: {told}");
        for wanted in wanted {
            assert!(told.contains(wanted), "{tool} {words} lacks {wanted:?}: {told}");
        }
        told
    }

    /// Has it fail, and say so.
    fn refuses(&self, tool: &str, words: &str, wanted: &str) {
        let (told, is_well) = self.run(tool, words);
        assert!(!is_well && told.contains(wanted), "{tool} {words}: {told}");
    }
}

#[test]
fn stock_tools_look_at_volumes_users_and_connections() {
    if ["vos", "pts", "rxdebug"].iter().any(|tool| Command::new(tool).arg("version").output().is_err()) {
        testkit::skip("the Debian package openafs-client is not installed; `cargo xtask test` installs it");
        return;
    }
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    ip(&format!("addr add {ADDRESS}/32 dev lo")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["files", "music", "client"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    std::fs::write(at("files/hello"), "hello").unwrap();
    std::fs::write(at("files/large"), large()).unwrap();
    let accounts = at("accounts.toml");
    std::fs::write(&accounts, ACCOUNTS).unwrap();
    std::os::unix::fs::chown(&accounts, Some(rustix::process::geteuid().as_raw()), None).unwrap();
    std::fs::set_permissions(&accounts, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(at("client/ThisCell"), format!("{CELL}\n")).unwrap();
    std::fs::write(at("client/CellServDB"), format!(">{CELL}\n{ADDRESS} #server\n")).unwrap();
    let text = format!(
        "[server]\nlanes = 2\ndrain_seconds = 30\nstate_dir = 'state'\n[admin]\nlisten = 'off'\n\
         [identity]\naccounts = 'accounts.toml'\n[afs]\nlisten = '{ADDRESS}:7000'\ncell = '{CELL}'\nroot_volumes = false\n\
         [[volume]]\nname = 'files'\npath = 'files'\nwritable = 'anyone'\nserve_dotfiles = true\n\
         [[volume]]\nname = 'songs'\npath = 'music'\nafs = 'readonly'\nafs_name = 'music'\n"
    );
    std::fs::write(at("linerate.toml"), text).unwrap();
    let file = at("linerate.toml");
    let services: Arc<Services> = Arc::new([Arc::new(afs::Afs::default())]);
    let (tell, told) = channel();
    let thread = std::thread::spawn(move || {
        let load = move || {
            let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
            let document = Document::of_text(&file, text);
            Config::read(&document, &services).map_err(|error| error.to_string())
        };
        let server = Server::start(load().unwrap()).unwrap();
        tell.send(server.greetings().to_vec()).unwrap();
        server.run(load).unwrap();
    });
    let greetings = told.recv().expect("it starts");
    let greeting =
        greetings.iter().flat_map(|greeting| greeting.tries.iter()).cloned().collect::<Vec<_>>().join("\n");
    assert!(greeting.contains(&format!("{ADDRESS} #")) && greeting.contains("SRV"), "{greeting}");

    let config = at("client");
    let tools = Tools { config: &config };
    look_at_volumes(&tools);
    look_at_users(&tools);
    look_at_connections(&tools);
    read_files(&tools, dir.path());
    mounted::write_files(&tools, dir.path());
    mounted::work_in_mounts(&tools, dir.path());
    reload(&at("linerate.toml"), &[("root_volumes = false\n", "")]);
    look_at_roots(&tools);
    mounted::walk_from_the_root(&tools, dir.path());
    kill_process(getpid(), Signal::TERM).unwrap();
    thread.join().unwrap();
}

fn look_at_volumes(tools: &Tools<'_>) {
    let list =
        tools.says("vos", "listvldb -noauth", &["files", "music", "RWrite", "ROnly", "Total entries: 2"]);
    assert!(list.contains(ADDRESS) || list.contains("number of sites -> 1"), "{list}");
    tools.says("vos", &format!("listvldb -server {ADDRESS} -noauth"), &["Total entries: 2"]);
    tools.says("vos", "examine files -noauth", &["files", "RW", "On-line", "/vicepa", "RWrite"]);
    tools.says("vos", "examine files.readonly -noauth", &["files.readonly", "RO", "On-line", "RO Site"]);
    // Of a volume without a tree it shows the entry alone.
    tools.refuses("vos", "examine music -noauth", "RO Site");
    tools.says("vos", "examine music.readonly -noauth", &["music.readonly", "RO", "On-line"]);
    tools.says("vos", "examine root.cell -noauth", &["files"]);
    tools.says(
        "vos",
        &format!("listvol {ADDRESS} -noauth"),
        &["files", "music.readonly", "Total volumes onLine 2"],
    );
    tools.says("vos", &format!("listvol {ADDRESS} -fast -noauth"), &["/vicepa"]);
    tools.says("vos", &format!("listvol {ADDRESS} -extended -noauth"), &["files"]);
    tools.says("vos", &format!("listpart {ADDRESS} -noauth"), &["/vicepa"]);
    tools.says("vos", &format!("partinfo {ADDRESS} -noauth"), &["Free space on partition /vicepa"]);
    tools.says("vos", &format!("status {ADDRESS} -noauth"), &["No active transactions"]);
    tools.says("vos", "listaddrs -printuuid -noauth", &["UUID", ADDRESS]);
    tools.refuses("vos", "examine nowhere -noauth", "no such entry");
    tools.refuses("vos", &format!("create {ADDRESS} a new -noauth"), "");
    tools.refuses("vos", "remove -id files -noauth", "");
    tools.says("vos", "listvldb -noauth", &["Total entries: 2"]);
}

/// Has the server read its configuration again, with these words changed.
fn reload(file: &Path, changes: &[(&str, &str)]) {
    let mut text = std::fs::read_to_string(file).unwrap();
    for (before, after) in changes {
        assert!(text.contains(before), "{text}");
        text = text.replace(before, after);
    }
    std::fs::write(file, text).unwrap();
    kill_process(getpid(), Signal::HUP).unwrap();
}

fn look_at_roots(tools: &Tools<'_>) {
    // A reload is over when it is.
    testkit::wait_for("roots", Duration::from_secs(60), || {
        tools.run("vos", "examine root.cell -noauth").0.contains("root.cell").then_some(())
    });
    tools.says("vos", "listvldb -noauth", &["root.afs", "root.cell", "files", "Total entries: 4"]);
    tools.says(
        "vos",
        &format!("listvol {ADDRESS} -noauth"),
        &["root.afs", "root.cell", "Total volumes onLine 4"],
    );
    tools.says("vos", "examine root.afs -noauth", &["root.afs", "RW", "On-line", "/vicepa"]);
}

fn look_at_users(tools: &Tools<'_>) {
    tools.says("pts", "examine anne -noauth", &["Name: anne, id: 1001", "owner: system:administrators"]);
    tools.says("pts", "examine staff -noauth", &["Name: staff, id: -2001", "membership: 2"]);
    tools.says("pts", "membership bert -noauth", &["anne:friends"]);
    tools.says("pts", "membership staff -noauth", &["anne", "anne:friends"]);
    tools.says("pts", "membership anne:friends -supergroups -noauth", &["staff"]);
    tools.says("pts", "listentries -users -groups -noauth", &["anne", "bert", "staff", "system:anyuser"]);
    tools.says("pts", "listowned anne -noauth", &["anne:friends"]);
    tools.says("pts", "listmax -noauth", &["1002", "-2002"]);
    tools.refuses("pts", "examine nobody -noauth", "doesn't exist");
    tools.refuses("pts", "createuser carl -noauth", "Permission denied");
    tools.refuses("pts", "adduser bert staff -noauth", "Permission denied");
}

/// More than one chunk of a client.
fn large() -> Vec<u8> {
    (0..3_000_000u32).map(|at| (at * 31 + at / 253) as u8).collect()
}

/// `afsio` knows cells by /etc/openafs alone, and begins at `root.afs`: here the first volume.
fn read_files(tools: &Tools<'_>, dir: &Path) {
    let afsio = |words: &str| {
        let script = format!("mount --bind {} /etc/openafs && {words}", tools.config.display());
        let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
        let told = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{words}: {told}");
        output.stdout
    };
    assert_eq!(afsio(&format!("afsio read -file /afs/hello -cell {CELL}")), b"hello");
    assert!(afsio(&format!("afsio read -file /afs/large -cell {CELL}")) == large());
    // What is changed in the tree is read as it is there.
    std::fs::write(dir.join("files/hello"), "other").unwrap();
    assert_eq!(afsio(&format!("afsio read -file /afs/hello -cell {CELL}")), b"other");
}

fn look_at_connections(tools: &Tools<'_>) {
    for port in ["7000", "7002", "7003", "7005"] {
        tools.says("rxdebug", &format!("{ADDRESS} {port} -version"), &["linerate"]);
        tools.says("rxdebug", &format!("{ADDRESS} {port} -rxstats -noconns"), &["free packets"]);
    }
}
