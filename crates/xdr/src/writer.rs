//! The output side: a writer over a growing or a fixed buffer.

use crate::{Encode, Error, Result, UNBOUNDED, UNIT, padding};

/// Sink of encoded bytes.
pub trait Sink {
    /// Takes all of `bytes` and returns true, or takes none of them and returns false.
    fn put(&mut self, bytes: &[u8]) -> bool;
}

/// Appends to the vector, which grows without bound.
impl Sink for &mut Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> bool {
        self.extend_from_slice(bytes);
        true
    }
}

/// Fills the slice from its start; the slice shrinks to the part not written yet.
impl Sink for &mut [u8] {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > self.len() {
            return false;
        }
        let (head, tail) = core::mem::take(self).split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        *self = tail;
        true
    }
}

/// A sink that keeps nothing: for measuring an encoding.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counter;

impl Sink for Counter {
    #[inline]
    fn put(&mut self, _: &[u8]) -> bool {
        true
    }
}

/// Writer of XDR items to a [`Sink`].
#[derive(Debug)]
pub struct Writer<S> {
    sink: S,
    position: usize,
}

impl<S: Sink> Writer<S> {
    /// Makes a writer at the start of `sink`.
    pub const fn new(sink: S) -> Self {
        Self { sink, position: 0 }
    }

    /// Returns the number of bytes written through this writer.
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Writes one value of any type with an encoding.
    #[inline]
    pub fn value<T: Encode + ?Sized>(&mut self, value: &T) -> Result<()> {
        value.encode(self)
    }

    /// Writes bytes as they are, without padding.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        if !self.sink.put(bytes) {
            return Err(Error::Full { offset: self.position, needed: bytes.len() });
        }
        self.position += bytes.len();
        Ok(())
    }

    /// Writes a word: unsigned integer, RFC 4506 section 4.2.
    #[inline]
    pub fn u32(&mut self, value: u32) -> Result<()> {
        self.raw(&value.to_be_bytes())
    }

    /// Writes bytes and their padding: fixed-length opaque, RFC 4506 section 4.9.
    #[inline]
    pub fn opaque_fixed(&mut self, bytes: &[u8]) -> Result<()> {
        self.raw(bytes)?;
        self.raw(&[0; UNIT][..padding(bytes.len())])
    }

    /// Writes a length, the bytes and their padding: variable-length opaque and string, RFC 4506 sections 4.10 and
    /// 4.11. Fails with [`Error::TooLong`] above `max` bytes.
    #[inline]
    pub fn opaque(&mut self, bytes: &[u8], max: usize) -> Result<()> {
        self.count(bytes.len(), max)?;
        self.opaque_fixed(bytes)
    }

    /// Writes the count of a variable-length array; fails with [`Error::TooLong`] above `max`.
    #[inline]
    pub fn count(&mut self, len: usize, max: usize) -> Result<()> {
        let max = max.min(UNBOUNDED);
        match u32::try_from(len) {
            Ok(count) if len <= max => self.u32(count),
            _ => Err(Error::TooLong { offset: self.position, len, max }),
        }
    }
}

/// Returns the number of bytes that `value` takes when encoded. Fails as [`Encode::encode`] does.
pub fn encoded_len<T: Encode + ?Sized>(value: &T) -> Result<usize> {
    let mut writer = Writer::new(Counter);
    writer.value(value)?;
    Ok(writer.position())
}

/// Encodes `value` into a vector of exactly the right capacity. Fails as [`Encode::encode`] does.
pub fn to_vec<T: Encode + ?Sized>(value: &T) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(encoded_len(value)?);
    Writer::new(&mut bytes).value(value)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slice_sink_fills_exactly_and_refuses_more() {
        let mut buffer = [0xaa; 10];
        let mut writer = Writer::new(&mut buffer[..]);
        writer.u32(1).unwrap();
        writer.u32(2).unwrap();
        assert_eq!(writer.u32(3), Err(Error::Full { offset: 8, needed: 4 }));
        assert_eq!(buffer, [0, 0, 0, 1, 0, 0, 0, 2, 0xaa, 0xaa]);
    }

    #[test]
    fn opaque_above_its_bound_writes_nothing() {
        let mut bytes = Vec::new();
        let error = Writer::new(&mut bytes).opaque(b"abcde", 4).unwrap_err();
        assert_eq!(error, Error::TooLong { offset: 0, len: 5, max: 4 });
        assert!(bytes.is_empty());
    }

    #[test]
    fn counter_and_vector_agree() {
        let value = crate::Bytes::<8>::from(b"abcde");
        assert_eq!(encoded_len(&value), Ok(12));
        assert_eq!(to_vec(&value).unwrap(), b"\0\0\0\x05abcde\0\0\0");
    }
}
