//! Bounds of out-of-band TCP.

use std::time::Duration;

use oob_lane::Patience;

/// Bounds of one lane's connections and transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OobOptions {
    /// Time within which a new connection must make its claim, and for which a token is valid.
    pub claim: Duration,
    /// Time for which a connection is kept between two transfers.
    pub idle: Duration,
    /// Connections, claimed or not; beyond it the address that holds most gives way.
    pub connections_max: usize,
    /// Transfers at once; those of an address that has as many as are free are refused.
    pub transfers_max: usize,
    /// Streams of these transfers that stores receive by; each takes 256 KiB.
    pub receiving_max: usize,
    /// Connections of one transfer.
    pub streams_max: usize,
    /// Time that clients may take.
    pub patience: Patience,
}

impl Default for OobOptions {
    fn default() -> Self {
        Self {
            //@ limit: connections that have made no claim
            //@ section: Out-of-band TCP
            //@ unit: time; 40 bytes
            //@ connection: {}
            //@ empty: closed; others feel nothing
            //@ counter: oob_claims_refused
            //@ attack: oob-pools
            claim: Duration::from_secs(10),
            idle: Duration::from_secs(600),
            connections_max: 4096,
            transfers_max: 1024,
            //@ limit: memory that stores receive into
            //@ section: Out-of-band TCP
            //@ unit: stream of 256 KiB
            //@ connection: 8
            //@ address: half of what is free
            //@ all: lane: {} (32 MiB)
            //@ empty: fewer streams, then OOB_BUSY; others feel nothing
            //@ counter: oob_refused{reason="busy"}
            //@ attack: oob-pools
            receiving_max: 128,
            streams_max: 8,
            patience: Patience::default(),
        }
    }
}
