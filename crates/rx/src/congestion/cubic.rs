//! Congestion controller CUBIC (RFC 9438) with HyStart++ slow start.

use std::time::{Duration, Instant};

use super::slow_start::{Growth, SlowStart};
use super::{Acked, Controller, INITIAL_WINDOW, LOSS_WINDOW, MAXIMUM_WINDOW, MINIMUM_WINDOW};
use crate::rtt::{INITIAL_RTT, RttEstimator};

/// Growth by a cubic of the time since the last reduction, independent of the round-trip time; never slower
/// than Reno would be.
///
/// Steady state at loss rate `p` and round trip `r` seconds: a mean window of
/// `(C (3 + b) / (4 (1 - b)))^(1/4) * r^(3/4) / p^(3/4)` packets (RFC 9438 5.1).
#[derive(Clone, Debug)]
pub struct Cubic {
    state: CubicState,
    slow_start: SlowStart,
    srtt: Duration,
    reduced_at: Option<Instant>,
    timed_out: bool,
    undo: Option<CubicState>,
}

/// State that an undo restores.
#[derive(Clone, Debug)]
struct CubicState {
    /// Congestion window, fractional between packets.
    cwnd: f64,
    ssthresh: f64,
    /// Window just before the last reduction, after fast convergence.
    w_max: f64,
    /// Window just before the last reduction, before fast convergence (`cwnd_prior`).
    w_prior: f64,
    epoch: Option<Epoch>,
}

/// Stage of congestion avoidance.
#[derive(Clone, Debug)]
struct Epoch {
    start: Instant,
    /// Window at the plateau of the cubic.
    origin: f64,
    /// Seconds from `start` until the plateau.
    k: f64,
    /// Window that Reno would have by now.
    w_est: f64,
    /// Time when the application stopped filling the window, if so.
    idle_since: Option<Instant>,
}

impl Cubic {
    /// Makes a controller in slow start with [`INITIAL_WINDOW`].
    pub fn new() -> Self {
        Self {
            state: CubicState {
                cwnd: f64::from(INITIAL_WINDOW),
                ssthresh: f64::INFINITY,
                w_max: 0.0,
                w_prior: 0.0,
                epoch: None,
            },
            slow_start: SlowStart::new(),
            srtt: INITIAL_RTT,
            reduced_at: None,
            timed_out: false,
            undo: None,
        }
    }

    fn in_recovery(&self, now: Instant) -> bool {
        !self.timed_out && self.reduced_at.is_some_and(|at| now.saturating_duration_since(at) < self.srtt)
    }

    fn reduce(&mut self, now: Instant) {
        self.undo = Some(self.state.clone());
        let CubicState { cwnd, w_max, .. } = self.state;
        // Fast convergence: a flow that lost below its last peak leaves room for newcomers (RFC 9438 4.7).
        self.state.w_max = if cwnd < w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.state.w_prior = cwnd;
        self.state.ssthresh = (cwnd * BETA).max(f64::from(MINIMUM_WINDOW));
        self.state.epoch = None;
        self.reduced_at = Some(now);
    }

    fn grow_in_slow_start(&mut self, newly_acked: u32, rtt: &RttEstimator) {
        match self.slow_start.on_ack(newly_acked, rtt) {
            Growth::Add(packets) => {
                self.state.cwnd = (self.state.cwnd + f64::from(packets)).min(self.state.ssthresh);
            }
            Growth::Exit => self.state.ssthresh = self.state.cwnd,
        }
    }

    fn grow_in_congestion_avoidance(&mut self, now: Instant, newly_acked: u32) {
        let CubicState { cwnd, w_max, w_prior, .. } = self.state;
        let epoch = self.state.epoch.get_or_insert_with(|| Epoch::new(now, cwnd, w_max));
        epoch.resume(now);
        // The steps below are per packet and small only as long as one call carries at most a flight.
        let acked = f64::from(newly_acked).min(cwnd);
        let alpha = if epoch.w_est < w_prior { ALPHA } else { 1.0 };
        epoch.w_est += alpha * acked / cwnd;

        let elapsed = now.saturating_duration_since(epoch.start);
        self.state.cwnd = if epoch.w_cubic(elapsed) < epoch.w_est {
            epoch.w_est.max(cwnd)
        } else {
            let target = epoch.w_cubic(elapsed + self.srtt).clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) * acked / cwnd
        };
    }
}

impl Epoch {
    fn new(start: Instant, cwnd: f64, w_max: f64) -> Self {
        let origin = w_max.max(cwnd);
        Self { start, origin, k: ((origin - cwnd) / C).cbrt(), w_est: cwnd, idle_since: None }
    }

