//! Bounds of what is held of one object.

use std::time::Duration;

/// Bounds of what is held of one object. What is beyond them is refused; nobody else feels it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Opens, of all streams.
    pub opens: usize,
    /// Streams in use.
    pub streams: usize,
    /// Ranges that one open, or one owner of advisory locks, has locked.
    pub ranges_per_owner: usize,
    /// Ranges locked in one stream.
    pub ranges: usize,
    /// Locks of one open that wait.
    pub waiting_locks_per_owner: usize,
    /// Locks of one stream that wait.
    pub waiting_locks: usize,
    /// Who waits for something to be given back.
    pub waiting: usize,
    /// How long a holder has to give back what he is asked for (MS-SMB2 3.3.2.1; Windows: 35 s).
    pub acknowledge: Duration,
}

impl Limits {
    /// What the server uses.
    pub const DEFAULT: Self = Self {
        opens: 4096,
        streams: 64,
        ranges_per_owner: 1024,
        ranges: 4096,
        waiting_locks_per_owner: 64,
        waiting_locks: 256,
        waiting: 256,
        acknowledge: Duration::from_secs(35),
    };
}
