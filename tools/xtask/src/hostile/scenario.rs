//! Scenarios.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ChildStderr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::arena::Arena;
use super::server::Wishes;
use super::{admin, afs, http, rx, smb};

/// Attack on a server while a good client asks beside them.
pub(crate) trait Scenario: Sync {
    /// Returns the scenario's name on the command line.
    fn name(&self) -> &'static str;

    /// Returns what a client does there, in one line.
    fn about(&self) -> &'static str;

    /// Returns what is served.
    fn service(&self) -> Service;

    /// Returns what it wants of its server; `work` is a directory of its own.
    fn prepare(&self, work: &Path) -> anyhow::Result<Wishes> {
        let _ = work;
        Ok(Wishes::default())
    }

    /// Returns the least number of seconds that the scenario takes.
    fn seconds_least(&self) -> u64 {
        0
    }

    /// Attacks from a thread inside the attackers' namespace until [`Field::is_over`]. Everything it holds goes when
    /// it returns. Its findings may say that the server has failed in a way of the scenario's own.
    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings>;
}

/// Service that is attacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// `linerate serve` over a tree.
    Http,
    /// `linerate bench rx-server`.
    Rx,
    /// `linerate serve` over the same tree, by SMB, to users that may write.
    Smb,
}

/// Surroundings of an attack.
pub(crate) struct Field<'a> {
    pub(crate) arena: &'a Arena,
    /// The served tree.
    pub(crate) tree: &'a Path,
    /// The server's standard error where the scenario wished for it.
    pub(crate) stderr: &'a Mutex<Option<ChildStderr>>,
    pub(crate) end: Instant,
}

impl Field<'_> {
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Sleeps, but not beyond the end.
    pub(crate) fn sleep(&self, time: Duration) {
        std::thread::sleep(time.min(self.end.saturating_duration_since(Instant::now())));
    }

    /// Sleeps to the end.
    pub(crate) fn sit_out(&self) {
        self.sleep(Duration::MAX);
    }
}

/// Findings of an attack.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Size of the attack, by what it counts.
    pub(crate) size: BTreeMap<&'static str, u64>,
    /// Faults of the server.
    pub(crate) failures: Vec<String>,
    /// Counts of what the server refused, limited or cut meanwhile.
    pub(crate) counted: BTreeMap<String, f64>,
}

impl Findings {
    pub(crate) fn with(mut self, what: &'static str, count: impl TryInto<u64>) -> Self {
        self.size.insert(what, count.try_into().unwrap_or(u64::MAX));
        self
    }

    /// Notes a failure unless it `holds`.
    pub(crate) fn expect(mut self, holds: bool, failure: impl FnOnce() -> String) -> Self {
        if !holds {
            self.failures.push(failure());
        }
        self
    }
}

/// Returns the scenarios that are named, or all.
pub(crate) fn choose(names: &[String]) -> anyhow::Result<Vec<&'static dyn Scenario>> {
    if names.is_empty() || names == ["all"] {
        return Ok(ALL.to_vec());
    }
    let find = |name: &String| {
        let found = ALL.iter().copied().find(|scenario| scenario.name() == name);
        found.ok_or_else(|| anyhow::anyhow!("there is no scenario {name}; --list tells those that are"))
    };
    names.iter().map(find).collect()
}

/// Every scenario.
pub(crate) const ALL: &[&dyn Scenario] = &[
    &http::drips::Drips { name: "http-drips-160", connections: 160 },
    &http::drips::Drips { name: "http-drips-10000", connections: 10_000 },
    &http::uploads::SlowUploads,
    &http::resets::Resets,
    &http::pings::Pings,
    &http::log::UnreadLog,
    &http::stalled::Stalled {
        name: "http-stalled-listings",
        about: "streams and connections that never take a listing of 10,000 entries",
        path: "/many/",
        http2: 5,
        http1: 1000,
    },
    &http::stalled::Stalled {
        name: "http-stalled-files",
        about: "10,000 streams and connections that never take a file of 200 MB",
        path: "/large",
        http2: 36,
        http1: 1000,
    },
    &http::readers::Readers,
    &http::growing::Growing,
    &http::places::Places,
    &http::passwords::Passwords,
    &http::chains::Chains,
    &http::edges::Edges,
    &admin::places::Places,
    &rx::reflection::Reflection,
    &rx::theft::Theft,
    &rx::gap::Gap,
    &rx::acks::Acks {
        name: "rx-soft-acks",
        about: "64 calls of 100 MB that acknowledge everything softly and nothing for good",
        kind: rx::acks::Kind::SoftOnly,
    },
    &rx::acks::Acks {
        name: "rx-ack-ranges",
        about: "ACKs of 64 ranges of 12,288 packets that overlap and repeat",
        kind: rx::acks::Kind::Overlapping,
    },
    &rx::connections::Connections,
    &rx::flood::Flood,
    &rx::stores::Stores,
    &rx::owed::Owed,
    &rx::questions::Questions,
    &afs::announced::Announced,
    &afs::pools::Pools,
    &afs::out_of_band::Pools,
    &smb::silent::Silent,
    &smb::sign_ins::SignIns,
    &smb::lies::Lies,
    &smb::hoards::Hoards,
    &smb::cut::Cut,
    &smb::killed::Killed,
    &smb::unread::Unread,
    &smb::unread_audit::UnreadAuditLog,
    &smb::patterns::Patterns,
    &smb::padded::Padded,
    &smb::begun::Begun,
    &smb::trees::Trees,
    &smb::pools::Pools,
];
