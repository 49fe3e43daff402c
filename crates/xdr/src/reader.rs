//! The cursor that every decode goes through.

use crate::{Decode, Error, Result, UNIT, padding};

/// Depth to which lists and optional values may nest unless [`Reader::with_max_depth`] says otherwise. Each
/// level is a stack frame.
pub const MAX_DEPTH: u32 = 256;

/// A cursor over XDR input. Cheap to clone, so a caller can try a decode and come back with more input.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    input: &'a [u8],
    position: usize,
    depth: u32,
    max_depth: u32,
    lenient: bool,
    bad_padding: u32,
}

impl<'a> Reader<'a> {
    /// Makes a strict reader at the start of `input`.
    pub const fn new(input: &'a [u8]) -> Self {
        Self { input, position: 0, depth: 0, max_depth: MAX_DEPTH, lenient: false, bad_padding: 0 }
    }

    /// Makes a reader that takes padding which is not zero, and counts it in [`Reader::bad_padding`]. Stock
    /// peers never check padding, so old clients may send what their buffer held.
    pub const fn lenient(input: &'a [u8]) -> Self {
        Self { lenient: true, ..Self::new(input) }
    }

    /// Changes how deep lists and optional values may nest.
    pub const fn with_max_depth(self, max_depth: u32) -> Self {
        Self { max_depth, ..self }
    }

    /// Returns the number of bytes read so far.
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Returns the number of bytes not read yet.
    pub const fn remaining(&self) -> usize {
        self.input.len() - self.position
    }

    /// Returns the bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.input[self.position..]
    }

    /// Returns how many items so far had padding that was not zero. Always 0 in a strict reader.
    pub const fn bad_padding(&self) -> u32 {
        self.bad_padding
    }

    /// Ends the read; fails with [`Error::Trailing`] unless the whole input was read.
    pub const fn finish(&self) -> Result<()> {
        match self.remaining() {
            0 => Ok(()),
            len => Err(Error::Trailing { offset: self.position, len }),
        }
    }

    /// Reads one value of any type with an encoding.
    #[inline]
    pub fn value<T: Decode<'a>>(&mut self) -> Result<T> {
        T::decode(self)
    }

    /// Reads `len` bytes as they are, without padding: the payload of a split call, or a larger item's body.
    #[inline]
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8]> {
        let rest = self.rest();
        match rest.get(..len) {
            Some(bytes) => {
                self.position += len;
                Ok(bytes)
            }
            None => Err(Error::Truncated { offset: self.input.len(), missing: len - rest.len() }),
        }
    }

    /// Reads a word: unsigned integer, RFC 4506 section 4.2.
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        self.word().map(u32::from_be_bytes)
    }

    /// Reads `len` bytes and their padding: fixed-length opaque, RFC 4506 section 4.9.
    #[inline]
    pub fn opaque_fixed(&mut self, len: usize) -> Result<&'a [u8]> {
        let bytes = self.raw(len)?;
        let offset = self.position;
        let pad = self.raw(padding(len))?;
        if pad.iter().any(|&byte| byte != 0) {
            if !self.lenient {
                return Err(Error::BadPadding { offset });
            }
            self.bad_padding = self.bad_padding.saturating_add(1);
        }
        Ok(bytes)
    }

    /// Reads a length of at most `max`, that many bytes and their padding: variable-length opaque and string,
    /// RFC 4506 sections 4.10 and 4.11.
    #[inline]
    pub fn opaque(&mut self, max: usize) -> Result<&'a [u8]> {
        let len = self.count(max, 1)?;
        self.opaque_fixed(len)
    }

    /// Reads a string of at most `max` bytes that has to be UTF-8. File names are not: read those with
    /// [`Reader::opaque`].
    pub fn str(&mut self, max: usize) -> Result<&'a str> {
        let start = self.position + UNIT;
        let bytes = self.opaque(max)?;
        str::from_utf8(bytes).map_err(|error| Error::NotUtf8 { offset: start + error.valid_up_to() })
    }

    /// Reads the count of a variable-length array of at most `max` elements, each at least `min_size` bytes long
    /// (RFC 4506 section 4.13). A count that the remaining input cannot hold is an error here, before any element is
    /// read, so a caller may size an allocation by it.
    #[inline]
    pub fn count(&mut self, max: usize, min_size: usize) -> Result<usize> {
        let offset = self.position;
        let len = self.u32()? as usize;
        if len > max {
            return Err(Error::TooLong { offset, len, max });
        }
        let needed = len.saturating_mul(min_size);
        if needed > self.remaining() {
            let missing = needed - self.remaining();
            return Err(Error::Truncated { offset: self.input.len(), missing });
        }
        Ok(len)
    }

    /// Runs `read` one nesting level down; fails with [`Error::TooDeep`] at the limit. Types that can contain
    /// themselves go through this, so that a short input cannot exhaust the stack.
    pub fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == self.max_depth {
            return Err(Error::TooDeep { offset: self.position, max: self.max_depth });
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    #[inline]
    fn word(&mut self) -> Result<[u8; UNIT]> {
        match self.rest().first_chunk() {
            Some(word) => {
                self.position += UNIT;
                Ok(*word)
            }
            None => Err(Error::Truncated { offset: self.input.len(), missing: UNIT - self.remaining() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonzero_padding_is_refused_with_its_offset() {
        let mut reader = Reader::new(&[0, 0, 0, 1, b'a', 0, 1, 0]);
        assert_eq!(reader.opaque(8), Err(Error::BadPadding { offset: 5 }));
    }

    #[test]
    fn lenient_reader_takes_and_counts_nonzero_padding() {
        let mut reader = Reader::lenient(&[0, 0, 0, 1, b'a', 9, 9, 9, 0, 0, 0, 0]);
        assert_eq!(reader.opaque(8), Ok(&b"a"[..]));
        assert_eq!(reader.opaque(8), Ok(&b""[..]));
        assert_eq!(reader.bad_padding(), 1);
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn missing_padding_is_truncation() {
        let mut reader = Reader::new(&[0, 0, 0, 1, b'a', 0]);
        assert_eq!(reader.opaque(8), Err(Error::Truncated { offset: 6, missing: 2 }));
    }

    #[test]
    fn bound_is_checked_before_the_input_is() {
        let mut reader = Reader::new(&[0xff; 4]);
        assert_eq!(reader.opaque(16), Err(Error::TooLong { offset: 0, len: u32::MAX as usize, max: 16 }));
    }

    #[test]
    fn count_that_cannot_fit_the_input_is_truncation() {
        let mut reader = Reader::new(&[0, 0, 0, 3, 0, 0, 0, 0]);
        assert_eq!(reader.count(100, 8), Err(Error::Truncated { offset: 8, missing: 20 }));
    }

    #[test]
    fn truncated_word_says_how_much_is_missing() {
        let mut reader = Reader::new(&[0, 0, 0]);
        assert_eq!(reader.u32(), Err(Error::Truncated { offset: 3, missing: 1 }));
        assert!(reader.u32().unwrap_err().is_truncated());
    }

    #[test]
    fn invalid_utf8_is_reported_where_it_starts() {
        let mut reader = Reader::new(&[0, 0, 0, 3, b'o', 0xff, b'k', 0]);
        assert_eq!(reader.str(8), Err(Error::NotUtf8 { offset: 5 }));
    }

    #[test]
    fn finish_reports_left_over_bytes() {
        let mut reader = Reader::new(&[0; 7]);
        reader.u32().unwrap();
        assert_eq!(reader.finish(), Err(Error::Trailing { offset: 4, len: 3 }));
        assert_eq!(reader.rest(), [0; 3]);
    }
}
