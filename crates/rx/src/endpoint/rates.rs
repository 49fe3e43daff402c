//! Rate of the DATA of all connections together.

use std::time::Instant;

use super::Endpoint;

impl Endpoint {
    /// Sets the bound of all connections' DATA together, as its part of a server's rate: bytes a second with
    /// headers. Connections take turns; one that sent nothing in its turn goes first in the next.
    pub fn set_share(&mut self, now: Instant, bytes_per_second: Option<u64>) {
        self.shared.share.set(now, bytes_per_second);
    }

    /// Returns the bytes sent under the share so far, and the number of connections that wait for their turn.
    pub fn share_use(&self) -> (u64, usize) {
        (self.shared.share.sent(), self.shared.share.waiting())
    }
}
