//! The lane's part of a rate that it shares with other lanes and services.

use std::time::Instant;

use rx::Endpoint;

/// The arbiter of the rate of the lane's DATA, and what the endpoint was told of it.
pub(super) struct Share {
    source: Source,
    told: Option<u64>,
    sent: u64,
}

/// Bytes sent since the last time and connections that wait now, for the bytes a second that may be sent.
type Source = Box<dyn FnMut(u64, usize) -> Option<u64>>;

impl Share {
    pub(super) fn new(source: impl FnMut(u64, usize) -> Option<u64> + 'static) -> Self {
        Self { source: Box::new(source), told: None, sent: 0 }
    }

    /// Tells of what was sent, and takes the bound to the endpoint if it is another one.
    pub(super) fn apply(&mut self, now: Instant, endpoint: &mut Endpoint) {
        let (sent, waiting) = endpoint.share_use();
        let bound = (self.source)(sent - self.sent, waiting);
        self.sent = sent;
        if bound != self.told {
            self.told = bound;
            endpoint.set_share(now, bound);
        }
    }
}
