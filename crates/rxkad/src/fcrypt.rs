//! fcrypt: the block cipher of rxkad, 64-bit blocks under 56 bits of key, and PCBC over it.
//!
//! 56 bits are found by trying, and PCBC has no integrity: what is encrypted with it is neither secret nor safe from change.
//! Table lookups depend on the key; hiding that by time would protect nothing that the key's length does.

mod tables;

use zeroize::Zeroizing;

use crate::DesKey;

/// Bytes of a block.
pub const BLOCK_LEN: usize = 8;

/// The cipher under one key: a Feistel network of 16 rounds. `Debug` tells nothing of the key.
#[derive(Clone)]
pub struct Fcrypt {
    rounds: Zeroizing<[u32; 16]>,
}

impl Fcrypt {
    /// Makes the schedule of a key, whose parity bits do not count.
    pub fn new(key: &DesKey) -> Self {
        let mut bits = key.bytes().iter().fold(0u64, |bits, byte| bits << 7 | u64::from(byte >> 1));
        let mut rounds = Zeroizing::new([0; 16]);
        for round in rounds.iter_mut() {
            *round = bits as u32;
            bits = bits >> 11 | (bits & 0x7ff) << 45;
        }
        Self { rounds }
    }

    /// Encrypts one block, a big-endian number.
    pub fn encrypt_block(&self, block: u64) -> u64 {
        let (mut left, mut right) = ((block >> 32) as u32, block as u32);
        for pair in self.rounds.chunks_exact(2) {
            left ^= mix(right ^ pair[0]);
            right ^= mix(left ^ pair[1]);
        }
        u64::from(left) << 32 | u64::from(right)
    }

    /// Decrypts one block, a big-endian number.
    pub fn decrypt_block(&self, block: u64) -> u64 {
        let (mut left, mut right) = ((block >> 32) as u32, block as u32);
        for pair in self.rounds.rchunks_exact(2) {
            right ^= mix(left ^ pair[1]);
            left ^= mix(right ^ pair[0]);
        }
        u64::from(left) << 32 | u64::from(right)
    }

    /// Encrypts whole blocks in place by PCBC; bytes beyond the last whole block stay as they are.
    pub fn encrypt(&self, iv: u64, data: &mut [u8]) {
        let mut chain = iv;
        for block in data.as_chunks_mut::<BLOCK_LEN>().0 {
            let plain = u64::from_be_bytes(*block);
            let sealed = self.encrypt_block(plain ^ chain);
            *block = sealed.to_be_bytes();
            chain = plain ^ sealed;
        }
    }

    /// Decrypts whole blocks in place by PCBC; bytes beyond the last whole block stay as they are.
    pub fn decrypt(&self, iv: u64, data: &mut [u8]) {
        let mut chain = iv;
        for block in data.as_chunks_mut::<BLOCK_LEN>().0 {
            let sealed = u64::from_be_bytes(*block);
            let plain = self.decrypt_block(sealed) ^ chain;
            *block = plain.to_be_bytes();
            chain = plain ^ sealed;
        }
    }
}

impl std::fmt::Debug for Fcrypt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fcrypt")
    }
}

/// Computes the function of a round.
fn mix(half: u32) -> u32 {
    let [a, b, c, d] = half.to_be_bytes();
    let [first, second, third, fourth] = &PLACED;
    first[usize::from(a)] ^ second[usize::from(b)] ^ third[usize::from(c)] ^ fourth[usize::from(d)]
}

/// The tables, each value at its place in the word.
static PLACED: [[u32; 256]; 4] = placed();

const fn placed() -> [[u32; 256]; 4] {
    let turns = [3, 27, 11, 19];
    let mut out = [[0; 256]; 4];
    let mut at = 0;
    while at < 4 * 256 {
        let (table, byte) = (at / 256, at % 256);
        out[table][byte] = (tables::TABLES[table][byte] as u32).rotate_left(turns[table]);
        at += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(key: u64) -> Fcrypt {
        Fcrypt::new(&DesKey::from_bytes(key.to_be_bytes()))
    }

    #[test]
    fn blocks_are_as_other_implementations_make_them() {
        for (key, plain, sealed) in [
            (0, 0, 0x0e09_00c7_3ef7_ed41),
            (0x1144_77aa_dd00_3366, 0x1234_5678_9abc_def0, 0xd8ed_7874_77ec_0680),
        ] {
            assert_eq!(of(key).encrypt_block(plain), sealed, "{key:x}");
            assert_eq!(of(key).decrypt_block(sealed), plain, "{key:x}");
        }
    }

    #[test]
    fn a_changed_block_changes_all_that_follow_but_an_exchange_of_two_does_not() {
        let (cipher, iv) = (of(0xf0e1_d2c3_b4a5_9687), 7);
        let plain: Vec<u8> = (0..64).collect();
        let mut sealed = plain.clone();
        cipher.encrypt(iv, &mut sealed);
        let mut flipped = sealed.clone();
        flipped[8] ^= 1;
        cipher.decrypt(iv, &mut flipped);
        assert_eq!(flipped[..8], plain[..8]);
        for block in 1..8 {
            assert_ne!(flipped[block * 8..][..8], plain[block * 8..][..8]);
        }
        // The weakness of PCBC that level crypt has: the end does not show it.
        let mut exchanged = [&sealed[..8], &sealed[16..24], &sealed[8..16], &sealed[24..]].concat();
        cipher.decrypt(iv, &mut exchanged);
        assert_eq!(exchanged[24..], plain[24..]);
    }

    #[test]
    fn debug_tells_no_key() {
        assert_eq!(format!("{:?}", of(0x1144_77aa_dd00_3366)), "Fcrypt");
    }

    proptest! {
        #[test]
        fn what_is_encrypted_decrypts(key: u64, iv: u64, data in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut sealed = data.clone();
            of(key).encrypt(iv, &mut sealed);
            prop_assert_eq!(&sealed[data.len() / 8 * 8..], &data[data.len() / 8 * 8..]);
            of(key).decrypt(iv, &mut sealed);
            prop_assert_eq!(sealed, data);
        }

        #[test]
        fn parity_bits_do_not_count(key: u64, parity: u64, block: u64) {
            let flipped = key ^ (parity & 0x0101_0101_0101_0101);
            prop_assert_eq!(of(key).encrypt_block(block), of(flipped).encrypt_block(block));
        }
    }
}
