//! Arena of the tests: a namespace for the server and one for clients, joined by two pairs of virtual NICs,
//! for clients of several channels want two. They go with this value, however a run ends.

use std::panic::resume_unwind;
use std::process::{Child, Command};

use anyhow::Context;
use testkit::netns::{Namespace, ip};

/// Addresses of the server, one for each of its NICs.
pub(crate) const SERVER: [&str; 2] = ["10.78.0.1", "10.78.1.1"];

/// The two namespaces.
#[derive(Debug)]
pub(crate) struct Arena {
    server: Namespace,
    client: Namespace,
}

impl Arena {
    pub(crate) fn new() -> anyhow::Result<Self> {
        // A thread of its own, for it wanders from one to the next.
        in_new_thread(|| {
            let new = || Namespace::new().context("network namespaces need root");
            let (client, server) = (new()?, new()?);
            for (n, address) in SERVER.iter().enumerate() {
                ip(&format!("link add s{n} type veth peer name c{n} netns {}", client.path()))?;
                ip(&format!("addr add {address}/24 dev s{n}"))?;
                ip(&format!("link set s{n} up"))?;
                client.within(|| {
                    ip(&format!("addr add 10.78.{n}.2/24 dev c{n}"))?;
                    ip(&format!("link set c{n} up"))
                })??;
            }
            Ok(Self { server, client })
        })
    }

    /// Starts a program beside the server.
    pub(crate) fn start_server(&self, command: Command) -> anyhow::Result<Child> {
        start(&self.server, command)
    }

    /// Starts a program where clients are.
    pub(crate) fn start_client(&self, command: Command) -> anyhow::Result<Child> {
        start(&self.client, command)
    }

    /// Runs `act` where clients are.
    pub(crate) fn as_client<T: Send>(&self, act: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        in_new_thread(|| Ok(self.client.within(act)?))
    }
}

fn start(namespace: &Namespace, mut command: Command) -> anyhow::Result<Child> {
    in_new_thread(move || {
        namespace.enter()?;
        command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))
    })
}

fn in_new_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(act).join().unwrap_or_else(|panic| resume_unwind(panic)))
}
