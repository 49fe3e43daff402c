//! The slowest that a client may take what it asked for.

use std::time::{Duration, Instant};

use super::abort::Abort;

/// Bodies on their way to one client.
pub(super) struct Transfer {
    /// On a clock that stands still while it is the server who keeps the client waiting.
    pub(super) started: Instant,
    /// Bytes taken since.
    pub(super) sent: u64,
}

impl Transfer {
    /// Whether the client has taken as much as a rate of `rate_min` asks for, once it had `grace` to begin.
    pub(super) fn check(&self, rate_min: u64, grace: Duration, client_time: Instant) -> Result<(), Abort> {
        let elapsed = client_time.saturating_duration_since(self.started);
        let owed = u128::from(rate_min) * elapsed.as_millis() / 1000;
        if elapsed > grace && u128::from(self.sent) < owed { Err(Abort::TooSlow) } else { Ok(()) }
    }
}
