//! Pace at which a client must take what it asked for: something now and then, and where a floor is set, fast
//! enough on the whole. Taken is what its host has acknowledged. Room in the socket tells less: a third of a
//! buffer of 4 MB is free after 45 s at 30 kB/s, and filling the buffer is no doing of the client's.

use std::time::{Duration, Instant};

use lane::time::now;

use super::abort::Abort;

/// Bodies on their way to one client.
pub(super) struct BodyTransfer {
    /// On a clock that stands still while it is the server that keeps the client waiting.
    pub(super) started: Instant,
    /// Bytes of the connection that the client had taken by then.
    pub(super) taken_before: i64,
}

impl BodyTransfer {
    /// Checks whether the client has taken as much as a rate of `rate_min` asks for, once it had `grace` to
    /// begin. `taken` is what it has of the connection now.
    pub(super) fn check(
        &self,
        taken: i64,
        rate_min: u64,
        grace: Duration,
        client_time: Instant,
    ) -> Result<(), Abort> {
        let elapsed = client_time.saturating_duration_since(self.started);
        let owed = u128::from(rate_min) * elapsed.as_millis() / 1000;
        let taken = u128::try_from(taken - self.taken_before).unwrap_or(0);
        if elapsed > grace && taken < owed { Err(Abort::TooSlow) } else { Ok(()) }
    }
}

/// Whether a client takes anything while something waits for it. It is looked at a few times in the time it has.
#[derive(Debug, Default)]
pub(super) struct ProgressWatch {
    /// The most that it was seen to have taken, and when.
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
