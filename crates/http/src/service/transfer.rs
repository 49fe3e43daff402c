//! Pace at which a client must take what it asked for: something now and then, and where a floor is set, fast
//! enough on the whole. Taken is what its host has acknowledged. Room in the socket tells less: a third of a
//! buffer of 4 MB is free after 45 s at 30 kB/s, and filling the buffer is no doing of the client's.

use std::time::{Duration, Instant};

use lane::time::now;

use super::abort::Abort;

/// Bodies on their way to one client, judged a while at a time.
#[derive(Debug, Default)]
pub(super) struct BodyTransfer {
    /// Begin of the while that is judged next, and the bytes of the connection that the client had taken by
    /// then; `None` before the first look. The clock stands still while it is the server that keeps the
    /// client waiting.
    since: Option<(Instant, i64)>,
}

/// Bytes of a connection, as far as its client has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// Bytes that its host has acknowledged.
    pub(super) bytes: i64,
    /// False if it has all that it was sent: it is the server that is slow.
    pub(super) is_owed_more: bool,
}

impl BodyTransfer {
    /// Checks whether the client has taken as much as a rate of `rate_min` asks for, whenever `period` is over.
    pub(super) fn check(
        &mut self,
        taken: Taken,
        rate_min: u64,
        period: Duration,
        client_time: Instant,
    ) -> Result<(), Abort> {
        if let Some((since, before)) = self.since.filter(|_| taken.is_owed_more) {
            let elapsed = client_time.saturating_duration_since(since);
            if elapsed < period {
                return Ok(());
            }
            let owed = u128::from(rate_min) * elapsed.as_millis() / 1000;
            if u128::try_from(taken.bytes - before).unwrap_or(0) < owed {
                return Err(Abort::TooSlow);
            }
        }
        self.since = Some((client_time, taken.bytes));
        Ok(())
    }
}

/// Watch over a client that has to take something while something waits for it. It is looked at a few times in the
/// time that the client has.
#[derive(Debug, Default)]
pub(super) struct ProgressWatch {
    /// Most bytes that the client was seen to have taken, and the time of that look.
    seen: Option<(i64, Instant)>,
}

impl ProgressWatch {
    /// Notes what the client has taken of the connection by now, which may seem to shrink where bytes are counted before
    /// they are handed to the socket.
    ///
    /// # Errors
    /// [`Abort::WriteStalled`] when it has not grown for `patience`.
    pub(super) fn look(&mut self, taken: i64, patience: Duration) -> Result<(), Abort> {
        match self.seen {
            Some((before, since)) if taken <= before => {
                if now() < since + patience {
                    Ok(())
                } else {
                    Err(Abort::WriteStalled)
                }
            }
            _ => {
                self.seen = Some((taken, now()));
                Ok(())
            }
        }
    }

    /// Returns when to look next: soon at first, for what came before the first look counts for nothing.
    pub(super) fn next_look(&self, patience: Duration) -> Instant {
        let pause = patience / LOOKS;
        now() + if self.seen.is_some() { pause } else { pause.min(FIRST_LOOK) }
    }
}

/// Looks in the time that a client may take nothing.
pub(super) const LOOKS: u32 = 5;
const FIRST_LOOK: Duration = Duration::from_millis(500);
