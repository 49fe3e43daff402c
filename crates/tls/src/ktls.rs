//! Kernel TLS: the bytes that setsockopt(SOL_TLS, TLS_TX) takes, and the decision to ask for it.
//!
//! Nothing here makes a system call; layouts and numbers are those of Linux' `uapi/linux/tls.h`.

use std::io;

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, NONCE_LEN};
use lane::socket::ktls::KtlsRefusal;
use zeroize::Zeroizing;

use crate::error::TlsError;
use crate::keys::{EXPLICIT_NONCE_LEN, TlsVersion, TrafficKeys};

const CIPHER_AES_GCM_128: u16 = 51;
const CIPHER_AES_GCM_256: u16 = 52;
const CIPHER_CHACHA20_POLY1305: u16 = 54;

/// Longest of the kernel's crypto_info structs that are used here, in bytes.
const INFO_LEN_MAX: usize = 56;

/// Bytes of a `struct tls12_crypto_info_*` with the keys of one direction; wiped on drop.
///
/// Everything that was sealed in user space must have been accepted by the socket before these
/// bytes are given to it: from then on the kernel makes a record of whatever is written.
pub struct CryptoInfo {
    bytes: Zeroizing<[u8; INFO_LEN_MAX]>,
    len: usize,
}

impl CryptoInfo {
    /// Lays out `keys` for the kernel, which continues at their sequence number.
    ///
    /// ```text
    /// AES-GCM:            version u16 | cipher u16 | iv 8  | key 16 or 32 | salt 4 | sequence 8
    /// ChaCha20-Poly1305:  version u16 | cipher u16 | iv 12 | key 32       |        | sequence 8
    /// ```
    pub fn new(keys: &TrafficKeys) -> Result<Self, TlsError> {
        let (algorithm, key, iv) = keys.parts()?;
        let is_gcm = *algorithm == AES_128_GCM || *algorithm == AES_256_GCM;
        let cipher = match (is_gcm, key.len()) {
            (true, 16) => CIPHER_AES_GCM_128,
            (true, _) => CIPHER_AES_GCM_256,
            (false, _) => CIPHER_CHACHA20_POLY1305,
        };
        let version: u16 = match keys.version {
            TlsVersion::Tls12 => 0x0303,
            TlsVersion::Tls13 => 0x0304,
        };
        let (salt, tail) = if is_gcm { iv.split_at(NONCE_LEN - EXPLICIT_NONCE_LEN) } else { iv.split_at(0) };
        let tail = match keys.version {
            TlsVersion::Tls12 if is_gcm => &unused_explicit_nonce(tail, keys.seq)[..],
            _ => tail,
        };

        let mut info = Self { bytes: Zeroizing::new([0; INFO_LEN_MAX]), len: 0 };
        info.push(&version.to_ne_bytes());
        info.push(&cipher.to_ne_bytes());
        info.push(tail);
        info.push(key);
        info.push(salt);
        info.push(&keys.seq.to_be_bytes());
        Ok(info)
    }

    /// Returns the struct's bytes: 40 for AES-128-GCM, 56 otherwise.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, field: &[u8]) {
        self.bytes[self.len..self.len + field.len()].copy_from_slice(field);
        self.len += field.len();
    }
}

/// Returns the first explicit nonce of TLS 1.2 AES-GCM that the kernel may use.
///
/// The `seq` records so far have used `base xor 0..seq`; the kernel adds one for each record. Plain
/// `base` would repeat the nonce of the Finished message. The first number behind the aligned block
/// that holds all used ones is free, and so are those after it.
fn unused_explicit_nonce(base: &[u8], seq: u64) -> [u8; EXPLICIT_NONCE_LEN] {
    let mut bytes = [0; EXPLICIT_NONCE_LEN];
    bytes.copy_from_slice(base);
    let base = u64::from_be_bytes(bytes);
    let block = seq.max(1).next_power_of_two();
    (base | (block - 1)).wrapping_add(1).to_be_bytes()
}

/// Policy for kernel TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KtlsPolicy {
    /// Kernel TLS is used where the kernel has it.
    #[default]
    Auto,
    /// Kernel TLS is never used.
    Off,
}

