//! Division of the server's rate among its lanes: no clock, no thread, so that a test can run years of it.
//!
//! From time to time every lane says what it has sent and how long its connections waited for leave to send.
//! A lane without waiting connections gets a little more than it used; the others share the rest by how many
//! wait there. What a lane leaves of its share while others wait is handed out again, and what was sent too
//! much is taken back, so that the sum keeps the rate over time whatever single lanes do.

use std::time::Duration;

/// Work of a lane since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Number of bytes sent. May fall a little when granted bytes were not all sent.
    pub(crate) bytes: u64,
    /// Sum of the connections' waiting time in microseconds, as far as the lane has counted it.
    pub(crate) wait_us: u64,
    /// Number of connections that wait now. A lane that is kept from its work counts no time, and they wait
    /// all the same.
    pub(crate) waiting: u64,
}

/// Rate, with what of it is owed, and the lanes' shares.
#[derive(Debug)]
pub(crate) struct Shares {
    bytes_per_second: u64,
    /// Bytes that may be sent on top of the rate, or, below zero, that were sent too much.
    credit: f64,
    seen_at: Duration,
    seen: Vec<Usage>,
    /// Connections that wait on each lane, or waited there lately.
    waiting: Vec<f64>,
    shares: Vec<u64>,
}

impl Shares {
    /// Makes equal shares for lanes of which only the usage so far is known. `now` counts from any moment.
    pub(crate) fn new(bytes_per_second: u64, now: Duration, usage: Vec<Usage>) -> Self {
        let each = (bytes_per_second / usage.len().max(1) as u64).max(1);
        let (waiting, shares) = (vec![0.0; usage.len()], vec![each; usage.len()]);
        Self { bytes_per_second, credit: 0.0, seen_at: now, seen: usage, waiting, shares }
    }

    /// Returns the bytes per second of each lane.
    pub(crate) fn shares(&self) -> &[u64] {
        &self.shares
    }

    /// Sets the rate, to be divided at the next [`Shares::rebalance`].
    pub(crate) fn set_rate(&mut self, bytes_per_second: u64) {
        self.bytes_per_second = bytes_per_second;
        self.credit = 0.0;
    }

    /// Takes the lanes' usage, in order, and returns the share of each until the next call.
    pub(crate) fn rebalance(&mut self, now: Duration, usage: &[Usage]) -> &[u64] {
        let elapsed = now.saturating_sub(self.seen_at).as_secs_f64();
        if elapsed <= 0.0 {
            return &self.shares;
        }
        let rate = self.bytes_per_second as f64;
        let mut lanes: Vec<LaneUse> = self
            .seen
            .iter()
            .zip(usage)
            .map(|(before, after)| LaneUse::between(*before, *after, elapsed))
            .collect();
        for (lane, lately) in lanes.iter_mut().zip(&mut self.waiting) {
            lane.waiting = lane.waiting.max(*lately * (-elapsed / LATELY_SECONDS).exp());
            *lately = lane.waiting;
        }
        let used: f64 = lanes.iter().map(|lane| lane.rate * elapsed).sum();
        self.credit = (self.credit + rate * elapsed - used).clamp(-rate, rate * CREDIT_SECONDS_MAX);
        if lanes.iter().all(|lane| lane.waiting < WAITING_MIN) {
            // No connection missed what was not used.
            self.credit = self.credit.min(0.0);
        }
        let budget = (rate + self.credit / CREDIT_SECONDS).clamp(rate / 2.0, rate * 2.0);
        self.shares = divide(budget, &lanes);
        self.seen_at = now;
        self.seen = usage.to_vec();
        &self.shares
    }
}

/// Work of a lane in the last period.
struct LaneUse {
    /// Bytes per second sent.
    rate: f64,
    /// Connections that waited, on average.
    waiting: f64,
}

impl LaneUse {
    fn between(before: Usage, after: Usage, elapsed: f64) -> Self {
        let bytes = after.bytes.wrapping_sub(before.bytes).cast_signed() as f64;
        let waited = after.wait_us.wrapping_sub(before.wait_us) as f64 / 1e6;
        Self { rate: bytes.max(0.0) / elapsed, waiting: (waited / elapsed).max(after.waiting as f64) }
    }
}

/// Divides `budget` among lanes. Each lane keeps a small floor to begin with; lanes without waiters want no
/// more than they can be expected to use; the rest goes by the number that wait.
fn divide(budget: f64, lanes: &[LaneUse]) -> Vec<u64> {
    let floor = budget / (FLOOR_PART * lanes.len() as f64);
    let wants = |lane: &LaneUse| match lane.waiting < WAITING_MIN {
        true => (lane.rate * HEADROOM).max(floor),
        false => f64::INFINITY,
    };
    // Lanes without waiters weigh as one connection.
    let weight = |lane: &LaneUse| if lane.waiting < WAITING_MIN { 1.0 } else { lane.waiting.max(0.5) };
    let mut given: Vec<Option<f64>> = vec![None; lanes.len()];
    let mut left = budget;
    // A lane that wants less than its fair part is served first, which makes the part of the others grow.
    loop {
        let open = || lanes.iter().zip(&given).filter(|(_, given)| given.is_none()).map(|(lane, _)| lane);
        let weights: f64 = open().map(weight).sum();
        let fair = |lane: &LaneUse| left * weight(lane) / weights;
        let modest: Vec<usize> = (0..lanes.len())
            .filter(|&at| given[at].is_none() && wants(&lanes[at]) <= fair(&lanes[at]))
            .collect();
        if modest.is_empty() {
            let parts = lanes.iter().zip(&given).map(|(lane, given)| given.unwrap_or_else(|| fair(lane)));
            return parts.map(|part| (part.max(floor) as u64).max(1)).collect();
        }
        for at in modest {
            let wanted = wants(&lanes[at]);
            given[at] = Some(wanted);
            left -= wanted;
        }
    }
}

