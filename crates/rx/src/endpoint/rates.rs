//! What DATA may take: of one connection, and of all of them together.

use std::time::Instant;

use super::Endpoint;
use crate::event::ConnectionHandle;
use crate::rate::Rate;

impl Endpoint {
    /// Bounds what the DATA of one connection takes, bytes a second with headers; `None` takes the bound away. False if it
    /// is gone.
    pub fn set_rate(
        &mut self,
        now: Instant,
        handle: ConnectionHandle,
        bytes_per_second: Option<u64>,
    ) -> bool {
        let Some(connection) = self.connections.get_mut(handle.index as usize) else { return false };
        if connection.core.handle() != handle {
            return false;
        }
        match (&mut connection.core.rate, bytes_per_second) {
            (Some(rate), Some(bytes)) => rate.change(now, bytes),
            (rate, bytes) => *rate = bytes.map(|bytes| Rate::new(now, bytes)),
        }
        self.shared.mark_ready(&mut connection.core);
        true
    }

    /// Bounds what the DATA of all connections takes together, as its part of a server's rate: bytes a second with
    /// headers. They take turns; who had nothing in one goes first in the next.
    pub fn set_share(&mut self, now: Instant, bytes_per_second: Option<u64>) {
        self.shared.share.set(now, bytes_per_second);
    }

    /// What came of the share: bytes sent under it so far, and connections that wait for their turn now.
    pub fn share_use(&self) -> (u64, usize) {
        (self.shared.share.sent(), self.shared.share.waiting())
    }
}
