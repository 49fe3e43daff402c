//! As much of DER (X.690) as Kerberos takes: explicit tags, integers, strings, times.
//!
//! Lengths may be longer than needed, as old peers write them so; nothing that is verified is ever encoded anew.

mod reader;
mod writer;

pub(crate) use reader::Reader;
pub(crate) use writer::{application, element, field, integer, octets, sequence, string, time, uint};

/// An INTEGER.
pub(crate) const INTEGER: u8 = 0x02;
/// A BIT STRING.
pub(crate) const BIT_STRING: u8 = 0x03;
/// An OCTET STRING.
pub(crate) const OCTET_STRING: u8 = 0x04;
/// An OBJECT IDENTIFIER.
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
/// A GeneralizedTime.
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
/// A GeneralString.
pub(crate) const GENERAL_STRING: u8 = 0x1b;
/// A SEQUENCE.
pub(crate) const SEQUENCE: u8 = 0x30;

/// Returns the tag of an explicit field.
pub(crate) const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// A structure of Kerberos or a field of it is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {0}")]
pub struct Malformed(
    /// The structure's name as RFC 4120, RFC 4121 or MS-PAC call it.
    pub &'static str,
);

#[cfg(test)]
mod tests;
