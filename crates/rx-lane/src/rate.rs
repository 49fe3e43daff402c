//! Part of a rate that the lane shares with other lanes and services.

use std::time::Instant;

use rx::Endpoint;

/// Rate source of the lane's DATA, with the bound that the endpoint has from it.
pub(super) struct Share {
    source: Source,
    told: Option<u64>,
    sent: u64,
}

/// Function from the bytes sent since the last call and the waiting connections to the bytes a second that
/// may be sent.
type Source = Box<dyn FnMut(u64, usize) -> Option<u64>>;

impl Share {
    pub(super) fn new(source: impl FnMut(u64, usize) -> Option<u64> + 'static) -> Self {
        Self { source: Box::new(source), told: None, sent: 0 }
    }

    /// Reports the bytes sent, and sets a changed bound at the endpoint.
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
