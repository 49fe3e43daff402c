//! Automatic choice: NewReno, and BBR where losses are no sign that NewReno would read rightly.
//!
//! A loss means "too much" only if a queue overflowed, and a queue shows in the round trip before it does.
//! Where it does not show, the path loses packets by itself, and halving the window for each helps no flow.
//! Where it is several round trips long, filling it helps no flow either, and [`Bbr`] shares it evenly with
//! flows that do. Between the two BBR would take more than its share from a Reno flow
//! (`tests/all/sim/losses.rs` measures it), so there it is NewReno.

use std::time::{Duration, Instant};

use super::{Acked, Bbr, Controller, NewReno, Pacer};
use crate::rtt::RttEstimator;

/// Controller that chooses by the losses: [`NewReno`], or [`Bbr`] where they come without a queue, or with a
/// very long one. Paths of up to a millisecond, which are not paced, always have NewReno.
#[derive(Clone, Debug)]
pub struct Auto {
    new_reno: NewReno,
    bbr: Option<Box<Bbr>>,
    highest: HighestRtt,
    /// Votes of the last loss episodes for BBR.
    votes: u32,
    /// Set if the round trip is long enough to tell a queue from the noise of clocks and schedulers.
    is_paced: bool,
    min_rtt: Duration,
}

/// Longest round trip in the last one to two smoothed round trips.
#[derive(Clone, Copy, Debug, Default)]
struct HighestRtt {
    this: Duration,
    last: Duration,
    since: Option<Instant>,
}

/// Sign of a loss episode about the path's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueSign {
    None,
    Short,
    Long,
}

impl Auto {
    /// Makes a controller with NewReno in slow start.
    pub fn new() -> Self {
        Self {
            new_reno: NewReno::new(),
            bbr: None,
            highest: HighestRtt::default(),
            votes: 0,
            is_paced: false,
            min_rtt: Duration::MAX,
        }
    }

    /// Returns whether BBR is in charge.
    pub fn is_bbr(&self) -> bool {
        self.bbr.is_some()
    }

    fn active(&self) -> &dyn Controller {
        match &self.bbr {
            Some(bbr) => &**bbr,
            None => &self.new_reno,
        }
    }

    fn active_mut(&mut self) -> &mut dyn Controller {
        match &mut self.bbr {
            Some(bbr) => &mut **bbr,
            None => &mut self.new_reno,
        }
    }

    fn queue(&self) -> QueueSign {
        let queued = self.highest.get().saturating_sub(self.min_rtt);
        if queued < self.min_rtt / SHORT_PART {
            QueueSign::None
        } else if queued > (self.min_rtt * LONG_HALVES / 2).max(LONG_MIN) {
            QueueSign::Long
        } else {
            QueueSign::Short
        }
    }

    /// Counts a loss episode that met a congestion window of `window`, which BBR takes over whole.
    fn vote(&mut self, window: u32) {
        match (&self.bbr, self.queue()) {
            (None, QueueSign::Short) => self.votes = 0,
            (None, queue) => {
                // Losses come one by one at random; a long queue is there or is not.
                self.votes += if queue == QueueSign::Long { VOTES_FOR_BBR } else { 1 };
                if self.votes >= VOTES_FOR_BBR {
                    self.votes = VOTES_MAX;
                    self.bbr = Some(Box::new(Bbr::with_window(window)));
                }
            }
            // A probe of BBR's makes a short queue of its own for a few rounds in some sixty.
            (Some(_), QueueSign::None | QueueSign::Long) => self.votes = (self.votes + 1).min(VOTES_MAX),
            (Some(bbr), QueueSign::Short) => {
                self.votes -= 1;
                if self.votes == 0 {
                    self.new_reno = NewReno::with_window(bbr.flight());
                    self.bbr = None;
                }
            }
        }
    }
}

impl HighestRtt {
    fn get(&self) -> Duration {
        self.this.max(self.last)
    }

    fn update(&mut self, now: Instant, rtt: &RttEstimator) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) > rtt.srtt() {
            self.last = self.this;
            self.this = rtt.latest();
            self.since = Some(now);
        } else {
            self.this = self.this.max(rtt.latest());
        }
    }
}

impl Default for Auto {
    fn default() -> Self {
        Self::new()
    }
}

impl Controller for Auto {
    fn window(&self) -> u32 {
        match &self.bbr {
            Some(bbr) => bbr.window(),
            None => self.new_reno.window(),
        }
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.active().pacing_rate()
    }

    fn on_sent(&mut self, now: Instant, serial: u32, in_flight: u32) {
        match &mut self.bbr {
            Some(bbr) => bbr.on_sent(now, serial, in_flight),
            None => self.new_reno.on_sent(now, serial, in_flight),
        }
    }

    fn on_app_limited(&mut self, in_flight: u32) {
        self.active_mut().on_app_limited(in_flight);
    }

    fn on_ack(&mut self, now: Instant, acked: &Acked, rtt: &RttEstimator) {
        self.is_paced = Pacer::is_for(rtt);
        if self.is_paced {
            self.min_rtt = rtt.min_rtt();
            self.highest.update(now, rtt);
        }
        self.active_mut().on_ack(now, acked, rtt);
    }

