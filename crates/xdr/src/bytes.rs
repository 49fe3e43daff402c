//! Byte strings: opaque data of fixed and variable length, strings, and C `char` arrays.

use core::fmt;
use core::ops::Deref;
use std::borrow::Cow;

use crate::{Decode, Encode, Reader, Result, Sink, UNBOUNDED, UNIT, Writer, padding};

/// Variable-length opaque data or a string of at most `MAX` bytes (RFC 4506 sections 4.10 and 4.11).
///
/// Decoding borrows from the input. Strings are bytes, not text: AFS names come in any encoding. The bound is checked
/// by decode and encode, not here, so a value can be built from any slice and fails when it is sent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes<'a, const MAX: usize = UNBOUNDED>(Cow<'a, [u8]>);

impl<'a, const MAX: usize> Bytes<'a, MAX> {
    /// Largest number of bytes, as declared.
    pub const MAX: usize = MAX;

    /// Returns the bytes with the input's lifetime, or `None` when they are owned.
    pub fn as_borrowed(&self) -> Option<&'a [u8]> {
        match self.0 {
            Cow::Borrowed(bytes) => Some(bytes),
            Cow::Owned(_) => None,
        }
    }

    /// Copies the bytes unless they are owned already.
    pub fn into_owned(self) -> Bytes<'static, MAX> {
        Bytes(Cow::Owned(self.0.into_owned()))
    }
}

impl<'a, const MAX: usize> From<&'a [u8]> for Bytes<'a, MAX> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(Cow::Borrowed(bytes))
    }
}

impl<'a, const MAX: usize, const N: usize> From<&'a [u8; N]> for Bytes<'a, MAX> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self(Cow::Borrowed(bytes))
    }
}

impl<'a, const MAX: usize> From<&'a str> for Bytes<'a, MAX> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }
}

impl<const MAX: usize> From<Vec<u8>> for Bytes<'_, MAX> {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Cow::Owned(bytes))
    }
}

impl<const MAX: usize> From<String> for Bytes<'_, MAX> {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text.into_bytes()))
    }
}

impl<const MAX: usize> Deref for Bytes<'_, MAX> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<const MAX: usize> fmt::Debug for Bytes<'_, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

impl<const MAX: usize> Encode for Bytes<'_, MAX> {
    #[inline]
    fn encode<S: Sink>(&self, writer: &mut Writer<S>) -> Result<()> {
        writer.opaque(&self.0, MAX)
    }
}

impl<'a, const MAX: usize> Decode<'a> for Bytes<'a, MAX> {
    const MIN_SIZE: usize = UNIT;

    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        reader.opaque(MAX).map(|bytes| Self(Cow::Borrowed(bytes)))
    }
}

/// Fixed-length opaque data of `N` bytes (RFC 4506 section 4.9).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opaque<const N: usize>(pub [u8; N]);

impl<const N: usize> Default for Opaque<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> From<[u8; N]> for Opaque<N> {
    fn from(bytes: [u8; N]) -> Self {
        Self(bytes)
    }
}

impl<const N: usize> Deref for Opaque<N> {
    type Target = [u8; N];

    fn deref(&self) -> &[u8; N] {
        &self.0
    }
}

impl<const N: usize> fmt::Debug for Opaque<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

impl<const N: usize> Encode for Opaque<N> {
    #[inline]
    fn encode<S: Sink>(&self, writer: &mut Writer<S>) -> Result<()> {
        writer.opaque_fixed(&self.0)
    }
}

impl<const N: usize> Decode<'_> for Opaque<N> {
    const MIN_SIZE: usize = N + padding(N);

    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(reader.opaque_fixed(N)?);
        Ok(Self(bytes))
    }
}

/// A C `char name[N]`: one sign-extended word for each of the `N` chars, as rxgen interfaces send names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chars<const N: usize>(pub [u8; N]);

impl<const N: usize> Chars<N> {
    /// Puts `text` in front of at least one NUL; `None` when it does not fit or contains one itself.
    pub fn from_text(text: &[u8]) -> Option<Self> {
        if text.len() >= N || text.contains(&0) {
            return None;
        }
        let mut chars = [0; N];
        chars[..text.len()].copy_from_slice(text);
        Some(Self(chars))
    }

    /// Returns the text before the first NUL, or all `N` chars when there is none.
    pub fn text(&self) -> &[u8] {
        let len = self.0.iter().position(|&char| char == 0).unwrap_or(N);
        &self.0[..len]
    }
}

impl<const N: usize> Default for Chars<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> fmt::Debug for Chars<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.text().escape_ascii())
    }
}

impl<const N: usize> Encode for Chars<N> {
    fn encode<S: Sink>(&self, writer: &mut Writer<S>) -> Result<()> {
        self.0.iter().try_for_each(|char| char.cast_signed().encode(writer))
    }
}

impl<const N: usize> Decode<'_> for Chars<N> {
    const MIN_SIZE: usize = N * UNIT;

    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let mut chars = [0; N];
        for char in &mut chars {
            *char = u8::decode(reader)?;
        }
        Ok(Self(chars))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, to_vec};

    #[test]
    fn decoded_bytes_borrow_from_the_input() {
        let wire = *b"\0\0\0\x02ab\0\0";
        let bytes: Bytes<'_, 4> = Reader::new(&wire).value().unwrap();
        assert_eq!(bytes.as_borrowed().unwrap().as_ptr(), wire[4..].as_ptr());
        assert_eq!(bytes.into_owned().as_borrowed(), None);
    }

    #[test]
    fn bytes_above_their_bound_fail_both_ways() {
        let long = Bytes::<4>::from(b"abcde");
        assert_eq!(to_vec(&long), Err(Error::TooLong { offset: 0, len: 5, max: 4 }));
        let wire = to_vec(&Bytes::<8>::from(b"abcde")).unwrap();
        let read = Reader::new(&wire).value::<Bytes<'_, 4>>();
        assert_eq!(read, Err(Error::TooLong { offset: 0, len: 5, max: 4 }));
    }

    #[test]
    fn fixed_opaque_has_no_length_and_is_padded() {
        let wire = to_vec(&Opaque(*b"abcde")).unwrap();
        assert_eq!(wire, b"abcde\0\0\0");
        assert_eq!(Reader::new(&wire).value(), Ok(Opaque(*b"abcde")));
    }

    #[test]
    fn char_array_takes_a_word_for_each_char() {
        let name = Chars::<4>::from_text(b"a\xc3").unwrap();
        let wire = to_vec(&name).unwrap();
        assert_eq!(wire, [0, 0, 0, b'a', 0xff, 0xff, 0xff, 0xc3, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Reader::new(&wire).value::<Chars<4>>().unwrap().text(), b"a\xc3");
    }

    #[test]
    fn char_array_keeps_room_for_its_nul() {
        assert!(Chars::<4>::from_text(b"abcd").is_none());
        assert!(Chars::<4>::from_text(b"a\0").is_none());
        assert_eq!(Chars(*b"abcd").text(), b"abcd");
    }
}
