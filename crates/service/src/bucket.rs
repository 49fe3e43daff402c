//! Token bucket on a clock that the caller passes in: the bytes that one lane may send now.

use std::time::{Duration, Instant};

/// Token bucket of one lane, in bytes.
///
/// A grant may overdraw the bucket by less than its own size, so that a sender asks once for a record or a
/// batch; the debt is worked off before the next grant.
#[derive(Debug)]
pub(crate) struct Bucket {
    tokens: i64,
    bytes_per_second: u64,
    filled_at: Instant,
}

impl Bucket {
    /// Makes a bucket with a first burst in it.
    pub(crate) fn new(now: Instant) -> Self {
        Self { tokens: BURST_BYTES_MIN, bytes_per_second: 0, filled_at: now }
    }

    /// Adds the bytes for the time since the last call at `bytes_per_second`, up to a burst. What a
    /// connection `awaited` is not lost because the lane came late to hand it out.
    pub(crate) fn refill(&mut self, now: Instant, bytes_per_second: u64, awaited: bool) {
        self.bytes_per_second = bytes_per_second;
        let elapsed = now.saturating_duration_since(self.filled_at);
        let gained = bytes_in(elapsed, bytes_per_second);
        if gained > 0 {
            // Fractions of a byte stay in the time that is not counted yet.
            self.filled_at += time_for(gained, bytes_per_second).min(elapsed);
        }
        let burst = bytes_in(if awaited { BURST_AWAITED } else { BURST }, bytes_per_second);
        let burst = burst.max(BURST_BYTES_MIN);
        self.tokens = self.tokens.saturating_add(gained).min(burst);
    }

    /// Grants up to `want` bytes, if any may be sent now.
    pub(crate) fn take(&mut self, want: usize) -> Option<usize> {
        if self.tokens <= 0 {
            return None;
        }
        let quantum = bytes_in(QUANTUM, self.bytes_per_second).clamp(QUANTUM_BYTES_MIN, QUANTUM_BYTES_MAX);
        let granted = want.min(usize::try_from(quantum).unwrap_or(usize::MAX));
        self.tokens -= granted as i64;
        Some(granted)
    }

    /// Charges bytes that were sent without a grant. What that leaves owing is worked off in the time that
    /// those that wait may make up for.
    pub(crate) fn charge(&mut self, bytes: u64) {
        let owed_max = bytes_in(BURST_AWAITED, self.bytes_per_second).max(BURST_BYTES_MIN);
        self.tokens = self.tokens.saturating_sub_unsigned(bytes).max(-owed_max);
    }

    /// Gives back granted bytes that were not sent.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.tokens = self.tokens.saturating_add_unsigned(bytes as u64);
    }

    /// Returns how long to wait before the next attempt. Not for the first token: a sleep for each would cost
    /// more than the sending. Not for long either: the rate may have grown by then.
    pub(crate) fn patience(&self) -> Duration {
        let missing = 1_i64.saturating_sub(self.tokens).max(0);
        time_for(missing, self.bytes_per_second).clamp(SLEEP_MIN, SLEEP_MAX)
    }
}