    fn on_lost(&mut self, packets: u32) {
        self.active_mut().on_lost(packets);
    }

    fn on_loss(&mut self, now: Instant, largest_lost_sent_at: Instant, in_flight: u32) {
        let window = self.window();
        self.active_mut().on_loss(now, largest_lost_sent_at, in_flight);
        let is_new = self.bbr.is_some() || self.new_reno.window() < window;
        if self.is_paced && is_new {
            self.vote(window);
        }
    }

    fn on_rto(&mut self, now: Instant) {
        self.active_mut().on_rto(now);
    }

    fn on_spurious_loss(&mut self, now: Instant) {
        if self.bbr.is_none() {
            self.votes = self.votes.saturating_sub(1);
        }
        self.active_mut().on_spurious_loss(now);
    }

    fn losses_mislead(&self) -> Option<bool> {
        Some(self.is_bbr())
    }

    fn distrust_losses(&mut self) {
        self.votes = self.votes.max(VOTES_FOR_BBR - 1);
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

/// Divisor of the shortest round trip that gives the least delay of a queue.
const SHORT_PART: u32 = 8;
/// Halves of the shortest round trip from which a queue is long, if it is [`LONG_MIN`] too.
const LONG_HALVES: u32 = 5;
const LONG_MIN: Duration = Duration::from_millis(5);
/// Loss episodes in a row without a queue that bring BBR in, and the surplus of the other kind that takes BBR
/// out again.
const VOTES_FOR_BBR: u32 = 3;
const VOTES_MAX: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Feeds a controller round trips of `rtts` in milliseconds, the first of them the shortest.
    fn seen(auto: &mut Auto, rtt: &mut RttEstimator, at: Instant, rtts: &[u64]) -> Instant {
        let mut now = at;
        for &sample in rtts {
            now += Duration::from_millis(sample);
            rtt.update(now, Duration::from_millis(sample), Duration::ZERO);
            auto.on_sent(now, 1, 10);
            auto.on_ack(now, &Acked::new(5, false), rtt);
        }
        now
    }

    fn after_losses(rtts: &[u64], episodes: u32) -> bool {
        let (mut auto, mut rtt) = (Auto::new(), RttEstimator::new());
        let mut now = seen(&mut auto, &mut rtt, Instant::now(), &[10]);
        for _ in 0..episodes {
            now = seen(&mut auto, &mut rtt, now, rtts);
            auto.on_lost(1);
            auto.on_loss(now, now - MS, 9);
        }
        auto.is_bbr()
    }

    #[test]
    fn three_losses_without_a_queue_bring_bbr() {
        assert!(!after_losses(&[10, 10, 11], 2));
        assert!(after_losses(&[10, 10, 11], 3));
    }

    #[test]
    fn one_loss_without_a_queue_is_enough_where_another_call_has_seen_three() {
        let (mut auto, mut rtt) = (Auto::new(), RttEstimator::new());
        auto.distrust_losses();
        let mut now = seen(&mut auto, &mut rtt, Instant::now(), &[10, 10, 11]);
        auto.on_loss(now, now - MS, 9);
        assert_eq!(auto.losses_mislead(), Some(true));
        let (mut auto, mut rtt) = (Auto::new(), RttEstimator::new());
        auto.distrust_losses();
        now = seen(&mut auto, &mut rtt, now, &[10, 13, 14]);
        auto.on_loss(now, now - MS, 9);
        assert_eq!(auto.losses_mislead(), Some(false), "its own eyes count for more");
    }

    #[test]
    fn losses_of_a_short_queue_stay_with_new_reno() {
        assert!(!after_losses(&[12, 13, 12], 100));
        assert!(!after_losses(&[25, 30, 10], 100), "the queue has just emptied");
    }

    #[test]
    fn loss_of_a_long_queue_brings_bbr() {
        assert!(after_losses(&[40, 50, 45], 1));
    }

    #[test]
    fn path_of_a_millisecond_has_new_reno() {
        assert!(!after_losses(&[1, 1, 1], 100));
    }

    #[test]
    fn queue_that_overflows_again_and_again_brings_new_reno_back() {
        let (mut auto, mut rtt) = (Auto::new(), RttEstimator::new());
        let mut now = seen(&mut auto, &mut rtt, Instant::now(), &[10]);
        let mut lose = |auto: &mut Auto, rtts: &[u64], times: u32| {
            for _ in 0..times {
                now = seen(auto, &mut rtt, now, rtts);
                auto.on_lost(1);
                auto.on_loss(now, now - MS, 9);
            }
        };
        lose(&mut auto, &[10; 8], 3);
        lose(&mut auto, &[13, 14], VOTES_MAX - 1);
        assert!(auto.is_bbr());
        lose(&mut auto, &[10; 8], 2);
        lose(&mut auto, &[13, 14], 2);
        assert!(auto.is_bbr());
        lose(&mut auto, &[13, 14], 1);
        assert!(!auto.is_bbr() && auto.window() >= 2);
    }
}
