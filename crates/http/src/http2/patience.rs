//! Limits on requests that cost this side more than the client, or nothing but time: it has a store of points
//! that fills up again.

use std::time::Instant;

use super::frame::Reason;

#[derive(Debug)]
pub(super) struct Patience {
    points: u32,
    filled_at: Instant,
}

impl Patience {
    pub(super) fn new(now: Instant) -> Self {
        Self { points: POINTS_MAX, filled_at: now }
    }

    /// Takes points.
    ///
    /// # Errors
    /// There are not so many left.
    pub(super) fn spend(&mut self, points: u32, now: Instant) -> Result<(), Reason> {
        if self.points < points {
            let seconds = now.saturating_duration_since(self.filled_at).as_secs_f64();
            let filled = (seconds * POINTS_PER_SECOND) as u32;
            if filled > 0 {
                self.points = self.points.saturating_add(filled).min(POINTS_MAX);
                self.filled_at = now;
            }
        }
        self.points = self.points.checked_sub(points).ok_or(Reason::EnhanceYourCalm)?;
        Ok(())
    }
}

//@ limit: HTTP/2 requests taken back, and frames that bring nothing
//@ section: HTTP
//@ unit: point: 10 for a reset, 1 for an empty frame
//@ connection: {}, of which 500 a second come back
//@ empty: GOAWAY (ENHANCE_YOUR_CALM); others feel nothing
//@ counter: http_closed{reason="http2_flood"}
//@ attack: http2-resets, http2-pings
/// Two hundred requests taken back at once.
const POINTS_MAX: u32 = 2000;
/// Fifty requests taken back each second.
const POINTS_PER_SECOND: f64 = 500.0;
