//! AES-CCM (RFC 3610) as SMB has it, for a message that comes in parts: a nonce of 11 bytes, a tag of 16.
//!
//! The library that there is takes a message whole, and goes through it twice. Nothing but the length has to be
//! known ahead, though: each part is authenticated, then encrypted, and the lane may do something else before the next.

use aes::cipher::common::{BlockSizeUser, InnerIvInit};
use aes::cipher::consts::U16;
use aes::cipher::inout::InOut;
use aes::cipher::{Array, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, StreamCipher};
use aes::{Aes128, Aes256};
use ctr::{Ctr32BE, CtrCore};

type Block = Array<u8, U16>;

/// Bytes of a block; each part but the last is a multiple of it.
pub(crate) const BLOCK_LEN: usize = 16;
/// Bytes of the nonce.
pub(crate) const NONCE_LEN: usize = 11;

/// A message in the making.
pub(crate) enum Running<'a> {
    Aes128(Parts<'a, Aes128>),
    Aes256(Parts<'a, Aes256>),
}

impl Running<'_> {
    /// Continues the message with `part`, which is encrypted where it lies.
    pub(crate) fn update(&mut self, part: &mut [u8]) {
        match self {
            Self::Aes128(parts) => parts.update(part),
            Self::Aes256(parts) => parts.update(part),
        }
    }

    /// Ends the message, and returns its tag.
    pub(crate) fn finish(self) -> [u8; 16] {
        match self {
            Self::Aes128(parts) => parts.finish(),
            Self::Aes256(parts) => parts.finish(),
        }
    }
}

/// AES-CCM over parts, with a key of one length.
pub(crate) struct Parts<'a, A: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>> {
    cipher: &'a A,
    /// CBC-MAC of what came.
    mac: Block,
    stream: Ctr32BE<&'a A>,
    /// Mask that hides the tag.
    mask: [u8; 16],
    /// Bytes that are to come.
    left: usize,
}

impl<'a, A: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>> Parts<'a, A> {
    /// Begins a message of `len` bytes, which `head` is authenticated with.
    ///
    /// # Panics
    /// If `head` is empty or longer than 65,279 bytes, or the message of 4 GiB or more.
    pub(crate) fn begin(cipher: &'a A, nonce: &[u8; NONCE_LEN], head: &[u8], len: usize) -> Self {
        let (message_len, head_len) = (u32::try_from(len), u16::try_from(head.len()));
        let message_len = message_len.expect("a message is shorter than 4 GiB");
        let head_len = head_len.ok().filter(|len| (1..0xff00).contains(len)).expect("a part of a header");
        let mut counter = Block::default();
        counter[0] = LENGTH_OF_LENGTH - 1;
        counter[1..12].copy_from_slice(nonce);
        let mut stream = Ctr32BE::from_core(CtrCore::inner_iv_init(cipher, &counter));
        // The first block of the stream is the tag's.
        let mut mask = [0; 16];
        stream.apply_keystream(&mut mask);
        let mut first = counter;
        first[0] |= HAS_HEAD | ((mask.len() as u8 - 2) / 2) << 3;
        first[12..].copy_from_slice(&message_len.to_be_bytes());
        let mut me = Self { cipher, mac: Block::default(), stream, mask, left: len };
        me.authenticate(&first);
        me.authenticate(&[&head_len.to_be_bytes()[..], head].concat());
        me
    }

    fn update(&mut self, part: &mut [u8]) {
        self.left = self.left.checked_sub(part.len()).expect("no more than was said");
        assert!(self.left == 0 || part.len().is_multiple_of(BLOCK_LEN), "a part ends with a block");
        self.authenticate(part);
        self.stream.apply_keystream(part);
    }

    fn finish(self) -> [u8; 16] {
        assert_eq!(self.left, 0, "the message is whole");
        let mut tag = self.mask;
        tag.iter_mut().zip(self.mac).for_each(|(tag, mac)| *tag ^= mac);
        tag
    }

    /// Goes on with the CBC-MAC; the last block is filled up with zeros.
    fn authenticate(&mut self, bytes: &[u8]) {
        let (blocks, rest) = Block::slice_as_chunks(bytes);
        self.cipher.encrypt_with_backend(Chain { mac: &mut self.mac, blocks });
        if !rest.is_empty() {
            let mut last = Block::default();
            last[..rest.len()].copy_from_slice(rest);
            self.cipher.encrypt_with_backend(Chain { mac: &mut self.mac, blocks: &[last] });
        }
    }
}

/// Blocks of a CBC-MAC, all of them within one call of the cipher.
struct Chain<'a> {
    mac: &'a mut Block,
    blocks: &'a [Block],
}

impl BlockSizeUser for Chain<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Chain<'_> {
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        for block in self.blocks {
            self.mac.iter_mut().zip(block).for_each(|(mac, byte)| *mac ^= byte);
            backend.encrypt_block(InOut::from(&mut *self.mac));
        }
    }
}

/// Bytes of a message's length, which the nonce leaves.
const LENGTH_OF_LENGTH: u8 = 15 - NONCE_LEN as u8;
/// Bit of the first block's flags: something is authenticated beside the message.
const HAS_HEAD: u8 = 0x40;
