//! Moderation: the lane gathers packets of stock peers before it looks at them, as NICs moderate interrupts.
//!
//! A stock sender's packets come one by one, and a stock receiver acknowledges every second one. Each would be a wake-up
//! and a pass; where they come fast, a wait too short to be felt brings several of each.

use std::time::{Duration, Instant};

/// Rates at which packets and calls of stock peers come.
#[derive(Debug)]
pub(super) struct Moderation {
    /// Rate of stock peers' packets of late, per second.
    packets: f64,
    calls: f64,
    jumbograms: f64,
    cut: f64,
    seen: TrafficCounts,
    wait: Duration,
    at: Instant,
}

/// Counts of packets and calls since the driver's start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TrafficCounts {
    /// Packets of stock peers.
    pub(super) packets: u64,
    /// Calls of all peers that have begun.
    pub(super) calls: u64,
    /// Jumbograms sent to stock peers, and those of them that IP cuts into fragments.
    pub(super) jumbograms: u64,
    pub(super) cut: u64,
    /// Begun calls that have not ended.
    pub(super) under_way: u64,
}

impl Moderation {
    /// Makes the moderation with `wait` as the longest time to gather; zero for never.
    pub(super) fn new(now: Instant, wait: Duration) -> Self {
        let none = 0.0;
        let seen = TrafficCounts::default();
        Self { packets: none, calls: none, jumbograms: none, cut: none, seen, wait, at: now }
    }

    /// Returns the time to gather for after a pass. Peers work on while we wait as long as they have
    /// something in hand: a call of many packets half a window, a small one no more than its packets. Packets
    /// of jumbograms are worked off sooner; and where IP cuts those up, sending takes us so long that enough
    /// comes meanwhile.
    pub(super) fn after_pass(&mut self, now: Instant, seen: TrafficCounts) -> Option<Duration> {
        let time = now.saturating_duration_since(self.at).as_secs_f64();
        let rate = |old: f64, came: u64| (old * MEMORY_S + came as f64) / (MEMORY_S + time);
        self.packets = rate(self.packets, seen.packets - self.seen.packets);
        self.calls = rate(self.calls, seen.calls - self.seen.calls);
        self.jumbograms = rate(self.jumbograms, seen.jumbograms - self.seen.jumbograms);
        self.cut = rate(self.cut, seen.cut - self.seen.cut);
        (self.seen, self.at) = (seen, now);
        let (most, packet_time) = match self.jumbograms * ACKS_PER_JUMBOGRAM > self.packets / 2.0 {
            true if self.cut > self.jumbograms / 2.0 => return None,
            true => (self.wait / 2, PACKET_TIME / 3),
            false => (self.wait, PACKET_TIME),
        };
        let of_a_call = (self.packets / self.calls.max(1.0)).clamp(1.0, HALF_A_WINDOW);
        let in_hand = seen.under_way.max(1) as f64 * of_a_call;
        let wait = most.min(packet_time.mul_f64(in_hand));
        (self.packets >= RATE_MIN && wait >= WAIT_MIN).then_some(wait)
    }
}

/// Time in seconds in which an old rate loses most of its weight.
const MEMORY_S: f64 = 0.001;
/// Default of the longest time to gather.
pub(super) const WAIT: Duration = Duration::from_micros(100);
/// Shortest time that is worth a wait.
const WAIT_MIN: Duration = Duration::from_micros(25);
/// Least packets a second that make a wait worthwhile.
const RATE_MIN: f64 = 60_000.0;
/// Packets of a stock peer's window that it may have sent before we look again.
const HALF_A_WINDOW: f64 = 16.0;
/// ACKs that a stock peer sends for a jumbogram, about.
const ACKS_PER_JUMBOGRAM: f64 = 3.0;
/// Time that a stock peer takes for a single packet; a third for one of a jumbogram.
const PACKET_TIME: Duration = Duration::from_nanos(2_250);

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn packets_that_come_fast_are_gathered_and_slow_ones_are_not() {
        let start = Instant::now();
        let (mut slow, mut fast) = (Moderation::new(start, WAIT), Moderation::new(start, WAIT));
        let seen = |packets: u32| TrafficCounts {
            packets: packets.into(),
            calls: 1,
            under_way: 1,
            ..TrafficCounts::default()
        };
        for n in 1..1000u32 {
            assert_eq!(slow.after_pass(start + n * 60 * US, seen(n)), None, "one call at a time");
            let gathered = fast.after_pass(start + n * 10 * US, seen(n));
            assert!(n < 400 || gathered == Some(36 * US), "{n}: {gathered:?}");
        }
        assert_eq!(fast.after_pass(start + 30_000 * US, seen(1001)), None, "and not for ever");
    }

    #[test]
    fn wait_grows_with_what_peers_have_in_hand() {
        let after = |wait, seen| {
            let start = Instant::now();
            Moderation::new(start, wait).after_pass(start + 1_000 * US, seen)
        };
        let bulk =
            |under_way| after(WAIT, TrafficCounts { packets: 1_000, under_way, ..TrafficCounts::default() });
        assert_eq!([0, 1, 2, 3, 64].map(bulk), [36, 36, 72, 100, 100].map(|us| Some(us * US)));
        let small = |under_way| {
            after(WAIT, TrafficCounts { packets: 1_000, calls: 500, under_way, ..TrafficCounts::default() })
        };
        assert_eq!([1, 4].map(small), [None, None]);
        assert_eq!([8, 16, 64].map(small), [36, 72, 100].map(|us| Some(us * US)));
        assert_eq!(
            after(Duration::ZERO, TrafficCounts { packets: 1_000, under_way: 4, ..TrafficCounts::default() }),
            None
        );
    }

    #[test]
    fn jumbograms_are_waited_for_half_as_long_and_not_at_all_where_they_are_cut_up() {
        let after = |jumbograms, cut, under_way| {
            let start = Instant::now();
            let seen = TrafficCounts { packets: 1_000, calls: 0, jumbograms, cut, under_way };
            Moderation::new(start, WAIT).after_pass(start + 1_000 * US, seen)
        };
        assert_eq!(after(100, 100, 4), Some(100 * US), "a few of them");
        assert_eq!(
            [1, 3, 4, 64].map(|calls| after(330, 0, calls)),
            [None, Some(36 * US), Some(48 * US), Some(50 * US)]
        );
        assert_eq!(after(330, 330, 64), None);
    }
}
