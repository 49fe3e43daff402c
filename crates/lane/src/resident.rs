//! Part of a file that a sender may take for resident in memory, for a moment.

use std::io;
use std::time::{Duration, Instant};

use crate::context;
use crate::fs::File;
use crate::time::now;

/// The part of a file ahead of a sender that was seen in memory. A sendfile(2) waits for the disk where a
/// page is missing, and with it the lane: it is called for such parts alone.
#[derive(Debug)]
pub struct Resident {
    /// Offset up to which the sender is to go.
    wanted_end: u64,
    seen_end: u64,
    seen_at: Option<Instant>,
}

impl Resident {
    /// Makes the state before the first look at a file of which bytes before `wanted_end` are to be sent.
    pub fn new(wanted_end: u64) -> Self {
        Self { wanted_end, seen_end: 0, seen_at: None }
    }

    /// Returns how many bytes from `offset` on, at most `len`, can be sent without a wait for the disk; waits
    /// for some where there are none. What one look saw is believed until it is sent, unless that takes long.
    ///
    /// # Errors
    /// The disk's.
    pub async fn ensure(&mut self, file: &File, offset: u64, len: usize) -> io::Result<usize> {
        let is_fresh = self.seen_at.is_some_and(|at| now() < at + BELIEVED);
        if !is_fresh || offset >= self.seen_end {
            let ahead = self.wanted_end.saturating_sub(offset).max(len as u64);
            let ahead = usize::try_from(ahead).unwrap_or(usize::MAX).min(LOOK_BYTES);
            let mut seen = context::with(|lane| lane.backend().resident(file.fd(), offset, ahead))?;
            if seen == 0 {
                seen = ahead.min(WARM_BYTES);
                file.warm(offset, seen).await?;
            }
            (self.seen_end, self.seen_at) = (offset + seen as u64, Some(now()));
        }
        Ok(usize::try_from(self.seen_end - offset).unwrap_or(usize::MAX).min(len))
    }
}

/// Bytes that a look asks about: a few steps of a sender.
const LOOK_BYTES: usize = 4 << 20;
/// Bytes that are read from the disk at a time.
const WARM_BYTES: usize = 1 << 20;
/// Time for which a look is believed: a stalled client may come back after its pages are gone.
const BELIEVED: Duration = Duration::from_millis(500);
