//! The lane's part of a rate that it shares with other lanes and services.

use std::time::Instant;

use rx::Endpoint;

/// Says what the lane's DATA may take, and hears what it took. Asked in every pass, so it should cost no more than a load.
pub trait RateSource: 'static {
    /// Bytes a second, with Rx headers; `None` for no bound.
    fn bytes_per_second(&self) -> Option<u64>;

    /// So many bytes have been sent under the bound since the last time, and so many connections wait for their turn.
    fn used(&self, bytes: u64, waiting: usize) {
        let _ = (bytes, waiting);
    }
}

/// A source, and what the endpoint was told of it.
pub(super) struct Share {
    source: Box<dyn RateSource>,
    told: Option<u64>,
    sent: u64,
}

impl Share {
    pub(super) fn new(source: impl RateSource) -> Self {
        Self { source: Box::new(source), told: None, sent: 0 }
    }

    /// Takes the bound to the endpoint if it is another one, and tells of what was sent.
    pub(super) fn apply(&mut self, now: Instant, endpoint: &mut Endpoint) {
        let bound = self.source.bytes_per_second();
        if bound != self.told {
            self.told = bound;
            endpoint.set_share(now, bound);
        }
        let (sent, waiting) = endpoint.share_use();
        if bound.is_some() || sent != self.sent {
            self.source.used(sent - self.sent, waiting);
            self.sent = sent;
        }
    }
}
