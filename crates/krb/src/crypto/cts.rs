//! AES in CBC mode with ciphertext stealing (CBC-CS3, RFC 3962 5), from an initial vector of zeros.

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes256, Block};
use zeroize::{Zeroize, Zeroizing};

/// Length of a block, bytes.
pub(super) const BLOCK_LEN: usize = 16;

/// A key that is ready for use. It is wiped when dropped.
pub(super) enum Cipher {
    Aes128(Box<Aes128>),
    Aes256(Box<Aes256>),
}

impl Cipher {
    /// Creates the cipher of a key of 16 or 32 bytes.
    pub(super) fn new(key: &[u8]) -> Self {
        match key.len() {
            16 => Self::Aes128(Box::new(Aes128::new_from_slice(key).expect("a key of 16 bytes"))),
            _ => Self::Aes256(Box::new(Aes256::new_from_slice(key).expect("a key of 16 or 32 bytes"))),
        }
    }

    /// Encrypts one block in place.
    pub(super) fn encrypt_block(&self, block: &mut [u8; BLOCK_LEN]) {
        match self {
            Self::Aes128(aes) => aes.encrypt_block(block.into()),
            Self::Aes256(aes) => aes.encrypt_block(block.into()),
        }
    }

    fn decrypt_blocks(&self, blocks: &mut [Block]) {
        match self {
            Self::Aes128(aes) => aes.decrypt_blocks(blocks),
            Self::Aes256(aes) => aes.decrypt_blocks(blocks),
        }
    }

    /// Encrypts what is at least a block long. Its length stays.
    pub(super) fn encrypt(&self, data: &mut Vec<u8>) {
        let len = data.len();
        assert!(len >= BLOCK_LEN, "a confounder precedes what is encrypted");
        data.resize(len.next_multiple_of(BLOCK_LEN), 0);
        let blocks = data.as_chunks_mut::<BLOCK_LEN>().0;
        let mut last = [0; BLOCK_LEN];
        for block in blocks.iter_mut() {
            xor(block, &last);
            self.encrypt_block(block);
            last = *block;
        }
        if let [.., before, last] = blocks {
            std::mem::swap(before, last);
        }
        data.truncate(len);
    }

    /// Decrypts what [`encrypt`](Self::encrypt) made. `None` where it is shorter than a block.
    pub(super) fn decrypt(&self, data: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let blocks = data.len().div_ceil(BLOCK_LEN);
        let mut cbc = data.to_vec();
        match blocks {
            0 => return None,
            1 if data.len() < BLOCK_LEN => return None,
            1 => {}
            // The last block comes whole before the stolen one, whose rest is what the last block decrypts to.
            _ => {
                let (head, tail) = data.split_at((blocks - 2) * BLOCK_LEN);
                let (last, stolen) = tail.split_at(BLOCK_LEN);
                let mut rest = [Block::try_from(last).expect("a block")];
                self.decrypt_blocks(&mut rest);
                cbc.truncate(head.len());
                cbc.extend(stolen);
                cbc.extend(&rest[0][stolen.len()..]);
                cbc.extend(last);
                rest[0].as_mut_slice().zeroize();
            }
        }
        let mut plain: Vec<Block> =
            cbc.as_chunks::<BLOCK_LEN>().0.iter().map(|block| Block::from(*block)).collect();
        self.decrypt_blocks(&mut plain);
        let mut out = Zeroizing::new(Vec::with_capacity(cbc.len()));
        let mut last = &[0; BLOCK_LEN];
        for (plain, cipher) in plain.iter_mut().zip(cbc.as_chunks::<BLOCK_LEN>().0) {
            out.extend(plain.iter().zip(last).map(|(plain, last)| plain ^ last));
            plain.as_mut_slice().zeroize();
            last = cipher;
        }
        out.truncate(data.len());
        Some(out)
    }
}

fn xor(block: &mut [u8; BLOCK_LEN], other: &[u8; BLOCK_LEN]) {
    block.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::tests::hex;

    #[test]
    fn vectors_of_rfc_3962_appendix_b() {
        let cipher = Cipher::new(b"chicken teriyaki");
        let plain = hex(
            "4920776f756c64206c696b65207468652047656e6572616c20476175277320436869636b656e2c20706c656173652c20\
             616e6420776f6e746f6e20736f75702e",
        );
        for (len, sealed) in [
            (17, "c6353568f2bf8cb4d8a580362da7ff7f97"),
            (31, "fc00783e0efdb2c1d445d4c8eff7ed2297687268d6ecccc0c07b25e25ecfe5"),
            (32, "39312523a78662d5be7fcbcc98ebf5a897687268d6ecccc0c07b25e25ecfe584"),
            (
                47,
                "97687268d6ecccc0c07b25e25ecfe584b3fffd940c16a18c1b5549d2f838029e39312523a78662d5be7fcbcc98ebf5",
            ),
            (
                64,
                "97687268d6ecccc0c07b25e25ecfe58439312523a78662d5be7fcbcc98ebf5a84807efe836ee89a526730dbc2f7bc840\
                 9dad8bbb96c4cdc03bc103e1a194bbd8",
            ),
        ] {
            let mut data = plain[..len].to_vec();
            cipher.encrypt(&mut data);
            assert_eq!(data, hex(sealed), "{len} bytes");
            assert_eq!(*cipher.decrypt(&data).unwrap(), plain[..len]);
        }
    }

    #[test]
    fn every_length_from_a_block_on_comes_back() {
        for key in [&[3; 16][..], &[4; 32]] {
            let cipher = Cipher::new(key);
            for len in 0..100 {
                let plain: Vec<u8> = (0..len).collect();
                if plain.len() < BLOCK_LEN {
                    assert!(cipher.decrypt(&plain).is_none());
                    continue;
                }
                let mut data = plain.clone();
                cipher.encrypt(&mut data);
                assert_eq!(data.len(), plain.len());
                assert_eq!(*cipher.decrypt(&data).unwrap(), plain);
            }
        }
    }
}
