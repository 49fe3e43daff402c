//! Slow start that ends before the queue overflows: HyStart++ (RFC 9406).

use std::time::Duration;

use crate::rtt::RttEstimator;

/// Slow-start phase of a controller.
///
/// A round is a flight: it starts with the packets then in flight and ends when as many have been acknowledged. When a
/// round's smallest RTT exceeds the last round's by the threshold, growth slows down to a quarter (conservative slow
/// start). After five such rounds, or a loss, slow start is over. When the RTT falls below where it was, the rise was
/// noise and fast growth goes on.
#[derive(Clone, Debug)]
pub(super) struct SlowStart {
    in_flight: u32,
    round_left: u32,
    round_min: Option<Duration>,
    last_round_min: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
    carry: u32,
}

/// Effect of an ACK during slow start on the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// The window grows by this number of packets.
    Add(u32),
    /// The slow start is over: the window becomes the threshold.
    Exit,
}

impl SlowStart {
    pub(super) fn new() -> Self {
        Self {
            in_flight: 0,
            round_left: 0,
            round_min: None,
            last_round_min: None,
            samples: 0,
            conservative: None,
            carry: 0,
        }
    }

    pub(super) fn on_sent(&mut self, in_flight: u32) {
        if self.round_left == 0 {
            self.round_left = in_flight;
        }
        self.in_flight = in_flight;
    }

    pub(super) fn on_ack(&mut self, newly_acked: u32, rtt: &RttEstimator) -> Growth {
        self.take_sample(rtt.latest());
        let growth = self.growth(newly_acked);
        self.in_flight = self.in_flight.saturating_sub(newly_acked);
        self.round_left = self.round_left.saturating_sub(newly_acked);
        if self.round_left == 0 && self.end_round() {
            return Growth::Exit;
        }
        growth
    }

    fn growth(&mut self, newly_acked: u32) -> Growth {
        if self.conservative.is_none() {
            return Growth::Add(newly_acked);
        }
        let credit = self.carry.saturating_add(newly_acked);
        self.carry = credit % GROWTH_DIVISOR;
        Growth::Add(credit / GROWTH_DIVISOR)
    }

    fn take_sample(&mut self, sample: Duration) {
        self.samples += 1;
        let round_min = self.round_min.map_or(sample, |min| min.min(sample));
        self.round_min = Some(round_min);
        if self.samples < SAMPLES_MIN {
            return;
        }
        match &self.conservative {
            Some(phase) if round_min < phase.baseline => self.conservative = None,
            Some(_) => {}
            None => {
                if self.last_round_min.is_some_and(|last| round_min >= last + rise_threshold(last)) {
                    self.conservative = Some(Conservative { baseline: round_min, rounds: 0 });
                }
            }
        }
    }

    /// Starts the next round; true when conservative slow start has lasted its full length.
    fn end_round(&mut self) -> bool {
        self.last_round_min = self.round_min.take();
        self.samples = 0;
        self.round_left = self.in_flight;
        let Some(phase) = &mut self.conservative else { return false };
        phase.rounds += 1;
        phase.rounds >= ROUNDS_MAX
    }
}

#[derive(Clone, Debug)]
struct Conservative {
    baseline: Duration,
    rounds: u32,
}

fn rise_threshold(last_round_min: Duration) -> Duration {
    (last_round_min / RTT_DIVISOR).clamp(RISE_MIN, RISE_MAX)
}

// RFC 9406 4.3.
const RISE_MIN: Duration = Duration::from_millis(4);
const RISE_MAX: Duration = Duration::from_millis(16);
const RTT_DIVISOR: u32 = 8;
const SAMPLES_MIN: u32 = 8;
const GROWTH_DIVISOR: u32 = 4;
const ROUNDS_MAX: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn round(slow_start: &mut SlowStart, packets: u32, rtt_ms: u64) -> Vec<Growth> {
        let mut rtt = RttEstimator::new();
        rtt.update(std::time::Instant::now(), Duration::from_millis(rtt_ms), Duration::ZERO);
        slow_start.on_sent(packets);
        (0..packets / 2).map(|_| slow_start.on_ack(2, &rtt)).collect()
    }

    fn sum(growth: &[Growth]) -> u32 {
        growth.iter().map(|g| if let Growth::Add(n) = g { *n } else { 0 }).sum()
    }

    #[test]
    fn steady_rtt_keeps_doubling() {
        let mut slow_start = SlowStart::new();
        for packets in [20, 40, 80, 160] {
            assert_eq!(sum(&round(&mut slow_start, packets, 20)), packets);
        }
    }

    #[test]
    fn rising_rtt_slows_growth_to_a_quarter_and_exits_after_five_rounds() {
        let mut slow_start = SlowStart::new();
        round(&mut slow_start, 40, 20);
        let first = round(&mut slow_start, 40, 25);
        assert!(sum(&first) < 40, "slowed inside the round that saw the rise");
        for _ in 0..3 {
            let growth = round(&mut slow_start, 40, 25);
            assert_eq!(sum(&growth), 10);
            assert!(!growth.contains(&Growth::Exit));
        }
        assert_eq!(round(&mut slow_start, 40, 25).last(), Some(&Growth::Exit));
    }

    #[test]
    fn rtt_that_falls_back_resumes_doubling() {
        let mut slow_start = SlowStart::new();
        round(&mut slow_start, 40, 20);
        round(&mut slow_start, 40, 25);
        round(&mut slow_start, 40, 20);
        assert_eq!(sum(&round(&mut slow_start, 40, 20)), 40);
    }

    #[test]
    fn small_rise_is_no_congestion() {
        let mut slow_start = SlowStart::new();
        round(&mut slow_start, 40, 20);
        assert_eq!(sum(&round(&mut slow_start, 40, 23)), 40);
    }
}
