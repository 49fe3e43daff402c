//! Extended attributes (MS-FSCC 2.4.16).

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::chain::{Entries, EntryWriter};
use crate::fixed::{part, prefix, wire};
use crate::malformed::Malformed;
use crate::status::Status;

/// Most attributes of one list that are taken.
pub const EAS_MAX: usize = 1024;

wire! {
    /// Fixed part of FileFullEaInformation.
    pub struct EaHead {
        next_entry_offset: U32,
        /// FILE_NEED_EA (0x80): a program that does not understand the attribute must not use the file.
        flags: u8,
        ea_name_length: u8,
        ea_value_length: U16,
    }
}

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ea<'a> {
    /// The attribute's name: ASCII, compared without case.
    pub name: &'a [u8],
    /// The attribute's value; none removes it.
    pub value: &'a [u8],
}

/// Reads a list of attributes to set.
///
/// # Errors
/// As an item: the list is not whole, or holds a name or flags that no attribute has. The request fails with
/// [`Status::INVALID_EA_NAME`] or [`Status::INVALID_PARAMETER`], see [`status`].
pub fn parse(data: &[u8]) -> impl Iterator<Item = Result<Ea<'_>, Malformed>> {
    let entries = Entries::new(data, 4, size_of::<EaHead>() + 1);
    entries.take(EAS_MAX + 1).enumerate().map(|(count, entry)| {
        if count == EAS_MAX {
            return Err(Malformed::Count);
        }
        let entry = entry?;
        let (head, rest) = prefix::<EaHead>(entry)?;
        let name_len = usize::from(head.ea_name_length);
        let name = part(rest, 0, name_len)?;
        // The name has an end mark that its length does not count.
        if rest.get(name_len) != Some(&0) {
            return Err(Malformed::Offset);
        }
        //= MS-FSA 2.1.5.15.6
        //# A name, or flags, that no attribute has: STATUS_INVALID_EA_NAME.
        if head.flags & !NEED_EA != 0 || !is_name(name) {
            return Err(Malformed::Value);
        }
        Ok(Ea { name, value: part(rest, name_len + 1, head.ea_value_length.get().into())? })
    })
}

/// Returns what a list that is refused fails with.
pub fn status(why: Malformed) -> Status {
    match why {
        Malformed::Value => Status::INVALID_EA_NAME,
        //= MS-SMB2 2.2.13.2.1
        //# A list has the format of MS-FSCC 2.4.16. Neither names a status for another: it is that of any malformed request, as with Samba.
        other => other.status(),
    }
}

/// Returns whether an attribute may have this name (MS-FSCC 2.4.16).
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| valid(*byte))
}

/// Returns whether a byte may be in a name (MS-FSCC 2.4.16). What is no ASCII is some code page's, and kept as it is.
fn valid(byte: u8) -> bool {
    !byte.is_ascii_control() && !b"\"*+,/:;<=>?[\\]|".contains(&byte)
}

/// FILE_NEED_EA.
const NEED_EA: u8 = 0x80;

/// Appends an attribute; `false` if it does not fit.
pub fn write(list: &mut EntryWriter<'_>, ea: &Ea<'_>) -> bool {
    let (Ok(name_len), Ok(value_len)) = (u8::try_from(ea.name.len()), u16::try_from(ea.value.len())) else {
        return false;
    };
    list.push(|out| {
        let head = EaHead {
            next_entry_offset: U32::ZERO,
            flags: 0,
            ea_name_length: name_len,
            ea_value_length: value_len.into(),
        };
        out.extend(head.as_bytes());
        out.extend(ea.name);
        out.push(0);
        out.extend(ea.value);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back_and_bad_names_do_not() {
        let eas = [Ea { name: b"one", value: b"1" }, Ea { name: b"TWO", value: b"" }];
        let mut out = Vec::new();
        let mut list = EntryWriter::new(&mut out, 4, 100);
        assert!(eas.iter().all(|ea| write(&mut list, ea)));
        assert_eq!(parse(&out).map(Result::unwrap).collect::<Vec<_>>(), eas);
        for (at, value, expected) in [
            (8, b':', Status::INVALID_EA_NAME),
            (8, 0, Status::INVALID_EA_NAME),
            (4, 1, Status::INVALID_EA_NAME),
            (4, 0x7f, Status::INVALID_EA_NAME),
            (11, b'x', Status::INVALID_PARAMETER),
            (5, 200, Status::INVALID_PARAMETER),
        ] {
            let mut bad = out.clone();
            bad[at] = value;
            let why = parse(&bad).find_map(Result::err).unwrap();
            assert_eq!(status(why), expected, "{at}");
        }
        assert_eq!(parse(b"\0\0\0\0\0\0\x01\0\0v").next(), Some(Err(Malformed::Value)), "no name");
        for (at, value) in [(8, b' '), (8, 0xe9), (4, 0x80)] {
            let mut good = out.clone();
            good[at] = value;
            assert!(parse(&good).all(|ea| ea.is_ok()), "{at}");
        }
        let long = Ea { name: &[b'a'; 256], value: b"" };
        assert!(!write(&mut EntryWriter::new(&mut out, 4, 1000), &long));
    }
}
