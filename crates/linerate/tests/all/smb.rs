//! The commands for SMB servers, beside Debian's smbd; the lines that are printed for SMB's clients, tried as they are.

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use identity::NtHash;
use lane::runtime::{RuntimeOptions, run_here};
use rustix::process::Signal;
use smb_client::{BreakNotification, Channel, Connection, Open, OpenParams, Options, Tree};
use smb_wire::body::lock::{LockElement, flags};
use smb_wire::create::context::{ContextWriter, DurableReconnectV2, DurableRequestV2, tag};
use smb_wire::create::lease::LeaseV2;
use smb_wire::create::{Disposition, oplock_level};
use smb_wire::{FileId, Guid, Status};
use testkit::netns::Namespace;
use testkit::stock_smbd::StockSmbd;

use crate::support::{Launch, Server, linerate, output};

/// `linerate bench smb` with these words, on a name of the share.
fn bench(smbd: &StockSmbd, name: &str, words: &[&str]) -> serde_json::Value {
    let url = format!("smb://{}@{}/plain/{name}", StockSmbd::USER, smbd.address());
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.env("LINERATE_PASSWORD", StockSmbd::PASSWORD);
    command.args(["bench", "smb", "--json", "--seconds", "1", "--lanes", "1", "--depth", "2"]);
    let output = command.args(words).arg(url).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{words:?}: {said} {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&said).unwrap()
}

fn names(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn every_load_of_bench_smb_is_answered_and_compared() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let (tree, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(smbd) = StockSmbd::start_or_skip(tree.path(), work.path(), "") else { return };
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at * 31 + at / 253) as u8).collect();
    std::fs::write(tree.path().join("file"), bytes).unwrap();
    std::fs::create_dir(tree.path().join("written")).unwrap();
    for (name, words, is_compared) in [
        ("file", &["--mode", "read", "--size", "256K", "--connections", "2", "--verify", "--sign"][..], true),
        ("file", &["--mode", "read", "--size", "256K", "--connections", "1", "--verify", "--seal"], true),
        ("file", &["--mode", "random", "--size", "4K", "--connections", "2", "--verify"], true),
        (
            "written",
            &["--mode", "write", "--size", "128K", "--file-size", "1M", "--connections", "2", "--verify"],
            true,
        ),
        (
            "written",
            &["--mode", "mixed", "--size", "4K", "--connections", "1", "--verify", "--channels", "2"],
            true,
        ),
        ("file", &["--mode", "open-close", "--connections", "2", "--dialect", "2.1"], false),
        ("", &["--mode", "idle", "--connections", "20"], false),
    ] {
        let report = bench(&smbd, name, words);
        let count = |field: &str| report[field].as_u64().unwrap();
        assert!(count("requests") > 0 && count("wrong_signatures") == 0, "{words:?}: {report}");
        assert_eq!(count("verified") > 0, is_compared, "{words:?}: {report}");
        assert_eq!(names(&tree.path().join("written")), 0, "what it made is gone: {words:?}");
    }
    let wrong = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .env("LINERATE_PASSWORD", "wrong")
        .args(["bench", "smb", &format!("smb://{}@{}/plain/file", StockSmbd::USER, smbd.address())])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("STATUS_LOGON_FAILURE"), "{said}");
}

/// Runs a printed line of smbclient with these commands of its own.
fn as_printed(line: &str, commands: &str) -> (String, bool) {
    let line = format!("{} -s /dev/null -c '{commands}' 2>&1", line.trim());
    let told = Command::new("sh").args(["-c", &line]).output().unwrap();
    let said = String::from_utf8_lossy(&told.stdout).into_owned();
    (said.clone(), told.status.success() && !said.contains("NT_STATUS"))
}

