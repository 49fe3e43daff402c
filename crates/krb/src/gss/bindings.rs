//! Channel bindings: what ties a sign-in to the TLS connection that carries it (RFC 5056, RFC 5929).

use md5::{Digest, Md5};

/// The hash of channel bindings, as it stands in an authenticator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelBindings([u8; 16]);

impl ChannelBindings {
    /// Returns the bindings to application data, without addresses (RFC 4121 4.1.1.2).
    pub fn of_application_data(data: &[u8]) -> Self {
        let mut hash = Md5::new();
        // Type and length of both addresses, then the data's length: words in little-endian order.
        hash.update([0; 16]);
        hash.update((data.len() as u32).to_le_bytes());
        hash.update(data);
        Self(hash.finalize().into())
    }

    /// Returns the bindings to the server's certificate: its hash by SHA-256, or by the hash of its own signature if
    /// that is stronger (RFC 5929 4.1).
    pub fn of_tls_server_end_point(certificate_hash: &[u8]) -> Self {
        Self::of_application_data(&[b"tls-server-end-point:", certificate_hash].concat())
    }

    /// Returns the hash.
    pub fn hash(&self) -> &[u8; 16] {
        &self.0
    }
}
