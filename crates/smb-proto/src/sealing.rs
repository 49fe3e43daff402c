//! Encryption (MS-SMB2 3.1.4.3, 3.3.5.2.1.1): a frame is sealed and opened where it lies.

use aes::cipher::{BlockCipherEncrypt, BlockSizeUser};
use aes::{Aes128, Aes256};
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ccm::aead::array::Array;
use ccm::aead::{AeadInOut, KeyInit};
use ccm::consts::{U11, U16};
use smb_wire::Malformed;
use smb_wire::transform::{AUTHENTICATED_AT, TRANSFORM_LEN, TransformHeader};
use zerocopy::IntoBytes;

use crate::ccm_parts::{self, Parts, Running};

/// Cipher of a connection: the values of SMB2_ENCRYPTION_CAPABILITIES (MS-SMB2 2.2.3.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Cipher {
    /// All that 3.0 and 3.0.2 know.
    Aes128Ccm = 1,
    /// The fastest.
    Aes128Gcm = 2,
    /// CCM with the longer key.
    Aes256Ccm = 3,
    /// GCM with the longer key.
    Aes256Gcm = 4,
}

impl Cipher {
    /// Ciphers by preference.
    pub const PREFERRED: [Self; 4] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::Aes128Ccm, Self::Aes256Ccm];

    /// Returns the cipher of a wire value; `None` where there is none.
    pub fn from_wire(value: u16) -> Option<Self> {
        Self::PREFERRED.into_iter().find(|cipher| *cipher as u16 == value)
    }

    /// Returns the first of `ours` that is offered. None is no refusal: the answer is 0, and nothing is encrypted.
    pub fn choose(offered: impl IntoIterator<Item = u16>, ours: &[Self]) -> Option<Self> {
        let offered: Vec<_> = offered.into_iter().collect();
        ours.iter().copied().find(|cipher| offered.contains(&(*cipher as u16)))
    }

    /// Returns the number of bytes of a key.
    pub fn key_len(self) -> usize {
        match self {
            Self::Aes128Ccm | Self::Aes128Gcm => 16,
            Self::Aes256Ccm | Self::Aes256Gcm => 32,
        }
    }

    /// Returns the number of bytes of the header's nonce that count.
    fn nonce_len(self) -> usize {
        match self {
            Self::Aes128Ccm | Self::Aes256Ccm => 11,
            Self::Aes128Gcm | Self::Aes256Gcm => 12,
        }
    }
}

/// Nonces of one channel in one direction. Channels of a session share its keys, so each has a number of its own in
/// front of its count: no lane has to ask another.
#[derive(Debug)]
pub struct Nonces {
    channel: [u8; 3],
    next: u64,
}

/// The channel has sealed 2⁶⁴ messages, or has a number that no nonce has room for: it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no nonce is left")]
pub struct NoNonce;

impl Nonces {
    /// Creates the nonces of a channel by its number within its session, below 2²⁴ and never given to another while
    /// the keys live.
    pub fn new(channel: u32) -> Result<Self, NoNonce> {
        let [low, mid, high, 0] = channel.to_le_bytes() else { return Err(NoNonce) };
        Ok(Self { channel: [low, mid, high], next: 0 })
    }

    /// Takes the next nonce.
    fn take(&mut self) -> Result<[u8; 16], NoNonce> {
        //= MS-SMB2 3.1.4.3
        //# A nonce is not used for any other encrypted message within the session.
        let count = self.next;
        self.next = count.checked_add(1).ok_or(NoNonce)?;
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&count.to_le_bytes());
        nonce[8..11].copy_from_slice(&self.channel);
        Ok(nonce)
    }
}

/// A key of one direction.
pub struct SealingKey {
    cipher: Cipher,
    key: Kind,
}

enum Kind {
    Gcm(Box<LessSafeKey>),
    Ccm128(Box<CcmKey<Aes128>>),
    Ccm256(Box<CcmKey<Aes256>>),
}

/// A key for messages that are whole, and for those that come in parts.
struct CcmKey<A: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>> {
    whole: ccm::Ccm<A, U16, U11>,
    parts: A,
}

impl<A> CcmKey<A>
where
    A: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Clone,
{
    fn new(key: &[u8]) -> Box<Self> {
        let parts = A::new_from_slice(key).expect("a key of the cipher's length");
        Box::new(Self { whole: parts.clone().into(), parts })
    }
}

/// A frame that is sealed by parts.
pub struct ByParts<'a> {
    header: TransformHeader,
    running: Running<'a>,
}

