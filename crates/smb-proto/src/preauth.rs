//! Pre-authentication integrity (MS-SMB2 3.1.1.1, 3.3.5.4, 3.3.5.5): a hash over all that was said before there were
//! keys, which the keys are then made of.

use aws_lc_rs::digest::{Context, SHA512};

/// The hash so far: of a connection's negotiation, and then of each sign-in on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PreauthHash([u8; 64]);

impl PreauthHash {
    /// Returns the hash before any message.
    pub const fn new() -> Self {
        Self([0; 64])
    }

    /// Goes on with a message, sent or received, as it lies in its frame without the prefix. What a signature or a
    /// sealing adds is part of it; a final, successful SESSION_SETUP response is not.
    pub fn update(&mut self, message: &[u8]) {
        //= MS-SMB2 3.3.5.5
        //# The new value is the SHA-512 of the old one and the message.
        let mut context = Context::new(&SHA512);
        context.update(&self.0);
        context.update(message);
        self.0.copy_from_slice(context.finish().as_ref());
    }

    /// Returns the value.
    pub fn value(&self) -> &[u8; 64] {
        &self.0
    }
}

impl Default for PreauthHash {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for PreauthHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PreauthHash")
    }
}
