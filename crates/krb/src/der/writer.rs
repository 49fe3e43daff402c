//! Writes elements, innermost first. Buffers are exact, so that what holds a key is in one place when it is wiped.

use super::{GENERAL_STRING, GENERALIZED_TIME, INTEGER, OCTET_STRING, SEQUENCE, context};
use crate::Time;

/// Encodes an element of this tag with these contents, one after the other.
pub(crate) fn element<C: AsRef<[u8]>>(tag: u8, contents: &[C]) -> Vec<u8> {
    let len: usize = contents.iter().map(|content| content.as_ref().len()).sum();
    let mut out = Vec::with_capacity(len + 6);
    out.push(tag);
    match len {
        0..=0x7f => out.push(len as u8),
        _ => {
            let bytes = (len as u32).to_be_bytes();
            let skipped = bytes.iter().take_while(|byte| **byte == 0).count();
            out.push(0x80 | (4 - skipped) as u8);
            out.extend(&bytes[skipped..]);
        }
    }
    contents.iter().for_each(|content| out.extend(content.as_ref()));
    out
}

/// Encodes `[APPLICATION number]` around a SEQUENCE of these fields.
pub(crate) fn application(number: u8, fields: &[Vec<u8>]) -> Vec<u8> {
    element(0x60 | number, &[sequence(fields)])
}

/// Encodes a SEQUENCE of these fields.
pub(crate) fn sequence(fields: &[Vec<u8>]) -> Vec<u8> {
    element(SEQUENCE, fields)
}

/// Encodes the field of this number.
pub(crate) fn field(number: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
    element(context(number), &[content])
}

/// Encodes an INTEGER.
pub(crate) fn integer(value: i64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    // A leading byte is redundant where it only repeats the sign of the next one.
    let redundant = |pair: &&[u8]| match pair {
        [0, next] => next & 0x80 == 0,
        [0xff, next] => next & 0x80 != 0,
        _ => false,
    };
    let skipped = bytes.windows(2).take_while(redundant).count();
    element(INTEGER, &[&bytes[skipped..]])
}

/// Encodes a UInt32.
pub(crate) fn uint(value: u32) -> Vec<u8> {
    integer(i64::from(value))
}

/// Encodes an OCTET STRING.
pub(crate) fn octets(content: &[u8]) -> Vec<u8> {
    element(OCTET_STRING, &[content])
}

/// Encodes a KerberosString.
pub(crate) fn string(content: &str) -> Vec<u8> {
    element(GENERAL_STRING, &[content])
}

/// Encodes a KerberosTime.
pub(crate) fn time(time: Time) -> Vec<u8> {
    element(GENERALIZED_TIME, &[time.to_generalized()])
}
