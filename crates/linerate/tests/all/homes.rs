//! A share that is another directory for each user: home directories, as Samba's `path = /home/%U`.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Launch, Server, linerate, output, share};

/// Users of the server, which this machine need not know.
const USERS: [(&str, u32); 3] = [("anne", 60_101), ("bob", 60_102), ("carol", 60_103)];

/// A server whose share `homes` begins in the directory of the user that connects, and `new` in one that is
/// made for it.
struct Homes {
    server: Server,
    address: SocketAddr,
    home: PathBuf,
}

impl Homes {
    fn new(home: &Path) -> Self {
        for (name, uid) in USERS {
            let uid = uid.to_string();
            share::add_user(home, name, &["--uid", &uid, "--gid", &uid]);
        }
        let address = testkit::free_address();
        let text = format!(
            "[server]\nlanes = 2\nstate_dir = 'state'\n[identity]\naccounts = 'accounts.toml'\n\
             [http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n[admin]\nlisten = '127.0.0.1:0'\n\
             [smb]\nlisten = '{address}'\n\
             [[smb.share]]\nname = 'homes'\nvolume = 'home'\ndirectory = '%U'\n\
             [[smb.share]]\nname = 'new'\nvolume = 'home'\ndirectory = 'of-%U'\ncreate = true\n\
             [[volume]]\nname = 'home'\npath = 'home'\nwritable = 'listed'\nsmb = 'off'\n"
        );
        fs::write(home.join("linerate.toml"), text).unwrap();
        let server = Launch::config(&home.join("linerate.toml")).start();
        Self { server, address, home: home.to_owned() }
    }

    fn smbclient(&self, user: &str, share: &str) -> Command {
        share::smbclient(self.address, user, share, &self.home)
    }

    fn asks(&self, user: &str, share: &str, commands: &str) -> String {
        share::said(self.smbclient(user, share).args(["-c", commands]))
    }

    #[track_caller]
    fn does(&self, user: &str, share: &str, commands: &str) -> String {
        let said = self.asks(user, share, commands);
        assert!(!said.contains("NT_STATUS"), "{user}, {commands}: {said}");
        said
    }

    #[track_caller]
    fn is_refused(&self, user: &str, share: &str, commands: &str, status: &str) {
        let said = self.asks(user, share, commands);
        assert!(said.contains(status), "{user}, {commands}: {said}");
    }
}

/// Returns what is served, in a directory that others pass through to what is theirs; root alone has files
/// that are others'.
fn tree_or_skip() -> Option<(tempfile::TempDir, PathBuf)> {
    if !rustix::process::geteuid().is_root() {
        testkit::skip(format_args!("only root has files that are others'"));
        return None;
    }
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let tree = scratch.path().join("home");
    fs::create_dir(&tree).unwrap();
    Some((scratch, tree))
}

/// Makes a directory of this user's, for it alone.
fn make_home(at: &Path, uid: u32) {
    fs::create_dir(at).unwrap();
    std::os::unix::fs::chown(at, Some(uid), Some(uid)).unwrap();
    fs::set_permissions(at, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn each_user_has_his_own_directory_by_one_name_of_a_share() {
    let Some((scratch, tree)) = tree_or_skip() else { return };
    // As /tmp: any user makes a directory, and none takes another's away.
    fs::set_permissions(&tree, fs::Permissions::from_mode(0o1777)).unwrap();
    make_home(&tree.join("anne"), USERS[0].1);
    make_home(&tree.join("bob"), USERS[1].1);
    fs::write(tree.join("anne/hers"), "of anne").unwrap();
    let homes = Homes::new(scratch.path());
    fs::write(scratch.path().join("sent"), "written by her").unwrap();

    homes.does("anne", "homes", "put sent letter; mkdir plans; put sent plans\\a; rename plans\\a plans\\b");
    assert_eq!(fs::read_to_string(tree.join("anne/letter")).unwrap(), "written by her");
    assert_eq!(fs::metadata(tree.join("anne/letter")).unwrap().uid(), USERS[0].1);
    let listed = homes.does("anne", "homes", "recurse; ls");
    assert!(listed.contains("letter") && listed.contains("\\plans") && !listed.contains("anne"), "{listed}");
    let told = homes.does("anne", "homes", "allinfo plans\\b; volume; du");
    assert!(told.contains("homes") && !told.contains("anne"), "{told}");

    // Bob does not see Anne's, by whatever name.
    let listed = homes.does("bob", "homes", "ls");
    assert!(!listed.contains("letter") && !listed.contains("hers"), "{listed}");
    homes.is_refused("bob", "homes", "get letter", "NT_STATUS_OBJECT_NAME_NOT_FOUND");
    homes.is_refused("bob", "homes", "get anne\\letter", "NT_STATUS_OBJECT_PATH_NOT_FOUND");
    std::os::unix::fs::symlink("../anne/letter", tree.join("bob/led")).unwrap();
    homes.is_refused("bob", "homes", "get led", "NT_STATUS_ACCESS_DENIED");

    // There is none for Anne as yet, but where it is made.
    homes.is_refused("carol", "homes", "ls", "NT_STATUS_BAD_NETWORK_NAME");
    homes.does("carol", "new", "put sent letter");
    let made = fs::metadata(tree.join("of-carol")).unwrap();
    assert_eq!((made.uid(), made.mode() & 0o7777), (USERS[2].1, 0o700));
    assert_eq!(fs::read_to_string(tree.join("of-carol/letter")).unwrap(), "written by her");
    // The volume is none, as is said.
    homes.is_refused("anne", "home", "ls", "NT_STATUS_BAD_NETWORK_NAME");
}

#[test]
fn who_has_a_home_open_is_shown_by_the_path_that_he_knows() {
    let Some((scratch, tree)) = tree_or_skip() else { return };
    make_home(&tree.join("anne"), USERS[0].1);
    fs::write(tree.join("anne/hers"), "of anne").unwrap();
    let homes = Homes::new(scratch.path());
    let mut client = homes.smbclient("anne", "homes");
    let mut client = client.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // A directory that is watched is open.
    client.stdin.as_mut().unwrap().write_all(b"notify \\\n").unwrap();
    let admin = homes.server.admin.to_string();
    let path = crate::support::wait_for("the directory to be open", || {
        let said = output(&mut linerate(["smb", "opens", "--json", "--server", &admin]));
        let opens: Vec<serde_json::Value> = serde_json::from_slice(&said).unwrap();
        let open = opens.iter().find(|open| open["share"] == "homes" && open["user"] == "anne")?;
        Some(open["path"].as_str().unwrap().to_owned())
    });
    let _ = client.kill();
    let _ = client.wait();
    assert_eq!(path, "", "to her it is the share's root");
}
