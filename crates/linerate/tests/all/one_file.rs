//! One file over AFS, SMB and HTTP, by third-party clients: what one of them writes the others read at once,
//! and a holder is told before any client hears that it has changed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::netns::Namespace;

use crate::support::afs_mount::AfsMount;
use crate::support::{Launch, Server, linerate, output, patterned, tool};

const CELL: &str = "one.example";
const USER: &str = "anne";
const PASSWORD: &str = "Secret007";
/// Bytes of the file, always: FUSE believes a length for a second, whatever its file system says.
const LEN: usize = 300_001;
/// Number of times that each of them writes.
const ROUNDS: usize = 6;

/// A server of all three, and the directory of all that belongs to it.
struct Site {
    home: PathBuf,
    smb: u16,
    server: Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Afs,
    Smb,
    Http,
}

const WAYS: [Way; 3] = [Way::Afs, Way::Smb, Way::Http];

impl Site {
    fn new(home: &Path) -> Self {
        fs::create_dir(home.join("tree")).unwrap();
        let accounts = home.join("accounts.toml");
        let mut add = linerate(["user", "add", USER, "--nt", "--password-stdin"]);
        let add = add.arg("--accounts").arg(&accounts).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = add.spawn().unwrap();
        child.stdin.take().unwrap().write_all(format!("{PASSWORD}\n").as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        let smb = testkit::free_address();
        let text = format!(
            "[server]\nlanes = 2\nstate_dir = 'state'\n[identity]\naccounts = 'accounts.toml'\n\
             [http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n[admin]\nlisten = '127.0.0.1:0'\n\
             [afs]\nlisten = '127.0.0.1:7000'\ncell = '{CELL}'\n[smb]\nlisten = '{smb}'\n\
             [[volume]]\nname = 'tree'\npath = 'tree'\nwritable = 'anyone'\n"
        );
        fs::write(home.join("linerate.toml"), text).unwrap();
        let mut acl = linerate(["acl", "set", "--clear", "tree", "system:anyuser=all"]);
        output(acl.current_dir(home));
        let server = Launch::config(&home.join("linerate.toml")).start();
        Self { home: home.to_owned(), smb: smb.port(), server }
    }

    fn smbclient(&self, words: &str) {
        let mut command = tool("smbclient", "smbclient");
        command.args(["-s", "/dev/null", "-m", "SMB3", "-p", &self.smb.to_string()]);
        command.args(["-U", &format!("{USER}%{PASSWORD}"), "-c", words, "//127.0.0.1/tree"]);
        let said = output(command.current_dir(&self.home));
        let said = String::from_utf8_lossy(&said);
        assert!(!said.contains("NT_STATUS"), "{words}: {said}");
    }

    fn url(&self) -> String {
        self.server.url("/page")
    }

    fn curl(&self, words: &[&str]) -> Vec<u8> {
        let mut command = tool("curl", "curl");
        command.args(["--silent", "--show-error", "--fail", "--max-time", "60"]).args(words).arg(self.url());
        output(command.current_dir(&self.home))
    }

    /// Has the file hold what `new` beside the tree holds; over once the client says so.
    fn write(&self, way: Way, afs: &mut AfsMount) {
        match way {
            // afsd.fuse stores after the file was closed: the next open waits for that.
            Way::Afs => {
                let page = format!("mnt/{CELL}/tree/page");
                assert!(afs.does(&format!("cp ../new {page} && head -c 1 {page} >/dev/null")));
            }
            Way::Smb => self.smbclient("put new page"),
            Way::Http => {
                let user = format!("{USER}:{PASSWORD}");
                self.curl(&["--user", &user, "--upload-file", "new"]);
            }
        }
    }

    fn read(&self, way: Way, afs: &mut AfsMount) -> Vec<u8> {
        match way {
            Way::Afs => {
                assert!(afs.does(&format!("cat mnt/{CELL}/tree/page >../read")));
                fs::read(self.home.join("read")).unwrap()
            }
            Way::Smb => {
                self.smbclient("get page read");
                fs::read(self.home.join("read")).unwrap()
            }
            Way::Http => self.curl(&[]),
        }
    }
}

#[test]
fn what_one_of_three_clients_writes_the_others_read_at_once() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    // A directory whose file system keeps attributes, which that of temporary files may not.
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = &home.path().canonicalize().unwrap();
    let Some(mut afs) = AfsMount::start_or_skip(&home.join("client"), CELL) else { return };
    let site = Site::new(home);
    fs::write(home.join("tree/page"), "as it was").unwrap();
    afs.waits_for(&format!("test \"$(cat mnt/{CELL}/tree/page)\" = \"as it was\""));
    // The length as it stays from here on, which FUSE has to hear of before it counts.
    fs::write(home.join("new"), patterned(LEN)).unwrap();
    site.write(Way::Afs, &mut afs);
    for round in 0..ROUNDS {
        for (at, writer) in WAYS.into_iter().enumerate() {
            let mut content = patterned(LEN);
            content.rotate_left(8 * (1 + round * WAYS.len() + at));
            fs::write(home.join("new"), &content).unwrap();
            site.write(writer, &mut afs);
            for reader in WAYS {
                assert!(
                    site.read(reader, &mut afs) == content,
                    "round {round}: {writer:?}, read by {reader:?}"
                );
            }
        }
        assert!(fs::read(home.join("tree/page")).unwrap() == fs::read(home.join("new")).unwrap());
    }
}

#[test]
fn who_holds_an_oplock_is_told_before_another_hears_that_his_change_is_made() {
    let is_here = Command::new("/usr/bin/python3").args(["-c", "import impacket"]).output();
    if !is_here.is_ok_and(|output| output.status.success()) {
        testkit::skip("the Debian package python3-impacket is not installed; `cargo xtask test` installs it");
        return;
    }
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = &home.path().canonicalize().unwrap();
    let Some(mut afs) = AfsMount::start_or_skip(&home.join("client"), CELL) else { return };
    let site = Site::new(home);
    fs::write(home.join("tree/page"), "old").unwrap();
    fs::write(home.join("new"), "new").unwrap();
    afs.waits_for(&format!("test \"$(cat mnt/{CELL}/tree/page)\" = old"));
    for writer in [Way::Afs, Way::Http, Way::Smb] {
        let mut holder = Command::new("/usr/bin/python3");
        holder.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/support/oplock.py"));
        holder.args([&site.smb.to_string(), USER, PASSWORD, "page", home.join("done").to_str().unwrap()]);
        let mut holder = holder.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(holder.stdout.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), "held", "{writer:?}");
        site.write(writer, &mut afs);
        fs::write(home.join("done"), "").unwrap();
        assert_eq!(said.next().unwrap().unwrap(), "told first", "{writer:?}");
        assert!(holder.wait().unwrap().success());
        fs::remove_file(home.join("done")).unwrap();
        for reader in WAYS {
            assert_eq!(site.read(reader, &mut afs), b"new", "{writer:?}, read by {reader:?}");
        }
    }
}