fn bytes_in(time: Duration, bytes_per_second: u64) -> i64 {
    let bytes = time.as_nanos().saturating_mul(u128::from(bytes_per_second)) / 1_000_000_000;
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Returns the time in which `bytes` are earned, rounded up.
fn time_for(bytes: i64, bytes_per_second: u64) -> Duration {
    let bytes = u128::try_from(bytes).unwrap_or(0);
    let nanos = (bytes * 1_000_000_000).div_ceil(u128::from(bytes_per_second.max(1)));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Time whose bytes may be saved for the next sender.
const BURST: Duration = Duration::from_millis(10);
/// Time whose bytes may be made up to senders that waited: longer than an overloaded machine keeps a lane
/// from its work.
pub(crate) const BURST_AWAITED: Duration = Duration::from_millis(100);
/// Smallest burst in bytes: room for a TLS record however small the rate.
const BURST_BYTES_MIN: i64 = 16 * 1024;
/// Time of the lane's whole rate that a connection gets in one turn, between a TLS record and what one
/// `sendfile` moves without delaying the lane.
const QUANTUM: Duration = Duration::from_millis(1);
const QUANTUM_BYTES_MIN: i64 = 16 * 1024;
const QUANTUM_BYTES_MAX: i64 = 256 * 1024;
const SLEEP_MIN: Duration = Duration::from_millis(1);
const SLEEP_MAX: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes granted in `seconds` to a sender that always wants `want` more, asking every `step`.
    fn drain(rate: u64, want: usize, step: Duration, seconds: u64) -> u64 {
        let begun = Instant::now();
        let mut bucket = Bucket::new(begun);
        let (mut now, mut granted) = (begun, 0);
        while now < begun + Duration::from_secs(seconds) {
            bucket.refill(now, rate, false);
            while let Some(bytes) = bucket.take(want) {
                granted += bytes as u64;
            }
            now += step;
        }
        granted
    }

    #[test]
    fn grants_follow_the_rate_however_often_they_are_asked_for() {
        for rate in [1_000_u64, 333_333, 6_250_000, 1_250_000_000] {
            for step in [Duration::from_nanos(777), Duration::from_micros(130), Duration::from_millis(7)] {
                let seconds = if step < Duration::from_micros(1) { 1 } else { 20 };
                let granted = drain(rate, 1 << 20, step, seconds) as f64;
                // One burst at the beginning, one grant overdrawn at the end.
                let slack = (16_384 + 262_144) as f64;
                let wanted = (rate * seconds) as f64;
                assert!(granted >= wanted * 0.99, "{rate} in steps of {step:?}: {granted} of {wanted}");
                assert!(
                    granted <= wanted * 1.001 + slack,
                    "{rate} in steps of {step:?}: {granted} of {wanted}"
                );
            }
        }
    }

    #[test]
    fn no_more_than_a_burst_is_saved_up() {
        let begun = Instant::now();
        let mut bucket = Bucket::new(begun);
        bucket.refill(begun + Duration::from_secs(3600), 10_000_000, false);
        let mut granted = 0;
        while let Some(bytes) = bucket.take(4096) {
            granted += bytes;
        }
        assert!((100_000..104_096).contains(&granted), "10 ms of 10 MB/s and one overdraft: {granted}");
    }

    #[test]
    fn those_who_wait_lose_nothing_where_the_lane_comes_late() {
        let begun = Instant::now();
        let mut bucket = Bucket::new(begun);
        let (mut now, mut granted) = (begun, 0);
        for round in 0..100 {
            now += Duration::from_millis(10 + 17 * (round % 5));
            bucket.refill(now, 10_000_000, true);
            while let Some(bytes) = bucket.take(1 << 20) {
                granted += bytes;
            }
        }
        let wanted = 1e7 * now.duration_since(begun).as_secs_f64();
        assert!((granted as f64 / wanted - 1.0).abs() < 0.01, "{granted} of {wanted}");
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let begun = Instant::now();
        let mut bucket = Bucket::new(begun);
        bucket.refill(begun, 1_000_000, false);
        let granted = bucket.take(1 << 20).unwrap();
        assert_eq!(bucket.take(1), None);
        bucket.give_back(granted);
        assert_eq!(bucket.take(1 << 20), Some(granted));
    }

    #[test]
    fn waiting_is_neither_a_spin_nor_deaf() {
        let begun = Instant::now();
        let mut bucket = Bucket::new(begun);
        bucket.refill(begun, 1_000_000_000, false);
        while bucket.take(1 << 20).is_some() {}
        assert_eq!(bucket.patience(), SLEEP_MIN);
        bucket.refill(begun, 1, false);
        assert_eq!(bucket.patience(), SLEEP_MAX);
    }
}
