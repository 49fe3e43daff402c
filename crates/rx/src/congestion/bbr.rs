//! BBR, version 3 (draft-ietf-ccwg-bbr): the window follows the path's delivery rate, not its losses.
//!
//! The path is known by two figures, the rate at which it delivers and its round trip without a queue. The flow sends
//! at that rate and keeps about one product of both in flight, at most two. It looks for more every two to three
//! seconds, for less whenever losses or falling delivery say so, and for a shorter round trip every five. `model.rs` has
//! the figures, `cycle.rs` the phases; this file turns them into window and pace. ECN does not reach us through UDP
//! sockets as we use them, so those rules are left out.

mod cycle;
mod mode;
mod model;

use std::time::{Duration, Instant};

use self::mode::{AckPhase, BbrMode};
use self::model::{AckLumps, FullPipe, MaxBandwidth, MinRtt, Rounds};
use super::delivery_rate::{DeliveryRate, Sample};
use super::{Acked, Controller, INITIAL_WINDOW, MAXIMUM_WINDOW};
use crate::rtt::RttEstimator;

/// Congestion control by delivery rate and round trip. Random loss of up to 2 % costs no more than what is
/// lost.
#[derive(Clone, Debug)]
pub struct Bbr {
    rate: DeliveryRate,
    mode: BbrMode,
    rounds: Rounds,
    max_bandwidth: MaxBandwidth,
    min_rtt: MinRtt,
    lumps: AckLumps,
    full_pipe: FullPipe,
    bounds: Bounds,
    /// Signals of the loss round under way.
    latest: Latest,
    probe: Probe,
    cwnd: f64,
    /// Window before a probe of the round trip, or a timeout.
    prior_cwnd: f64,
    /// Pace in packets per second.
    pacing_rate: f64,
    in_flight: u32,
    /// Set if the window ended a burst since the last round began.
    window_limited: bool,
    /// Set if the first packets after a pause have left and none is acknowledged.
    idle_restart: bool,
    /// Round-trip samples that the peer's estimator had.
    rtt_samples: u64,
    undo: Option<Undo>,
}

/// Bounds that losses set, in packets and packets per second; infinite without a bound.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Packets in flight in the long run: what was safe when last tried.
    inflight_hi: f64,
    /// Packets in flight until the next probe.
    inflight_lo: f64,
    bandwidth_lo: f64,
}

/// Best values of a round, which losses may not take away.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    bandwidth: f64,
    inflight: f64,
    /// Delivered count at which the loss round ends.
    round_ends: u64,
    round_started: bool,
    lost: bool,
    /// Set if more was lost than the path loses by itself, or a queue was seen.
    congested: bool,
    /// Number of times within the round that losses were found.
    loss_events: u32,
}

/// Cycle of probing for bandwidth.
#[derive(Clone, Copy, Debug)]
struct Probe {
    cycle_at: Option<Instant>,
    wait: Duration,
    rounds: u32,
    ack_phase: AckPhase,
    /// Set if the next losses are the answer to a probe.
    samples: bool,
    up_rounds: u32,
    up_acks: f64,
    /// Packets to be acknowledged for each that the window grows by.
    up_count: f64,
    /// Time when the probe of the round trip ends, once little enough is in flight.
    rtt_done_at: Option<Instant>,
    rtt_round_done: bool,
    random: u64,
}

/// State that false losses took away.
#[derive(Clone, Copy, Debug)]
struct Undo {
    mode: BbrMode,
    bounds: Bounds,
}