/// Average of waiting connections below which a lane has enough.
const WAITING_MIN: f64 = 0.05;
/// Share of a lane without waiters, as a multiple of its usage.
const HEADROOM: f64 = 1.5;
/// Divisor of the rate that gives the sum of all lanes' floors.
const FLOOR_PART: f64 = 64.0;
/// Time over which credit and debt are made up for, in seconds.
const CREDIT_SECONDS: f64 = 0.2;
/// Longest time that can be made up for, in seconds: short, since it goes out on top of the rate.
const CREDIT_SECONDS_MAX: f64 = 0.2;
/// Time in seconds over which waiting connections are forgotten.
///
/// A lane that is kept from its work in the middle of a send shows no waiting connection, and would find
/// nothing left when it comes back.
const LATELY_SECONDS: f64 = 0.06;

#[cfg(test)]
mod tests {
    use super::*;

    /// Lane that sends as its share and its connections allow, in the steps of a rebalance.
    #[derive(Clone, Default)]
    struct SimLane {
        /// Rate that each connection could take, bytes per second.
        demands: Vec<f64>,
        /// Bytes that each connection has got.
        sent: Vec<f64>,
        usage: Usage,
        /// Time for which the lane has been kept from its work.
        kept: f64,
    }

    impl SimLane {
        fn with(demands: &[f64]) -> Self {
            Self { demands: demands.to_vec(), sent: vec![0.0; demands.len()], ..Self::default() }
        }

        /// Sends in turns of equal size: a lane that wants less leaves the rest to others.
        fn run(&mut self, share: u64, seconds: f64) {
            let mut left = share as f64 * seconds;
            self.usage.waiting = 0;
            let mut order: Vec<usize> = (0..self.demands.len()).collect();
            order.sort_by(|a, b| self.demands[*a].total_cmp(&self.demands[*b]));
            for (at, &connection) in order.iter().enumerate() {
                let fair = left / (order.len() - at) as f64;
                let want = self.demands[connection] * seconds;
                let got = want.min(fair);
                if got < want {
                    self.usage.waiting += 1;
                    self.usage.wait_us += (seconds * 1e6 * (1.0 - got / want).min(0.98)) as u64;
                }
                self.sent[connection] += got;
                self.usage.bytes += got as u64;
                left -= got;
            }
        }

        fn total(&self) -> f64 {
            self.sent.iter().sum()
        }
    }

    struct Sim {
        now: Duration,
        shares: Shares,
        lanes: Vec<SimLane>,
        random: u64,
        /// Periods of a hundred through which a lane sleeps.
        kept_percent: u64,
    }

    impl Sim {
        fn new(seed: u64, rate: u64, lanes: Vec<SimLane>) -> Self {
            let usage = vec![Usage::default(); lanes.len()];
            let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            Self {
                now: Duration::ZERO,
                shares: Shares::new(rate, Duration::ZERO, usage),
                lanes,
                random,
                kept_percent: 0,
            }
        }

        fn random(&mut self, below: u64) -> u64 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            (self.random >> 32) % below
        }

        /// Runs one period of a thread that is woken late now and then.
        fn step(&mut self) {
            let late =
                if self.random(20) == 0 || self.kept_percent > 0 { self.random(60) } else { self.random(3) };
            let period = Duration::from_millis(20 + late);
            for at in 0..self.lanes.len() {
                let kept = self.random(100) < self.kept_percent;
                let sends = self.random(2) == 0;
                let (lane, share) = (&mut self.lanes[at], self.shares.shares()[at]);
                lane.kept += period.as_secs_f64();
                if !kept {
                    // As a bucket does, it makes up for 100 ms.
                    let seconds = std::mem::take(&mut lane.kept).min(0.1);
                    lane.run(share, seconds);
                } else if sends {
                    // In the middle of a send no connection waits for a turn.
                    lane.usage.waiting = 0;
                }
            }
            self.now += period;
            let usage: Vec<Usage> = self.lanes.iter().map(|lane| lane.usage).collect();
            self.shares.rebalance(self.now, &usage);
        }

        fn run_until(&mut self, seconds: f64) {
            while self.now.as_secs_f64() < seconds {
                self.step();
            }
        }