impl ByParts<'_> {
    /// Size of which the parts before the last are multiples.
    pub const UNIT: usize = ccm_parts::BLOCK_LEN;

    /// Continues the message with `part`, which is sealed where it lies.
    ///
    /// # Panics
    /// If it is longer than what was announced, or not the last and no multiple of [`ByParts::UNIT`].
    pub fn update(&mut self, part: &mut [u8]) {
        self.running.update(part);
    }

    /// Finishes the sealing, as all parts are whole: the header that stands before them.
    ///
    /// # Panics
    /// If they are not.
    pub fn finish(self) -> TransformHeader {
        TransformHeader { signature: self.running.finish(), ..self.header }
    }
}

impl SealingKey {
    /// Creates a key of as many bytes as the cipher has.
    ///
    /// # Panics
    /// If there are more or less.
    pub fn new(cipher: Cipher, key: &[u8]) -> Self {
        let gcm = |algorithm| {
            let key = UnboundKey::new(algorithm, key).expect("a key of the cipher's length");
            Kind::Gcm(Box::new(LessSafeKey::new(key)))
        };
        let key = match cipher {
            Cipher::Aes128Gcm => gcm(&AES_128_GCM),
            Cipher::Aes256Gcm => gcm(&AES_256_GCM),
            Cipher::Aes128Ccm => Kind::Ccm128(CcmKey::new(key)),
            Cipher::Aes256Ccm => Kind::Ccm256(CcmKey::new(key)),
        };
        Self { cipher, key }
    }

    /// Seals a frame: room for the header, and behind it the messages.
    ///
    /// # Panics
    /// If there is no room for the header, or the frame is of 4 GiB or more.
    pub fn seal(&self, session_id: u64, nonces: &mut Nonces, frame: &mut [u8]) -> Result<(), NoNonce> {
        let nonce = nonces.take()?;
        self.seal_with(session_id, nonce, frame);
        Ok(())
    }

    /// Begins to seal a frame with `len` bytes of messages by parts, for a caller that has reason to pause
    /// between them; `None` where the cipher takes a frame whole, and takes no time for it.
    ///
    /// # Panics
    /// If the frame is of 4 GiB or more.
    pub fn begin(
        &self,
        session_id: u64,
        nonces: &mut Nonces,
        len: usize,
    ) -> Result<Option<ByParts<'_>>, NoNonce> {
        let mut header = || {
            let len = u32::try_from(len).expect("a frame is shorter than 4 GiB");
            Ok(TransformHeader::new(session_id, nonces.take()?, len))
        };
        let nonce = |header: &TransformHeader| *header.nonce.first_chunk().expect("11 of 16 bytes");
        Ok(Some(match &self.key {
            Kind::Gcm(_) => return Ok(None),
            Kind::Ccm128(key) => {
                let header = header()?;
                let parts = Parts::begin(&key.parts, &nonce(&header), &authenticated(&header), len);
                ByParts { header, running: Running::Aes128(parts) }
            }
            Kind::Ccm256(key) => {
                let header = header()?;
                let parts = Parts::begin(&key.parts, &nonce(&header), &authenticated(&header), len);
                ByParts { header, running: Running::Aes256(parts) }
            }
        }))
    }

    fn seal_with(&self, session_id: u64, nonce: [u8; 16], frame: &mut [u8]) {
        let (head, message) = frame.split_at_mut(TRANSFORM_LEN);
        let len = u32::try_from(message.len()).expect("a frame is shorter than 4 GiB");
        let mut header = TransformHeader::new(session_id, nonce, len);
        let aad = authenticated(&header);
        let nonce = &nonce[..self.cipher.nonce_len()];
        header.signature = match &self.key {
            Kind::Gcm(key) => {
                let nonce = Nonce::try_assume_unique_for_key(nonce).expect("12 bytes");
                let tag = key.seal_in_place_separate_tag(nonce, Aad::from(aad), message);
                *tag.expect("no frame is too long").as_ref().first_chunk().expect("a tag of 16 bytes")
            }
            Kind::Ccm128(key) => seal_ccm(&key.whole, nonce, &aad, message),
            Kind::Ccm256(key) => seal_ccm(&key.whole, nonce, &aad, message),
        };
        head.copy_from_slice(header.as_bytes());
    }

    /// Opens a frame, and says where the messages begin: what lies behind the header is plain then.
    ///
    /// # Errors
    /// The frame was not sealed with this key, or was changed. What it holds is then of no use, and the connection ends
    /// (MS-SMB2 3.3.5.2.1.1).
    pub fn open<'a>(&self, frame: &'a mut [u8]) -> Result<&'a mut [u8], Malformed> {
        let (header, _) = TransformHeader::parse(frame)?;
        let header = *header;
        let (_, message) = frame.split_at_mut(TRANSFORM_LEN);
        let aad = authenticated(&header);
        let nonce = &header.nonce[..self.cipher.nonce_len()];
        let opened = match &self.key {
            Kind::Gcm(key) => {
                let nonce = Nonce::try_assume_unique_for_key(nonce).expect("12 bytes");
                key.open_in_place_separate_tag(nonce, Aad::from(aad), &header.signature, message).is_ok()
            }
            Kind::Ccm128(key) => open_ccm(&key.whole, nonce, &aad, message, &header.signature),
            Kind::Ccm256(key) => open_ccm(&key.whole, nonce, &aad, message, &header.signature),
        };
        if opened { Ok(message) } else { Err(Malformed::Protocol) }
    }
}

