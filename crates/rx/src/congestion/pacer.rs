//! Pacing, which spreads a window over its round trip, in bursts that a shallow queue can take (RFC 9002
//! 7.7).

use std::time::{Duration, Instant};

use super::{Controller, INITIAL_WINDOW};
use crate::rtt::RttEstimator;

/// Token bucket that fills a quarter faster than a window per round trip, so that ACKs and not the pacer set the rate.
///
/// The pacer only breaks up what would leave at once after a pause, a lost ACK or a jump of the window.
///
/// The bucket holds what its rate sends in [`BURST_TIME`], at least [`INITIAL_WINDOW`] packets. Once empty it opens
/// again when half full, so that on fast paths bursts stay as large as one `sendmsg` takes. Over round trips up to
/// [`UNPACED_RTT_MAX`] nothing is paced: the bucket would hold the whole window, and timers are too coarse.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    tokens: u32,
    /// Time for which the bucket's content is known; what has flowed in since counts only once the bucket is
    /// empty.
    filled_at: Option<Instant>,
}

impl Pacer {
    /// Makes a full bucket.
    pub(crate) fn new() -> Self {
        Self { tokens: INITIAL_WINDOW, filled_at: None }
    }

    /// Takes the token of one packet, or returns when to try again.
    #[inline]
    pub(crate) fn take(
        &mut self,
        now: Instant,
        controller: &dyn Controller,
        rtt: &RttEstimator,
    ) -> Result<(), Instant> {
        if self.tokens == 0 {
            self.refill(now, controller, rtt)?;
        }
        self.tokens -= 1;
        Ok(())
    }

    /// Returns whether the path's round trip is long enough to be paced.
    pub(crate) fn is_for(rtt: &RttEstimator) -> bool {
        rtt.has_sample() && rtt.min_rtt() > UNPACED_RTT_MAX
    }

    fn refill(
        &mut self,
        now: Instant,
        controller: &dyn Controller,
        rtt: &RttEstimator,
    ) -> Result<(), Instant> {
        let window = controller.window();
        if !Self::is_for(rtt) {
            self.tokens = window.max(1);
            self.filled_at = Some(now);
            return Ok(());
        }
        let srtt = rtt.srtt().as_nanos() as u64;
        let (packets, period) = match controller.pacing_rate() {
            Some(rate) => ((rate * RATE_PERIOD.as_secs_f64()) as u64 + 1, RATE_PERIOD.as_nanos() as u64),
            None => (u64::from(window) * GAIN_NUMERATOR / GAIN_DENOMINATOR + 1, srtt),
        };
        let capacity = (packets * BURST_TIME.as_nanos() as u64 / period).max(u64::from(INITIAL_WINDOW));
        let filled_at = *self.filled_at.get_or_insert(now);
        let time_of = |count: u64| Duration::from_nanos((count * period).div_ceil(packets));
        let elapsed = now.saturating_duration_since(filled_at).min(time_of(capacity));
        let earned = packets * elapsed.as_nanos() as u64 / period;
        let enough = capacity.min(u64::from(window).max(1)).div_ceil(2);
        if earned < enough {
            return Err(filled_at + time_of(enough));
        }
        self.tokens = earned.min(capacity) as u32;
        // A part of a packet stays, or bursts that ACKs set off would leave the rate behind.
        let left = elapsed.saturating_sub(time_of(earned));
        self.filled_at = Some(now.checked_sub(left).unwrap_or(now));
        Ok(())
    }
}

