//! One message: a header and the body behind it. Offsets on the wire count from the header's first byte.

use crate::fixed::{Fixed, Plain};
use crate::header::{HEADER_LEN, Header};
use crate::malformed::Malformed;

/// One message of a compound, as it lies in the receive buffer; padding in front of the next belongs to it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    header: &'a Header,
}

impl<'a> Message<'a> {
    /// Parses the message that `bytes` are. Its header is checked, its body not yet.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Ok(Self { bytes, header: Header::parse(bytes)? })
    }

    /// Returns the message's header.
    pub fn header(&self) -> &'a Header {
        self.header
    }

    /// Returns all bytes of the message, which a signature covers.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns what follows the header.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..]
    }

    /// Returns the fixed part of the body, if the message says and has its size.
    pub fn fixed<T: Fixed>(&self) -> Result<&'a T, Malformed> {
        let body = self.body();
        //= MS-SMB2 3.3.5.2.6
        //# StructureSize is the command's, whatever follows.
        match body.first_chunk() {
            None => Err(Malformed::Short),
            Some(size) if u16::from_le_bytes(*size) != T::STRUCTURE_SIZE => Err(Malformed::StructureSize),
            Some(_) => Ok(T::ref_from_prefix(body).map_err(|_| Malformed::Short)?.0),
        }
    }

    /// Returns what follows the fixed part.
    pub fn after<T: Fixed>(&self) -> &'a [u8] {
        self.body().get(size_of::<T>()..).unwrap_or_default()
    }

    /// Returns the part of the body that an offset and a length of the wire name. It must lie behind the fixed part
    /// `T`; one of no length may be anywhere.
    pub fn part<T: Fixed>(&self, offset: u32, len: u32) -> Result<&'a [u8], Malformed> {
        if len == 0 {
            return Ok(&[]);
        }
        let (offset, len) = (offset as usize, len as usize);
        if offset < HEADER_LEN + size_of::<T>() {
            return Err(Malformed::Offset);
        }
        let end = offset.checked_add(len).ok_or(Malformed::Offset)?;
        self.bytes.get(offset..end).ok_or(Malformed::Offset)
    }
}

/// Checks whether two parts share no byte. A request whose parts overlap was not made by a client.
pub(crate) fn apart(one: (u32, u32), other: (u32, u32)) -> Result<(), Malformed> {
    let end = |(offset, len): (u32, u32)| u64::from(offset) + u64::from(len);
    let empty = one.1 == 0 || other.1 == 0;
    if empty || end(one) <= u64::from(other.0) || end(other) <= u64::from(one.0) {
        Ok(())
    } else {
        Err(Malformed::Offset)
    }
}

/// Appends one message's body. Offsets that it gives out count from the message's header.
#[derive(Debug)]
pub struct Body<'a> {
    out: &'a mut Vec<u8>,
    header_at: usize,
}

impl<'a> Body<'a> {
    /// Creates the body of the message whose header stands at `header_at` in `out`, and ends it.
    pub(crate) fn new(out: &'a mut Vec<u8>, header_at: usize) -> Self {
        debug_assert_eq!(out.len(), header_at + HEADER_LEN);
        Self { out, header_at }
    }

    /// Returns the offset of the next byte, counted from the header.
    pub fn offset(&self) -> u32 {
        u32::try_from(self.out.len() - self.header_at).expect("a message is shorter than 4 GiB")
    }

    /// Appends a structure.
    pub fn push(&mut self, structure: &impl Plain) {
        self.out.extend_from_slice(structure.as_bytes());
    }

    /// Appends bytes, and says where they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Placed {
        let placed = Placed { offset: self.offset(), len: length(bytes.len()) };
        self.out.extend_from_slice(bytes);
        placed
    }

    /// Appends zeros up to a multiple of `to`, counted from the header.
    pub fn align(&mut self, to: usize) {
        let len = self.out.len() - self.header_at;
        self.out.resize(self.header_at + len.next_multiple_of(to), 0);
    }

    /// Overwrites the fixed part, once what follows it has its place.
    pub fn set_fixed(&mut self, fixed: &impl Fixed) {
        let at = self.header_at + HEADER_LEN;
        self.out[at..at + size_of_val(fixed)].copy_from_slice(fixed.as_bytes());
    }

    /// Returns what takes more than one piece; `fill` appends it.
    pub fn placed(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Placed {
        let offset = self.offset();
        let before = self.out.len();
        fill(self.out);
        Placed { offset, len: length(self.out.len() - before) }
    }
}

/// Place of appended bytes in their message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Offset from the header's first byte.
    pub offset: u32,
    /// Number of bytes.
    pub len: u32,
}

impl Placed {
    /// Returns the offset for a field of 16 bits: what such a field points to follows the fixed part at once.
    pub(crate) fn offset16(self) -> zerocopy::little_endian::U16 {
        zerocopy::little_endian::U16::new(u16::try_from(self.offset).expect("near the header"))
    }

    /// Returns the length for a field of 16 bits; its writer has bounded it.
    pub(crate) fn len16(self) -> zerocopy::little_endian::U16 {
        zerocopy::little_endian::U16::new(u16::try_from(self.len).expect("bounded to 64 KiB by its maker"))
    }
}

fn length(len: usize) -> u32 {
    u32::try_from(len).expect("a message is shorter than 4 GiB")
}
