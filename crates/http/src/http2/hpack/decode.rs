//! Header blocks into fields (RFC 7541 3 and 6).

use super::huffman;
use super::table::Table;

/// One direction's decompression, which every header block of a connection must pass in its order.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: Table,
    /// The field that is being put together.
    scratch: Vec<u8>,
}

/// A block that cannot be decoded: nothing after it can be either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HpackError;

impl Decoder {
    /// Creates a decoder with the table that the peer may use without a setting.
    pub(crate) fn new() -> Self {
        Self { table: Table::new(TABLE_BYTES_MAX), scratch: Vec::new() }
    }

    /// Calls `each` with every field's name and value.
    pub(crate) fn decode(
        &mut self,
        mut block: &[u8],
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        let rest = &mut block;
        let mut may_resize = true;
        while let Some(&first) = rest.first() {
            if first & 0b1110_0000 == 0b0010_0000 {
                let bytes_max = integer(rest, 5)?;
                // RFC 7541 4.2: at a block's beginning alone, and no more than was allowed.
                if !may_resize || bytes_max > TABLE_BYTES_MAX {
                    return Err(HpackError);
                }
                self.table.set_max(bytes_max);
                continue;
            }
            may_resize = false;
            if first & 0b1000_0000 != 0 {
                let (name, value) = self.table.get(integer(rest, 7)?).ok_or(HpackError)?;
                each(name, value);
                continue;
            }
            let is_kept = first & 0b0100_0000 != 0;
            let name = integer(rest, if is_kept { 6 } else { 4 })?;
            self.scratch.clear();
            match name {
                0 => string(rest, &mut self.scratch)?,
                index => self.scratch.extend_from_slice(self.table.get(index).ok_or(HpackError)?.0),
            }
            let name_len = self.scratch.len();
            string(rest, &mut self.scratch)?;
            let (name, value) = self.scratch.split_at(name_len);
            each(name, value);
            if is_kept {
                self.table.insert(name, value);
            }
        }
        // A long field of one request is not held for the next.
        if self.scratch.capacity() > SCRATCH_KEPT_MAX {
            self.scratch = Vec::new();
        }
        Ok(())
    }
}

/// Reads an integer with a prefix of `bits` bits (RFC 7541 5.1).
fn integer(block: &mut &[u8], bits: u32) -> Result<usize, HpackError> {
    let mask = (1usize << bits) - 1;
    let (&first, mut rest) = block.split_first().ok_or(HpackError)?;
    let mut value = usize::from(first) & mask;
    if value == mask {
        let mut shift = 0;
        loop {
            let (&byte, later) = rest.split_first().ok_or(HpackError)?;
            rest = later;
            // Four bytes more name anything that a block of bounded length can hold.
            if shift > 21 {
                return Err(HpackError);
            }
            value += usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *block = rest;
    Ok(value)
}

/// Appends a string (RFC 7541 5.2).
fn string(block: &mut &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let is_huffman = block.first().ok_or(HpackError)? & 0x80 != 0;
    let len = integer(block, 7)?;
    let (text, rest) = block.split_at_checked(len).ok_or(HpackError)?;
    *block = rest;
    if !is_huffman {
        out.extend_from_slice(text);
        return Ok(());
    }
    if huffman::decode(text, out) { Ok(()) } else { Err(HpackError) }
}

//@ limit: tables of HTTP/2 header compression
//@ section: HTTP
//@ unit: byte
//@ connection: {:b} for what the client sends, 1 KiB for what it is sent
//@ empty: the oldest fields are forgotten
//@ counter: none
//@ attack: http-edges
/// SETTINGS_HEADER_TABLE_SIZE by default (RFC 9113 6.5.2), and this side does not.
const TABLE_BYTES_MAX: usize = 4096;
const SCRATCH_KEPT_MAX: usize = 1024;
