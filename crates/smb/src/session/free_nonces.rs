//! Nonces of AES-GMAC that replies to bindings may use.

use std::sync::atomic::{AtomicU64, Ordering};

/// Nonces under a session's own key that no message has been signed with, nor will be by its first connection.
///
/// A nonce is a MessageId. Replies to SESSION_SETUP that do not end a binding are signed with the key of the session, by connections that
/// each count from 0. Two messages under one nonce give away the key that authenticates.
pub(crate) struct FreeNonces {
    /// One bit for each MessageId below 64 that is taken.
    taken: AtomicU64,
}

impl FreeNonces {
    /// Makes the nonces below `first`, the MessageId of the first request that the session's first connection
    /// has an answer to signed.
    pub(crate) fn below(first: u64) -> Self {
        Self {
            taken: AtomicU64::new(
                first.try_into().ok().and_then(|bits| u64::MAX.checked_shl(bits)).unwrap_or(0),
            ),
        }
    }

    /// Takes the nonce of MessageId `id`. False where it is not free: nothing may be signed with it.
    pub(crate) fn take(&self, id: u64) -> bool {
        let Some(bit) = id.try_into().ok().and_then(|bits| 1_u64.checked_shl(bits)) else { return false };
        self.taken.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nonce_is_taken_once_and_none_that_the_first_connection_signs_with() {
        let nonces = FreeNonces::below(3);
        let taken: Vec<_> =
            [1, 1, 2, 3, 4, 63, 64, u64::MAX, 0].into_iter().map(|id| nonces.take(id)).collect();
        assert_eq!(taken, [true, false, true, false, false, false, false, false, true]);
        assert!(FreeNonces::below(64).take(63) && FreeNonces::below(u64::MAX).take(0));
        assert!(!FreeNonces::below(0).take(0));
    }
}
