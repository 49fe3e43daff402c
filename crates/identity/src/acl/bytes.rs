//! Encoding of an access list in its extended attribute (docs/design/access.md). Each list has exactly one
//! encoding, so equal bytes are equal lists.

use super::{Acl, Entry};
use crate::name::Who;
use crate::rights::Rights;

/// Reason why bytes are no access list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAcl {
    /// The bytes are truncated, or were not written by the server.
    #[error("it is no access list of Linerate, or damaged")]
    Damaged,
    /// The list has a version that only a later program can read.
    #[error("it is of version {0}, this program knows version 1")]
    Version(u8),
    /// The list has more entries or bytes than allowed.
    #[error("it is longer than an access list may be")]
    TooLong,
    /// An entry has a right without a letter.
    #[error("it has rights without a name: {0:#x}")]
    UnknownRight(u32),
    /// The entries are out of order, repeated or without rights, as [`Acl::encode`] writes none.
    #[error("its entries are not in order")]
    Order,
}

pub(super) const HEADER: usize = 4;
pub(super) const ENTRY_FIXED: usize = 6;
const MAGIC: u8 = b'L';
const VERSION: u8 = 1;

impl Acl {
    /// Encodes the list as the attribute's value: at most [`Acl::BYTES_MAX`] bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![MAGIC, VERSION, self.given.len() as u8, self.denied.len() as u8];
        for Entry { who, rights } in self.given.iter().chain(&self.denied) {
            out.extend(rights.bits().to_be_bytes());
            out.extend([who.name().len() as u8, who.realm().len() as u8]);
            out.extend(who.name().bytes().chain(who.realm().bytes()));
        }
        out
    }

    /// Decodes the attribute's value.
    ///
    /// # Errors
    /// [`BadAcl`]: then the list must count as one that gives nothing, never as none ([`Nearest`](super::Nearest)).
    pub fn decode(bytes: &[u8]) -> Result<Self, BadAcl> {
        let Some((&[magic, version, given, denied], rest)) = bytes.split_first_chunk::<HEADER>() else {
            return Err(BadAcl::Damaged);
        };
        if magic != MAGIC {
            return Err(BadAcl::Damaged);
        }
        if version != VERSION {
            return Err(BadAcl::Version(version));
        }
        if usize::from(given) + usize::from(denied) > Self::ENTRIES_MAX || bytes.len() > Self::BYTES_MAX {
            return Err(BadAcl::TooLong);
        }
        let (given, rest) = entries(given, rest)?;
        let (denied, rest) = entries(denied, rest)?;
        if !rest.is_empty() {
            return Err(BadAcl::Damaged);
        }
        let acl = Self { given, denied };
        acl.check_size().map_err(|_| BadAcl::TooLong)?;
        Ok(acl)
    }
}

fn entries(count: u8, mut bytes: &[u8]) -> Result<(Vec<Entry>, &[u8]), BadAcl> {
    let mut entries: Vec<Entry> = Vec::with_capacity(count.into());
    for _ in 0..count {
        let (entry, rest) = entry(bytes)?;
        if entry.rights.is_empty() || entries.last().is_some_and(|last| last.who >= entry.who) {
            return Err(BadAcl::Order);
        }
        entries.push(entry);
        bytes = rest;
    }
    Ok((entries, bytes))
}

fn entry(bytes: &[u8]) -> Result<(Entry, &[u8]), BadAcl> {
    let (&[a, b, c, d, name, realm], rest) =
        bytes.split_first_chunk::<ENTRY_FIXED>().ok_or(BadAcl::Damaged)?;
    let bits = u32::from_be_bytes([a, b, c, d]);
    let rights = Rights::from_bits(bits).ok_or(BadAcl::UnknownRight(bits))?;
    let (name, rest) = rest.split_at_checked(name.into()).ok_or(BadAcl::Damaged)?;
    let (realm, rest) = rest.split_at_checked(realm.into()).ok_or(BadAcl::Damaged)?;
    let [name, realm] = [name, realm].map(|text| std::str::from_utf8(text).map_err(|_| BadAcl::Damaged));
    let who = Who::new(name?, realm?).map_err(|_| BadAcl::Damaged)?;
    Ok((Entry { who, rights }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Side;

    fn sample() -> Acl {
        let mut acl = Acl::new();
        for (side, who, rights) in [
            (Side::Given, "bob@R", Rights::READER),
            (Side::Given, "al", Rights::ALL),
            (Side::Denied, "eve", Rights::WRITE),
        ] {
            acl.set(side, who.parse().unwrap(), rights).unwrap();
        }
        acl
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let bytes = sample().encode();
        let written = b"L\x01\x02\x01\0\0\0\x7f\x02\0al\0\0\0\x09\x03\x01bobR\0\0\0\x02\x03\0eve";
        assert_eq!(bytes, written);
        assert_eq!(Acl::decode(&bytes), Ok(sample()));
        assert_eq!(Acl::decode(b"L\x01\0\0"), Ok(Acl::new()));
    }

    #[test]
    fn whatever_else_is_refused() {
        let good = sample().encode();
        for cut in 0..good.len() {
            assert_eq!(Acl::decode(&good[..cut]), Err(BadAcl::Damaged), "cut at {cut}");
        }
        assert_eq!(Acl::decode(&[&good[..], b"x"].concat()), Err(BadAcl::Damaged));
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            Acl::decode(&bytes)
        };
        assert_eq!(with(0, b'M'), Err(BadAcl::Damaged));
        assert_eq!(with(1, 2), Err(BadAcl::Version(2)));
        assert_eq!(with(2, 21), Err(BadAcl::TooLong));
        assert_eq!(with(5, 1), Err(BadAcl::UnknownRight(0x1007f)));
        assert_eq!(with(7, 0), Err(BadAcl::Order), "an entry without rights");
        assert_eq!(with(10, b'z'), Err(BadAcl::Order));
        assert_eq!(with(10, 0xff), Err(BadAcl::Damaged), "not UTF-8");
        assert_eq!(with(10, b' '), Err(BadAcl::Damaged), "no name");
        let twice = b"L\x01\x02\x00\0\0\0\x7f\x02\0al\0\0\0\x7f\x02\0al";
        assert_eq!(Acl::decode(twice), Err(BadAcl::Order));
    }
}
