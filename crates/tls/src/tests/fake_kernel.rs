//! Stand-in for the kernel's TLS, which reads the bytes that setsockopt gets and seals as Linux' software TLS
//! does. HTTP's simulation includes this file too.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

/// Sending half of a TLS_TX socket (Linux, tls_sw): one record per call of at most 16 KiB.
pub(crate) struct FakeKernel {
    key: LessSafeKey,
    /// Salt and IV, the nonce's starting point.
    iv: [u8; 12],
    /// Sequence number of the next record.
    pub(crate) seq: u64,
    tls12_gcm: bool,
    tls13: bool,
}

impl FakeKernel {
    /// Takes the bytes of a `tls12_crypto_info_*`.
    pub(crate) fn set_tx(bytes: &[u8]) -> Self {
        let number = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let (algorithm, key_len, iv_len) = match number(2) {
            51 => (&AES_128_GCM, 16, 8),
            52 => (&AES_256_GCM, 32, 8),
            54 => (&CHACHA20_POLY1305, 32, 12),
            other => panic!("cipher {other}"),
        };
        let (tail, rest) = bytes[4..].split_at(iv_len);
        let (key, rest) = rest.split_at(key_len);
        let (salt, seq) = rest.split_at(12 - iv_len);
        let tls13 = number(0) == 0x0304;
        Self {
            key: LessSafeKey::new(UnboundKey::new(algorithm, key).unwrap()),
            iv: [salt, tail].concat().try_into().unwrap(),
            seq: u64::from_be_bytes(seq.try_into().unwrap()),
            tls12_gcm: !tls13 && iv_len == 8,
            tls13,
        }
    }

    /// Seals `plain` as records of this type.
    pub(crate) fn send(&mut self, content_type: u8, plain: &[u8]) -> Vec<u8> {
        plain.chunks(16 << 10).flat_map(|plain| self.record(content_type, plain)).collect()
    }

    fn record(&mut self, content_type: u8, plain: &[u8]) -> Vec<u8> {
        let mut nonce = self.iv;
        let mut text = plain.to_vec();
        let mut explicit = Vec::new();
        if self.tls12_gcm {
            explicit = nonce[4..].to_vec();
            let tail = u64::from_be_bytes(nonce[4..].try_into().unwrap()).wrapping_add(1);
            self.iv[4..].copy_from_slice(&tail.to_be_bytes());
        } else {
            nonce[4..].iter_mut().zip(self.seq.to_be_bytes()).for_each(|(byte, seq)| *byte ^= seq);
        }
        if self.tls13 {
            text.push(content_type);
        }
        let wire_type = if self.tls13 { 23 } else { content_type };
        let wire_len = ((explicit.len() + text.len() + 16) as u16).to_be_bytes();
        let header = [&[wire_type, 3, 3][..], &wire_len].concat();
        let plain_len = (plain.len() as u16).to_be_bytes();
        let aad = if self.tls13 {
            header.clone()
        } else {
            [&self.seq.to_be_bytes()[..], &[content_type, 3, 3], &plain_len].concat()
        };
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(aad), &mut text).unwrap();
        self.seq += 1;
        [header, explicit, text, tag.as_ref().to_vec()].concat()
    }
}
