//! Both servers, over the same tree for the same user.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use testkit::stock_smbd::StockSmbd;

use super::place::Place;
use crate::process::Server;
use crate::smbtorture::Samba;

/// Server that a client is pointed at.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    pub(super) share: &'static str,
    /// The server's processes are this one and its descendants.
    pub(super) pid: u32,
    /// Tree that is served, on this machine.
    pub(super) tree: PathBuf,
}

impl Side {
    /// Returns the URL of a name in the tree.
    pub(super) fn url(&self, name: &str) -> String {
        format!("smb://{USER}@{}/{}/{name}", self.address, self.share)
    }
}

/// Linerate with its defaults, for a user with a password; but messages are signed where a client asks for it, as by
/// smbd's own default (`server signing = default`).
pub(super) struct Linerate {
    server: Server,
    address: SocketAddr,
    tree: PathBuf,
}

impl Linerate {
    /// Starts a server that listens at the port of `address` on all interfaces where that is not loopback's;
    /// on so many lanes.
    pub(super) fn start(
        binary: &Path,
        work: &Path,
        tree: &Path,
        address: SocketAddr,
        lanes: Option<u32>,
    ) -> anyhow::Result<Self> {
        let (accounts, config) = (work.join("accounts.toml"), work.join("linerate.toml"));
        let mut add = Command::new(binary);
        add.args(["user", "add", USER, "--nt", "--password-stdin", "--accounts"]).arg(&accounts);
        let mut add = add.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        writeln!(add.stdin.take().context("it is piped")?, "{PASSWORD}")?;
        ensure!(add.wait()?.success(), "linerate user add failed");
        let listen = match address.ip().is_loopback() {
            true => address.to_string(),
            false => format!("*:{}", address.port()),
        };
        let lanes = lanes.map_or_else(String::new, |lanes| format!("lanes = {lanes}\n"));
        let text = format!(
            "[server]\n{lanes}state_dir = '{}'\n[identity]\naccounts = '{}'\n[[volume]]\nname = '{SHARE}'\npath = '{}'\n\
             writable = 'anyone'\n[http]\nlisten = []\n[https]\nlisten = []\n[admin]\nlisten = 'off'\n\
             [smb]\nlisten = ['{listen}']\nsigning = 'allowed'\nconnections_per_lane = 16384\n",
            work.join("state").display(),
            accounts.display(),
            tree.display(),
        );
        std::fs::write(&config, text)?;
        let mut command = Command::new(binary);
        command.arg("serve").arg("--config").arg(&config).stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Self { server: Server::start("linerate", command, &[address])?, address, tree: tree.to_owned() })
    }

    pub(super) fn side(&self) -> Side {
        Side {
            name: "linerate",
            address: self.address,
            share: SHARE,
            pid: self.server.pid(),
            tree: self.tree.clone(),
        }
    }
}

/// smbd: Debian's, or a newer one that is unpacked somewhere.
pub(super) struct Smbd {
    server: StockSmbd,
    release: Release,
    tree: PathBuf,
}

/// Which smbd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Release {
    /// Debian bookworm's
    #[value(name = "4.17")]
    Stable,
    /// That of its backports, unpacked below the build directory as for `cargo xtask smbtorture`
    #[value(name = "4.22")]
    Backports,
}

impl Smbd {
    pub(super) fn start(place: &Place, release: Release, work: &Path, tree: &Path) -> anyhow::Result<Self> {
        let work = work.join("smbd");
        std::fs::create_dir(&work)?;
        let samba = match release {
            Release::Stable => None,
            Release::Backports => Some(Samba::unpacked()?),
        };
        let address = place.address(PEER)?;
        let mut global = String::new();
        let interfaces = place.interfaces();
        if !interfaces.is_empty() {
            let all: Vec<_> = interfaces.iter().map(|ip| format!("{ip}/24")).collect();
            global = format!("interfaces = {}\n", all.join(" "));
        }
        let root = samba.as_ref().map(Samba::root);
        let start = || StockSmbd::start_of(root, tree, &work, address, &global).context("cannot start smbd");
        let server = place.at_server(start)?;
        Ok(Self { server, release, tree: tree.to_owned() })
    }

    /// Returns Samba without a module and with vfs_io_uring.
    pub(super) fn sides(&self) -> [Side; 2] {
        let names = match self.release {
            Release::Stable => ["smbd 4.17", "smbd 4.17 with io_uring"],
            Release::Backports => ["smbd 4.22", "smbd 4.22 with io_uring"],
        };
        [(names[0], "plain"), (names[1], "uring")].map(|(name, share)| Side {
            name,
            share,
            address: self.server.address(),
            pid: self.server.process(),
            tree: self.tree.clone(),
        })
    }
}

/// The user of both.
pub(super) const USER: &str = StockSmbd::USER;
pub(super) const PASSWORD: &str = StockSmbd::PASSWORD;
const SHARE: &str = "files";
/// Number of smbd's address among the place's.
const PEER: u16 = 1;
