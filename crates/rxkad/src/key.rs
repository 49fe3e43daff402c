//! The 56-bit key of a connection, derived from a session key of Kerberos (draft-kaduk-afs3-rxkad-kdf-03).

use hmac::{Hmac, KeyInit as _, Mac as _};
use krb::SessionKey;
use krb::crypto::KeyRefused;
use md5::Md5;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// A key of rxkad: 8 bytes of 7 bits, each with a parity bit that does not count. It is wiped when dropped.
#[derive(Clone)]
pub struct DesKey {
    bytes: Zeroizing<[u8; 8]>,
}

impl DesKey {
    /// Makes a key of its bytes, as tokens and superusers' tickets have them.
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        Self { bytes: Zeroizing::new(bytes) }
    }

    /// Makes a key of 8 random bytes, whose lowest bits become parity bits.
    pub fn with_parity(bytes: [u8; 8]) -> Self {
        Self::from_bytes(bytes.map(with_parity))
    }

    /// Derives the key from a session key of types 17 to 20. Other types are refused, as in crate `krb`.
    pub fn derive(session: &SessionKey) -> Result<Self, KeyRefused> {
        Ok(kdf(session.key()?.bytes()))
    }

    /// Returns the 8 bytes.
    pub fn bytes(&self) -> &[u8; 8] {
        &self.bytes
    }

    /// Returns the bytes as a number, with which PCBC begins.
    pub(crate) fn number(&self) -> u64 {
        u64::from_be_bytes(*self.bytes)
    }
}

/// Compared in constant time.
impl PartialEq for DesKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes.ct_eq(&*other.bytes).into()
    }
}

impl Eq for DesKey {}

impl std::fmt::Debug for DesKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DesKey")
    }
}

/// Computes the first of HMAC-MD5(key, i | "rxkad" | 0 | 64) for i = 1, 2, ... that is not a weak key of DES.
fn kdf(session: &[u8]) -> DesKey {
    let mut found = Zeroizing::new([0; 8]);
    for round in 1..=u8::MAX {
        let mut hmac = Hmac::<Md5>::new_from_slice(session).expect("HMAC takes every key");
        hmac.update(&[round]);
        hmac.update(b"rxkad\0");
        hmac.update(&64u32.to_be_bytes());
        let tag = Zeroizing::new(<[u8; 16]>::from(hmac.finalize().into_bytes()));
        for (byte, given) in found.iter_mut().zip(tag.iter()) {
            *byte = with_parity(*given);
        }
        if !is_weak(u64::from_be_bytes(*found)) {
            break;
        }
    }
    DesKey { bytes: found }
}

/// Returns seven bits, and the one that makes their number odd.
fn with_parity(byte: u8) -> u8 {
    let bits = byte & 0xfe;
    bits | u8::from(bits.count_ones().is_multiple_of(2))
}

fn is_weak(key: u64) -> bool {
    WEAK.iter().fold(false, |found, weak| found | bool::from(weak.ct_eq(&key)))
}

/// The weak and half weak keys of DES (FIPS 74, 3.6), with odd parity.
const WEAK: [u64; 16] = [
    0x0101_0101_0101_0101,
    0xfefe_fefe_fefe_fefe,
    0x1f1f_1f1f_0e0e_0e0e,
    0xe0e0_e0e0_f1f1_f1f1,
    0x01fe_01fe_01fe_01fe,
    0xfe01_fe01_fe01_fe01,
    0x1fe0_1fe0_0ef1_0ef1,
    0xe01f_e01f_f10e_f10e,
    0x01e0_01e0_01f1_01f1,
    0xe001_e001_f101_f101,
    0x1ffe_1ffe_0efe_0efe,
    0xfe1f_fe1f_fe0e_fe0e,
    0x011f_011f_010e_010e,
    0x1f01_1f01_0e01_0e01,
    0xe0fe_e0fe_f1fe_f1fe,
    0xfee0_fee0_fef1_fef1,
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_key_of_a_stock_client_is_derived() {
        let session = [
            0x88, 0x0f, 0xce, 0xba, 0xea, 0xd6, 0xa0, 0xe4, 0xa0, 0x79, 0x2f, 0xc9, 0x80, 0xd2, 0x4f, 0xed,
            0x91, 0x61, 0x9e, 0xfb, 0x3b, 0x36, 0x5a, 0x2c, 0x05, 0xfa, 0x06, 0x6f, 0xb8, 0xfc, 0xd6, 0x73,
        ];
        let key = DesKey::derive(&SessionKey::new(18, &session)).unwrap();
        assert_eq!(key.number(), 0xbc46_103d_7cae_94d0);
    }

    #[test]
    fn trap_5_session_keys_of_des_and_rc4_are_refused() {
        for (etype, len) in [(1, 8), (3, 8), (16, 24), (23, 16), (0, 8), (-1, 8), (4, 8), (18, 31), (17, 0)] {
            assert!(DesKey::derive(&SessionKey::new(etype, &vec![9; len])).is_err(), "{etype}");
        }
    }

    #[test]
    fn weak_keys_have_odd_parity_and_are_known() {
        for weak in WEAK {
            assert!(weak.to_be_bytes().iter().all(|byte| byte.count_ones() % 2 == 1), "{weak:x}");
            assert!(is_weak(weak) && !is_weak(weak ^ 2));
        }
    }

    #[test]
    fn trap_17_debug_tells_no_key() {
        assert_eq!(format!("{:?}", DesKey::from_bytes([7; 8])), "DesKey");
    }

    proptest! {
        #[test]
        fn any_key_has_odd_parity(session: [u8; 16]) {
            let key = DesKey::derive(&SessionKey::new(17, &session)).unwrap();
            prop_assert!(key.bytes().iter().all(|byte| byte.count_ones() % 2 == 1));
            prop_assert!(!is_weak(key.number()));
        }
    }
}