        fn total(&self) -> f64 {
            self.lanes.iter().map(SimLane::total).sum()
        }
    }

    /// Number of seeds that each rule is tried with.
    const SEEDS: u64 = 100;
    const BULK: f64 = 1e12;

    #[test]
    fn the_sum_keeps_the_rate_with_any_number_of_connections_on_any_lanes() {
        for seed in 0..SEEDS {
            for count in [1, 10, 100] {
                let mut sim = Sim::new(seed, 12_500_000, vec![SimLane::default(); 1 + seed as usize % 16]);
                for _ in 0..count {
                    let lane = sim.random(sim.lanes.len() as u64) as usize;
                    sim.lanes[lane].demands.push(BULK);
                    sim.lanes[lane].sent.push(0.0);
                }
                sim.run_until(10.0);
                let wanted = 12_500_000.0 * sim.now.as_secs_f64();
                let off = sim.total() / wanted - 1.0;
                assert!(off.abs() < 0.01, "seed {seed}, {count} connections: {:.2} % off", off * 100.0);
            }
        }
    }

    #[test]
    fn lanes_that_are_kept_from_their_work_make_up_for_it() {
        for seed in 0..SEEDS {
            for count in [1, 10] {
                let mut sim = Sim::new(seed, 6_250_000, vec![SimLane::default(); 4]);
                sim.kept_percent = 30;
                for _ in 0..count {
                    let lane = sim.random(4) as usize;
                    sim.lanes[lane].demands.push(BULK);
                    sim.lanes[lane].sent.push(0.0);
                }
                sim.run_until(20.0);
                let off = sim.total() / 6_250_000.0 / sim.now.as_secs_f64() - 1.0;
                assert!(off.abs() < 0.1, "seed {seed}, {count} connections: {:.2} % off", off * 100.0);
            }
        }
    }

    #[test]
    fn connections_get_equal_parts_wherever_they_live() {
        for seed in 0..SEEDS {
            let mut sim = Sim::new(seed, 125_000_000, vec![SimLane::default(); 4]);
            for _ in 0..40 {
                let lane = sim.random(4) as usize;
                sim.lanes[lane].demands.push(BULK);
                sim.lanes[lane].sent.push(0.0);
            }
            sim.run_until(10.0);
            let mean = sim.total() / 40.0;
            for sent in sim.lanes.iter().flat_map(|lane| &lane.sent) {
                assert!((sent / mean - 1.0).abs() < 0.05, "seed {seed}: {sent} where the mean is {mean}");
            }
        }
    }

    #[test]
    fn what_slow_clients_leave_others_get() {
        for seed in 0..SEEDS {
            let slow = SimLane::with(&[500_000.0; 4]);
            let mut sim =
                Sim::new(seed, 10_000_000, vec![slow, SimLane::with(&[BULK, BULK]), SimLane::default()]);
            sim.run_until(10.0);
            let seconds = sim.now.as_secs_f64();
            let slow = sim.lanes[0].total() / seconds;
            assert!((slow / 2_000_000.0 - 1.0).abs() < 0.02, "seed {seed}: slow ones took {slow}");
            assert!(
                (sim.total() / seconds / 10_000_000.0 - 1.0).abs() < 0.01,
                "seed {seed}: {}",
                sim.total()
            );
        }
    }

    #[test]
    fn comings_and_goings_never_break_the_rate() {
        for seed in 0..SEEDS {
            let rate = 10_000_000;
            let mut sim = Sim::new(seed, rate, vec![SimLane::with(&[BULK; 3]); 8]);
            let mut windows = Vec::new();
            for window in 1..=20 {
                for lane in 0..8 {
                    let busy = sim.random(2) == 0;
                    sim.lanes[lane].demands = vec![if busy { BULK } else { 0.0 }; 3];
                }
                sim.lanes[0].demands[0] = BULK;
                let (before, from) = (sim.total(), sim.now.as_secs_f64());
                sim.run_until(f64::from(window));
                windows.push((sim.total() - before) / (sim.now.as_secs_f64() - from) / rate as f64);
            }
            let worst = windows.iter().fold(0.0_f64, |worst, window| worst.max((window - 1.0).abs()));
            assert!(worst < 0.15, "seed {seed}: one second was {:.0} % off", worst * 100.0);
            let whole = sim.total() / sim.now.as_secs_f64() / rate as f64;
            assert!((whole - 1.0).abs() < 0.02, "seed {seed}: 20 s gave {whole}");
        }
    }

    #[test]
    fn a_time_without_clients_is_not_saved_up() {
        let mut sim = Sim::new(1, 1_000_000, vec![SimLane::with(&[0.0]); 2]);
        sim.run_until(60.0);
        sim.lanes[0].demands = vec![BULK];
        let from = sim.now.as_secs_f64();
        sim.run_until(from + 2.0);
        let rate = sim.total() / (sim.now.as_secs_f64() - from);
        assert!(rate < 1_100_000.0, "{rate}");
    }

    #[test]
    fn shares_of_a_huge_and_of_a_tiny_rate_are_numbers() {
        for rate in [1, u64::MAX / 4] {
            let mut sim = Sim::new(1, rate, vec![SimLane::with(&[BULK]); 64]);
            sim.run_until(0.2);
            assert!(sim.shares.shares().iter().all(|&share| share >= 1));
        }
    }
}
