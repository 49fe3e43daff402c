//! AES-128-GMAC (RFC 4543) over parts that lie apart.
//!
//! aws-lc makes the tag of one slice at 25 GB/s and knows no other way; the incremental GHASH that there is
//! comes to a tenth of that. GHASH is linear: with Z(X) the hash of X multiplied by its key H once more, and
//! B of `n` whole blocks, Z(A ‖ B) = Z(A)·Hⁿ ⊕ Z(B). Long runs of blocks are therefore hashed by aws-lc, each
//! as if it were a message of its own whose mask and length are taken off again, and what lies between them
//! by the other; a few products put them together. Tags of parts are never revealed, so that they share a
//! nonce gives nothing away.

use aes::cipher::{BlockCipherEncrypt, KeyInit as _};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use zeroize::Zeroizing;

type Block = [u8; 16];

/// Shortest run that is given to aws-lc, bytes.
const RUN_MIN: usize = 512;
/// Powers of H that are kept: up to 2²⁰ blocks, which is as long as a frame.
const POWERS: usize = 21;

pub(crate) struct GmacKey {
    gcm: LessSafeKey,
    /// H to the power of 2ⁱ.
    powers: Zeroizing<[Block; POWERS]>,
}

impl GmacKey {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        let gcm = UnboundKey::new(&AES_128_GCM, key).expect("16 bytes are a key of AES-128");
        let mut h = ghash::Block::default();
        aes::Aes128::new(key.into()).encrypt_block(&mut h);
        let mut powers = Zeroizing::new([[0; 16]; POWERS]);
        powers[0] = h.into();
        for at in 1..POWERS {
            powers[at] = multiply(powers[at - 1], &powers[at - 1]);
        }
        Self { gcm: LessSafeKey::new(gcm), powers }
    }

    /// Begins the tag of a message that comes in parts.
    pub(crate) fn begin(&self, nonce: [u8; 12]) -> Running<'_> {
        let mask = self.tag(nonce, &[]);
        Running { key: self, nonce, mask, z: [0; 16], rest: [0; 16], rest_len: 0, len: 0 }
    }

    /// Computes the tag of a message that lies in one piece; of nothing it is the mask.
    fn tag(&self, nonce: [u8; 12], message: &[u8]) -> Block {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.gcm.seal_in_place_separate_tag(nonce, Aad::from(message), &mut []);
        *tag.expect("no frame is too long").as_ref().first_chunk().expect("a tag of 16 bytes")
    }

    /// Returns `z` times H to the power of `blocks`.
    fn shift(&self, mut z: Block, blocks: usize) -> Block {
        debug_assert!(blocks < 1 << POWERS);
        for (at, power) in self.powers.iter().enumerate() {
            if blocks >> at & 1 == 1 {
                z = multiply(z, power);
            }
        }
        z
    }
}

/// A tag in the making.
pub(crate) struct Running<'a> {
    key: &'a GmacKey,
    nonce: [u8; 12],
    mask: Block,
    z: Block,
    /// Bytes that do not make a block yet.
    rest: Block,
    rest_len: usize,
    len: u64,
}

impl Running<'_> {
    pub(crate) fn update(&mut self, mut part: &[u8]) {
        self.len += part.len() as u64;
        if self.rest_len > 0 {
            let taken = part.len().min(16 - self.rest_len);
            self.rest[self.rest_len..self.rest_len + taken].copy_from_slice(&part[..taken]);
            self.rest_len += taken;
            part = &part[taken..];
            if self.rest_len < 16 {
                return;
            }
            let block = std::mem::take(&mut self.rest);
            self.rest_len = 0;
            self.blocks(&block);
        }
        let (whole, rest) = part.split_at(part.len() & !15);
        self.blocks(whole);
        self.rest[..rest.len()].copy_from_slice(rest);
        self.rest_len = rest.len();
    }

    fn blocks(&mut self, run: &[u8]) {
        if run.is_empty() {
            return;
        }
        let z = if run.len() >= RUN_MIN {
            let tag = self.key.tag(self.nonce, run);
            xor(xor(tag, self.mask), multiply(lengths(run.len() as u64), &self.key.powers[0]))
        } else {
            let mut hash = GHash::new((&self.key.powers[0]).into());
            hash.update_padded(run);
            // One more block of zeros is one more product by H.
            hash.update_padded(&[0; 16]);
            hash.finalize().into()
        };
        self.z = xor(self.key.shift(self.z, run.len() / 16), z);
    }

    pub(crate) fn finish(mut self) -> Block {
        let len = self.len;
        if self.rest_len > 0 {
            // What fills the last block is zero.
            let mut block = [0; 16];
            block[..self.rest_len].copy_from_slice(&self.rest[..self.rest_len]);
            self.blocks(&block);
        }
        xor(xor(self.z, self.mask), multiply(lengths(len), &self.key.powers[0]))
    }
}

/// Returns GHASH's last block where nothing is encrypted: bits of what is authenticated, and none.
fn lengths(len: u64) -> Block {
    let mut block = [0; 16];
    block[..8].copy_from_slice(&(8 * len).to_be_bytes());
    block
}

fn xor(a: Block, b: Block) -> Block {
    (u128::from_ne_bytes(a) ^ u128::from_ne_bytes(b)).to_ne_bytes()
}

/// Computes a product in GHASH's field: the hash of one block by that key.
fn multiply(a: Block, b: &Block) -> Block {
    let mut hash = GHash::new(b.into());
    hash.update_padded(&a);
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag_of(key: &GmacKey, nonce: [u8; 12], parts: &[&[u8]]) -> Block {
        let mut hash = key.begin(nonce);
        parts.iter().for_each(|part| hash.update(part));
        hash.finish()
    }

    #[test]
    fn parts_have_the_tag_of_the_whole() {
        let key = GmacKey::new(&[7; 16]);
        let message: Vec<u8> = (0..5000u32).map(|at| (at * 31 / 8) as u8).collect();
        for len in [0, 1, 15, 16, 17, 80, 511, 512, 513, 4096, 4111, 5000] {
            let message = &message[..len];
            let whole = key.tag([3; 12], message);
            for cut in [0, 1, 7, 16, 64, 80, 600, 1024, 4095].map(|cut| cut.min(len)) {
                for second in [cut, (cut + 5).min(len), (cut + 1500).min(len)] {
                    let parts = [&message[..cut], &message[cut..second], &message[second..]];
                    assert_eq!(tag_of(&key, [3; 12], &parts), whole, "{len} {cut} {second}");
                }
            }
        }
    }

    #[test]
    fn a_long_part_is_put_together_right() {
        let key = GmacKey::new(&[9; 16]);
        let message = vec![0x5a; (1 << 20) + 80];
        let parts = [&message[..80], &message[80..]];
        assert_eq!(tag_of(&key, [1; 12], &parts), key.tag([1; 12], &message));
    }
}