/// Reason why a connection's records are sealed in user space, for logs and `doctor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserSpaceReason {
    /// The configuration disables kernel TLS.
    #[error("kernel TLS is off in the configuration")]
    Configured,
    /// The kernel has no TLS module: TCP_ULP "tls" answered ENOENT.
    #[error("the kernel has no TLS module (CONFIG_TLS); load it with `modprobe tls`")]
    NoModule,
    /// The kernel has TLS, but not with this version and cipher.
    #[error("the kernel does not offer this TLS version and cipher")]
    NoCipher,
    /// The client had ended its half of the connection by then.
    #[error("the client has ended its half of the connection")]
    NotConnected,
    /// The client asked for new keys at once, and this kernel cannot change keys.
    #[error("the client changes keys, which this kernel cannot; Linux 6.14 can")]
    KeyUpdate,
    /// The connection speaks HTTP/2, whose files are read between frame heads, so that the kernel would spare
    /// nothing.
    #[error("HTTP/2 is sealed in user space")]
    Http2,
    /// The system refuses, such as a sandbox or another upper-layer protocol.
    #[error("the system call is refused")]
    Refused,
}

/// Results of one lane's attempts at kernel TLS, so that a missing module is asked for only once.
#[derive(Clone, Debug, Default)]
pub struct KtlsSupport {
    policy: KtlsPolicy,
    /// Reason that holds for good, once the kernel refused the module or the system call itself.
    missing: Option<UserSpaceReason>,
    /// Ciphers that were refused, a bit for each pair of version and cipher.
    refused_ciphers: u8,
}

impl KtlsSupport {
    /// Makes the state before any attempt.
    pub fn new(policy: KtlsPolicy) -> Self {
        Self { policy, missing: None, refused_ciphers: 0 }
    }

    /// Sets the policy for connections to come.
    pub fn set_policy(&mut self, policy: KtlsPolicy) {
        self.policy = policy;
    }

    /// Checks whether to try kernel TLS for a connection with `keys`; the error is the reason against it.
    pub fn should_try(&self, keys: &TrafficKeys) -> Result<(), UserSpaceReason> {
        if self.policy == KtlsPolicy::Off {
            return Err(UserSpaceReason::Configured);
        }
        if let Some(reason) = self.missing {
            return Err(reason);
        }
        if self.refused_ciphers & cipher_bit(keys) != 0 {
            return Err(UserSpaceReason::NoCipher);
        }
        Ok(())
    }

    /// Notes why the kernel refused, and returns the reason to log.
    ///
    /// The connection goes on in user space, whatever the reason: a refused setsockopt changes nothing.
    pub fn note_refusal(&mut self, keys: &TrafficKeys, refusal: &KtlsRefusal) -> UserSpaceReason {
        match refusal {
            KtlsRefusal::NoModule => *self.missing.insert(UserSpaceReason::NoModule),
            KtlsRefusal::NoCipher => {
                self.refused_ciphers |= cipher_bit(keys);
                UserSpaceReason::NoCipher
            }
            // These say nothing about the next connection: the peer was faster, or memory ran out.
            KtlsRefusal::NotConnected | KtlsRefusal::KeyFixed => UserSpaceReason::NotConnected,
            KtlsRefusal::Other(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                UserSpaceReason::Refused
            }
            KtlsRefusal::Other(_) => *self.missing.insert(UserSpaceReason::Refused),
        }
    }
}

