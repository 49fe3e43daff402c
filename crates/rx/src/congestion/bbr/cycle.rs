//! Phases of BBR and the moves between them.

use std::time::{Duration, Instant};

use super::super::delivery_rate::Sample;
use super::mode::{AckPhase, BbrMode};
use super::{BETA, Bbr, LOSS_THRESHOLD, Latest};

impl Bbr {
    pub(super) fn check_startup(&mut self, sample: &Sample) {
        if self.mode != BbrMode::Startup {
            return;
        }
        let latest = &self.latest;
        let high_loss =
            latest.round_started && latest.loss_events >= STARTUP_LOSS_EVENTS && is_inflight_too_high(sample);
        if high_loss && !self.full_pipe.reached {
            self.full_pipe.reached = true;
            let product = self.product(self.max_bandwidth.get(), 1.0);
            self.bounds.inflight_hi = product.max(self.latest.inflight);
        }
        if self.full_pipe.reached {
            self.mode = BbrMode::Drain;
        }
    }

    pub(super) fn check_drain(&mut self, now: Instant) {
        if self.mode == BbrMode::Drain && f64::from(self.in_flight) <= self.product(self.bandwidth(), 1.0) {
            self.start_down(now);
        }
    }

    pub(super) fn update_cycle(&mut self, now: Instant, newly_acked: u32, sample: &Sample) {
        if !self.full_pipe.reached {
            return;
        }
        self.adapt_upper_bound(now, newly_acked, sample);
        match self.mode {
            BbrMode::Down => {
                if !self.probe_again_if_time(now) && self.is_time_to_cruise() {
                    self.mode = BbrMode::Cruise;
                }
            }
            BbrMode::Cruise => {
                self.probe_again_if_time(now);
            }
            BbrMode::Refill => {
                if self.rounds.started {
                    self.probe.samples = true;
                    self.start_up(now, sample.rate.unwrap_or(0.0));
                }
            }
            BbrMode::Up => {
                if self.is_time_to_go_down(sample) {
                    self.start_down(now);
                }
            }
            BbrMode::Startup | BbrMode::Drain | BbrMode::ProbeRtt => {}
        }
    }

    fn adapt_upper_bound(&mut self, now: Instant, newly_acked: u32, sample: &Sample) {
        if self.rounds.started {
            match self.probe.ack_phase {
                AckPhase::Starting => self.probe.ack_phase = AckPhase::Feedback,
                AckPhase::Stopping => {
                    self.probe.ack_phase = AckPhase::Init;
                    if self.mode.is_probe_bw() && !sample.app_limited {
                        self.max_bandwidth.advance();
                    }
                }
                AckPhase::Init | AckPhase::Refilling | AckPhase::Feedback => {}
            }
        }
        if is_inflight_too_high(sample) {
            if self.probe.samples {
                self.on_inflight_too_high(now, sample);
            }
            return;
        }
        if self.bounds.inflight_hi.is_infinite() {
            return;
        }
        self.bounds.inflight_hi = self.bounds.inflight_hi.max(f64::from(sample.in_flight));
        if self.mode == BbrMode::Up {
            self.raise_inflight_hi(newly_acked);
        }
    }

    fn on_inflight_too_high(&mut self, now: Instant, sample: &Sample) {
        self.probe.samples = false;
        if !sample.app_limited {
            self.bounds.inflight_hi = f64::from(sample.in_flight).max(self.target_inflight() * BETA);
        }
        if self.mode == BbrMode::Up {
            self.start_down(now);
        }
    }

    fn raise_inflight_hi(&mut self, newly_acked: u32) {
        if !self.window_limited || self.cwnd < self.bounds.inflight_hi.floor() {
            return;
        }
        self.probe.up_acks += f64::from(newly_acked);
        if self.probe.up_acks >= self.probe.up_count {
            let grown = (self.probe.up_acks / self.probe.up_count).floor();
            self.probe.up_acks -= grown * self.probe.up_count;
            self.bounds.inflight_hi += grown;
        }
        if self.rounds.started {
            self.steepen();
        }
    }

    /// Sets the window's growth: by one packet in the first round of a probe, by two in the second, and so on
    /// doubling.
    fn steepen(&mut self) {
        let growth = f64::from(1u32 << self.probe.up_rounds);
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(30);
        self.probe.up_count = (self.cwnd / growth).max(1.0);
    }

    fn target_inflight(&self) -> f64 {
        self.product(self.bandwidth(), 1.0).min(self.cwnd)
    }

    fn probe_again_if_time(&mut self, now: Instant) -> bool {
        let waited = self.probe.cycle_at.is_some_and(|at| now > at + self.probe.wait);
        // As often as a Reno flow of this size would grow by what a probe takes.
        let reno_rounds = self.target_inflight().min(RENO_ROUNDS_MAX);
        if !waited && f64::from(self.probe.rounds) < reno_rounds {
            return false;
        }
        self.reset_lower_bounds();
        self.probe.up_rounds = 0;
        self.probe.up_acks = 0.0;
        self.probe.ack_phase = AckPhase::Refilling;
        self.rounds.begin(self.rate.delivered());
        self.mode = BbrMode::Refill;
        true
    }

