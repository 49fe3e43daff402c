//! Rate of the DATA of all connections together.

use std::time::Instant;

use super::Endpoint;

impl Endpoint {
    /// Bounds what the DATA of all connections takes together, as its part of a server's rate: bytes a second
    /// with headers. They take turns; one that had nothing in one goes first in the next.
    pub fn set_share(&mut self, now: Instant, bytes_per_second: Option<u64>) {
        self.shared.share.set(now, bytes_per_second);
    }

    /// Returns what came of the share: bytes sent under it so far, and connections that wait for their turn
    /// now.
    pub fn share_use(&self) -> (u64, usize) {
        (self.shared.share.sent(), self.shared.share.waiting())
    }
}