    /// Returns the cubic at `elapsed` since the start of the stage (RFC 9438 eq. 1).
    fn w_cubic(&self, elapsed: Duration) -> f64 {
        C * (elapsed.as_secs_f64() - self.k).powi(3) + self.origin
    }

    /// Moves the curve past a pause in which the application did not fill the window (RFC 9438 5.8).
    fn resume(&mut self, now: Instant) {
        if let Some(since) = self.idle_since.take() {
            self.start += now.saturating_duration_since(since);
        }
    }
}

impl Default for Cubic {
    fn default() -> Self {
        Self::new()
    }
}

impl Controller for Cubic {
    fn window(&self) -> u32 {
        // Truncation is meant: a fraction of a packet cannot be sent.
        self.state.cwnd as u32
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
        if app_limited {
            if let Some(epoch) = &mut self.state.epoch {
                epoch.idle_since.get_or_insert(now);
            }
            return;
        }
        if in_recovery {
            return;
        }
        if self.state.cwnd < self.state.ssthresh {
            self.grow_in_slow_start(newly_acked, rtt);
        } else {
            self.grow_in_congestion_avoidance(now, newly_acked);
        }
        self.state.cwnd = self.state.cwnd.min(f64::from(MAXIMUM_WINDOW));
    }

    fn on_loss(&mut self, now: Instant, largest_lost_sent_at: Instant, _in_flight: u32) {
        if self.timed_out || self.reduced_at.is_some_and(|at| largest_lost_sent_at <= at) {
            return;
        }
        self.reduce(now);
        self.state.cwnd = self.state.ssthresh;
    }

    fn on_rto(&mut self, now: Instant) {
        if !self.timed_out {
            self.reduce(now);
        }
        self.state.cwnd = f64::from(LOSS_WINDOW);
        self.timed_out = true;
        self.slow_start = SlowStart::new();
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        if let Some(before) = self.undo.take() {
            let cwnd = self.state.cwnd.max(before.cwnd);
            self.state = CubicState { cwnd, ..before };
            self.timed_out = false;
            self.reduced_at = None;
        }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

/// Aggressiveness in packets per second cubed (RFC 9438 4.1).
const C: f64 = 0.4;

/// Part of the window that remains after a loss (RFC 9438 4.6).
const BETA: f64 = 0.7;

/// Reno-friendly increase per round trip (RFC 9438 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

#[cfg(test)]
mod tests {
    use super::super::model;
    use super::*;

    fn cubic_window(loss: f64, rtt: f64) -> f64 {
        (C * (3.0 + BETA) / (4.0 * (1.0 - BETA))).powf(0.25) * (rtt / loss).powf(0.75)
    }

    fn reno_window(loss: f64) -> f64 {
        (1.5 / loss).sqrt()
    }

    fn mean(rtt_ms: u64, period: u32) -> f64 {
        model::mean_window(&mut Cubic::new(), Duration::from_millis(rtt_ms), 40_000, model::every(period))
    }

    #[test]
    fn mean_window_follows_the_response_function_on_long_paths() {
        for (rtt_ms, period) in [(100, 10_000), (100, 100_000), (50, 100_000)] {
            let want = cubic_window(1.0 / f64::from(period), rtt_ms as f64 / 1e3);
            let mean = mean(rtt_ms, period);
            assert!((mean / want - 1.0).abs() < 0.10, "{rtt_ms} ms, 1/{period}: {mean:.1}, model {want:.1}");
        }
    }

    #[test]
    fn mean_window_is_renos_where_reno_is_faster() {
        for (rtt_ms, period) in [(1, 1_000), (5, 2_500), (10, 1_000)] {
            let want = reno_window(1.0 / f64::from(period));
            let mean = mean(rtt_ms, period);
            assert!((mean / want - 1.0).abs() < 0.10, "{rtt_ms} ms, 1/{period}: {mean:.1}, model {want:.1}");
        }
    }

    #[test]
    fn application_pause_does_not_advance_the_curve() {
        let rtt_time = Duration::from_millis(100);
        let mut rtt = RttEstimator::new();
        rtt.update(Instant::now(), rtt_time, Duration::ZERO);
        let start = Instant::now();
        let mut cc = Cubic::new();
        cc.on_ack(start, &Acked::new(990, false), &rtt);
        cc.on_loss(start + rtt_time, start + Duration::from_millis(1), 900);
        let mut now = start + 3 * rtt_time;
        cc.on_ack(now, &Acked::new(cc.window(), false), &rtt);
        let before = cc.window();
        for _ in 0..100 {
            now += rtt_time;
            cc.on_ack(now, &Acked::new(1, true), &rtt);
        }
        assert_eq!(cc.window(), before);
        now += rtt_time;
        cc.on_ack(now, &Acked::new(before, false), &rtt);
        assert!(cc.window() < before + before / 4, "{} after {before}", cc.window());
    }
}
