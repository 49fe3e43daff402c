//! A server at the far end of a way, in a namespace of its own.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use testkit::netns::{Namespace, ip};
use testkit::stock_cell::StockCell;

use crate::compare::afs::Buffers;
use crate::compare::stock::link::{inside, on_own_thread};
use crate::compare::stock::run::Counts;
use crate::process::Killed;

/// Site that serves a volume that every user writes to, and goes with this value.
pub(super) struct Site {
    namespace: Namespace,
    address: Ipv4Addr,
    volume: &'static str,
    _server: Server,
}

enum Server {
    Stock { _cell: StockCell, _buffers: Buffers },
    Ours { _process: Killed },
}

impl Site {
    /// Starts a stock cell, which takes some ten seconds.
    pub(super) fn stock() -> anyhow::Result<Self> {
        let buffers = Buffers::raise()?;
        let (namespace, cell) = on_own_thread(|| -> anyhow::Result<_> {
            let namespace = Namespace::new().context("network namespaces need root")?;
            Ok((namespace, StockCell::with_flags(FLAGS).context("there is no stock cell here")?))
        })?;
        let server = Server::Stock { _cell: cell, _buffers: buffers };
        Ok(Self { namespace, address: StockCell::ADDRESS, volume: "pub", _server: server })
    }

    /// Starts Linerate with what it needs in `work`.
    pub(super) fn ours(work: &Path, linerate: &Path) -> anyhow::Result<Self> {
        let namespace = on_own_thread(Namespace::new).context("network namespaces need root")?;
        fs::create_dir(work.join("tree"))?;
        let config = work.join("linerate.toml");
        let [state, tree] = ["state", "tree"].map(|name| work.join(name).display().to_string());
        fs::write(
            &config,
            format!(
                "[server]\nstate_dir = '{state}'\n[http]\nlisten = []\n[https]\nlisten = []\n[admin]\nlisten = 'off'\n\
                 [afs]\nlisten = '{OURS}:{PORT}'\n[[volume]]\nname = '{VOLUME}'\npath = '{tree}'\nwritable = 'anyone'\n"
            ),
        )?;
        let process = inside(&namespace, || {
            ip(&format!("addr add {OURS}/32 dev lo"))?;
            let mut command = Command::new(linerate);
            command.arg("serve").arg("--config").arg(&config).stdin(Stdio::null()).stdout(Stdio::null());
            let process = Killed(command.spawn().context("cannot start linerate")?);
            // It answers once it listens.
            Counts::ask((OURS, PORT).into())?;
            Ok(process)
        })?;
        Ok(Self { namespace, address: OURS, volume: VOLUME, _server: Server::Ours { _process: process } })
    }

    pub(super) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    pub(super) fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Returns the volume's address, as Linerate's client takes it.
    pub(super) fn root(&self) -> String {
        format!("afs://{}/{}", self.address, self.volume)
    }
}

const OURS: Ipv4Addr = Ipv4Addr::new(10, 80, 0, 1);
const PORT: u16 = 7000;
const VOLUME: &str = "tree";
/// Flags of the stock server, those of the lab's `afs-long-link`: large buffers, packets of one frame.
const FLAGS: &str = "-L -p 32 -udpsize 16777216 -nojumbo";
