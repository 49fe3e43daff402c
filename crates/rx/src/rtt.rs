//! Round-trip estimation and the retransmission timeout of one peer.
//!
//! RFC 6298 smoothing, with the two floors Rx adds because its receivers may sit on an ACK.

use std::time::{Duration, Instant};

/// Smoothed round-trip time of a peer, with its deviation and the retransmission timeout.
///
/// Samples must come from packets sent once (Karn's rule) and must exclude ACKs of reason DELAY, which the
/// receiver held back on purpose. Of a jumbogram only the last sub-packet gives a sample.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    smoothed: Option<Duration>,
    rttvar: Duration,
    min: Shortest,
    latest: Duration,
    samples: u64,
}

/// Shortest sample, for as long as it is valid.
///
/// A path may become longer, and so may the queue in it, others' as well as ours. The round trip of a path holds
/// still, that of a queue rises and falls. So a longer one replaces it when for ten seconds none was as short as
/// before and all were alike, and after a minute in any case.
#[derive(Clone, Copy, Debug)]
struct Shortest {
    value: Duration,
    seen_at: Option<Instant>,
    /// Shortest and longest sample of this half of a window, and of the one before.
    this: (Duration, Duration),
    last: (Duration, Duration),
    /// Time when this half ends.
    ends_at: Option<Instant>,
}

impl Shortest {
    fn of(value: Duration, seen_at: Option<Instant>) -> Self {
        let ends_at = seen_at.map(|at| at + MIN_RTT_WINDOW / 2);
        Self { value, seen_at, this: (value, value), last: (value, value), ends_at }
    }

    #[inline]
    fn update(&mut self, now: Instant, sample: Duration) {
        if sample <= self.value {
            self.value = sample;
            self.seen_at = Some(now);
        }
        if self.ends_at.is_some_and(|at| now < at) {
            self.this = (self.this.0.min(sample), self.this.1.max(sample));
        } else {
            self.turn(now, sample);
        }
    }

    fn turn(&mut self, now: Instant, sample: Duration) {
        let half = MIN_RTT_WINDOW / 2;
        let after_pause = self.ends_at.is_none_or(|at| now >= at + half);
        if after_pause {
            (self.this, self.last) = ((sample, sample), (sample, sample));
        }
        let (low, high) = (self.this.0.min(self.last.0), self.this.1.max(self.last.1));
        let age = self.seen_at.map_or(Duration::MAX, |at| now.saturating_duration_since(at));
        let holds_still = high - low <= low / STILL_PART;
        if age >= MIN_RTT_WINDOW && holds_still || age >= MIN_RTT_KEPT {
            self.value = low;
            self.seen_at = Some(now);
        }
        self.last = self.this;
        self.this = (sample, sample);
        self.ends_at = Some(now + half);
    }
}

impl RttEstimator {
    /// Makes an estimator without samples: [`srtt`](Self::srtt) is [`INITIAL_RTT`], [`rto`](Self::rto) is
    /// [`INITIAL_RTO`].
    pub fn new() -> Self {
        Self {
            smoothed: None,
            rttvar: INITIAL_RTT / 2,
            min: Shortest::of(INITIAL_RTT, None),
            latest: INITIAL_RTT,
            samples: 0,
        }
    }

    /// Takes one measured round trip (RFC 6298 2.2 and 2.3). A sample of zero counts as one microsecond, one over
    /// [`SAMPLE_MAX`] is a stepped clock or a stale timestamp and is ignored. `own` is how much of it queues of our
    /// own may account for: that much longer it may be and still say nothing against the shortest so far.
    pub fn update(&mut self, now: Instant, sample: Duration, own: Duration) {
        if sample > SAMPLE_MAX {
            return;
        }
        let sample = sample.max(Duration::from_micros(1));
        self.latest = sample;
        match self.smoothed {
            None => {
                self.smoothed = Some(sample);
                self.rttvar = sample / 2;
                self.min = Shortest::of(sample, Some(now));
            }
            Some(srtt) => {
                self.rttvar = (self.rttvar * 3 + srtt.abs_diff(sample)) / 4;
                self.smoothed = Some((srtt * 7 + sample) / 8);
                let shortest = self.min.value;
                self.min.update(
                    now,
                    if sample > shortest { sample.saturating_sub(own).max(shortest) } else { sample },
                );
            }
        }
        self.samples += 1;
    }

