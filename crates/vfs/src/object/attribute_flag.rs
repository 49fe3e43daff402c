//! Flag of a volume: whether files may have extended attributes that count as usage. Where none have, no look for
//! them is made at a file's removal, nor as the volume is counted.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// The flag, and how often it was set, in one word.
#[derive(Default)]
pub(super) struct AttributeFlag {
    pub(super) word: AtomicU64,
    /// Held while the flag changes, so that the index is told in the same order.
    pub(super) changing: Mutex<()>,
}

impl AttributeFlag {
    pub(super) fn new(is_set: bool) -> Self {
        Self { word: AtomicU64::new(is_set.into()), changing: Mutex::default() }
    }
}
