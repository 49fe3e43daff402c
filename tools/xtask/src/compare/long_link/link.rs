//! A long way from the clients to a server: two devices, and a program between them that holds up what is sent and loses some (`link.c`).

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use testkit::netns::{Namespace, ip};

use crate::compare::stock::link::{inside, on_own_thread};
use crate::process::{self, Killed};

/// Conditions of a path for packets, each way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions {
    pub(super) delay_us: u64,
    pub(super) loss_percent: f64,
}

/// The clients of one server, in a namespace of their own. It goes with this value.
pub(super) struct Way {
    clients: Namespace,
    _program: Killed,
}

impl Way {
    /// Makes the link to `server`, which has this address already.
    pub(super) fn to(
        server: &Namespace,
        address: Ipv4Addr,
        conditions: Conditions,
        link: &Path,
    ) -> anyhow::Result<Self> {
        let clients = on_own_thread(Namespace::new).context("network namespaces need root")?;
        let mut command = Command::new(link);
        command.args([server.path(), clients.path()]);
        command.args([conditions.delay_us.to_string(), conditions.loss_percent.to_string()]);
        let program = Killed::start(command, "ready");
        let program = program.context("there is no way: it needs root and /dev/net/tun")?;
        inside(server, || plug(SERVERS_END))?;
        inside(&clients, || {
            plug(CLIENTS_END)?;
            Ok(ip(&format!("route add {address}/32 dev way"))?)
        })?;
        Ok(Self { clients, _program: program })
    }

    /// Runs `act` where the clients are.
    pub(super) fn at_clients<T: Send>(
        &self,
        act: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        inside(&self.clients, act)
    }
}

/// Compiles the program into `work`.
pub(super) fn compile(work: &Path) -> anyhow::Result<PathBuf> {
    process::compile_c("link", include_str!("link.c"), work)
}

fn plug(address: &str) -> anyhow::Result<()> {
    ip(&format!("addr add {address} dev way"))?;
    Ok(ip("link set way up")?)
}

const SERVERS_END: &str = "10.81.0.1/30";
const CLIENTS_END: &str = "10.81.0.2/30";
