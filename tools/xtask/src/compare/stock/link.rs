//! Link where the peers meet: two network namespaces joined by a pair of virtual NICs. They go with this
//! value, however a run ends.

use std::net::Ipv4Addr;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::Context;
use testkit::netns::{Namespace, ip};

/// Two namespaces and what joins them.
#[derive(Debug)]
pub(super) struct Link {
    server: Namespace,
    client: Namespace,
    next_port: AtomicU16,
}

impl Link {
    /// Makes the link. `mtu` is in bytes, for both ends.
    pub(super) fn new(mtu: u32) -> anyhow::Result<Self> {
        // A thread of its own, as it wanders from one to the other.
        on_own_thread(|| {
            let new = || Namespace::new().context("network namespaces need root");
            let link = Self { client: new()?, server: new()?, next_port: AtomicU16::new(PORT) };
            ip(&format!("link add rxs type veth peer name rxc netns {}", link.client.path()))?;
            let plug = |card: &str, address: Ipv4Addr| {
                ip(&format!("link set {card} mtu {mtu}"))?;
                ip(&format!("addr add {address}/24 dev {card}"))?;
                ip(&format!("link set {card} up"))
            };
            plug("rxs", SERVER)?;
            link.client.within(|| plug("rxc", CLIENT))??;
            Ok(link)
        })
    }

    /// Returns a port for the next server: a ring gives up its socket a while after its process has ended.
    pub(super) fn next_port(&self) -> u16 {
        self.next_port.fetch_add(1, Ordering::Relaxed)
    }

    /// Runs `act` on the server's side: what it opens and starts belongs there.
    pub(super) fn at_server<T: Send>(
        &self,
        act: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        inside(&self.server, act)
    }

    /// Runs `act` on the client's side.
    pub(super) fn at_client<T: Send>(
        &self,
        act: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        inside(&self.client, act)
    }
}

/// Runs `act` on a thread of its own that is in this namespace.
pub(in crate::compare) fn inside<T: Send>(
    namespace: &Namespace,
    act: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    on_own_thread(|| {
        namespace.enter()?;
        act()
    })
}

/// Runs `act` on a thread of its own, which may wander between namespaces.
pub(in crate::compare) fn on_own_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(act).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

/// The server's address.
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 2);
/// Port of rxperf.
const PORT: u16 = 7009;
