//! Statistics of each connection, which threads may read.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The addresses, requests and bytes of one connection. Its lane alone writes them.
#[derive(Debug)]
pub(crate) struct ConnectionStats {
    pub(crate) peer: SocketAddr,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) requests: StatCounter,
    pub(crate) bytes_in: StatCounter,
    pub(crate) bytes_out: StatCounter,
}

/// A counter that one lane writes and any thread may read.
#[derive(Debug, Default)]
pub(crate) struct StatCounter(AtomicU64);

/// The statistics of every negotiated connection, by its number.
#[derive(Debug, Default)]
pub(crate) struct StatsByConnection(Mutex<HashMap<u64, Arc<ConnectionStats>>>);

impl ConnectionStats {
    pub(crate) fn new(peer: SocketAddr, local: Option<SocketAddr>) -> Arc<Self> {
        let (requests, bytes_in, bytes_out) = Default::default();
        Arc::new(Self { peer, local, requests, bytes_in, bytes_out })
    }
}

impl StatCounter {
    /// Adds to the counter. Called on the lane of the connection alone: others would lose what it adds.
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl StatsByConnection {
    pub(crate) fn add(&self, connection: u64, stats: &Arc<ConnectionStats>) {
        self.lock().insert(connection, Arc::clone(stats));
    }

    pub(crate) fn remove(&self, connection: u64) {
        self.lock().remove(&connection);
    }

    pub(crate) fn of(&self, connection: u64) -> Option<Arc<ConnectionStats>> {
        self.lock().get(&connection).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<ConnectionStats>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
