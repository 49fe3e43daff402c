//! Knowledge of what one server can do over TCP, and the connections to it that are kept for the next transfer.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lane::net::TcpStream;
use lane::time::now;
use oob_lane::Memory;

/// Options of out-of-band TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OobOptions {
    /// Pieces of so many bytes and more go over TCP; `None`: none do.
    pub threshold: Option<u64>,
    /// Connections of one piece: one for each MiB at most.
    pub streams: usize,
    /// A server that has none is asked again after so long.
    pub ask_again: Duration,
}

/// Amount that moved over TCP to and from one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OobUse {
    /// Pieces.
    pub transfers: u64,
    /// Total length of the pieces, in bytes.
    pub bytes: u64,
    /// Connections that were opened.
    pub connections: u64,
    /// Pieces that were tried over TCP and went over Rx in the end.
    pub fell_back: u64,
}

/// Knowledge of one server, and the connections to it that are not in use.
#[derive(Debug)]
pub(crate) struct OutOfBand {
    pub(crate) options: OobOptions,
    pub(crate) support: RefCell<Support>,
    pub(crate) idle: RefCell<BTreeMap<u64, Idle>>,
    pub(crate) next: Cell<u64>,
    pub(crate) used: Cell<OobUse>,
}

#[derive(Clone, Debug)]
pub(crate) enum Support {
    NotAsked,
    Has { streams_max: usize, idle: Duration },
    HasNot { until: Instant },
}

#[derive(Debug)]
pub(crate) struct Idle {
    pub(crate) connection: Connection,
    pub(crate) since: Instant,
}

/// A connection that was claimed.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) number: u64,
    pub(crate) stream: TcpStream,
    pub(crate) memory: Memory,
}

impl Default for OobOptions {
    fn default() -> Self {
        Self { threshold: Some(1 << 20), streams: 2, ask_again: Duration::from_secs(600) }
    }
}

impl OutOfBand {
    pub(crate) fn new(options: OobOptions) -> Self {
        let seed = u64::from(std::process::id()) << 32;
        Self {
            options,
            support: RefCell::new(Support::NotAsked),
            idle: RefCell::default(),
            next: Cell::new(seed),
            used: Cell::default(),
        }
    }

    pub(crate) fn used(&self) -> OobUse {
        self.used.get()
    }

    /// Returns whether a piece of so many bytes goes over TCP if the server can.
    pub(crate) fn wants(&self, length: u64) -> bool {
        length > 0 && self.options.threshold.is_some_and(|threshold| length >= threshold)
    }

    pub(crate) fn has_not(&self) {
        *self.support.borrow_mut() = Support::HasNot { until: now() + self.options.ask_again };
        self.idle.borrow_mut().clear();
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut OobUse)) {
        let mut used = self.used.get();
        change(&mut used);
        self.used.set(used);
    }

    /// Takes idle connections for a transfer, those first that were used last.
    pub(crate) fn take(&self, count: usize, keep: Duration) -> Vec<Connection> {
        let mut idle = self.idle.borrow_mut();
        // The server closes them soon, or has done so.
        idle.retain(|_, idle| now().saturating_duration_since(idle.since) < keep);
        (0..count).map_while(|_| idle.pop_last()).map(|(_, idle)| idle.connection).collect()
    }

    pub(crate) fn keep(&self, connections: Vec<Connection>) {
        for connection in connections {
            let place = self.next.get();
            self.next.set(place + 1);
            self.idle.borrow_mut().insert(place, Idle { connection, since: now() });
        }
    }
}
