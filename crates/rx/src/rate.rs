//! Rate in bytes a second of DATA: of one connection, and of all that an endpoint sends. Acknowledgements,
//! pings and aborts are never held back, so a call that waits for its turn stays alive.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Token bucket of bytes. It holds what its rate sends in [`BURST_TIME`], at least [`BURST_MIN`], and once
/// empty opens again when half full, so that packets leave in bursts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    bytes_per_second: u64,
    /// Bytes that may leave; below zero after packets that do not wait.
    tokens: i64,
    filled_at: Instant,
    empty: bool,
}

impl Rate {
    /// Makes a full bucket. A rate of 0 counts as 1.
    pub(crate) fn new(now: Instant, bytes_per_second: u64) -> Self {
        let mut rate =
            Self { bytes_per_second: bytes_per_second.max(1), tokens: 0, filled_at: now, empty: false };
        rate.tokens = rate.capacity();
        rate
    }

    /// Sets another rate; the bytes in the bucket stay as far as there is room for them.
    pub(crate) fn change(&mut self, now: Instant, bytes_per_second: u64) {
        self.fill(now);
        self.bytes_per_second = bytes_per_second.max(1);
        self.tokens = self.tokens.min(self.capacity());
    }

    /// Checks whether a packet may leave now; `Err` holds when to ask again.
    pub(crate) fn ready(&mut self, now: Instant) -> Result<(), Instant> {
        if self.tokens > 0 && !self.empty {
            return Ok(());
        }
        self.fill(now);
        let enough = self.capacity() / 2;
        if self.tokens >= enough {
            self.empty = false;
            return Ok(());
        }
        self.empty = true;
        let lacking = u128::from((enough - self.tokens).unsigned_abs());
        let nanos = (lacking * NANOS).div_ceil(u128::from(self.bytes_per_second));
        Err(now + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(WAIT_MAX))
    }

    /// Takes `len` bytes for a packet that leaves.
    pub(crate) fn spend(&mut self, now: Instant, len: usize) {
        self.tokens -= len as i64;
        if self.tokens <= 0 {
            self.fill(now);
            self.empty = self.tokens <= 0;
        }
    }

    fn capacity(&self) -> i64 {
        let burst = u128::from(self.bytes_per_second) * BURST_TIME.as_nanos() / NANOS;
        i64::try_from(burst).unwrap_or(i64::MAX).max(BURST_MIN)
    }

    fn fill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.filled_at).min(FILL_MAX).as_nanos();
        let earned = elapsed * u128::from(self.bytes_per_second) / NANOS;
        let capacity = self.capacity();
        if earned == 0 {
            return;
        }
        self.filled_at = now;
        self.tokens = self.tokens.saturating_add(i64::try_from(earned).unwrap_or(i64::MAX)).min(capacity);
    }
}

/// Rate that all connections of an endpoint share, and the connections that wait for it: those not served in
/// this round go first in the next.
#[derive(Debug, Default)]
pub(crate) struct Share {
    rate: Option<Rate>,
    waiting: VecDeque<u32>,
    served: VecDeque<u32>,
    opens_at: Option<Instant>,
    sent: u64,
}

impl Share {
    pub(crate) fn set(&mut self, now: Instant, bytes_per_second: Option<u64>) {
        match (&mut self.rate, bytes_per_second) {
            (Some(rate), Some(bytes)) => rate.change(now, bytes),
            (rate, bytes) => *rate = bytes.map(|bytes| Rate::new(now, bytes)),
        }
        // Waiting connections look again: it may be much sooner now.
        self.opens_at = self.opens_at.map(|_| now);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.rate.is_some()
    }

    /// Returns whether a connection may send now. If not it is called by
    /// [`take_waiting`](Self::take_waiting).
    pub(crate) fn ready(&mut self, now: Instant, connection: u32, was_served: bool) -> bool {
        let Some(rate) = &mut self.rate else { return true };
        let Err(until) = rate.ready(now) else { return true };
        self.opens_at = Some(self.opens_at.map_or(until, |at| at.min(until)));
        if !self.waiting.contains(&connection) && !self.served.contains(&connection) {
            if was_served { &mut self.served } else { &mut self.waiting }.push_back(connection);
        }
        false
    }

