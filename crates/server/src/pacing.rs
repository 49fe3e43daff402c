//! Pacing of the whole server: gives every lane its share of the rate, from beside the lanes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use service::pacer::RateShare;

use crate::shares::{Shares, Usage};

/// Lanes' shares, and the rule that fills them while there is a rate to keep.
pub(crate) struct Pacing {
    lanes: Vec<Arc<RateShare>>,
    shares: Option<Shares>,
    started: Instant,
}

impl Pacing {
    /// Makes the pacing of `rate` bytes per second over all lanes; `None` leaves them unbounded.
    pub(crate) fn new(lanes: Vec<Arc<RateShare>>, rate: Option<u64>) -> Self {
        let mut pacing = Self { lanes, shares: None, started: Instant::now() };
        pacing.set_rate(rate);
        pacing
    }

    /// Returns one lane's share, for the lane.
    pub(crate) fn share(&self, lane: usize) -> Arc<RateShare> {
        Arc::clone(&self.lanes[lane])
    }

    /// Changes the rate, for open connections too.
    pub(crate) fn set_rate(&mut self, rate: Option<u64>) {
        let (now, usage) = (self.started.elapsed(), self.usage());
        match (&mut self.shares, rate) {
            (Some(shares), Some(rate)) => shares.set_rate(rate),
            (_, rate) => self.shares = rate.map(|rate| Shares::new(rate, now, usage)),
        }
        self.apply_shares();
    }

    /// Waits for the end of a period and divides the rate again; for ever without a rate.
    pub(crate) async fn tick(&mut self) {
        if self.shares.is_none() {
            return std::future::pending().await;
        }
        tokio::time::sleep(PERIOD).await;
        let (now, usage) = (self.started.elapsed(), self.usage());
        if let Some(shares) = &mut self.shares {
            shares.rebalance(now, &usage);
        }
        self.apply_shares();
    }

    fn usage(&self) -> Vec<Usage> {
        let of_lane = |lane: &Arc<RateShare>| Usage {
            bytes: lane.usage.bytes.get(),
            wait_us: lane.usage.wait_us.get(),
            waiting: lane.usage.waiting.get(),
        };
        self.lanes.iter().map(of_lane).collect()
    }

    fn apply_shares(&self) {
        for (at, lane) in self.lanes.iter().enumerate() {
            lane.set(self.shares.as_ref().map(|shares| shares.shares()[at]));
        }
    }
}

/// Interval at which shares follow demand: soon enough that a transfer on an idle lane hardly waits for its
/// share.
const PERIOD: Duration = Duration::from_millis(20);
