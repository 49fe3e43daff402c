//! Reads elements in place; every length is checked against what is there.

use super::{
    BIT_STRING, GENERAL_STRING, GENERALIZED_TIME, INTEGER, Malformed, OCTET_STRING, SEQUENCE, context,
};
use crate::Time;

/// Elements that follow each other, of one structure.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    structure: &'static str,
}

impl<'a> Reader<'a> {
    /// Creates a reader of a structure; errors name the structure.
    pub(crate) fn new(structure: &'static str, bytes: &'a [u8]) -> Self {
        Self { bytes, structure }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn malformed(&self) -> Malformed {
        Malformed(self.structure)
    }

    /// Reads the next element's tag and content.
    pub(crate) fn next(&mut self) -> Result<(u8, &'a [u8]), Malformed> {
        let (tag, content, rest) = split(self.bytes).ok_or(self.malformed())?;
        self.bytes = rest;
        Ok((tag, content))
    }

    /// Reads the content of the next element, which has this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Result<Self, Malformed> {
        match self.next()? {
            (found, content) if found == tag => Ok(Self { bytes: content, ..*self }),
            _ => Err(self.malformed()),
        }
    }

    /// Reads the content of the one element that there is, which has this tag.
    pub(crate) fn only(mut self, tag: u8) -> Result<Self, Malformed> {
        let content = self.expect(tag)?;
        if self.is_empty() { Ok(content) } else { Err(self.malformed()) }
    }

    /// Reads the fields of the one SEQUENCE that there is.
    pub(crate) fn sequence(self) -> Result<Self, Malformed> {
        self.only(SEQUENCE)
    }

    /// Reads the content of the next field, which has this number.
    pub(crate) fn field(&mut self, number: u8) -> Result<Self, Malformed> {
        self.expect(context(number))
    }

    /// Reads the content of the field of this number, if it comes next.
    pub(crate) fn optional(&mut self, number: u8) -> Result<Option<Self>, Malformed> {
        match self.bytes.first() {
            Some(tag) if *tag == context(number) => self.field(number).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the bytes that are left, uncopied.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.bytes
    }

    /// Reads the one INTEGER that there is, of at most eight bytes.
    pub(crate) fn integer(self) -> Result<i64, Malformed> {
        let content = self.only(INTEGER)?.bytes;
        match content {
            [] | [_, _, _, _, _, _, _, _, _, ..] => Err(self.malformed()),
            [first, ..] => {
                let sign = if first & 0x80 == 0 { 0 } else { -1 };
                Ok(content.iter().fold(sign, |all, byte| all << 8 | i64::from(*byte)))
            }
        }
    }

    /// Reads an Int32.
    pub(crate) fn int32(self) -> Result<i32, Malformed> {
        self.integer()?.try_into().map_err(|_| self.malformed())
    }

    /// Reads a UInt32. Windows and old libraries write large ones as negative numbers.
    pub(crate) fn uint32(self) -> Result<u32, Malformed> {
        match self.integer()? {
            value @ 0.. => value.try_into().map_err(|_| self.malformed()),
            value => i32::try_from(value).map(|value| value as u32).map_err(|_| self.malformed()),
        }
    }

    /// Microseconds.
    pub(crate) fn microseconds(self) -> Result<u32, Malformed> {
        self.uint32().and_then(|value| if value < 1_000_000 { Ok(value) } else { Err(self.malformed()) })
    }

    /// Reads the one OCTET STRING that there is.
    pub(crate) fn octets(self) -> Result<&'a [u8], Malformed> {
        self.only(OCTET_STRING).map(|content| content.bytes)
    }

    /// Reads a KerberosString. RFC 4120 wants ASCII, implementations write UTF-8.
    pub(crate) fn string(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.only(GENERAL_STRING)?.bytes).map_err(|_| self.malformed())
    }

    /// Reads KerberosFlags: the first 32 bits, bit 0 is the highest. Missing ones are 0.
    pub(crate) fn flags(self) -> Result<u32, Malformed> {
        let (unused, bits) = self.only(BIT_STRING)?.bytes.split_first().ok_or(self.malformed())?;
        if *unused > 7 || (bits.is_empty() && *unused > 0) {
            return Err(self.malformed());
        }
        Ok((0..4).fold(0, |all, at| all << 8 | u32::from(bits.get(at).copied().unwrap_or(0))))
    }

    /// Reads a KerberosTime: `YYYYMMDDhhmmssZ`.
    pub(crate) fn time(self) -> Result<Time, Malformed> {
        Time::from_generalized(self.only(GENERALIZED_TIME)?.bytes).ok_or(self.malformed())
    }
}

fn split(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    // No structure of Kerberos has a number above 30.
    if tag & 0x1f == 0x1f {
        return None;
    }
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // More than four bytes of length is more than any message; an indefinite length is not DER.
        0x81..=0x84 => {
            let (len, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (len.iter().fold(0usize, |all, byte| all << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    Some((tag, content, rest))
}
