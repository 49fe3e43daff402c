//! NDR, the form that arguments travel in (C706 14, MS-RPCE 2.2.5), little-endian, as far as the interfaces here use it.
//!
//! Each value lies at a multiple of its size, counted from the begin of the arguments. What a pointer inside a structure
//! points at follows the whole structure: callers write it in that order.

use smb_wire::info::security::{SUB_AUTHORITIES_MAX, Sid};

use crate::pdu::Fault;

/// Longest text that is taken, UTF-16 units with the terminator.
pub(crate) const TEXT_MAX: usize = 1024;

/// Arguments are not what the interface says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadStub;

impl From<BadStub> for Fault {
    fn from(_: BadStub) -> Self {
        Self::BAD_STUB
    }
}

/// Reads arguments.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(all: &'a [u8]) -> Self {
        Self { all, at: 0 }
    }

    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], BadStub> {
        let end = self.at.checked_add(len).ok_or(BadStub)?;
        let bytes = self.all.get(self.at..end).ok_or(BadStub)?;
        self.at = end;
        Ok(bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, BadStub> {
        self.align(2);
        let bytes = self.bytes(2)?;
        Ok(u16::from_le_bytes(bytes.try_into().expect("two")))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, BadStub> {
        self.align(4);
        let bytes = self.bytes(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four")))
    }

    /// Returns whether a pointer points at anything.
    pub(crate) fn pointer(&mut self) -> Result<bool, BadStub> {
        Ok(self.u32()? != 0)
    }

    /// Elements that an array has, at most `max`, each of at least `len_min` bytes: more than the arguments can hold
    /// is refused before anything is set aside for it.
    pub(crate) fn count(&mut self, max: usize, len_min: usize) -> Result<usize, BadStub> {
        let count = self.u32()? as usize;
        let rest = self.all.len().saturating_sub(self.at);
        (count <= max && count.saturating_mul(len_min) <= rest).then_some(count).ok_or(BadStub)
    }

    /// Returns what a conformant varying array of UTF-16 holds.
    fn units(&mut self) -> Result<String, BadStub> {
        let max = self.u32()? as usize;
        let (offset, len) = (self.u32()?, self.u32()? as usize);
        if offset != 0 || len > max || len > TEXT_MAX {
            return Err(BadStub);
        }
        let bytes = self.bytes(2 * len)?;
        let units = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes(unit.try_into().expect("two")));
        Ok(char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
    }

    /// Reads a `[string] wchar_t *` that is there: up to its terminator.
    pub(crate) fn text(&mut self) -> Result<String, BadStub> {
        let mut text = self.units()?;
        let end = text.find('\0').ok_or(BadStub)?;
        text.truncate(end);
        Ok(text)
    }

    /// Reads a `[unique, string] wchar_t *`.
    pub(crate) fn text_pointer(&mut self) -> Result<Option<String>, BadStub> {
        self.pointer()?.then(|| self.text()).transpose()
    }

    /// Returns what the pointer of an `RPC_UNICODE_STRING` points at. It has no terminator.
    pub(crate) fn counted_text(&mut self) -> Result<String, BadStub> {
        self.units()
    }

    /// Reads an `RPC_SID` that a pointer points at.
    pub(crate) fn sid(&mut self) -> Result<Sid, BadStub> {
        let count = self.count(SUB_AUTHORITIES_MAX, 4)?;
        let bytes = self.bytes(8 + 4 * count)?;
        match Sid::parse(bytes) {
            Ok((sid, [])) => Ok(sid),
            _ => Err(BadStub),
        }
    }
}

/// Writes results.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    out: Vec<u8>,
    /// Pointers so far: each gets a number of its own, and what it is does not matter.
    referents: u32,
}

impl Writer {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    pub(crate) fn align(&mut self, to: usize) {
        self.out.resize(self.out.len().next_multiple_of(to), 0);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend(bytes);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.align(2);
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.align(4);
        self.bytes(&value.to_le_bytes());
    }

    /// Writes a number of elements.
    pub(crate) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("answers are bounded"));
    }

    /// Writes a pointer: what it points at is written later.
    pub(crate) fn pointer(&mut self) {
        self.referents += 1;
        self.u32(0x0002_0000 + 4 * (self.referents - 1));
    }

    /// Writes a pointer at nothing.
    pub(crate) fn null(&mut self) {
        self.u32(0);
    }

    /// Writes what a `[string] wchar_t *` points at.
    pub(crate) fn text(&mut self, text: &str) {
        self.units(text.encode_utf16().chain([0]).collect());
    }

    /// Writes an `RPC_UNICODE_STRING`, whose text [`counted_text`](Self::counted_text) writes later; none for an empty
    /// one.
    pub(crate) fn counted(&mut self, text: &str) {
        let bytes = u16::try_from(2 * text.encode_utf16().count()).expect("names are short");
        self.align(4);
        self.u16(bytes);
        self.u16(bytes);
        if text.is_empty() { self.null() } else { self.pointer() }
    }

    /// Writes what the pointer of a [`counted`](Self::counted) points at.
    pub(crate) fn counted_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.units(text.encode_utf16().collect());
        }
    }

    fn units(&mut self, units: Vec<u16>) {
        self.count(units.len());
        self.u32(0);
        self.count(units.len());
        self.out.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    }

    /// Writes an `RPC_SID` that a pointer points at.
    pub(crate) fn sid(&mut self, sid: &Sid) {
        self.count(sid.sub_authorities().len());
        sid.write(&mut self.out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_at_multiples_of_their_size() {
        let mut out = Writer::default();
        out.u16(1);
        out.u32(2);
        out.text("ab");
        out.counted("päß");
        out.counted_text("päß");
        out.sid(&Sid::EVERYONE);
        let bytes = out.into_bytes();
        assert_eq!(bytes[..8], [1, 0, 0, 0, 2, 0, 0, 0]);
        let mut read = Reader::new(&bytes);
        assert_eq!((read.u16(), read.u32(), read.text().unwrap().as_str()), (Ok(1), Ok(2), "ab"));
        read.align(4);
        assert_eq!((read.u16(), read.u16(), read.pointer()), (Ok(6), Ok(6), Ok(true)));
        assert_eq!(read.counted_text().unwrap(), "päß");
        assert_eq!(read.sid(), Ok(Sid::EVERYONE));
        assert_eq!(read.u32(), Err(BadStub));
    }

    #[test]
    fn counts_that_lie_are_refused_before_they_cost_anything() {
        let of = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        for text in [
            of(&[u32::MAX, 0, u32::MAX]),
            of(&[2, 1, 1, 0]),
            of(&[1, 0, 2, 0]),
            of(&[4, 0, 4, 0]),
            of(&[0, 0, 0]),
            of(&[2, 0, 2, 0x0041_0041]),
        ] {
            assert_eq!(Reader::new(&text).text(), Err(BadStub), "{text:?}");
        }
        assert_eq!(Reader::new(&of(&[1000, 0])).count(1000, 4), Err(BadStub));
        assert_eq!(Reader::new(&of(&[16; 20])).sid(), Err(BadStub));
        assert_eq!(Reader::new(&of(&[1, 0x0000_0201, 0, 0])).sid(), Err(BadStub), "two counts that differ");
        assert_eq!(Reader::new(&[1, 2, 3]).u32(), Err(BadStub));
    }
}
