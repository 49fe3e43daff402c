//! Round-trip estimation and the retransmission timeout of one peer.
//!
//! RFC 6298 smoothing, with the two floors Rx adds because its receivers may sit on an ACK.

use std::time::Duration;

/// Smoothed round-trip time, its deviation, and the retransmission timeout that follows from them.
///
/// Samples must come from packets sent once (Karn's rule) and must exclude ACKs of reason DELAY, which the
/// receiver held back on purpose. Of a jumbogram only the last sub-packet gives a sample.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    smoothed: Option<Duration>,
    rttvar: Duration,
    min: Duration,
    latest: Duration,
    samples: u64,
}

impl RttEstimator {
    /// An estimator without samples: [`srtt`](Self::srtt) is [`INITIAL_RTT`], [`rto`](Self::rto) is
    /// [`INITIAL_RTO`].
    pub fn new() -> Self {
        Self { smoothed: None, rttvar: INITIAL_RTT / 2, min: INITIAL_RTT, latest: INITIAL_RTT, samples: 0 }
    }

    /// Takes one measured round trip (RFC 6298 2.2 and 2.3). A sample of zero counts as one microsecond, one
    /// over [`SAMPLE_MAX`] is a stepped clock or a stale timestamp and is ignored.
    pub fn update(&mut self, sample: Duration) {
        if sample > SAMPLE_MAX {
            return;
        }
        let sample = sample.max(Duration::from_micros(1));
        self.latest = sample;
        match self.smoothed {
            None => {
                self.smoothed = Some(sample);
                self.rttvar = sample / 2;
                self.min = sample;
            }
            Some(srtt) => {
                self.rttvar = (self.rttvar * 3 + srtt.abs_diff(sample)) / 4;
                self.smoothed = Some((srtt * 7 + sample) / 8);
                self.min = self.min.min(sample);
            }
        }
        self.samples += 1;
    }

    /// Smoothed round-trip time; [`INITIAL_RTT`] before the first sample.
    pub fn srtt(&self) -> Duration {
        self.smoothed.unwrap_or(INITIAL_RTT)
    }

    /// Smoothed mean deviation of the round-trip time.
    pub fn rttvar(&self) -> Duration {
        self.rttvar
    }

    /// Smallest sample so far; [`INITIAL_RTT`] before the first one.
    pub fn min_rtt(&self) -> Duration {
        self.min
    }

    /// The last sample taken; [`INITIAL_RTT`] before the first one.
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// Number of samples taken.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Whether any sample has been taken.
    pub fn has_sample(&self) -> bool {
        self.smoothed.is_some()
    }

    /// Retransmission timeout without back-off: `max(srtt + 4 * rttvar, 20 ms) + 200 ms`.
    ///
    /// The 20 ms is Rx's floor on the estimate (`rx_minPeerTimeout`). The 200 ms stands for the time the peer
    /// may hold a delayed ACK, so it is added rather than taken as a minimum.
    pub fn rto(&self) -> Duration {
        match self.smoothed {
            None => INITIAL_RTO,
            Some(srtt) => (srtt + 4 * self.rttvar).max(RTO_FLOOR) + PEER_ACK_DELAY_MAX,
        }
    }

    /// [`rto`](Self::rto) doubled for each of `timeouts` expiries without an ACK between them, at most
    /// [`RTO_MAX`] (RFC 6298 5.5).
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

/// What is added for an ACK that the peer delays.
pub const PEER_ACK_DELAY_MAX: Duration = Duration::from_millis(200);

/// Ceiling of the backed-off timeout (RFC 6298 2.5).
pub const RTO_MAX: Duration = Duration::from_secs(60);

/// Largest believable sample; OpenAFS draws the same line.
pub const SAMPLE_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn first_sample_sets_srtt_and_half_of_it_as_deviation() {
        let mut rtt = RttEstimator::new();
        assert!(!rtt.has_sample());
        assert_eq!(rtt.rto(), INITIAL_RTO);
        rtt.update(80 * MS);
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.min_rtt()), (80 * MS, 40 * MS, 80 * MS));
        assert_eq!(rtt.rto(), (80 + 4 * 40 + 200) * MS);
    }

    #[test]
    fn later_samples_follow_rfc_6298() {
        let mut rtt = RttEstimator::new();
        rtt.update(80 * MS);
        rtt.update(40 * MS);
        assert_eq!(rtt.rttvar(), 40 * MS, "3/4 * 40 + 1/4 * |80 - 40|");
        assert_eq!(rtt.srtt(), 75 * MS, "7/8 * 80 + 1/8 * 40");
        assert_eq!((rtt.min_rtt(), rtt.latest(), rtt.samples()), (40 * MS, 40 * MS, 2));
    }

    #[test]
    fn steady_short_path_rests_on_the_floor() {
        let mut rtt = RttEstimator::new();
        for _ in 0..100 {
            rtt.update(Duration::from_micros(50));
        }
        assert_eq!(rtt.rto(), RTO_FLOOR + PEER_ACK_DELAY_MAX);
    }

    #[test]
    fn backoff_doubles_up_to_a_minute() {
        let mut rtt = RttEstimator::new();
        rtt.update(10 * MS);
        assert_eq!(rtt.rto(), 230 * MS);
        assert_eq!(rtt.rto_backed_off(1), 460 * MS);
        assert_eq!(rtt.rto_backed_off(3), 1840 * MS);
        assert_eq!(rtt.rto_backed_off(9), RTO_MAX);
        assert_eq!(rtt.rto_backed_off(u32::MAX), RTO_MAX);
    }

    #[test]
    fn sample_from_a_stepped_clock_is_ignored() {
        let mut rtt = RttEstimator::new();
        rtt.update(SAMPLE_MAX + MS);
        assert!(!rtt.has_sample());
        rtt.update(Duration::ZERO);
        assert_eq!(rtt.srtt(), Duration::from_micros(1));
    }
}