#[test]
fn where_anyone_may_write_guests_come_in_by_smb_as_the_printed_line_says_and_stat_tells_of_them() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (root, beside) = (dir.path().join("pub"), dir.path().join("sent"));
    std::fs::create_dir(&root).unwrap();
    std::fs::write(&beside, "by a guest").unwrap();
    let accounts = dir.path().join("accounts.toml").display().to_string();
    output(&mut linerate(["user", "add", "bob", "--no-password", "--accounts", &accounts]));
    let serve = |who: &str| {
        let address = testkit::free_address();
        let launch =
            Launch::every_protocol(&root).arg("--afs").arg("off").arg("--smb").arg(&address.to_string());
        (
            address.port().to_string(),
            launch.arg("--writable").arg(who).env("LINERATE_ACCOUNTS", &accounts).start(),
        )
    };
    if Command::new("smbclient").arg("--version").output().is_err() {
        testkit::skip(format_args!(
            "the Debian package smbclient is not installed; `cargo xtask test` installs it"
        ));
        return;
    }
    let (port, server) = serve("anyone");
    server.says("anyone comes in without a password");
    server.says("EnableInsecureGuestLogons");
    let said = server.stdout();
    let line = said.lines().find(|line| line.trim().starts_with("smbclient ")).expect("a line for smbclient");
    assert!(line.contains(" -U guest% "), "{line}");
    let (told, is_well) =
        as_printed(line, &format!("put {} made; get made {}", beside.display(), root.join("back").display()));
    assert!(is_well, "{line}: {told}");
    assert_eq!(std::fs::read(root.join("made")).unwrap(), b"by a guest");
    let led = root.join("led");
    let (told, is_well) = as_printed(line, &format!("symlink made link; get link {}", led.display()));
    assert!(is_well, "{told}");
    assert_eq!(std::fs::read_link(root.join("link")).unwrap(), Path::new("made"));
    assert_eq!(std::fs::read(led).unwrap(), b"by a guest");
    // By no name, as clients come that do not ask for one.
    let (told, is_well) = as_printed(&line.replace(" -U guest% ", " -N "), "ls");
    assert!(is_well && told.contains("made"), "{told}");
    let table = output(&mut linerate(["stat", "-n", "1", "-i", "0.1", &server.admin.to_string()]));
    let table = String::from_utf8(table).unwrap();
    assert!(table.contains("denied in/s") && table.contains("\nsmb "), "{table}");
    drop(server);

    let (new_port, server) = serve("listed");
    assert!(!server.stdout().contains("smbclient "), "what cannot work is not proposed");
    assert!(line.contains(&port), "{line}");
    let (told, is_well) = as_printed(&line.replace(&port, &new_port), "ls");
    assert!(!is_well && told.contains("NT_STATUS_LOGON_FAILURE"), "nobody comes in by omission: {told}");
    let nameless = line.replace(&port, &new_port).replace(" -U guest% ", " -N ");
    let (told, is_well) = as_printed(&nameless, "ls");
    assert!(!is_well && told.contains("NT_STATUS_ACCESS_DENIED"), "nobody comes in by omission: {told}");
}

#[test]
fn a_user_signs_in_by_the_line_that_was_printed_for_him() {
    if Command::new("smbclient").arg("--version").output().is_err() {
        testkit::skip(format_args!(
            "the Debian package smbclient is not installed; `cargo xtask test` installs it"
        ));
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let root = dir.path().join("pub");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("there"), "x").unwrap();
    let accounts = dir.path().join("accounts.toml").display().to_string();
    let said = add_alice(&accounts);
    let line = said.lines().find(|line| line.trim().starts_with("smbclient ")).expect("a line for smbclient");
    let address = testkit::free_address();
    let launch = Launch::every_protocol(&root).arg("--afs").arg("off").arg("--smb").arg(&address.to_string());
    let server = launch.env("LINERATE_ACCOUNTS", &accounts).start();
    let here = line
        .replace("SERVER", &address.ip().to_string())
        .replace("VOLUME", "pub")
        .replace("-U alice", &format!("-p {} -U 'alice%open sesame'", address.port()));
    let (told, is_well) = as_printed(&here, "ls");
    assert!(is_well && told.contains("there"), "{here}: {told}");
    drop(server);
}

/// Makes a user, and returns what the command prints.
fn add_alice(accounts: &str) -> String {
    let add = ["user", "add", "alice", "--nt", "--password-stdin", "--accounts", accounts];
    let mut child = linerate(add)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"open sesame\n").unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// A client of ours by this GUID, signed in as alice.
