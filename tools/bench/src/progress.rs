//! Progress of a load.

use std::sync::atomic::{AtomicU64, Ordering};

/// Running totals, for a progress bar: any thread may look.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

/// Totals at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Calls or requests that ended well.
    pub done: u64,
    /// Bytes of the requests, both ways.
    pub bytes: u64,
    /// Calls or requests that failed.
    pub errors: u64,
}

impl Progress {
    /// Returns the totals now.
    pub fn totals(&self) -> Totals {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals { done: now(&self.done), bytes: now(&self.bytes), errors: now(&self.errors) }
    }

    /// Counts one call or request that ended well, with that many bytes.
    pub(crate) fn count(&self, bytes: u64) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts one that failed.
    pub(crate) fn count_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }
}