/// Returns what of a header is authenticated.
fn authenticated(header: &TransformHeader) -> [u8; TRANSFORM_LEN - AUTHENTICATED_AT] {
    //= MS-SMB2 3.1.4.3
    //# The header without ProtocolId and Signature is authenticated.
    *header.as_bytes().last_chunk().expect("a part of the header")
}

fn seal_ccm<A>(key: &A, nonce: &[u8], aad: &[u8], message: &mut [u8]) -> [u8; 16]
where
    A: AeadInOut<NonceSize = U11, TagSize = U16>,
{
    let nonce = Array::try_from(nonce).expect("11 bytes");
    key.encrypt_inout_detached(&nonce, aad, message.into()).expect("no frame is too long").into()
}

fn open_ccm<A>(key: &A, nonce: &[u8], aad: &[u8], message: &mut [u8], tag: &[u8; 16]) -> bool
where
    A: AeadInOut<NonceSize = U11, TagSize = U16>,
{
    let nonce = Array::try_from(nonce).expect("11 bytes");
    key.decrypt_inout_detached(&nonce, aad, message.into(), tag.into()).is_ok()
}

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SealingKey({:?})", self.cipher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    /// Both of Microsoft's published requests (2012, 2015): sealed to the byte, and opened again.
    #[test]
    fn published_frames_come_out() {
        let frames = [
            (
                Cipher::Aes128Ccm,
                "261B72350558F2E9DCF613070383EDBF",
                0x0008_E400_1400_0011,
                "66E69A111892584FB5ED524A744DA3EE",
                concat!(
                    "FE534D4240000100000000000900400008000000000000000400000000000000",
                    "FFFE0000010000001100001400E4080000000000000000000000000000000000",
                    "3100700017000000000000000000000015010000390000020100000039020000",
                    "00000000000000007000000000000000536D623320656E6372797074696F6E20",
                    "74657374696E67"
                ),
                concat!(
                    "FD534D4281A286535415445DAE393921E44FA42E66E69A111892584FB5ED524A",
                    "744DA3EE87000000000001001100001400E4080025C8FEE16605A437832D1CD5",
                    "2DA9F4645333482A175FE5384563F45FCDAFAEF38BC62BA4D5C62897996625A4",
                    "4C29BE5658DE2E6117585779E7B59FFD971278D08580D7FA899E410E910EABF5",
                    "AA1DB43050B33B49182637759AC15D84BFCDF5B6B238993C0F4CF4D6012023F6",
                    "C627297075D84B7803912D0A9639634453595EF3E33FFE4E7AC2AB"
                ),
            ),
            (
                Cipher::Aes128Gcm,
                "A2F5E80E5D59103034F32E52F698E5EC",
                0x1000_0000_0025,
                "C7D6822D269CAF48904C664C00000000",
                concat!(
                    "FE534D4240000100000000000900010008000000000000000500000000000000FFFE000001000000",
                    "25000000001000000000000000000000000000000000000031007000170000000000000000000000",
                    "0600000004000000010000000400000000000000000000007000000000000000536D623320656E63",
                    "72797074696F6E2074657374696E67"
                ),
                concat!(
                    "FD534D42BD73D97D2BC9001BCAFAC0FDFF5FEEBCC7D6822D269CAF48904C664C0000000087000000",
                    "0000010025000000001000006ECDD2A7AFC7B47763057A041B8FD4DAFFE990B70C9E09D36C084E02",
                    "D14EF247F8BDE38ACF6256F8B1D3B56F77FBDEB312FEA5E92CBCC1ED8FB2EBBFAA75E49A4A394BB4",
                    "4576545567C24D4C014D47C9FBDFDAFD2C4F9B72F8D256452620A299F48E29E53D6B61D1C13A19E9",
                    "1AF013F00D17E3ABC2FC3D36C8C1B6B93973253852DBD442E46EE8"
                ),
            ),
        ];
        for (cipher, key, session_id, nonce, message, sealed) in frames {
            let key = SealingKey::new(cipher, &hex(key));
            let nonce = hex(nonce).try_into().unwrap();
            let mut frame = [vec![0; TRANSFORM_LEN], hex(message)].concat();
            key.seal_with(session_id, nonce, &mut frame);
            assert_eq!(frame, hex(sealed), "{cipher:?}");
            assert_eq!(key.open(&mut frame).unwrap(), hex(message));
        }
    }

    #[test]
    fn what_is_sealed_by_parts_is_sealed_as_if_it_were_whole() {
        for cipher in Cipher::PREFERRED {
            let key = SealingKey::new(cipher, &vec![5; cipher.key_len()]);
            for len in [0, 1, 15, 16, 17, 100, 4096, 4097] {
                for step in [16, 48, 1024, 1 << 20] {
                    let message: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
                    let mut whole = [vec![0; TRANSFORM_LEN], message.clone()].concat();
                    key.seal(9, &mut Nonces::new(7).unwrap(), &mut whole).unwrap();
                    let mut nonces = Nonces::new(7).unwrap();
                    let Some(mut by_parts) = key.begin(9, &mut nonces, len).unwrap() else {
                        assert!(matches!(cipher, Cipher::Aes128Gcm | Cipher::Aes256Gcm));
                        assert_eq!(nonces.next, 0, "no nonce is lost");
                        continue;
                    };
                    let mut sealed = message;
                    sealed.chunks_mut(step).for_each(|part| by_parts.update(part));
                    let head = by_parts.finish();
                    assert_eq!([head.as_bytes(), &sealed].concat(), whole, "{cipher:?} {len} {step}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a part ends with a block")]
    fn a_part_that_ends_within_a_block_is_a_defect() {
        let key = SealingKey::new(Cipher::Aes128Ccm, &[5; 16]);
        let by_parts = key.begin(9, &mut Nonces::new(7).unwrap(), 100).unwrap();
        by_parts.unwrap().update(&mut [0; 50]);
    }

    #[test]
    fn what_was_changed_on_its_way_is_not_opened() {
        for cipher in Cipher::PREFERRED {
            let key = SealingKey::new(cipher, &vec![5; cipher.key_len()]);
            let mut nonces = Nonces::new(7).unwrap();
            let message: Vec<u8> = (0..200).collect();
            let mut frame = [vec![0; TRANSFORM_LEN], message.clone()].concat();
            key.seal(9, &mut nonces, &mut frame).unwrap();
            assert_eq!(key.open(&mut frame.clone()).unwrap(), message);
            let unused = 20 + cipher.nonce_len()..36;
            for at in (0..frame.len()).filter(|at| !unused.contains(at)) {
                let mut bent = frame.clone();
                bent[at] ^= 1;
                assert!(key.open(&mut bent).is_err(), "{cipher:?} {at}");
            }
            assert!(key.open(&mut frame[..100]).is_err());
            let other = SealingKey::new(cipher, &vec![6; cipher.key_len()]);
            assert!(other.open(&mut frame).is_err());
        }
    }

    #[test]
    fn no_two_nonces_of_a_session_are_alike() {
        let mut one = Nonces::new(1).unwrap();
        let mut two = Nonces::new(2).unwrap();
        let nonces = [one.take(), one.take(), two.take(), two.take()].map(Result::unwrap);
        let different: std::collections::HashSet<_> = nonces.iter().map(|nonce| &nonce[..11]).collect();
        assert_eq!(different.len(), 4);
        one.next = u64::MAX;
        assert_eq!(one.take(), Err(NoNonce));
        assert!(Nonces::new(1 << 24).is_err());
    }

    #[test]
    fn the_cipher_is_ours_among_the_offered() {
        assert_eq!(Cipher::choose([1, 2, 9], &Cipher::PREFERRED), Some(Cipher::Aes128Gcm));
        assert_eq!(Cipher::choose([3], &Cipher::PREFERRED), Some(Cipher::Aes256Ccm));
        assert_eq!(Cipher::choose([9], &Cipher::PREFERRED), None);
        assert_eq!(Cipher::from_wire(4), Some(Cipher::Aes256Gcm));
    }
}