async fn signed_in(address: SocketAddr, guid: u8) -> (Connection, Tree) {
    let state = Cell::new(u64::from(guid) + 1);
    let random = move |bytes: &mut [u8]| {
        for byte in bytes {
            state.set(state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            *byte = (state.get() >> 33) as u8;
        }
    };
    let options = Options::new(Guid::new([guid; 16]), Rc::new(random));
    let connection = Connection::open(address, options).await.unwrap();
    let credentials = smb_auth::Credentials {
        domain: String::new(),
        user: "alice".to_owned(),
        nt_hash: (*NtHash::new(&"open sesame".into()).unwrap().expose()).into(),
        workstation: "CLIENT".to_owned(),
    };
    let channel = Channel::sign_in(&connection, credentials).await.unwrap();
    (connection, Tree::connect(&channel, r"\\127.0.0.1\pub").await.unwrap())
}

/// With a lease to read, write and keep the handle, and what else is asked for.
fn with_lease(contexts: impl FnOnce(&mut ContextWriter)) -> OpenParams {
    let mut out = ContextWriter::new();
    contexts(&mut out);
    let lease = LeaseV2 {
        lease_key: LEASE_KEY,
        lease_state: 7.into(),
        lease_flags: 0.into(),
        lease_duration: 0.into(),
        parent_lease_key: Guid::default(),
        epoch: 0.into(),
        reserved: 0.into(),
    };
    out.push_plain(tag::LEASE, &lease);
    let (oplock, contexts) = (oplock_level::LEASE, out.bytes().to_vec());
    OpenParams { oplock, contexts, disposition: Disposition::OpenIf, ..OpenParams::overwrite() }
}

async fn locked(open: &Open) -> Result<(), smb_client::Error> {
    let bits = flags::EXCLUSIVE | flags::FAIL_IMMEDIATELY;
    let range = LockElement { offset: 0.into(), length: 10.into(), flags: bits.into(), reserved: 0.into() };
    open.lock(0, &[range]).await?.await?.body().map(drop)
}

/// Opens a file so that it outlives its session, locks it, and stays connected until the server has ended.
async fn until_the_end(address: SocketAddr, mut server: Server) -> (FileId, String) {
    let (connection, tree) = signed_in(address, 1).await;
    let how = with_lease(|out| {
        let asked = DurableRequestV2 {
            timeout: 120_000.into(),
            flags: 0.into(),
            reserved: 0.into(),
            create_guid: CREATE_GUID,
        };
        out.push_plain(tag::DURABLE_REQUEST_V2, &asked);
    });
    let open = Open::create(&tree, "a.txt", &how).await.unwrap();
    assert_eq!(open.lease().map(|(state, _)| state), Some(7));
    locked(&open).await.unwrap();
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert!(connection.ended().is_some() || connection.next_break().await.is_err());
    (open.id(), server.stderr())
}

fn again(id: FileId) -> OpenParams {
    with_lease(|out| {
        let asked = DurableReconnectV2 { file_id: id, create_guid: CREATE_GUID, flags: 0.into() };
        out.push_plain(tag::DURABLE_RECONNECT_V2, &asked);
    })
}

/// Has the file again, with its lease and lock, which others meet.
async fn have_again(address: SocketAddr, id: FileId) {
    let (connection, tree) = signed_in(address, 1).await;
    let open = Open::create(&tree, "a.txt", &again(id)).await.unwrap();
    assert_eq!((open.id(), open.lease().map(|(state, _)| state)), (id, Some(7)));
    let (_, other) = signed_in(address, 2).await;
    let theirs = lane::spawn(async move {
        let how = OpenParams { disposition: Disposition::Open, ..OpenParams::overwrite() };
        Open::create(&other, "a.txt", &how).await.unwrap()
    });
    // Before any other client is let in it gives back what it may keep to itself.
    let told = lane::time::timeout(Duration::from_secs(30), connection.next_break()).await.unwrap().unwrap();
    let BreakNotification::Lease { key, current: 7, new, acknowledge: true, .. } = told else {
        panic!("{told:?}")
    };
    tree.acknowledge_lease(key, new).await.unwrap();
    let theirs = theirs.await;
    assert_eq!(locked(&theirs).await.unwrap_err().status(), Some(Status::LOCK_NOT_GRANTED));
    open.close(0).await.unwrap();
    locked(&theirs).await.unwrap();
    theirs.close(0).await.unwrap();
}

#[test]
fn a_file_with_a_lease_and_a_lock_is_had_again_after_a_restart_and_not_after_a_kill() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (root, state) = (dir.path().join("pub"), dir.path().join("state"));
    std::fs::create_dir(&root).unwrap();
    let accounts = dir.path().join("accounts.toml").display().to_string();
    add_alice(&accounts);
    let address = testkit::free_address();
    let start = || {
        let launch =
            Launch::every_protocol(&root).arg("--afs").arg("off").arg("--smb").arg(&address.to_string());
        launch.arg("--writable").arg("anyone").env("LINERATE_ACCOUNTS", &accounts).state(&state).start()
    };
    let server = start();
    let (id, said) = run_here(RuntimeOptions::default(), until_the_end(address, server)).unwrap();
    assert!(said.contains("durable opens are kept for the next server"), "{said}");
    let left = || {
        let files = std::fs::read_dir(state.join("linerate")).unwrap();
        files.filter(|file| file.as_ref().unwrap().file_name() == "smb.left").count()
    };
    assert_eq!(left(), 1);

    let server = start();
    assert_eq!((server.counted("linerate_smb_durable_restored", ""), left()), (1, 0), "{}", server.stderr());
    assert!(!server.stderr().contains("was killed or crashed"), "{}", server.stderr());
    run_here(RuntimeOptions::default(), have_again(address, id)).unwrap();
    let made = run_here(RuntimeOptions::default(), until_the_end(address, server)).unwrap().0;
    // What one has taken up is no other's: a kill leaves nothing.
    let mut server = start();
    assert_eq!(server.counted("linerate_smb_durable_restored", ""), 1);
    server.signal(Signal::KILL);
    server.wait();
    let server = start();
    assert_eq!(server.counted("linerate_smb_durable_restored", ""), 0);
    let refused = async move {
        let (_, tree) = signed_in(address, 1).await;
        Open::create(&tree, "a.txt", &again(made)).await.unwrap_err().status()
    };
    assert_eq!(run_here(RuntimeOptions::default(), refused).unwrap(), Some(Status::OBJECT_NAME_NOT_FOUND));
}

const CREATE_GUID: Guid = Guid::new([9; 16]);
const LEASE_KEY: Guid = Guid::new([7; 16]);
