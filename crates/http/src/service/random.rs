//! Numbers for multipart boundaries: different each time, not secret.

use std::cell::Cell;

/// A xorshift sequence.
#[derive(Debug)]
pub(super) struct Random(Cell<u64>);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        // A sequence at zero would stay there.
        Self(Cell::new(seed | 1))
    }

    pub(super) fn next(&self) -> u64 {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
