//! As much of NDR (C706 14, MS-RPCE 2.2.6) as certificates take: one structure behind one pointer, little-endian.

use super::{PacRefused, Sid};

/// Reads values in sequence; each is aligned to its size.
pub(super) struct Ndr<'a> {
    bytes: &'a [u8],
    at: usize,
    structure: &'static str,
}

/// RPC_UNICODE_STRING before what it points to is reached.
#[derive(Clone, Copy)]
pub(super) struct StringHead {
    len: u16,
    is_there: bool,
}

impl<'a> Ndr<'a> {
    /// Creates a reader of a serialized structure. Checks both headers and the pointer to the structure.
    pub(super) fn new(structure: &'static str, bytes: &'a [u8]) -> Result<Self, PacRefused> {
        let mut ndr = Self { bytes, at: 0, structure };
        let [version, order, header_len, _] = ndr.array()?;
        ndr.take(4)?;
        let len = ndr.u32()? as usize;
        ndr.take(4)?;
        // Little-endian, and the structure is all that there is but padding.
        if (version, order, header_len) != (1, 0x10, 8) || len > bytes.len() - ndr.at {
            return Err(ndr.malformed());
        }
        if !ndr.pointer()? {
            return Err(ndr.malformed());
        }
        Ok(ndr)
    }

    pub(super) fn malformed(&self) -> PacRefused {
        PacRefused::Malformed(self.structure)
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], PacRefused> {
        let end = self.at.checked_add(len).ok_or(self.malformed())?;
        let taken = self.bytes.get(self.at..end).ok_or(self.malformed())?;
        self.at = end;
        Ok(taken)
    }

    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PacRefused> {
        let malformed = self.malformed();
        self.take(N)?.try_into().map_err(|_| malformed)
    }

    pub(super) fn u16(&mut self) -> Result<u16, PacRefused> {
        self.align(2);
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, PacRefused> {
        self.align(4);
        self.array().map(u32::from_le_bytes)
    }

    /// Reads a pointer and returns true if it points to something. What it points to follows the structure.
    pub(super) fn pointer(&mut self) -> Result<bool, PacRefused> {
        Ok(self.u32()? != 0)
    }

    /// Reads a count of elements of `size` bytes at least, which must fit in what is left.
    pub(super) fn count(&mut self, size: usize) -> Result<usize, PacRefused> {
        let count = self.u32()? as usize;
        let left = self.bytes.len().saturating_sub(self.at);
        if count > left / size { Err(self.malformed()) } else { Ok(count) }
    }

    pub(super) fn string_head(&mut self) -> Result<StringHead, PacRefused> {
        // Within a structure it is aligned like its pointer.
        self.align(4);
        let (len, _) = (self.u16()?, self.u16()?);
        let head = StringHead { len, is_there: self.pointer()? };
        if !head.is_there && len != 0 { Err(self.malformed()) } else { Ok(head) }
    }

    /// Reads what a string points to: a conformant and varying array of 16-bit units.
    pub(super) fn string(&mut self, head: StringHead) -> Result<String, PacRefused> {
        if !head.is_there {
            return Ok(String::new());
        }
        let (max, offset, count) = (self.u32()?, self.u32()?, self.u32()?);
        let units = usize::from(head.len / 2);
        if offset != 0 || count > max || (count as usize) < units || !head.len.is_multiple_of(2) {
            return Err(self.malformed());
        }
        let bytes = self.take(count as usize * 2)?;
        super::utf16(&bytes[..units * 2]).ok_or(self.malformed())
    }

    /// Reads what a pointer to an identifier points to: a conformant structure.
    pub(super) fn sid(&mut self) -> Result<Sid, PacRefused> {
        let count = self.u32()?;
        let (sid, len) = self.bytes.get(self.at..).and_then(Sid::parse).ok_or(self.malformed())?;
        if sid.sub_authorities().len() != count as usize {
            return Err(self.malformed());
        }
        self.take(len)?;
        Ok(sid)
    }
}