impl Bbr {
    /// Makes a controller in STARTUP with [`INITIAL_WINDOW`].
    pub fn new() -> Self {
        Self {
            rate: DeliveryRate::new(),
            mode: BbrMode::Startup,
            rounds: Rounds::default(),
            max_bandwidth: MaxBandwidth::default(),
            min_rtt: MinRtt::new(),
            lumps: AckLumps::new(),
            full_pipe: FullPipe::default(),
            bounds: Bounds {
                inflight_hi: f64::INFINITY,
                inflight_lo: f64::INFINITY,
                bandwidth_lo: f64::INFINITY,
            },
            latest: Latest::default(),
            probe: Probe {
                cycle_at: None,
                wait: Duration::ZERO,
                rounds: 0,
                ack_phase: AckPhase::Init,
                samples: false,
                up_rounds: 0,
                up_acks: 0.0,
                up_count: f64::INFINITY,
                rtt_done_at: None,
                rtt_round_done: false,
                random: 0,
            },
            cwnd: f64::from(INITIAL_WINDOW),
            prior_cwnd: 0.0,
            pacing_rate: 0.0,
            in_flight: 0,
            window_limited: false,
            idle_restart: false,
            rtt_samples: 0,
            undo: None,
        }
    }

    /// Makes a controller that takes over in STARTUP from another one with this `window`.
    pub(super) fn with_window(window: u32) -> Self {
        Self { cwnd: f64::from(window).max(WINDOW_MIN), ..Self::new() }
    }

    /// Returns the packets that fill the path without a queue.
    pub(super) fn flight(&self) -> u32 {
        self.product(self.bandwidth(), 1.0).min(f64::from(MAXIMUM_WINDOW)) as u32
    }

    /// Returns the assumed delivery rate of the path, in packets per second.
    pub fn bandwidth(&self) -> f64 {
        self.max_bandwidth.get().min(self.bounds.bandwidth_lo)
    }

    /// Returns the assumed round trip of the path without a queue.
    pub fn round_trip(&self) -> Option<Duration> {
        self.min_rtt.get()
    }

    /// Returns `gain` products of bandwidth and round trip, in packets.
    fn product(&self, bandwidth: f64, gain: f64) -> f64 {
        match self.min_rtt.get() {
            Some(rtt) => gain * bandwidth * rtt.as_secs_f64(),
            None => f64::from(INITIAL_WINDOW),
        }
    }

    /// Returns the packets that may be in flight while no probe is made: the rest is for others to grow into.
    fn inflight_with_headroom(&self) -> f64 {
        let hi = self.bounds.inflight_hi;
        if hi.is_infinite() { hi } else { (hi - (hi * HEADROOM).max(1.0)).max(WINDOW_MIN) }
    }

    /// Returns the packets that leave at once: a millisecond's worth, as the pacer lets through.
    fn burst(&self) -> f64 {
        (self.pacing_rate * BURST_TIME.as_secs_f64()).clamp(2.0, BURST_MAX)
    }

    fn max_inflight(&self) -> f64 {
        let product = self.product(self.bandwidth(), self.mode.window_gain());
        let room = (product + self.lumps.get()).max(BURSTS_MIN * self.burst()).max(WINDOW_MIN);
        if self.mode == BbrMode::Up { room + 2.0 } else { room }
    }

    fn update_model(&mut self, now: Instant, newly_acked: u32, sample: &Sample, rtt: Option<Duration>) {
        self.update_latest(sample, rtt);
        self.rounds.update(sample.prior_delivered, self.rate.delivered());
        if self.rounds.started {
            self.probe.rounds += 1;
            self.lumps.on_round(self.rounds.count);
        }
        if let Some(rate) = sample.rate
            && (!sample.app_limited || rate >= self.max_bandwidth.get())
        {
            self.max_bandwidth.update(rate);
        }
        if self.latest.round_started {
            self.adapt_lower_bounds();
        }
        self.lumps.update(now, newly_acked, self.bandwidth(), self.rounds.count, self.cwnd);
        if let Some(rate) = sample.rate {
            self.full_pipe.check(rate, sample.app_limited, self.rounds.started);
        }
        self.check_startup(sample);
        self.check_drain(now);
        self.update_cycle(now, newly_acked, sample);
        let stale = self.min_rtt.update(now, rtt);
        self.check_probe_rtt(now, stale);
        if self.latest.round_started {
            self.latest.bandwidth = sample.rate.unwrap_or(0.0);
            self.latest.inflight = sample.delivered as f64;
            self.latest.lost = false;
            self.latest.congested = false;
            self.latest.loss_events = 0;
        }
        if self.rounds.started {
            self.window_limited = false;
        }
    }

