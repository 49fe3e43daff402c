//! Time limits of the other end.

use std::time::{Duration, Instant};

use lane::time::now;

/// Bounds of a peer that is slow, or gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Longest time in which the stream takes nothing.
    pub stall: Duration,
    /// Longest time for one piece to come: 256 KiB, or the rest of its frame.
    pub piece: Duration,
    /// Lowest rate at which the peer must take sent bytes, in bytes a second since the part began.
    pub rate_min: u64,
    /// Time after which the rate is judged.
    pub judged_after: Duration,
    /// Longest time for a begun frame once the transfer is over.
    pub grace: Duration,
}

impl Patience {
    /// Returns whether what was taken since `began` is too little.
    pub(crate) fn is_too_slow(&self, began: Instant, sent: u64) -> bool {
        let taken = now().saturating_duration_since(began);
        taken >= self.judged_after && u128::from(sent) * 1000 < u128::from(self.rate_min) * taken.as_millis()
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            //@ limit: client that takes or sends nothing
            //@ section: Out-of-band TCP
            //@ unit: time
            //@ connection: {}; {rate_min} bytes/s over a minute; 256 KiB a minute of a store
            //@ empty: the call fails (OOB_STALLED), and the connection is reset; others feel nothing
            //@ counter: oob_stalled, oob_transfers
            //@ attack: oob-pools
            stall: Duration::from_secs(30),
            piece: Duration::from_secs(60),
            rate_min: 4096,
            judged_after: Duration::from_secs(60),
            //@ limit: bytes sent of a call that has died
            //@ section: Out-of-band TCP
            //@ unit: frame of 1 MiB
            //@ connection: its frame, for {}
            //@ empty: the connection is reset; others feel nothing
            //@ counter: oob_stopped
            //@ attack: oob-pools
            grace: Duration::from_secs(2),
        }
    }
}
