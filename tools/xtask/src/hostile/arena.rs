//! Arena where the bench takes place: network namespaces for the server, the good client, the attackers and a
//! victim, each joined to the server's by a pair of virtual NICs. They go with this value, however a run
//! ends.
//!
//! ```text
//!   server 10.77.0.1 ── 10.77.1.2 the good client
//!                    ├─ 10.77.2.2 attackers; theirs as well is all of 10.78.0.0/16, and packets from
//!                    │            10.66.0.0/16, without hosts, come from there
//!                    └─ 10.77.3.2 a victim that answers no packet
//! ```

use std::net::Ipv4Addr;
use std::panic::resume_unwind;

use anyhow::Context;
use testkit::netns::{Namespace, ip};

/// The four namespaces.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) server: Namespace,
    pub(crate) good: Namespace,
    pub(crate) attackers: Namespace,
    pub(crate) victim: Namespace,
}

impl Arena {
    pub(crate) fn new() -> anyhow::Result<Self> {
        // A thread of its own, as it wanders from one to the next.
        inside_new_thread(|| {
            let new = || Namespace::new().context("network namespaces need root");
            let arena = Self { good: new()?, attackers: new()?, victim: new()?, server: new()? };
            arena.connect()?;
            Ok(arena)
        })
    }

    /// Checks whether this process may make namespaces; the reason if not.
    pub(crate) fn is_possible() -> Result<(), String> {
        inside_new_thread(Namespace::new)
            .map(drop)
            .map_err(|error| format!("network namespaces need root ({error})"))
    }

    fn connect(&self) -> anyhow::Result<()> {
        ip(&format!("addr add {SERVER}/32 dev lo"))?;
        for (n, peer) in [(1, &self.good), (2, &self.attackers), (3, &self.victim)] {
            ip(&format!("link add s{n} type veth peer name c{n} netns {}", peer.path()))?;
            ip(&format!("addr add 10.77.{n}.1/24 dev s{n}"))?;
            ip(&format!("link set s{n} up"))?;
            let plug = || {
                ip(&format!("addr add 10.77.{n}.2/24 dev c{n}"))?;
                ip(&format!("link set c{n} up"))?;
                ip(&format!("route add default via 10.77.{n}.1"))?;
                no_filters()
            };
            peer.within(plug)??;
        }
        for network in [OWNED, NOBODY] {
            ip(&format!("route add {network} via 10.77.2.2"))?;
        }
        self.attackers.within(|| ip(&format!("route add local {OWNED} dev lo")))??;
        Ok(no_filters()?)
    }
}

/// Runs `act` on a thread inside a namespace: what it opens and starts belongs there.
pub(crate) fn inside<T: Send>(
    namespace: &Namespace,
    act: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    inside_new_thread(|| {
        namespace.enter()?;
        act()
    })
}

fn inside_new_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(act).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

/// Attackers lie about where they are; that packets are dropped on their way for it is another network's good luck.
fn no_filters() -> std::io::Result<()> {
    for entry in std::fs::read_dir("/proc/sys/net/ipv4/conf")? {
        std::fs::write(entry?.path().join("rp_filter"), "0")?;
    }
    Ok(())
}

/// Returns the bytes and packets that have come in by the card of the calling thread's namespace.
pub(crate) fn received_by(card: &str) -> anyhow::Result<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix(card)?.strip_prefix(':'));
    let mut numbers = line.with_context(|| format!("no card {card}"))?.split_whitespace();
    let mut number = || -> anyhow::Result<u64> { Ok(numbers.next().context("a number")?.parse()?) };
    Ok((number()?, number()?))
}

/// Returns an address that attackers own.
pub(crate) fn owned(n: usize) -> Ipv4Addr {
    let [_, _, high, low] = u32::try_from(n % 65_000 + 256).expect("16 bits").to_be_bytes();
    Ipv4Addr::new(10, 78, high, low)
}

/// Returns an address without a host.
pub(crate) fn nobody(n: u32) -> Ipv4Addr {
    let [_, _, high, low] = (n % 65_000 + 256).to_be_bytes();
    Ipv4Addr::new(10, 66, high, low)
}

pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub(crate) const ATTACKER: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 2);
pub(crate) const VICTIM: Ipv4Addr = Ipv4Addr::new(10, 77, 3, 2);
/// The victim's card, inside its namespace.
pub(crate) const VICTIM_CARD: &str = "c3";
const OWNED: &str = "10.78.0.0/16";
const NOBODY: &str = "10.66.0.0/16";