    fn update_latest(&mut self, sample: &Sample, rtt: Option<Duration>) {
        let queue =
            rtt.is_some_and(|rtt| self.min_rtt.get().is_some_and(|min| rtt >= min + min / QUEUE_PART));
        let latest = &mut self.latest;
        latest.bandwidth = latest.bandwidth.max(sample.rate.unwrap_or(0.0));
        latest.inflight = latest.inflight.max(sample.delivered as f64);
        latest.congested |= queue || cycle::is_inflight_too_high(sample);
        latest.round_started = sample.prior_delivered >= latest.round_ends;
        if latest.round_started {
            latest.round_ends = self.rate.delivered();
        }
    }

    /// Lowers the bounds after a round with losses that were not asked for: no more than what still arrives, or a
    /// little less than before. Where few were lost and no queue was to be seen, the draft does the same. On a path
    /// that always loses some it would end each cycle of probing at half of the rate it began with.
    fn adapt_lower_bounds(&mut self) {
        if self.mode.is_probing() || !self.latest.lost || !self.latest.congested {
            return;
        }
        let bounds = &mut self.bounds;
        if bounds.bandwidth_lo.is_infinite() {
            bounds.bandwidth_lo = self.max_bandwidth.get();
        }
        if bounds.inflight_lo.is_infinite() {
            bounds.inflight_lo = self.cwnd;
        }
        bounds.bandwidth_lo = self.latest.bandwidth.max(bounds.bandwidth_lo * BETA);
        bounds.inflight_lo = self.latest.inflight.max(bounds.inflight_lo * BETA);
    }

    fn reset_lower_bounds(&mut self) {
        self.bounds.bandwidth_lo = f64::INFINITY;
        self.bounds.inflight_lo = f64::INFINITY;
    }

