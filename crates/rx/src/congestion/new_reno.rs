//! Congestion controller NewReno (RFC 5681, RFC 6582) with packet counting (RFC 3465) and HyStart++ slow
//! start.

use std::time::{Duration, Instant};

use super::slow_start::{Growth, SlowStart};
use super::{Acked, Controller, INITIAL_WINDOW, LOSS_WINDOW, MAXIMUM_WINDOW, MINIMUM_WINDOW};
use crate::rtt::{INITIAL_RTT, RttEstimator};

/// Additive increase of one packet per round trip, halving on loss.
///
/// Steady state at loss rate `p`: a mean window of `sqrt(3 / 2p)` packets (Mathis et al. 1997).
#[derive(Clone, Debug)]
pub struct NewReno {
    window: u32,
    ssthresh: u32,
    /// Packets acknowledged since the window last grew in congestion avoidance.
    acked: u32,
    slow_start: SlowStart,
    srtt: Duration,
    reduced_at: Option<Instant>,
    timed_out: bool,
    undo: Option<(u32, u32)>,
}

impl NewReno {
    /// Makes a controller in slow start with [`INITIAL_WINDOW`].
    pub fn new() -> Self {
        Self {
            window: INITIAL_WINDOW,
            ssthresh: u32::MAX,
            acked: 0,
            slow_start: SlowStart::new(),
            srtt: INITIAL_RTT,
            reduced_at: None,
            timed_out: false,
            undo: None,
        }
    }

    /// Makes a controller that takes over from another one, in congestion avoidance.
    pub(super) fn with_window(window: u32) -> Self {
        let window = window.clamp(MINIMUM_WINDOW, MAXIMUM_WINDOW);
        Self { window, ssthresh: window, ..Self::new() }
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.ssthresh
    }

    /// Returns whether an ACK arrives within one round trip of a reduction.
    ///
    /// Such ACKs are for packets sent before the reduction: they show what the old window did, so they do not
    /// open the new one.
    fn in_recovery(&self, now: Instant) -> bool {
        !self.timed_out && self.reduced_at.is_some_and(|at| now.saturating_duration_since(at) < self.srtt)
    }

    fn reduce(&mut self, now: Instant) {
        self.undo = Some((self.window, self.ssthresh));
        self.ssthresh = (self.window / 2).max(MINIMUM_WINDOW);
        self.acked = 0;
        self.reduced_at = Some(now);
    }

    fn grow_in_slow_start(&mut self, newly_acked: u32, rtt: &RttEstimator) {
        match self.slow_start.on_ack(newly_acked, rtt) {
            Growth::Add(packets) => {
                self.window = (self.window + packets).min(self.ssthresh).min(MAXIMUM_WINDOW)
            }
            Growth::Exit => self.ssthresh = self.window,
        }
    }

    fn grow_in_congestion_avoidance(&mut self, newly_acked: u32) {
        self.acked = self.acked.saturating_add(newly_acked);
        if self.acked >= self.window {
            self.acked -= self.window;
            // One packet per ACK at most: an ACK that covers several windows is a stretch, not several rounds.
            self.acked = self.acked.min(self.window);
            self.window = (self.window + 1).min(MAXIMUM_WINDOW);
        }
    }
}

impl Default for NewReno {
    fn default() -> Self {
        Self::new()
    }
}

impl Controller for NewReno {
    fn window(&self) -> u32 {
        self.window
    }

    fn on_sent(&mut self, _now: Instant, _serial: u32, in_flight: u32) {
        self.slow_start.on_sent(in_flight);
    }

    fn on_ack(&mut self, now: Instant, acked: &Acked, rtt: &RttEstimator) {
        let Acked { newly_acked, app_limited, .. } = *acked;
        let in_recovery = self.in_recovery(now);
        self.srtt = rtt.srtt();
        if newly_acked == 0 {
            return;
        }
        self.timed_out = false;
        if app_limited || in_recovery {
            return;
        }
        if self.in_slow_start() {
            self.grow_in_slow_start(newly_acked, rtt);
        } else {
            self.grow_in_congestion_avoidance(newly_acked);
        }
    }

    fn on_loss(&mut self, now: Instant, largest_lost_sent_at: Instant, _in_flight: u32) {
        if self.timed_out || self.reduced_at.is_some_and(|at| largest_lost_sent_at <= at) {
            return;
        }
        self.reduce(now);
        self.window = self.ssthresh;
    }

    fn on_rto(&mut self, now: Instant) {
        if !self.timed_out {
            self.reduce(now);
        }
        self.window = LOSS_WINDOW;
        self.timed_out = true;
        self.slow_start = SlowStart::new();
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        if let Some((window, ssthresh)) = self.undo.take() {
            self.window = self.window.max(window);
            self.ssthresh = self.ssthresh.max(ssthresh);
            self.timed_out = false;
            self.reduced_at = None;
        }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::model;
    use super::*;

    fn mathis_window(loss: f64) -> f64 {
        (1.5 / loss).sqrt()
    }

    #[test]
    fn mean_window_follows_mathis_under_periodic_loss() {
        for period in [100, 400, 2_500, 10_000] {
            let mut cc = NewReno::new();
            let mean = model::mean_window(&mut cc, Duration::from_millis(10), 40_000, model::every(period));
            let want = mathis_window(1.0 / f64::from(period));
            assert!((mean / want - 1.0).abs() < 0.10, "1/{period}: mean {mean:.2}, model {want:.2}");
        }
    }

    #[test]
    fn congestion_avoidance_adds_one_packet_per_round_trip() {
        let mut cc = NewReno::new();
        let start = Instant::now();
        let rtt_time = Duration::from_millis(10);
        let mut rtt = RttEstimator::new();
        rtt.update(Instant::now(), rtt_time, Duration::ZERO);
        cc.on_sent(start, 1, 10);
        cc.on_loss(start + rtt_time, start, 9);
        assert_eq!(cc.window(), 5);
        let mut now = start + 2 * rtt_time;
        cc.on_ack(now, &Acked::new(5, false), &rtt);
        for want in 6..30 {
            now += 2 * rtt_time;
            for _ in 0..cc.window() {
                assert!(cc.window() < want + 1);
                cc.on_ack(now, &Acked::new(1, false), &rtt);
            }
            assert!(cc.window().abs_diff(want) <= 1, "window {} after round for {want}", cc.window());
        }
    }

    #[test]
    fn acks_of_the_old_flight_do_not_open_the_reduced_window() {
        let mut cc = NewReno::new();
        let start = Instant::now();
        let rtt_time = Duration::from_millis(10);
        let mut rtt = RttEstimator::new();
        rtt.update(Instant::now(), rtt_time, Duration::ZERO);
        cc.on_ack(start, &Acked::new(90, false), &rtt);
        cc.on_loss(start + rtt_time, start + Duration::from_millis(1), 99);
        for ms in 11..20 {
            cc.on_ack(start + Duration::from_millis(ms), &Acked::new(11, false), &rtt);
        }
        assert_eq!(cc.window(), 50);
    }
}
