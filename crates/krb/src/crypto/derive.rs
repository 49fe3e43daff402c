//! Keys from keys: DK of RFC 3961 5.1 for the SHA-1 types, KDF-HMAC-SHA2 of RFC 8009 3 for the others.

use aws_lc_rs::hmac;
use zeroize::Zeroizing;

use super::Etype;
use super::cts::{BLOCK_LEN, Cipher};

/// A derived key: at most 32 bytes, wiped when dropped.
pub(super) struct Derived {
    bytes: Zeroizing<[u8; 32]>,
    len: usize,
}

impl Derived {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Use of a derived key: the last byte of its constant.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// Kc.
    Checksum = 0x99,
    /// Ke.
    Encryption = 0xaa,
    /// Ki.
    Integrity = 0x55,
}

/// Derives the key for a usage and a purpose.
pub(super) fn derive(etype: Etype, base: &[u8], usage: u32, purpose: Purpose) -> Derived {
    let mut constant = [0; 5];
    constant[..4].copy_from_slice(&usage.to_be_bytes());
    constant[4] = purpose as u8;
    let len = match purpose {
        Purpose::Encryption => etype.key_len(),
        _ => match etype {
            Etype::Aes128Sha1 | Etype::Aes256Sha1 => etype.key_len(),
            Etype::Aes128Sha256 | Etype::Aes256Sha384 => etype.checksum_len(),
        },
    };
    derive_labelled(etype, base, &constant, len)
}

/// Derives a key of `len` bytes, at most 32, for a constant.
pub(super) fn derive_labelled(etype: Etype, base: &[u8], constant: &[u8], len: usize) -> Derived {
    let mut bytes = Zeroizing::new([0; 32]);
    match etype {
        Etype::Aes128Sha1 | Etype::Aes256Sha1 => {
            let cipher = Cipher::new(base);
            let mut block = Zeroizing::new([0; BLOCK_LEN]);
            n_fold(constant, &mut *block);
            for chunk in bytes[..len].chunks_mut(BLOCK_LEN) {
                cipher.encrypt_block(&mut block);
                chunk.copy_from_slice(&block[..chunk.len()]);
            }
        }
        Etype::Aes128Sha256 | Etype::Aes256Sha384 => {
            let tag = kdf_hmac_sha2(etype, base, constant, &[], len);
            bytes[..len].copy_from_slice(&tag.as_ref()[..len]);
        }
    }
    Derived { bytes, len }
}

/// Computes KDF-HMAC-SHA2 of RFC 8009 3, whose first `len` bytes count.
pub(super) fn kdf_hmac_sha2(
    etype: Etype,
    base: &[u8],
    label: &[u8],
    context: &[u8],
    len: usize,
) -> hmac::Tag {
    let bits = (len as u32 * 8).to_be_bytes();
    hmac_parts(etype, base, &[&1u32.to_be_bytes(), label, &[0], context, &bits])
}

/// Computes HMAC of an encryption type's hash over parts that follow each other, not truncated.
pub(super) fn hmac_parts(etype: Etype, key: &[u8], parts: &[&[u8]]) -> hmac::Tag {
    let algorithm = match etype {
        Etype::Aes128Sha1 | Etype::Aes256Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        Etype::Aes128Sha256 => hmac::HMAC_SHA256,
        Etype::Aes256Sha384 => hmac::HMAC_SHA384,
    };
    let mut context = hmac::Context::with_key(&hmac::Key::new(algorithm, key));
    parts.iter().for_each(|part| context.update(part));
    context.sign()
}

/// Computes n-fold of RFC 3961 5.1: copies of the input, each turned right by 13 bits more, added up with end-around
/// carry.
pub(super) fn n_fold(input: &[u8], out: &mut [u8]) {
    let mut turned = input.to_vec();
    let mut copies = Vec::new();
    // The least common multiple of both lengths is reached at the latest after as many copies as `out` has bytes.
    while copies.is_empty() || copies.len() % out.len() != 0 {
        copies.extend_from_slice(&turned);
        let of = |index: usize| copies[copies.len() - input.len() + index % input.len()];
        for (at, byte) in turned.iter_mut().enumerate() {
            *byte = of(at + 2 * input.len() - 1) >> 5 | of(at + 2 * input.len() - 2) << 3;
        }
    }
    out.fill(0);
    for addend in copies.chunks(out.len()) {
        let mut carry = 0;
        for (sum, byte) in out.iter_mut().zip(addend).rev() {
            let all = u16::from(*sum) + u16::from(*byte) + carry;
            (*sum, carry) = (all as u8, all >> 8);
        }
        for sum in out.iter_mut().rev() {
            let all = u16::from(*sum) + carry;
            (*sum, carry) = (all as u8, all >> 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::tests::hex;

    #[test]
    fn vectors_of_rfc_3961_appendix_a() {
        for (input, folded) in [
            ("012345", "be072631276b1955"),
            ("password", "78a07b6caf85fa"),
            ("Rough Consensus, and Running Code", "bb6ed30870b7f0e0"),
            ("password", "59e4a8ca7c0385c3c37b3f6d2000247cb6e6bd5b3e"),
            ("MASSACHVSETTS INSTITVTE OF TECHNOLOGY", "db3b0d8f0b061e603282b308a50841229ad798fab9540c1b"),
            ("Q", "518a54a215a8452a518a54a215a8452a518a54a215"),
            ("ba", "fb25d531ae8974499f52fd92ea9857c4ba24cf297e"),
            ("kerberos", "6b65726265726f73"),
            ("kerberos", "6b65726265726f737b9b5b2b93132b93"),
        ] {
            let mut out = vec![0; folded.len() / 2];
            n_fold(input.as_bytes(), &mut out);
            assert_eq!(out, hex(folded), "{input}");
        }
    }

    #[test]
    fn vectors_of_rfc_8009_appendix_a() {
        let base = hex("3705D96080C17728A0E800EAB6E0D23C");
        let of = |purpose| derive(Etype::Aes128Sha256, &base, 2, purpose).bytes().to_vec();
        assert_eq!(of(Purpose::Checksum), hex("B31A018A48F54776F403E9A396325DC3"));
        assert_eq!(of(Purpose::Encryption), hex("9B197DD1E8C5609D6E67C3E37C62C72E"));
        assert_eq!(of(Purpose::Integrity), hex("9FDA0E56AB2D85E1569A688696C26A6C"));
        let base = hex("6D404D37FAF79F9DF0D33568D320669800EB4836472EA8A026D16B7182460C52");
        let of = |purpose| derive(Etype::Aes256Sha384, &base, 2, purpose).bytes().to_vec();
        assert_eq!(of(Purpose::Checksum), hex("EF5718BE86CC84963D8BBB5031E9F5C4BA41F28FAF69E73D"));
        assert_eq!(
            of(Purpose::Encryption),
            hex("56AB22BEE63D82D7BC5227F6773F8EA7A5EB1C825160C38312980C442E5C7E49")
        );
        assert_eq!(of(Purpose::Integrity), hex("69B16514E3CD8E56B82010D5C73012B622C4D00FFC23ED1F"));
    }
}