    pub(crate) fn spend(&mut self, now: Instant, len: usize) {
        if let Some(rate) = &mut self.rate {
            rate.spend(now, len);
            self.sent += len as u64;
        }
    }

    /// Returns the bytes sent under the share.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of connections that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len() + self.served.len()
    }

    /// Returns when the waiting connections are to be called.
    pub(crate) fn opens_at(&self) -> Option<Instant> {
        self.opens_at
    }

    /// Takes the waiting connections, in order, if it is time.
    pub(crate) fn take_waiting(&mut self, now: Instant) -> impl Iterator<Item = u32> + use<> {
        let due = self.opens_at.is_some_and(|at| at <= now);
        let mut called = VecDeque::new();
        if due {
            self.opens_at = None;
            called = std::mem::take(&mut self.waiting);
            called.append(&mut self.served);
        }
        called.into_iter()
    }
}

//@ limit: rate of sending
//@ section: Rx
//@ unit: byte a second
//@ connection: `set_rate`
//@ all: lane: its part of the server's rate, divided by connections that wait
//@ empty: DATA waits, and acknowledgements do not; others come before the one that was served last
//@ counter: rx_share_waits
//@ attack: none, no rate is set unless the configuration says so, and it delays no other
//@ reach: server
/// Size of a bucket, in time and at least in bytes: a burst that hides the timers' coarseness.
const BURST_TIME: Duration = Duration::from_millis(2);
const BURST_MIN: i64 = 16 * 1024;
/// Longest time for which a bucket fills at once, or a waiting connection is not called.
const FILL_MAX: Duration = Duration::from_secs(60);
const WAIT_MAX: Duration = Duration::from_secs(1);
const NANOS: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes that leave in `time` in packets of 1,400 bytes.
    fn sent(rate: &mut Rate, start: Instant, time: Duration) -> u64 {
        let (mut now, mut sent) = (start, 0);
        while now < start + time {
            match rate.ready(now) {
                Ok(()) => {
                    rate.spend(now, 1400);
                    sent += 1400;
                }
                Err(until) => {
                    assert!(until > now);
                    now = until;
                }
            }
        }
        sent
    }

    #[test]
    fn no_more_and_hardly_less_than_the_rate_leaves() {
        for bytes in [20_000, 1_000_000, 125_000_000, 12_500_000_000] {
            let start = Instant::now();
            let mut rate = Rate::new(start, bytes);
            let capacity = rate.capacity() as u64;
            let sent = sent(&mut rate, start, Duration::from_secs(1));
            assert!(
                sent <= bytes + capacity + 1400 && sent + capacity >= bytes * 99 / 100,
                "{sent} of {bytes}"
            );
        }
    }

    #[test]
    fn rate_that_changes_holds_at_once() {
        let start = Instant::now();
        let mut rate = Rate::new(start, 100_000_000);
        sent(&mut rate, start, Duration::from_secs(1));
        let later = start + Duration::from_secs(1);
        rate.change(later, 1_000_000);
        let sent = sent(&mut rate, later, Duration::from_secs(1));
        assert!((950_000..1_050_000).contains(&sent), "{sent}");
    }

    #[test]
    fn who_had_nothing_goes_before_who_was_served() {
        let start = Instant::now();
        let mut share = Share::default();
        share.set(start, Some(1_000_000));
        share.spend(start, 20_000);
        assert!(
            !share.ready(start, 1, true) && !share.ready(start, 2, false) && !share.ready(start, 3, false)
        );
        assert!(!share.ready(start, 2, false), "listed once");
        assert_eq!(share.take_waiting(start).count(), 0);
        let at = share.opens_at().expect("somebody waits");
        assert_eq!(share.take_waiting(at).collect::<Vec<_>>(), [2, 3, 1]);
        assert!(share.opens_at().is_none() && share.ready(at, 1, true));
    }
}
