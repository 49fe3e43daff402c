//! Linerate as the subject, in a namespace of its own that is joined to the clients'.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;

use anyhow::Context;
use testkit::netns::{Namespace, ip};

use super::servers::{FILE_SERVER_PORT, Server, VOLUME, plug};
use crate::compare::programs::{Programs, SERVER_CPU};
use crate::compare::stock::link::{inside, on_own_thread};
use crate::compare::stock::run::Counts;
use crate::process::Killed;

/// A running server.
pub(super) struct Ours {
    namespace: Namespace,
    process: Killed,
}

impl Ours {
    /// Serves `tree` in `work`, with more of the configuration in `more`.
    pub(super) fn start(
        work: &Path,
        clients: &Namespace,
        mtu: u32,
        is_apart: bool,
        more: &str,
        programs: &Programs<'_>,
    ) -> anyhow::Result<Self> {
        let name = clients.path();
        let namespace = on_own_thread(|| -> anyhow::Result<_> {
            let namespace = Namespace::new()?;
            ip(&format!("link add {INSIDE} type veth peer name {OUTSIDE} netns {name}"))?;
            plug(INSIDE, ADDRESS, mtu)?;
            Ok(namespace)
        })?;
        inside(clients, || plug(OUTSIDE, CLIENT, mtu))?;
        let process = serve(&namespace, work, FILE_SERVER_PORT, is_apart, more, programs)?;
        inside(clients, || Counts::ask((ADDRESS, FILE_SERVER_PORT).into()))?;
        Ok(Self { namespace, process })
    }

    pub(super) fn server(&self) -> Server {
        let address = SocketAddr::from((ADDRESS, FILE_SERVER_PORT));
        Server { name: "Linerate", address, process: self.process.0.id() }
    }

    /// Starts one more at the same address, at another port, on the servers' CPU.
    pub(super) fn serve_too(
        &self,
        work: &Path,
        port: u16,
        more: &str,
        programs: &Programs<'_>,
    ) -> anyhow::Result<Killed> {
        serve(&self.namespace, work, port, true, more, programs)
    }

    /// Runs `act` in its namespace.
    pub(super) fn inside<T: Send>(
        &self,
        act: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        inside(&self.namespace, act)
    }
}

/// Starts `linerate serve` over `tree` in `work`; it may not listen yet.
fn serve(
    namespace: &Namespace,
    work: &Path,
    port: u16,
    is_apart: bool,
    more: &str,
    programs: &Programs<'_>,
) -> anyhow::Result<Killed> {
    let lanes = if is_apart { "lanes = 1\n" } else { "" };
    let config = work.join(format!("linerate-{port}.toml"));
    let text = format!(
        "[server]\n{lanes}drain_seconds = 1\nstate_dir = '{}'\n[http]\nlisten = []\n[https]\nlisten = []\n\
         [admin]\nlisten = 'off'\n[afs]\nlisten = '{ADDRESS}:{port}'\nprotection_port = {}\nlocation_port = {}\n\
         volume_port = {}\n[[volume]]\nname = '{VOLUME}'\npath = '{}'\nwritable = 'anyone'\n{more}\n",
        work.join(format!("state-{port}")).display(),
        port + 2,
        port + 3,
        port + 5,
        work.join("tree").display(),
    );
    std::fs::write(&config, text)?;
    inside(namespace, || {
        let mut command = programs.command(programs.linerate, is_apart.then_some(SERVER_CPU));
        command.arg("serve").arg("--config").arg(&config).stdout(Stdio::null());
        Ok(Killed(command.spawn().context("cannot start linerate")?))
    })
}

pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 80, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 80, 0, 2);
const INSIDE: &str = "ours0";
const OUTSIDE: &str = "ours1";