/// Returns a bit of its own for each pair of version and cipher.
fn cipher_bit(keys: &TrafficKeys) -> u8 {
    let cipher = match keys.parts() {
        Ok((algorithm, _, _)) if *algorithm == AES_128_GCM => 0,
        Ok((algorithm, _, _)) if *algorithm == AES_256_GCM => 1,
        _ => 2,
    };
    match keys.version {
        TlsVersion::Tls12 => 1 << cipher,
        TlsVersion::Tls13 => 8 << cipher,
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use proptest::prelude::*;
    use rustls::ConnectionTrafficSecrets as Secrets;
    use rustls::crypto::cipher::{AeadKey, Iv};

    use super::*;

    fn keys(version: TlsVersion, secrets: Secrets) -> TrafficKeys {
        TrafficKeys { version, seq: 7, record_limit: 1 << 24, secrets }
    }

    fn iv() -> Iv {
        Iv::from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    }

    fn gcm256(version: TlsVersion) -> TrafficKeys {
        keys(version, Secrets::Aes256Gcm { key: AeadKey::from([9; 32]), iv: iv() })
    }

    #[test]
    fn gcm_256_has_the_layout_of_the_kernel_header() {
        type Info = libc::tls12_crypto_info_aes_gcm_256;
        let info = CryptoInfo::new(&gcm256(TlsVersion::Tls13)).unwrap();
        let bytes = info.as_bytes();
        assert_eq!(bytes.len(), size_of::<Info>());
        assert_eq!(bytes[..2], libc::TLS_1_3_VERSION.to_ne_bytes());
        assert_eq!(bytes[2..4], libc::TLS_CIPHER_AES_GCM_256.to_ne_bytes());
        assert_eq!(bytes[offset_of!(Info, iv)..][..8], [5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(bytes[offset_of!(Info, key)..][..32], [9; 32]);
        assert_eq!(bytes[offset_of!(Info, salt)..][..4], [1, 2, 3, 4]);
        assert_eq!(bytes[offset_of!(Info, rec_seq)..][..8], [0, 0, 0, 0, 0, 0, 0, 7]);
    }

    #[test]
    fn chacha_has_the_layout_of_the_kernel_header() {
        type Info = libc::tls12_crypto_info_chacha20_poly1305;
        let secrets = Secrets::Chacha20Poly1305 { key: AeadKey::from([3; 32]), iv: iv() };
        let info = CryptoInfo::new(&keys(TlsVersion::Tls12, secrets)).unwrap();
        let bytes = info.as_bytes();
        assert_eq!(bytes.len(), size_of::<Info>());
        assert_eq!(bytes[..2], libc::TLS_1_2_VERSION.to_ne_bytes());
        assert_eq!(bytes[2..4], libc::TLS_CIPHER_CHACHA20_POLY1305.to_ne_bytes());
        assert_eq!(bytes[offset_of!(Info, iv)..][..12], *iv().as_ref());
        assert_eq!(bytes[offset_of!(Info, key)..][..32], [3; 32]);
        assert_eq!(bytes[offset_of!(Info, rec_seq)..][..8], [0, 0, 0, 0, 0, 0, 0, 7]);
    }

    #[test]
    fn tls12_gcm_never_starts_at_the_nonce_of_the_finished_message() {
        let info = CryptoInfo::new(&gcm256(TlsVersion::Tls12)).unwrap();
        assert_ne!(info.as_bytes()[4..12], iv().as_ref()[4..]);
    }

    proptest! {
        #[test]
        fn kernel_nonces_never_meet_the_ones_used_before(base: u64, seq in 0_u64..5000) {
            let first = u64::from_be_bytes(unused_explicit_nonce(&base.to_be_bytes(), seq));
            for used in (0..seq).map(|used| base ^ used) {
                // Distance going up, as the kernel counts: it must be out of reach.
                prop_assert!(used.wrapping_sub(first) > 1 << 48);
            }
        }
    }

    #[test]
    fn missing_module_is_asked_for_once_and_a_missing_cipher_disables_that_cipher_only() {
        let (tls12, tls13) = (gcm256(TlsVersion::Tls12), gcm256(TlsVersion::Tls13));
        let mut support = KtlsSupport::new(KtlsPolicy::Auto);
        assert_eq!(support.should_try(&tls13), Ok(()));
        assert_eq!(support.note_refusal(&tls13, &KtlsRefusal::NoCipher), UserSpaceReason::NoCipher);
        assert_eq!(support.should_try(&tls13), Err(UserSpaceReason::NoCipher));
        assert_eq!(support.should_try(&tls12), Ok(()));
        support.note_refusal(&tls12, &KtlsRefusal::NotConnected);
        assert_eq!(support.should_try(&tls12), Ok(()));
        assert_eq!(support.note_refusal(&tls12, &KtlsRefusal::NoModule), UserSpaceReason::NoModule);
        assert_eq!(support.should_try(&tls12), Err(UserSpaceReason::NoModule));
        // Another configuration changes nothing about the kernel.
        support.set_policy(KtlsPolicy::Off);
        assert_eq!(support.should_try(&tls12), Err(UserSpaceReason::Configured));
        support.set_policy(KtlsPolicy::Auto);
        assert_eq!(support.should_try(&tls12), Err(UserSpaceReason::NoModule));
    }
}