    /// Returns the smoothed round-trip time; [`INITIAL_RTT`] before the first sample.
    pub fn srtt(&self) -> Duration {
        self.smoothed.unwrap_or(INITIAL_RTT)
    }

    /// Returns the smoothed mean deviation of the round-trip time.
    pub fn rttvar(&self) -> Duration {
        self.rttvar
    }

    /// Returns the smallest sample, unless all of the last [`MIN_RTT_WINDOW`] and a little more were longer
    /// and alike: then the path is longer. [`INITIAL_RTT`] before the first one.
    pub fn min_rtt(&self) -> Duration {
        self.min.value
    }

    /// Returns the last sample taken; [`INITIAL_RTT`] before the first one.
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// Returns the number of samples taken.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns whether any sample has been taken.
    pub fn has_sample(&self) -> bool {
        self.smoothed.is_some()
    }

    /// Returns the retransmission timeout without back-off: `max(srtt + 4 * rttvar, 20 ms) + 200 ms`.
    ///
    /// The 20 ms is Rx's floor on the estimate (`rx_minPeerTimeout`). The 200 ms stands for the time the peer
    /// may hold a delayed ACK, so it is added rather than taken as a minimum.
    pub fn rto(&self) -> Duration {
        match self.smoothed {
            None => INITIAL_RTO,
            Some(srtt) => (srtt + 4 * self.rttvar).max(RTO_FLOOR) + PEER_ACK_DELAY_MAX,
        }
    }

    /// Returns the timeout [`rto`](Self::rto) doubled for each of `timeouts` expiries without an ACK between
    /// them, at most [`RTO_MAX`] (RFC 6298 5.5).
    pub fn rto_backed_off(&self, timeouts: u32) -> Duration {
        let factor = 1u32.checked_shl(timeouts).unwrap_or(u32::MAX);
        self.rto().checked_mul(factor).map_or(RTO_MAX, |rto| rto.min(RTO_MAX))
    }
}

impl Default for RttEstimator {
    fn default() -> Self {
        Self::new()
    }
}

/// Round-trip time assumed before the first sample (RFC 9002 6.2.2).
pub const INITIAL_RTT: Duration = Duration::from_millis(333);

/// Retransmission timeout before the first sample. RFC 6298 asks for at least 1 s; Rx peers use 2 to 4 s by
/// distance. A lost first packet is what most users notice, so the RFC's value it is.
pub const INITIAL_RTO: Duration = Duration::from_secs(1);

/// Floor of the estimate, before [`PEER_ACK_DELAY_MAX`] is added.
pub const RTO_FLOOR: Duration = Duration::from_millis(20);

/// Time that is added for an ACK that the peer delays.
pub const PEER_ACK_DELAY_MAX: Duration = Duration::from_millis(200);

/// Ceiling of the backed-off timeout (RFC 6298 2.5).
pub const RTO_MAX: Duration = Duration::from_secs(60);

/// Time for which a shortest round trip is believed where all later ones were longer and alike (BBR's figure
/// too).
pub const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);

/// Time for which a shortest round trip is believed where later ones were not longer and alike.
const MIN_RTT_KEPT: Duration = Duration::from_secs(60);

/// Part of the shortest sample within which samples are alike: BBR and [`Auto`](crate::congestion::Auto) take
/// more for a queue.
const STILL_PART: u32 = 8;

