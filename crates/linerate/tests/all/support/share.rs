//! A share of a server of ours that one user may change, for Debian's clients and for ours on a lane of this process.

use std::cell::Cell;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use identity::NtHash;
use smb_client::{Channel, Connection, Options, Tree};
use smb_wire::Guid;

use super::{Launch, Server, linerate, output, tool};

/// User that may use the share.
pub(crate) const USER: &str = "anne";
pub(crate) const PASSWORD: &str = "Secret007";

/// Adds a user that signs in with [`PASSWORD`] to `home`'s file of accounts; `flags` say more of it.
pub(crate) fn add_user(home: &Path, name: &str, flags: &[&str]) {
    let mut add = linerate(["user", "add", name, "--nt", "--password-stdin", "--accounts", "accounts.toml"]);
    let add = add.args(flags).current_dir(home).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = add.spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{PASSWORD}\n").as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// smbclient as such a user, which is to be told by `-c` what to do with files of `home`.
pub(crate) fn smbclient(address: SocketAddr, user: &str, share: &str, home: &Path) -> Command {
    let mut command = tool("smbclient", "smbclient");
    command.args(["-s", "/dev/null", "-p", &address.port().to_string()]);
    command.args(["-U", &format!("{user}%{PASSWORD}"), &format!("//127.0.0.1/{share}")]).current_dir(home);
    command
}

/// All that a client says, be it that it fails.
pub(crate) fn said(client: &mut Command) -> String {
    let done = client.output().unwrap();
    String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
}

/// The share `tree`.
pub(crate) struct Share {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    /// Directory of the server's files and clients' own.
    pub(crate) home: PathBuf,
}

impl Share {
    /// Serves `tree`. `tables` are more of the configuration, `keys` more of the volume.
    pub(crate) fn new(home: &Path, tree: &Path, tables: &str, keys: &str) -> Self {
        add_user(home, USER, &[]);
        let address = testkit::free_address();
        let text = format!(
            "[server]\nlanes = 2\nstate_dir = 'state'\n[identity]\naccounts = 'accounts.toml'\n\
             [http]\nlisten = '127.0.0.1:0'\n[https]\nlisten = 'off'\n[admin]\nlisten = '127.0.0.1:0'\n\
             [smb]\nlisten = '{address}'\n{tables}\n\
             [[volume]]\nname = 'tree'\npath = '{}'\nwritable = 'anyone'\n{keys}\n",
            tree.display()
        );
        std::fs::write(home.join("linerate.toml"), text).unwrap();
        let server = Launch::config(&home.join("linerate.toml")).start();
        Self { server, address, home: home.to_owned() }
    }

    /// smbclient, which is to be told by `-c` what to do.
    pub(crate) fn smbclient(&self) -> Command {
        smbclient(self.address, USER, "tree", &self.home)
    }

    /// Returns what smbclient says to these commands.
    pub(crate) fn asks(&self, commands: &str) -> String {
        said(self.smbclient().args(["-c", commands]))
    }

    #[track_caller]
    pub(crate) fn does(&self, commands: &str) {
        let said = self.asks(commands);
        assert!(!said.contains("NT_STATUS"), "{commands}: {said}");
    }

    /// Uploads a file of the home by HTTP.
    pub(crate) fn put_by_http(&self, local: &str, path: &str) {
        let mut curl = tool("curl", "curl");
        curl.args(["--silent", "--show-error", "--fail", "--max-time", "60", "--upload-file", local]);
        output(curl.arg(self.server.url(path)).current_dir(&self.home));
    }

    /// The share to a client on this lane.
    pub(crate) async fn tree(address: SocketAddr) -> Tree {
        let state = Cell::new(1u64);
        let random = move |bytes: &mut [u8]| {
            for byte in bytes {
                state.set(state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                *byte = (state.get() >> 33) as u8;
            }
        };
        let options = Options::new(Guid::new([7; 16]), Rc::new(random));
        let connection = Connection::open(address, options).await.unwrap();
        let credentials = smb_auth::Credentials {
            domain: String::new(),
            user: USER.to_owned(),
            nt_hash: (*NtHash::new(&PASSWORD.into()).unwrap().expose()).into(),
            workstation: "CLIENT".to_owned(),
        };
        let channel = Channel::sign_in(&connection, credentials).await.unwrap();
        Tree::connect(&channel, r"\\127.0.0.1\tree").await.unwrap()
    }
}
