//! Place where server and client meet: on loopback, or in two network namespaces joined by four pairs of
//! virtual NICs, one for each channel of a session.

use std::net::{SocketAddr, TcpListener};

use anyhow::Context;
use testkit::netns::{Namespace, ip};

use crate::compare::stock::link::{inside, on_own_thread};

/// A place; namespaces go with this value.
pub(super) enum Place {
    Loopback,
    Wires(Wires),
}

/// Two namespaces and the pairs that join them.
pub(super) struct Wires {
    server: Namespace,
    client: Namespace,
}

impl Place {
    /// Runs `act` on the server's side: what it opens and starts belongs there.
    pub(super) fn at_server<T: Send>(
        &self,
        act: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        match self {
            Self::Loopback => act(),
            Self::Wires(wires) => inside(&wires.server, act),
        }
    }

    /// Runs `act` on the client's side.
    pub(super) fn at_client<T: Send>(
        &self,
        act: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        match self {
            Self::Loopback => act(),
            Self::Wires(wires) => inside(&wires.client, act),
        }
    }

    /// Returns where a server may listen; `number` tells those apart that stand beside each other.
    pub(super) fn address(&self, number: u16) -> anyhow::Result<SocketAddr> {
        match self {
            Self::Loopback => free_address(),
            Self::Wires(_) => Ok(SocketAddr::new(address(0, SERVER).ip(), PORT + number)),
        }
    }

    /// Returns the server's addresses that channels are spread over; none where there is but one.
    pub(super) fn interfaces(&self) -> Vec<String> {
        match self {
            Self::Loopback => Vec::new(),
            Self::Wires(_) => interfaces(WIRES),
        }
    }
}

impl Wires {
    pub(super) fn new() -> anyhow::Result<Self> {
        on_own_thread(|| {
            let new = || Namespace::new().context("network namespaces need root");
            let wires = Self { client: new()?, server: new()? };
            let peer = wires.client.path();
            // smbd asks its own machine for locks and the like.
            ip("link set lo up")?;
            for wire in 0..WIRES {
                ip(&format!("link add smbs{wire} type veth peer name smbc{wire} netns {peer}"))?;
                ip(&format!("addr add {}/24 dev smbs{wire}", address(wire, SERVER).ip()))?;
                ip(&format!("link set smbs{wire} up"))?;
                wires.client.within(|| {
                    ip(&format!("addr add {}/24 dev smbc{wire}", address(wire, CLIENT).ip()))?;
                    ip(&format!("link set smbc{wire} up"))
                })??;
            }
            Ok(wires)
        })
    }
}

/// Returns the server's addresses on the first wires.
pub(super) fn interfaces(wires: u32) -> Vec<String> {
    (0..wires).map(|wire| address(wire, SERVER).ip().to_string()).collect()
}

/// Returns a free address of loopback.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

/// Returns where a side listens or comes from, by wire.
fn address(wire: u32, side: u8) -> SocketAddr {
    ([10, 81, wire as u8, side], PORT).into()
}

const WIRES: u32 = 4;
const SERVER: u8 = 1;
const CLIENT: u8 = 2;
const PORT: u16 = 4450;
