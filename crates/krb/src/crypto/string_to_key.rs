//! Keys from passwords (RFC 3962 4, RFC 8009 4).

use std::num::NonZeroU32;

use aws_lc_rs::pbkdf2;
use zeroize::Zeroizing;

use super::derive::derive_labelled;
use super::{Etype, Key};

impl Key {
    /// Derives the key of a password. The salt is the realm and the name's components, one after the other, unless the
    /// KDC says another.
    ///
    /// Without a count of iterations it is the type's: 4,096 or 32,768. It takes milliseconds and more: never on a lane.
    pub fn from_password(etype: Etype, password: &[u8], salt: &[u8], iterations: Option<NonZeroU32>) -> Self {
        let (algorithm, default) = match etype {
            Etype::Aes128Sha1 | Etype::Aes256Sha1 => (pbkdf2::PBKDF2_HMAC_SHA1, 4_096),
            Etype::Aes128Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, 32_768),
            Etype::Aes256Sha384 => (pbkdf2::PBKDF2_HMAC_SHA384, 32_768),
        };
        let iterations = iterations.or(NonZeroU32::new(default)).unwrap_or(NonZeroU32::MIN);
        let named_salt = match etype {
            Etype::Aes128Sha1 | Etype::Aes256Sha1 => salt.to_vec(),
            Etype::Aes128Sha256 | Etype::Aes256Sha384 => [etype.name().as_bytes(), &[0], salt].concat(),
        };
        let mut secret = Zeroizing::new([0; 32]);
        let secret = &mut secret[..etype.key_len()];
        pbkdf2::derive(algorithm, iterations, &named_salt, password, secret);
        let derived = derive_labelled(etype, secret, b"kerberos", etype.key_len());
        Self::new(etype, derived.bytes()).expect("it is as long as the type's keys")
    }
}