/// Largest sample that is believed, as in OpenAFS.
pub const SAMPLE_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn update(rtt: &mut RttEstimator, sample: Duration) {
        rtt.update(Instant::now(), sample, Duration::ZERO);
    }

    /// Returns the shortest round trip after a sample each second, in milliseconds.
    fn shortest(samples: impl IntoIterator<Item = u32>, own: Duration) -> Vec<u128> {
        let (mut rtt, start) = (RttEstimator::new(), Instant::now());
        let samples = samples.into_iter().enumerate();
        let mins = samples.map(|(second, sample)| {
            rtt.update(start + Duration::from_secs(second as u64), sample * MS, own);
            rtt.min_rtt().as_millis()
        });
        mins.collect()
    }

    #[test]
    fn longer_path_is_believed_after_ten_seconds() {
        let mins = shortest([10].into_iter().chain([50; 20]), Duration::ZERO);
        assert_eq!((mins[9], mins[16], mins[20]), (10, 50, 50));
        let again = shortest([50; 12].into_iter().chain([10]), Duration::ZERO);
        assert_eq!(again.last(), Some(&10), "a shorter one at once");
        let (mut rtt, start) = (RttEstimator::new(), Instant::now());
        rtt.update(start, 10 * MS, Duration::ZERO);
        rtt.update(start + Duration::from_secs(60), 50 * MS, Duration::ZERO);
        assert_eq!(rtt.min_rtt(), 50 * MS, "nothing is known of the path after a pause");
    }

    #[test]
    fn queue_that_others_keep_is_no_longer_path_for_a_minute() {
        let queue = (0..70).map(|second| 70 + second * 13 % 30);
        let mins = shortest([20].into_iter().chain(queue), Duration::ZERO);
        assert_eq!(mins[55], 20);
        assert!(mins[70] >= 70, "{mins:?}");
    }

    #[test]
    fn queue_of_our_own_is_no_longer_path() {
        assert_eq!(shortest([1].into_iter().chain([8; 60]), 10 * MS).last(), Some(&1));
        let route = shortest([1].into_iter().chain([50; 60]), 10 * MS);
        assert!(*route.last().expect("sixty samples") >= 40, "{route:?}");
    }

    #[test]
    fn first_sample_sets_srtt_and_half_of_it_as_deviation() {
        let mut rtt = RttEstimator::new();
        assert!(!rtt.has_sample());
        assert_eq!(rtt.rto(), INITIAL_RTO);
        update(&mut rtt, 80 * MS);
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.min_rtt()), (80 * MS, 40 * MS, 80 * MS));
        assert_eq!(rtt.rto(), (80 + 4 * 40 + 200) * MS);
    }

    #[test]
    fn later_samples_follow_rfc_6298() {
        let mut rtt = RttEstimator::new();
        update(&mut rtt, 80 * MS);
        update(&mut rtt, 40 * MS);
        assert_eq!(rtt.rttvar(), 40 * MS, "3/4 * 40 + 1/4 * |80 - 40|");
        assert_eq!(rtt.srtt(), 75 * MS, "7/8 * 80 + 1/8 * 40");
        assert_eq!((rtt.min_rtt(), rtt.latest(), rtt.samples()), (40 * MS, 40 * MS, 2));
    }

    #[test]
    fn steady_short_path_rests_on_the_floor() {
        let mut rtt = RttEstimator::new();
        for _ in 0..100 {
            update(&mut rtt, Duration::from_micros(50));
        }
        assert_eq!(rtt.rto(), RTO_FLOOR + PEER_ACK_DELAY_MAX);
    }

    #[test]
    fn backoff_doubles_up_to_a_minute() {
        let mut rtt = RttEstimator::new();
        update(&mut rtt, 10 * MS);
        assert_eq!(rtt.rto(), 230 * MS);
        assert_eq!(rtt.rto_backed_off(1), 460 * MS);
        assert_eq!(rtt.rto_backed_off(3), 1840 * MS);
        assert_eq!(rtt.rto_backed_off(9), RTO_MAX);
        assert_eq!(rtt.rto_backed_off(u32::MAX), RTO_MAX);
    }

    #[test]
    fn sample_from_a_stepped_clock_is_ignored() {
        let mut rtt = RttEstimator::new();
        update(&mut rtt, SAMPLE_MAX + MS);
        assert!(!rtt.has_sample());
        update(&mut rtt, Duration::ZERO);
        assert_eq!(rtt.srtt(), Duration::from_micros(1));
    }
}
