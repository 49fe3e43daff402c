//! A client of SMB that watches a tree hears of what others do to it by HTTP and AFS.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use testkit::netns::Namespace;

use crate::support::share::Share;
use crate::support::{linerate, output, tool, wait_for};

/// `smbclient -c notify`, which prints an action and a name for each change of what is beneath the share's root.
struct Watch {
    child: Child,
    said: PathBuf,
}

impl Watch {
    fn start(share: &Share) -> Self {
        let said = share.home.join("said");
        // What goes to a file it would else keep until it ends.
        let client = share.smbclient();
        let mut command = tool("stdbuf", "coreutils");
        command.arg("-oL").arg(client.get_program()).args(client.get_args()).args(["-c", "notify \\"]);
        let out = File::create(&said).unwrap();
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        Self { child: command.spawn().unwrap(), said }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    /// Waits until it has said that this has happened to a name.
    fn hears(&self, action: &str, name: &str) {
        let line = format!("{action} {name}");
        wait_for(&format!("{line} in {:?}", self.said()), || {
            self.said().lines().any(|said| said.trim() == line).then_some(())
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn delete_by_http(share: &Share, path: &str) {
    let mut curl = tool("curl", "curl");
    output(curl.args(["--silent", "--fail", "--request", "DELETE"]).arg(share.server.url(path)));
}

fn put_by_afs(home: &Path, to: &str) {
    wait_for("a file to be put", || {
        // A server that has just begun may say that it is to be asked again.
        let mut put = linerate(["put", "--overwrite", "new"]);
        let done = put.arg(format!("afs://127.0.0.1/tree/{to}")).current_dir(home).output().unwrap();
        done.status.success().then_some(())
    });
}

#[test]
fn smbclient_hears_of_what_is_put_by_http_and_stored_by_afs() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    // A directory whose file system keeps attributes, which that of temporary files may not.
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = &home.path().canonicalize().unwrap();
    fs::create_dir_all(home.join("tree/dir")).unwrap();
    fs::write(home.join("new"), "new").unwrap();
    let share = Share::new(home, &home.join("tree"), "[afs]\nlisten = '127.0.0.1:7000'\n", "");
    let mut watch = Watch::start(&share);
    // It says nothing when it has begun to watch.
    let mut tries = 0..;
    wait_for("the watch", || {
        let name = format!("try{}", tries.next().unwrap());
        share.put_by_http("new", &format!("/{name}"));
        watch.said().contains("try").then_some(())
    });
    share.put_by_http("new", "/page");
    watch.hears(ADDED, "page");
    share.put_by_http("new", "/dir/page");
    watch.hears(ADDED, "dir\\page");
    delete_by_http(&share, "/dir/page");
    watch.hears(REMOVED, "dir\\page");
    put_by_afs(home, "dir/stored");
    wait_for("what was stored by AFS", || watch.said().contains("dir\\stored").then_some(()));
    // No side has ended it, as a wrong answer would.
    assert!(watch.child.try_wait().unwrap().is_none(), "{}", watch.said());
    assert!(!watch.said().contains("NT_STATUS"), "{}", watch.said());
}

/// FILE_ACTION_ADDED and FILE_ACTION_REMOVED as it prints them.
const ADDED: &str = "0001";
const REMOVED: &str = "0002";
