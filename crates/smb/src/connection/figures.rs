//! What a connection has moved, for who looks at it from elsewhere.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of one connection. Its lane alone writes them.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) peer: SocketAddr,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) requests: Figure,
    pub(crate) bytes_in: Figure,
    pub(crate) bytes_out: Figure,
}

/// A figure that one lane writes and anybody may read.
#[derive(Debug, Default)]
pub(crate) struct Figure(AtomicU64);

/// Of every connection that has negotiated, by its number.
#[derive(Debug, Default)]
pub(crate) struct AllFigures(Mutex<HashMap<u64, Arc<Figures>>>);

impl Figures {
    pub(crate) fn new(peer: SocketAddr, local: Option<SocketAddr>) -> Arc<Self> {
        let (requests, bytes_in, bytes_out) = Default::default();
        Arc::new(Self { peer, local, requests, bytes_in, bytes_out })
    }
}

impl Figure {
    /// On the lane of the connection alone: others would lose what it adds.
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl AllFigures {
    pub(crate) fn add(&self, connection: u64, figures: &Arc<Figures>) {
        self.lock().insert(connection, Arc::clone(figures));
    }

    pub(crate) fn remove(&self, connection: u64) {
        self.lock().remove(&connection);
    }

    pub(crate) fn of(&self, connection: u64) -> Option<Arc<Figures>> {
        self.lock().get(&connection).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Figures>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
