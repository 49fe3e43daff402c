//! Security descriptors as Samba keeps them with a file (`xattr_NTACL` of its `xattr.idl`), so that a share moves over and back.
//!
//! ```text
//!  version 1    | 01 00 | 01 00 | pointer |                                                                          descriptor
//!  version 2    | 02 00 | 02 00 | pointer | pointer | hash, 16 bytes |                                               descriptor
//!  version 3    | 03 00 | 03 00 | pointer | pointer | kind of hash, 2 | hash, 64 | padding, 2 |                      descriptor
//!  version 4    | 04 00 | 04 00 | pointer | pointer | kind of hash, 2 | hash, 64 | text, 0 | padding | time, 8 | hash, 64 | descriptor
//! ```
//! Integers are little-endian, pointers are four bytes that are not zero, padding goes to a multiple of four. Version 1 is written: Samba
//! takes it as it is, while the others hold hashes of what else it knows of the file.

use smb_wire::info::security::Descriptor;
use smb_wire::malformed::Malformed;

/// Longest value that is read or written, bytes: what Linux keeps in one attribute.
pub const BYTES_MAX: usize = 65_536;

/// Why an attribute's value is no descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is not as Samba writes it, or has entries that do more than to allow or deny somebody something.
    #[error("it is damaged, or says what is not understood: {0}")]
    Malformed(#[from] Malformed),
    /// It is of a version that is not known.
    #[error("it is of version {0}, which is not known")]
    Version(u16),
}

/// The descriptor of an attribute's value.
///
/// # Errors
/// [`Unreadable`].
pub fn parse(value: &[u8]) -> Result<Descriptor, Unreadable> {
    let word = |at: usize| {
        let bytes = value.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u16::from_le_bytes).ok_or(Malformed::Short)
    };
    let (version, again) = (word(0)?, word(2)?);
    if version != again {
        return Err(Malformed::Value.into());
    }
    let at = match version {
        1 => FIRST,
        2 => FIRST + POINTER + 16,
        3 => padded(FIRST + POINTER + 2 + HASH),
        4 => {
            let text = FIRST + POINTER + 2 + HASH;
            let end = value.get(text..).and_then(|rest| rest.iter().position(|byte| *byte == 0));
            padded(text + end.ok_or(Malformed::Short)? + 1) + TIME + HASH
        }
        _ => return Err(Unreadable::Version(version)),
    };
    Ok(Descriptor::parse(value.get(at..).ok_or(Malformed::Short)?)?)
}

/// The attribute's value for a descriptor; `None` where it is too long.
pub fn encode(descriptor: &Descriptor) -> Option<Vec<u8>> {
    let mut value = vec![1, 0, 1, 0, 0, 0, 2, 0];
    value.extend(descriptor.to_bytes());
    (value.len() <= BYTES_MAX).then_some(value)
}

fn padded(at: usize) -> usize {
    at.next_multiple_of(4)
}

/// Version, the same again, and a pointer.
const FIRST: usize = 8;
const POINTER: usize = 4;
const HASH: usize = 64;
const TIME: usize = 8;

#[cfg(test)]
mod tests {
    use smb_wire::info::security::{Ace, Sid};

    use super::*;

    fn sample() -> Descriptor {
        let ace = Ace { kind: 0, flags: 3, mask: 0x1f_01ff, sid: Sid::EVERYONE };
        let owner = Some(Sid::LOCAL_SYSTEM);
        Descriptor { owner, group: owner, dacl: Some(vec![ace]), ..Descriptor::default() }
    }

    #[test]
    fn what_is_written_is_version_1_and_comes_back() {
        let value = encode(&sample()).unwrap();
        assert_eq!(&value[..12], [1, 0, 1, 0, 0, 0, 2, 0, 1, 0, 4, 128]);
        assert_eq!(parse(&value), Ok(sample()));
    }

    #[test]
    fn each_version_of_samba_is_read() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let (one, two) = (0x2_0000, 0x2_0004);
        let hash = [7u8; 64];
        let heads = [
            [words(&[0x1_0001, one])].concat(),
            [words(&[0x2_0002, one, two]), hash[..16].to_vec()].concat(),
            [words(&[0x3_0003, one, two]), vec![1, 0], hash.to_vec(), vec![0; 2]].concat(),
            [
                words(&[0x4_0004, one, two]),
                vec![1, 0],
                hash.to_vec(),
                b"posix_acl\0".to_vec(),
                vec![9; 8],
                hash.to_vec(),
            ]
            .concat(),
            [
                words(&[0x4_0004, one, two]),
                vec![1, 0],
                hash.to_vec(),
                b"\0\0".to_vec(),
                vec![9; 8],
                hash.to_vec(),
            ]
            .concat(),
        ];
        for head in heads {
            let value = [head, sample().to_bytes()].concat();
            assert_eq!(parse(&value), Ok(sample()), "{:?}", &value[..4]);
            for end in 0..value.len() {
                assert!(matches!(parse(&value[..end]), Err(Unreadable::Malformed(_))), "{end}");
            }
        }
    }

    #[test]
    fn other_versions_are_refused() {
        let mut value = encode(&sample()).unwrap();
        for (version, why) in [
            ([0, 0, 0, 0], Unreadable::Version(0)),
            ([5, 0, 5, 0], Unreadable::Version(5)),
            ([1, 0, 2, 0], Malformed::Value.into()),
            ([2, 0, 1, 0], Malformed::Value.into()),
        ] {
            value[..4].copy_from_slice(&version);
            assert_eq!(parse(&value), Err(why), "{version:?}");
        }
    }
}
