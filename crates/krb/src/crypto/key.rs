//! A key of one encryption type: encryption, checksums, pseudo-random function.

use std::fmt;

use aws_lc_rs::{constant_time, digest};
use zeroize::Zeroizing;

use super::cts::{BLOCK_LEN, Cipher};
use super::derive::{Purpose, derive, derive_labelled, hmac_parts, kdf_hmac_sha2};
use super::{Etype, EtypeRefused};

/// A key. It is wiped when dropped, and `Debug` tells its type alone.
#[derive(Clone)]
pub struct Key {
    etype: Etype,
    bytes: Zeroizing<[u8; 32]>,
}

impl Key {
    /// Creates a key from bytes, which must be as many as the type's keys have.
    pub fn new(etype: Etype, key: &[u8]) -> Result<Self, KeyLength> {
        let mut bytes = Zeroizing::new([0; 32]);
        if key.len() != etype.key_len() {
            return Err(KeyLength { etype: etype.number(), len: key.len() });
        }
        bytes[..key.len()].copy_from_slice(key);
        Ok(Self { etype, bytes })
    }

    /// Returns the type.
    pub fn etype(&self) -> Etype {
        self.etype
    }

    /// Returns the key itself.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.etype.key_len()]
    }

    /// Encrypts and protects. The confounder is 16 random bytes, new for each message.
    pub fn encrypt(&self, usage: u32, plain: &[u8], confounder: &[u8; BLOCK_LEN]) -> Vec<u8> {
        let mut data = Vec::with_capacity(BLOCK_LEN + plain.len() + 2 * BLOCK_LEN);
        data.extend(confounder);
        data.extend(plain);
        let integrity = self.derive(usage, Purpose::Integrity);
        let cipher = self.cipher(usage);
        let tag = match self.etype {
            Etype::Aes128Sha1 | Etype::Aes256Sha1 => {
                let tag = hmac_parts(self.etype, integrity.bytes(), &[&data]);
                cipher.encrypt(&mut data);
                tag
            }
            Etype::Aes128Sha256 | Etype::Aes256Sha384 => {
                cipher.encrypt(&mut data);
                hmac_parts(self.etype, integrity.bytes(), &[&[0; BLOCK_LEN], &data])
            }
        };
        data.extend(&tag.as_ref()[..self.etype.checksum_len()]);
        data
    }

    /// Decrypts what [`encrypt`](Self::encrypt) of the same key and usage made, and nothing else.
    pub fn decrypt(&self, usage: u32, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, Integrity> {
        let at = sealed.len().checked_sub(self.etype.checksum_len()).ok_or(Integrity)?;
        let (data, tag) = sealed.split_at(at);
        let integrity = self.derive(usage, Purpose::Integrity);
        let check = |parts: &[&[u8]]| {
            let expected = hmac_parts(self.etype, integrity.bytes(), parts);
            compare(&expected.as_ref()[..self.etype.checksum_len()], tag)
        };
        let mut plain = match self.etype {
            Etype::Aes128Sha1 | Etype::Aes256Sha1 => {
                let plain = self.cipher(usage).decrypt(data).ok_or(Integrity)?;
                check(&[&plain])?;
                plain
            }
            Etype::Aes128Sha256 | Etype::Aes256Sha384 => {
                check(&[&[0; BLOCK_LEN], data])?;
                self.cipher(usage).decrypt(data).ok_or(Integrity)?
            }
        };
        plain.copy_within(BLOCK_LEN.., 0);
        let len = plain.len() - BLOCK_LEN;
        plain.truncate(len);
        Ok(plain)
    }

    /// Computes the checksum over parts that follow each other.
    pub fn checksum(&self, usage: u32, parts: &[&[u8]]) -> Checksum {
        let key = self.derive(usage, Purpose::Checksum);
        let tag = hmac_parts(self.etype, key.bytes(), parts);
        let mut checksum = Checksum { bytes: [0; 24], len: self.etype.checksum_len() };
        checksum.bytes[..checksum.len].copy_from_slice(&tag.as_ref()[..checksum.len]);
        checksum
    }

    /// Compares a checksum in constant time. One that is shorter or longer is wrong.
    pub fn verify(&self, usage: u32, parts: &[&[u8]], checksum: &[u8]) -> Result<(), Integrity> {
        compare(&self.checksum(usage, parts), checksum)
    }

    /// Computes the pseudo-random function of the type (RFC 3962 6, RFC 8009 5): 16, 32 or 48 bytes.
    pub fn pseudo_random(&self, input: &[u8]) -> Zeroizing<Vec<u8>> {
        let out = match self.etype {
            Etype::Aes128Sha1 | Etype::Aes256Sha1 => {
                let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, input);
                let mut block = [0; BLOCK_LEN];
                block.copy_from_slice(&hash.as_ref()[..BLOCK_LEN]);
                let key = derive_labelled(self.etype, self.bytes(), b"prf", self.etype.key_len());
                Cipher::new(key.bytes()).encrypt_block(&mut block);
                block.to_vec()
            }
            Etype::Aes128Sha256 => {
                kdf_hmac_sha2(self.etype, self.bytes(), b"prf", input, 32).as_ref().to_vec()
            }
            Etype::Aes256Sha384 => {
                kdf_hmac_sha2(self.etype, self.bytes(), b"prf", input, 48).as_ref().to_vec()
            }
        };
        Zeroizing::new(out)
    }

    fn derive(&self, usage: u32, purpose: Purpose) -> super::derive::Derived {
        derive(self.etype, self.bytes(), usage, purpose)
    }

    fn cipher(&self, usage: u32) -> Cipher {
        Cipher::new(self.derive(usage, Purpose::Encryption).bytes())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.etype)
    }
}

/// Two keys are the same where type and bytes are; compared in constant time.
impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.etype == other.etype && compare(self.bytes(), other.bytes()).is_ok()
    }
}

impl Eq for Key {}

/// A keyed checksum of 12 to 24 bytes.
#[derive(Clone, Copy)]
pub struct Checksum {
    bytes: [u8; 24],
    len: usize,
}

impl std::ops::Deref for Checksum {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A checksum is wrong: other bytes, another key, or what is signed was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a checksum is wrong")]
pub struct Integrity;

/// A key has another length than its type's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key of {} has {len} bytes", super::etype_name(*.etype))]
pub struct KeyLength {
    /// Number of the key's type.
    pub etype: i32,
    /// Length of the key, bytes.
    pub len: usize,
}

/// Reason why bytes that came with a number of an encryption type are no [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyRefused {
    /// The type is not used.
    #[error(transparent)]
    Etype(#[from] EtypeRefused),
    /// The type's keys have another length.
    #[error(transparent)]
    Length(#[from] KeyLength),
}

fn compare(expected: &[u8], found: &[u8]) -> Result<(), Integrity> {
    constant_time::verify_slices_are_equal(expected, found).map_err(|_| Integrity)
}
