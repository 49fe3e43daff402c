//! What all lanes of the process share of SMB, and what outlives reloads.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use smb_wire::Guid;
use smb_wire::time::from_unix;

use crate::session::Sessions;
use crate::sign_in::Failures;

/// Of the process.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    guid: OnceLock<Guid>,
    started: OnceLock<u64>,
    has_listened: AtomicBool,
    connections: AtomicU64,
    /// Every session.
    pub(crate) sessions: Sessions,
    /// Whose sign-ins fail.
    pub(crate) failures: Failures,
}

impl Kept {
    /// By which clients know the server while it runs.
    pub(crate) fn guid(&self) -> Guid {
        *self.guid.get_or_init(|| Guid::new(random()))
    }

    /// When it was first asked, 100 ns since 1601.
    pub(crate) fn started(&self) -> u64 {
        *self.started.get_or_init(|| file_time(SystemTime::now()))
    }

    /// A number for a connection that no other has.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Its addresses are its own since.
    pub(crate) fn listens(&self) {
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
