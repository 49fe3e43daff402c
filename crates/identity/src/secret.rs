//! Secrets that must not be shown: passwords on their way to a verifier.

use std::fmt;

use zeroize::Zeroizing;

/// Password, overwritten in memory when dropped, and never printed.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Longest password that is looked at, in bytes; longer ones are wrong.
    pub const LENGTH_MAX: usize = 1024;

    /// Returns the bytes of the password, usually UTF-8.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Secret {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
