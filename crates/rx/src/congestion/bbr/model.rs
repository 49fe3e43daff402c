//! BBR's model of a path: delivery rate, round trip without a queue, and the amount in flight that it may be
//! given.

use std::time::{Duration, Instant};

/// Highest delivery rate of this probing cycle and the last, in packets per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxBandwidth {
    cycles: [f64; 2],
    current: usize,
}

impl MaxBandwidth {
    pub(super) fn get(&self) -> f64 {
        self.cycles[0].max(self.cycles[1])
    }

    pub(super) fn update(&mut self, rate: f64) {
        self.cycles[self.current] = self.cycles[self.current].max(rate);
    }

    /// Begins a cycle, and forgets the one before the last.
    pub(super) fn advance(&mut self) {
        if self.cycles[self.current] > 0.0 {
            self.current = 1 - self.current;
            self.cycles[self.current] = 0.0;
        }
    }
}

/// Shortest round trip of the last ten seconds, and that which decides when to look for a shorter one.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    shortest: Option<(Duration, Instant)>,
    recent: Option<(Duration, Instant)>,
}

impl MinRtt {
    pub(super) fn new() -> Self {
        Self { shortest: None, recent: None }
    }

    pub(super) fn get(&self) -> Option<Duration> {
        self.shortest.map(|(rtt, _)| rtt)
    }

    /// Takes a sample, if there is one, and returns whether none as short has been seen for
    /// [`PROBE_INTERVAL`].
    pub(super) fn update(&mut self, now: Instant, sample: Option<Duration>) -> bool {
        let stale = self.recent.is_some_and(|(_, at)| now > at + PROBE_INTERVAL);
        if let Some(sample) = sample
            && (stale || self.recent.is_none_or(|(rtt, _)| sample < rtt))
        {
            self.recent = Some((sample, now));
        }
        let Some((recent, at)) = self.recent else { return false };
        if self.shortest.is_none_or(|(rtt, since)| recent < rtt || now > since + MIN_RTT_WINDOW) {
            self.shortest = Some((recent, at));
        }
        stale
    }

    /// Notes that the path was just seen without a queue of ours.
    pub(super) fn confirm(&mut self, now: Instant) {
        if let Some((_, at)) = &mut self.recent {
            *at = now;
        }
    }
}

/// Excess over its rate that a path has acknowledged at once within the last ten rounds: ACKs that come in
/// lumps need as much more in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckLumps {
    since: Option<Instant>,
    delivered: f64,
    rounds: [f64; LUMP_ROUNDS],
}

impl AckLumps {
    pub(super) fn new() -> Self {
        Self { since: None, delivered: 0.0, rounds: [0.0; LUMP_ROUNDS] }
    }

    /// Returns the packets of the largest lump.
    pub(super) fn get(&self) -> f64 {
        self.rounds.iter().copied().fold(0.0, f64::max)
    }

    pub(super) fn restart(&mut self, now: Instant) {
        self.since = Some(now);
        self.delivered = 0.0;
    }

    pub(super) fn update(&mut self, now: Instant, newly_acked: u32, bandwidth: f64, round: u64, cwnd: f64) {
        let since = *self.since.get_or_insert(now);
        let mut expected = bandwidth * now.saturating_duration_since(since).as_secs_f64();
        if self.delivered <= expected {
            self.restart(now);
            expected = 0.0;
        }
        self.delivered += f64::from(newly_acked);
        let extra = (self.delivered - expected).min(cwnd);
        let slot = &mut self.rounds[(round % LUMP_ROUNDS as u64) as usize];
        *slot = slot.max(extra);
    }

    pub(super) fn on_round(&mut self, round: u64) {
        self.rounds[(round % LUMP_ROUNDS as u64) as usize] = 0.0;
    }
}

/// Rounds that have passed: a round ends when something is delivered that was sent after the round began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    pub(super) count: u64,
    /// Set if the last ACK began a round.
    pub(super) started: bool,
    next_delivered: u64,
}

impl Rounds {
    pub(super) fn update(&mut self, prior_delivered: u64, delivered: u64) {
        self.started = prior_delivered >= self.next_delivered;
        if self.started {
            self.begin(delivered);
            self.count += 1;
        }
    }

    /// Begins a new round now, whatever is under way.
    pub(super) fn begin(&mut self, delivered: u64) {
        self.next_delivered = delivered;
    }
}

/// Detection of a full pipe: the delivery rate has stopped growing, three rounds in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    pub(super) reached: bool,
    /// Set while the pipe is full: three rounds brought no quarter more.
    pub(super) now: bool,
    rate: f64,
    rounds: u32,
}

impl FullPipe {
    pub(super) fn reset(&mut self, rate: f64) {
        *self = Self { reached: self.reached, now: false, rate, rounds: 0 };
    }

    pub(super) fn check(&mut self, rate: f64, app_limited: bool, round_started: bool) {
        if self.now || app_limited {
            return;
        }
        if rate >= self.rate * FULL_GROWTH {
            self.reset(rate);
        } else if round_started {
            self.rounds += 1;
            self.now = self.rounds >= FULL_ROUNDS;
            self.reached |= self.now;
        }
    }
}

/// Time for which a shortest round trip counts.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Time without a round trip as short after which the flow reduces its packets in flight to see one.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
const LUMP_ROUNDS: usize = 10;
/// Growth of the delivery rate within three rounds that shows more room.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn bandwidth_is_forgotten_after_two_cycles() {
        let mut max = MaxBandwidth::default();
        max.update(1_000.0);
        max.advance();
        max.update(400.0);
        assert_eq!(max.get(), 1_000.0);
        max.advance();
        assert_eq!(max.get(), 400.0);
        max.advance();
        assert_eq!(max.get(), 400.0, "a cycle without samples takes nothing away");
    }

    #[test]
    fn longer_round_trip_is_believed_after_ten_seconds() {
        let (mut min, start) = (MinRtt::new(), Instant::now());
        assert!(!min.update(start, Some(10 * MS)));
        assert!(!min.update(start + 4_000 * MS, Some(30 * MS)));
        assert_eq!(min.get(), Some(10 * MS));
        assert!(min.update(start + 5_001 * MS, Some(30 * MS)), "time to look");
        assert_eq!(min.get(), Some(10 * MS));
        min.update(start + 10_001 * MS, Some(31 * MS));
        assert_eq!(min.get(), Some(31 * MS).min(Some(30 * MS)));
    }

    #[test]
    fn pipe_is_full_after_three_rounds_without_growth() {
        let mut pipe = FullPipe::default();
        for (rate, full) in [(100.0, false), (200.0, false), (210.0, false), (220.0, false), (230.0, true)] {
            pipe.check(rate, false, true);
            assert_eq!(pipe.now, full, "{rate}");
        }
        pipe.reset(0.0);
        assert!(pipe.reached && !pipe.now);
    }

    #[test]
    fn lump_of_acks_is_what_comes_beyond_the_rate() {
        let (mut lumps, start) = (AckLumps::new(), Instant::now());
        for n in 0..10u64 {
            lumps.update(start + n as u32 * 10 * MS, 100, 10_000.0, n, 1_000.0);
        }
        assert_eq!(lumps.get(), 100.0);
        for n in 10..20 {
            lumps.on_round(n);
        }
        assert_eq!(lumps.get(), 0.0);
    }
}
