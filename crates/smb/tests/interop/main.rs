//! interop: Debian's smbclient and rpcclient, and scripts of impacket and smbprotocol, use the tree of a server of this process.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use identity::{AccountsStore, NewUser, NtHash, Secret};
use rustix::process::{Signal, getpid, kill_process};
use server::Server;
use server::config::{Config, Document, Services};
use tempfile::TempDir;

mod impacket;
mod pipes;
mod smb_rs;
mod smbclient;
mod smbprotocol_client;

/// User of the tree, and its administrator.
const USER: &str = "anne";
const ADMINISTRATOR: &str = "root";
const PASSWORD: &str = "Secret007";
/// Addresses of the server, which clients of several channels are told.
const ADDRESSES: [&str; 4] = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"];

/// The server's tree and port.
struct Site {
    directory: TempDir,
    port: u16,
}

impl Site {
    /// A file or directory of the tree, as it is on the disk.
    fn in_tree(&self, name: &str) -> PathBuf {
        self.directory.path().join("tree").join(name)
    }

    /// A place beside the tree, where clients keep their own.
    fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Makes the command of a stock client, with the server's address and a user.
    fn client(&self, program: &str, who: &str) -> Command {
        let mut command = Command::new(program);
        command.args(["-s", "/dev/null", "-p", &self.port.to_string(), "-U", who]);
        command.env("LC_ALL", "C.UTF-8").current_dir(self.directory.path());
        command
    }
}

/// Returns what `cargo xtask test` has made below the build directory.
fn made(path: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(target).join(path)
}

/// Returns both outputs, and whether it went well.
fn said(output: &Output) -> (String, bool) {
    let told = [&output.stdout[..], &output.stderr].concat();
    (String::from_utf8_lossy(&told).into_owned(), output.status.success())
}

#[test]
fn stock_clients_use_the_tree() {
    for (program, package) in [("smbclient", "smbclient"), ("rpcclient", "smbclient")] {
        if Command::new(program).arg("--version").output().is_err() {
            testkit::skip(format_args!(
                "the Debian package {package} is not installed; `cargo xtask test` installs it"
            ));
            return;
        }
    }
    serve("", |site| {
        pipes::are_answered(site);
        smbclient::sign_in(site);
        smbclient::transfers(site, &smbclient::SIGNED);
        smbclient::many_names(site);
        smbclient::names_of_bytes(site);
        smbclient::names_of_links(site);
        impacket::uses_the_tree(site);
        smbprotocol_client::uses_the_tree(site);
    });
    serve("signing = 'allowed'\n", |site| smbclient::transfers(site, &smbclient::UNSIGNED));
}

/// Serves a tree, with further keys of `[smb]`, for as long as `use_it` takes: one at a time, for the server is told to stop by a signal to this process.
fn serve(keys: &str, use_it: impl FnOnce(&Site)) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("tree")).unwrap();
    make_accounts(&directory.path().join("accounts.toml"));
    let address = testkit::free_address();
    let text = format!(
        "[server]\nlanes = 2\ndrain_seconds = 1\nstate_dir = 'state'\n[admin]\nlisten = 'off'\n\
         [identity]\naccounts = 'accounts.toml'\n[smb]\nlisten = [{}]\nserver_name = 'FILES'\n{keys}{}\
         [[volume]]\nname = 'tree'\npath = 'tree'\nwritable = '{USER},{ADMINISTRATOR}'\n",
        ADDRESSES.map(|ip| format!("'{ip}:{}'", address.port())).join(","),
        ADDRESSES.map(|ip| format!("[[smb.interface]]\naddress = '{ip}'\nspeed = 10_000_000_000\n")).concat(),
    );
    let document = Document::of_text(&directory.path().join("linerate.toml"), text);
    let services: Arc<Services> = Arc::new([Arc::new(smb::Smb::default())]);
    let (tell, told) = channel();
    let thread = std::thread::spawn(move || {
        let load = move || Config::read(&document, &services).map_err(|error| error.to_string());
        let server = Server::start(load().unwrap()).unwrap();
        tell.send(()).unwrap();
        server.run(load).unwrap();
    });
    told.recv().expect("it starts");
    use_it(&Site { directory, port: address.port() });
    kill_process(getpid(), Signal::TERM).unwrap();
    thread.join().unwrap();
}

fn make_accounts(path: &Path) {
    let store = AccountsStore::new(path);
    let add = |edit: &mut identity::Edit| {
        for name in [USER, ADMINISTRATOR] {
            let nt = NtHash::new(&Secret::from(PASSWORD));
            let user = NewUser {
                name: name.to_owned(),
                id: None,
                uid: None,
                gid: None,
                principals: Vec::new(),
                password: None,
                nt,
            };
            edit.add_user(&user)?;
        }
        edit.add_member("system:administrators", ADMINISTRATOR)
    };
    store.change(add).unwrap();
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o077, 0);
}