    fn set_pacing_rate(&mut self, gain: f64) {
        let rate = gain * self.bandwidth() * PACING_MARGIN;
        if rate > 0.0 && (self.full_pipe.reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    fn set_window(&mut self, newly_acked: u32) {
        let (room, acked) = (self.max_inflight(), f64::from(newly_acked));
        if self.full_pipe.reached {
            self.cwnd = (self.cwnd + acked).min(room);
        } else if self.cwnd < room || self.rate.delivered() < u64::from(INITIAL_WINDOW) {
            self.cwnd += acked;
        }
        let cap = match self.mode {
            BbrMode::Startup | BbrMode::Drain => f64::INFINITY,
            BbrMode::Down | BbrMode::Refill | BbrMode::Up => self.bounds.inflight_hi,
            BbrMode::Cruise => self.inflight_with_headroom(),
            BbrMode::ProbeRtt => self.inflight_with_headroom().min(self.probe_rtt_window()),
        };
        let cap = cap.min(self.bounds.inflight_lo).min(f64::from(MAXIMUM_WINDOW)).max(WINDOW_MIN);
        self.cwnd = self.cwnd.clamp(WINDOW_MIN, cap);
    }

    fn probe_rtt_window(&self) -> f64 {
        self.product(self.bandwidth(), BbrMode::ProbeRtt.window_gain()).max(WINDOW_MIN)
    }

    fn save_window(&mut self) {
        let collapsed = self.mode == BbrMode::ProbeRtt;
        self.prior_cwnd = if collapsed { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }
}

impl Default for Bbr {
    fn default() -> Self {
        Self::new()
    }
}

impl Controller for Bbr {
    fn window(&self) -> u32 {
        self.cwnd as u32
    }

    fn pacing_rate(&self) -> Option<f64> {
        (self.pacing_rate > 0.0).then_some(self.pacing_rate)
    }

    fn on_sent(&mut self, now: Instant, serial: u32, in_flight: u32) {
        if in_flight == 1 && self.rate.is_app_limited() {
            self.idle_restart = true;
            self.lumps.restart(now);
            match self.mode {
                BbrMode::Down | BbrMode::Cruise | BbrMode::Refill | BbrMode::Up => self.set_pacing_rate(1.0),
                BbrMode::ProbeRtt => self.end_probe_rtt_if_done(now),
                BbrMode::Startup | BbrMode::Drain => {}
            }
        }
        if self.probe.random == 0 {
            self.probe.random = u64::from(serial) | 1 << 32;
        }
        self.rate.on_sent(now, serial, in_flight);
        self.in_flight = in_flight;
        self.window_limited |= in_flight >= self.window();
    }

    fn on_app_limited(&mut self, in_flight: u32) {
        self.rate.on_app_limited(in_flight);
    }

    fn on_ack(&mut self, now: Instant, acked: &Acked, rtt: &RttEstimator) {
        self.in_flight = acked.in_flight;
        let fresh = rtt.samples() != self.rtt_samples;
        self.rtt_samples = rtt.samples();
        let round_trip = fresh.then(|| rtt.latest());
        if self.pacing_rate == 0.0 && rtt.has_sample() {
            self.pacing_rate = BbrMode::Startup.pacing_gain() * self.cwnd / rtt.srtt().as_secs_f64();
        }
        let sample = self.rate.on_ack(now, acked.newly_acked, acked.serial, self.min_rtt.get());
        match sample {
            Some(sample) => self.update_model(now, acked.newly_acked, &sample, round_trip),
            None => {
                self.min_rtt.update(now, round_trip);
            }
        }
        if acked.newly_acked > 0 {
            self.idle_restart = false;
        }
        self.set_pacing_rate(self.mode.pacing_gain());
        self.set_window(acked.newly_acked);
    }

    fn on_lost(&mut self, packets: u32) {
        self.rate.on_lost(packets);
        self.in_flight = self.in_flight.saturating_sub(packets);
        if !self.latest.lost {
            self.undo = Some(Undo { mode: self.mode, bounds: self.bounds });
            if self.latest.round_ends == 0 {
                self.latest.round_ends = self.rate.delivered();
            }
        }
        self.latest.lost = true;
        self.latest.loss_events += 1;
    }

    /// Ignores loss episodes, as losses count by themselves.
    fn on_loss(&mut self, _now: Instant, _largest_lost_sent_at: Instant, _in_flight: u32) {}

    fn on_rto(&mut self, _now: Instant) {
        self.save_window();
        self.cwnd = f64::from(self.in_flight + 1).min(f64::from(MAXIMUM_WINDOW));
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        let Some(Undo { mode, bounds }) = self.undo.take() else { return };
        self.latest.lost = false;
        self.full_pipe.reset(0.0);
        self.bounds.bandwidth_lo = self.bounds.bandwidth_lo.max(bounds.bandwidth_lo);
        self.bounds.inflight_lo = self.bounds.inflight_lo.max(bounds.inflight_lo);
        self.bounds.inflight_hi = self.bounds.inflight_hi.max(bounds.inflight_hi);
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        if self.mode != mode && self.mode != BbrMode::ProbeRtt {
            self.resume(mode);
        }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

// Constants of draft-ietf-ccwg-bbr 2.

/// Part of a bound that remains after a round with losses.
const BETA: f64 = 0.7;
/// Share of the packets in flight that the path may lose by itself.
const LOSS_THRESHOLD: f64 = 0.02;
/// Divisor of the shortest round trip that gives the added delay of a queue.
const QUEUE_PART: u32 = 8;
/// Share of the path's capacity that is left to others while no probe is made.
const HEADROOM: f64 = 0.15;
/// Pace below the estimated bandwidth, so that queues drain.
const PACING_MARGIN: f64 = 0.99;
/// Smallest window, in packets.
const WINDOW_MIN: f64 = 4.0;
/// Bursts that must fit into the window for the path to be kept busy.
const BURSTS_MIN: f64 = 3.0;
/// Time of sending that the pacer lets through at once.
const BURST_TIME: Duration = Duration::from_millis(1);
const BURST_MAX: f64 = 64.0;

#[cfg(test)]
mod tests;
