//! What rxkad does to DATA packets: a checksum in each header, and what a level adds to the data.

use std::ops::Range;

use rx::security::{PacketContext, Sealed};
use subtle::ConstantTimeEq as _;

use crate::fcrypt::{BLOCK_LEN, Fcrypt};
use crate::{Code, DesKey, INDEX, Level};

/// Protects and checks the packets of one connection. Both directions are alike: a packet's place in its call tells it from others.
#[derive(Clone, Debug)]
pub struct PacketKey {
    key: DesKey,
    cipher: Fcrypt,
    /// Value of the connection in each header checksum.
    place: u64,
}

impl PacketKey {
    /// Prepares the key of a connection with this epoch and id; the channel in the id does not count.
    pub fn new(key: &DesKey, epoch: u32, cid: u32) -> Self {
        let cipher = Fcrypt::new(key);
        let mut place = [0; 16];
        for (word, bytes) in [epoch, cid & !3, 0, INDEX.into()].iter().zip(place.as_chunks_mut::<4>().0) {
            *bytes = word.to_be_bytes();
        }
        cipher.encrypt(key.number(), &mut place);
        let [_, place] = place.as_chunks::<8>().0 else { unreachable!("16 bytes are two blocks") };
        Self { place: u64::from_be_bytes(*place), key: key.clone(), cipher }
    }

    /// Returns the checksum of a packet's header; never 0.
    pub fn header_checksum(&self, at: &PacketContext) -> u16 {
        let place = at.cid << 30 | at.seq & 0x3fff_ffff;
        let block = u64::from(at.call) << 32 | u64::from(place);
        let sealed = self.cipher.encrypt_block(block ^ self.place);
        ((sealed >> 16) as u16).max(1)
    }

    /// Protects a packet in place, whose data lies behind room for the level's header.
    pub fn seal(
        &self,
        level: Level,
        at: &PacketContext,
        payload: &mut [u8],
        data_len: usize,
    ) -> Result<Sealed, Code> {
        let end = level.header_len() + data_len;
        let len = match level {
            Level::Clear => end,
            Level::Auth => end.max(BLOCK_LEN),
            Level::Crypt => end.next_multiple_of(BLOCK_LEN),
        };
        let payload = payload.get_mut(..len).ok_or(Code::DataLength)?;
        if let Some((head, _)) = payload[..level.header_len()].split_first_chunk_mut::<4>() {
            let data_len = u16::try_from(data_len).map_err(|_| Code::DataLength)?;
            *head = (u32::from(place_of(at)) << 16 | u32::from(data_len)).to_be_bytes();
            payload[4..level.header_len()].fill(0);
            payload[end..].fill(0);
        }
        match level {
            Level::Clear => {}
            Level::Auth => self.cipher.encrypt(0, &mut payload[..BLOCK_LEN]),
            Level::Crypt => self.cipher.encrypt(self.key.number(), payload),
        }
        Ok(Sealed { len, checksum: self.header_checksum(at) })
    }

    /// Checks a received packet, decrypts it in place and returns where its data lies.
    pub fn open(
        &self,
        level: Level,
        at: &PacketContext,
        checksum: u16,
        payload: &mut [u8],
    ) -> Result<Range<usize>, Code> {
        if !bool::from(self.header_checksum(at).ct_eq(&checksum)) {
            return Err(Code::SealedInconsistency);
        }
        match level {
            Level::Clear => return Ok(0..payload.len()),
            Level::Auth => {
                let first = payload.get_mut(..BLOCK_LEN).ok_or(Code::DataLength)?;
                self.cipher.decrypt(0, first);
            }
            Level::Crypt => {
                if payload.is_empty() || !payload.len().is_multiple_of(BLOCK_LEN) {
                    return Err(Code::DataLength);
                }
                self.cipher.decrypt(self.key.number(), payload);
            }
        }
        let head = payload.first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
        if !bool::from(((head >> 16) as u16).ct_eq(&place_of(at))) {
            return Err(Code::SealedInconsistency);
        }
        let start = level.header_len();
        let end = start + (head & 0xffff) as usize;
        if end <= payload.len() { Ok(start..end) } else { Err(Code::DataLength) }
    }
}

/// Returns what stands before the length in a packet of level auth or crypt: the packet's place in its call.
fn place_of(at: &PacketContext) -> u16 {
    (at.seq ^ at.call) as u16
}

#[cfg(test)]
mod tests;
