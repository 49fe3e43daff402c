//! What all lanes of the process share of SMB, and what outlives reloads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use smb_tree::{Opens, OpensLimits};
use smb_wire::Guid;
use smb_wire::time::from_unix;

use crate::interfaces::Live;
use crate::pipe::Pipes;
use crate::service::Clients;
use crate::session::Sessions;
use crate::sign_in::Failures;

/// Of the process.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    guid: OnceLock<Guid>,
    started: OnceLock<Instant>,
    has_listened: AtomicBool,
    connections: AtomicU64,
    /// Every session.
    pub(crate) sessions: Sessions,
    /// Every open pipe.
    pub(crate) pipes: Pipes,
    opens: OnceLock<Arc<Opens>>,
    /// Which connections clients have.
    pub(crate) clients: Clients,
    /// This machine's addresses, as they were a moment ago.
    pub(crate) live: Live,
    /// Whose sign-ins fail.
    pub(crate) failures: Failures,
}

impl Kept {
    /// By which clients know the server while it runs.
    pub(crate) fn guid(&self) -> Guid {
        *self.guid.get_or_init(|| Guid::new(random()))
    }

    /// For how long it has run, at least.
    pub(crate) fn uptime_ms(&self) -> u64 {
        let started = self.started.get_or_init(Instant::now);
        started.elapsed().as_millis() as u64
    }

    /// Every open file.
    pub(crate) fn opens(&self) -> &Arc<Opens> {
        self.opens.get_or_init(|| Opens::new(OpensLimits::default()))
    }

    /// A number for a connection that no other has.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Its addresses are its own since.
    pub(crate) fn listens(&self) {
        self.started.get_or_init(Instant::now);
        self.has_listened.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_listened(&self) -> bool {
        self.has_listened.load(Ordering::Relaxed)
    }
}

/// 100 ns since 1601.
pub(crate) fn file_time(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    from_unix(since.as_secs() as i64, since.subsec_nanos())
}

/// Bytes that nobody can foretell.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // The kernel gives randomness to everybody once it has started.
    getrandom::fill(&mut bytes).expect("the kernel's randomness");
    bytes
}
