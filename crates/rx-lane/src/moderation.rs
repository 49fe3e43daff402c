//! How long the lane gathers packets of stock peers before it looks at them, as NICs moderate interrupts.
//!
//! A stock sender's packets come one by one, and a stock receiver acknowledges every second one. Each would be a wake-up
//! and a pass; where they come fast, a wait too short to be felt brings several of each.

use std::time::{Duration, Instant};

/// The rate at which packets of stock peers come.
#[derive(Debug)]
pub(super) struct Moderation {
    /// Packets each second, of late.
    rate: f64,
    seen: u64,
    wait: Duration,
    at: Instant,
}

impl Moderation {
    /// `wait` is how long to gather; zero for never.
    pub(super) fn new(now: Instant, wait: Duration) -> Self {
        Self { rate: 0.0, seen: 0, wait, at: now }
    }

    /// What to gather for after a pass, when `seen` packets have come in all.
    pub(super) fn after_pass(&mut self, now: Instant, seen: u64) -> Option<Duration> {
        let (came, time) = (seen - self.seen, now.saturating_duration_since(self.at).as_secs_f64());
        (self.seen, self.at) = (seen, now);
        self.rate = (self.rate * MEMORY_S + came as f64) / (MEMORY_S + time);
        (self.rate * self.wait.as_secs_f64() >= GAIN_MIN).then_some(self.wait)
    }
}

/// Time in which an old rate loses most of its weight, seconds.
const MEMORY_S: f64 = 0.001;
/// How long to gather unless configured otherwise.
pub(super) const WAIT: Duration = Duration::from_micros(50);
/// Packets that have to come in that time to make the wait worth it.
const GAIN_MIN: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn packets_that_come_fast_are_gathered_and_slow_ones_are_not() {
        let start = Instant::now();
        let (mut slow, mut fast) = (Moderation::new(start, WAIT), Moderation::new(start, WAIT));
        for n in 1..1000u32 {
            assert_eq!(slow.after_pass(start + n * 60 * US, n.into()), None, "one call at a time");
            let gathered = fast.after_pass(start + n * 10 * US, n.into());
            assert!(n < 200 || gathered.is_some());
        }
        assert_eq!(fast.after_pass(start + 30_000 * US, 1001), None, "and not for ever");
    }
}