    fn is_time_to_cruise(&self) -> bool {
        let in_flight = f64::from(self.in_flight);
        in_flight <= self.inflight_with_headroom() && in_flight <= self.product(self.max_bandwidth.get(), 1.0)
    }

    fn is_time_to_go_down(&mut self, sample: &Sample) -> bool {
        if self.window_limited && self.cwnd >= self.bounds.inflight_hi.floor() {
            self.full_pipe.reset(sample.rate.unwrap_or(0.0));
            return false;
        }
        self.full_pipe.now
    }

    fn start_up(&mut self, now: Instant, rate: f64) {
        self.probe.ack_phase = AckPhase::Starting;
        self.rounds.begin(self.rate.delivered());
        self.full_pipe.reset(rate);
        self.probe.cycle_at = Some(now);
        self.mode = BbrMode::Up;
        self.steepen();
    }

    fn start_down(&mut self, now: Instant) {
        let round_ends = self.latest.round_ends;
        self.latest = Latest { round_ends, ..Latest::default() };
        self.probe.up_count = f64::INFINITY;
        self.probe.rounds = (self.random() >> 63) as u32;
        let part = (self.random() >> 40) as u32;
        self.probe.wait = PROBE_WAIT + PROBE_WAIT_RANDOM / (1 << 24) * part;
        self.probe.cycle_at = Some(now);
        self.probe.ack_phase = AckPhase::Stopping;
        self.rounds.begin(self.rate.delivered());
        self.mode = BbrMode::Down;
    }

    /// Returns a random number (xorshift64), as flows that share a path should not probe at once.
    fn random(&mut self) -> u64 {
        let mut x = self.probe.random.max(1);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.probe.random = x;
        x
    }

    pub(super) fn check_probe_rtt(&mut self, now: Instant, stale: bool) {
        if stale && self.mode != BbrMode::ProbeRtt && !self.idle_restart {
            self.save_window();
            self.mode = BbrMode::ProbeRtt;
            self.probe.rtt_done_at = None;
            self.probe.ack_phase = AckPhase::Stopping;
            self.rounds.begin(self.rate.delivered());
        }
        if self.mode != BbrMode::ProbeRtt {
            return;
        }
        // What it delivers meanwhile says nothing of the path.
        self.rate.on_app_limited(self.in_flight);
        if self.probe.rtt_done_at.is_none() {
            if f64::from(self.in_flight) <= self.probe_rtt_window() {
                self.probe.rtt_done_at = Some(now + PROBE_RTT_TIME);
                self.probe.rtt_round_done = false;
                self.rounds.begin(self.rate.delivered());
            }
            return;
        }
        self.probe.rtt_round_done |= self.rounds.started;
        if self.probe.rtt_round_done {
            self.end_probe_rtt_if_done(now);
        }
    }

    pub(super) fn end_probe_rtt_if_done(&mut self, now: Instant) {
        if self.probe.rtt_done_at.is_none_or(|at| now <= at) {
            return;
        }
        self.min_rtt.confirm(now);
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.reset_lower_bounds();
        if self.full_pipe.reached {
            self.start_down(now);
            self.mode = BbrMode::Cruise;
        } else {
            self.mode = BbrMode::Startup;
        }
    }

    /// Goes back to a phase that false losses ended.
    pub(super) fn resume(&mut self, mode: BbrMode) {
        match mode {
            BbrMode::Startup => {
                self.mode = BbrMode::Startup;
                self.full_pipe.reached = false;
            }
            BbrMode::Up => {
                self.probe.ack_phase = AckPhase::Starting;
                self.rounds.begin(self.rate.delivered());
                self.mode = BbrMode::Up;
            }
            _ => {}
        }
    }
}

/// Returns whether more was lost of what was in flight with the packet than the path loses by itself.
pub(super) fn is_inflight_too_high(sample: &Sample) -> bool {
    sample.lost as f64 > f64::from(sample.in_flight) * LOSS_THRESHOLD
}

/// Least time between two probes for bandwidth, which is 2 to 3 s.
const PROBE_WAIT: Duration = Duration::from_secs(2);
const PROBE_WAIT_RANDOM: Duration = Duration::from_secs(1);
/// Most rounds between two probes, so that Reno flows keep up on paths where they recover in that time.
const RENO_ROUNDS_MAX: f64 = 63.0;
/// Time for which PROBE_RTT keeps little in flight.
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// Times that losses are found in a round before they end STARTUP.
const STARTUP_LOSS_EVENTS: u32 = 6;