/// Rate of the bucket over that of the window (RFC 9002 7.7 suggests 1.25).
const GAIN_NUMERATOR: u64 = 5;
const GAIN_DENOMINATOR: u64 = 4;
/// Period over which a rate in packets per second is counted, so that slow ones keep their digits.
const RATE_PERIOD: Duration = Duration::from_secs(64);
/// Time of sending for which a full bucket lasts.
const BURST_TIME: Duration = Duration::from_millis(1);
/// Longest round trip that is not paced.
const UNPACED_RTT_MAX: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::super::Acked;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Controller with a constant window and rate.
    #[derive(Clone, Debug)]
    struct Fixed {
        window: u32,
        rate: Option<f64>,
    }

    impl Controller for Fixed {
        fn window(&self) -> u32 {
            self.window
        }

        fn pacing_rate(&self) -> Option<f64> {
            self.rate
        }

        fn on_sent(&mut self, _now: Instant, _serial: u32, _in_flight: u32) {}
        fn on_ack(&mut self, _now: Instant, _acked: &Acked, _rtt: &RttEstimator) {}
        fn on_loss(&mut self, _now: Instant, _largest_lost_sent_at: Instant, _in_flight: u32) {}
        fn on_rto(&mut self, _now: Instant) {}
        fn on_spurious_loss(&mut self, _now: Instant) {}

        fn clone_box(&self) -> Box<dyn Controller> {
            Box::new(self.clone())
        }
    }

    fn rtt_of(sample: Duration) -> RttEstimator {
        let mut rtt = RttEstimator::new();
        rtt.update(Instant::now(), sample, Duration::ZERO);
        rtt
    }

    /// Returns the packets that leave at `now`, and when the next may.
    fn burst(pacer: &mut Pacer, now: Instant, window: u32, rtt: &RttEstimator) -> (u32, Instant) {
        burst_of(pacer, now, &Fixed { window, rate: None }, rtt)
    }

    fn burst_of(pacer: &mut Pacer, now: Instant, path: &Fixed, rtt: &RttEstimator) -> (u32, Instant) {
        for sent in 0.. {
            if let Err(until) = pacer.take(now, path, rtt) {
                return (sent, until);
            }
        }
        unreachable!("a paced bucket runs dry")
    }

    #[test]
    fn window_leaves_in_bursts_at_five_quarters_of_its_rate() {
        let (start, rtt, window) = (Instant::now(), rtt_of(20 * MS), 400);
        let mut pacer = Pacer::new();
        let (first, mut at) = burst(&mut pacer, start, window, &rtt);
        assert_eq!(first, INITIAL_WINDOW);
        let mut sent = 0;
        while at < start + 20 * MS {
            let (count, next) = burst(&mut pacer, at, window, &rtt);
            assert!((12..=14).contains(&count), "half of a millisecond's 25 packets, not {count}");
            assert!(next > at);
            sent += count;
            at = next;
        }
        assert!((490..=515).contains(&sent), "{sent} packets in a round trip");
    }

    #[test]
    fn pause_saves_up_no_more_than_a_millisecond() {
        let (start, rtt) = (Instant::now(), rtt_of(20 * MS));
        let mut pacer = Pacer::new();
        burst(&mut pacer, start, 400, &rtt);
        let (after_a_pause, _) = burst(&mut pacer, start + 1000 * MS, 400, &rtt);
        assert_eq!(after_a_pause, 25);
        let (small_window, _) = burst(&mut pacer, start + 2000 * MS, 4, &rtt);
        assert!((4..=INITIAL_WINDOW).contains(&small_window), "all of a small window may go");
    }

    #[test]
    fn short_paths_and_unmeasured_ones_are_not_paced() {
        let now = Instant::now();
        for rtt in [rtt_of(UNPACED_RTT_MAX), RttEstimator::new()] {
            let mut pacer = Pacer::new();
            let path = Fixed { window: 500, rate: None };
            assert!((0..100_000).all(|_| pacer.take(now, &path, &rtt).is_ok()));
        }
    }

    #[test]
    fn named_time_always_brings_a_burst() {
        for (window, rtt) in
            [(1, 8_000 * MS), (2, 7 * MS), (3, 333 * MS), (65_535, 10 * MS), (777, 1_234 * MS)]
        {
            let rtt = rtt_of(rtt);
            let mut pacer = Pacer::new();
            let mut at = Instant::now();
            for _ in 0..1_000 {
                let (sent, next) = burst(&mut pacer, at, window, &rtt);
                assert!(sent > 0 && next > at, "{window} packets");
                at = next;
            }
        }
    }

    /// Checks that ACKs at any times get what adds up to the rate.
    #[test]
    fn named_rate_is_kept_whatever_the_times_of_asking() {
        for rate in [310.0, 8_400.0, 84_000.0] {
            let (start, rtt) = (Instant::now(), rtt_of(10 * MS));
            let path = Fixed { window: 10_000, rate: Some(rate) };
            let (mut pacer, mut sent) = (Pacer::new(), 0);
            for n in 0..70_000 {
                sent += burst_of(&mut pacer, start + n * Duration::from_micros(143), &path, &rtt).0;
            }
            let per_second = f64::from(sent) / (70_000.0 * 143e-6);
            assert!((per_second / rate - 1.0).abs() < 0.01, "{per_second} of {rate}");
        }
    }
}
