//! Security descriptors as Samba keeps them with a file (`xattr_NTACL` of its `xattr.idl`), so that a share moves over and back.
//!
//! ```text
//!  version 1    | 01 00 | 01 00 | pointer |                                                                          descriptor
//!  version 2    | 02 00 | 02 00 | pointer | pointer | hash, 16 bytes |                                               descriptor
//!  version 3    | 03 00 | 03 00 | pointer | pointer | kind of hash, 2 | hash, 64 | padding, 2 |                      descriptor
//!  version 4    | 04 00 | 04 00 | pointer | pointer | kind of hash, 2 | hash, 64 | text, 0 | padding | time, 8 | hash, 64 | descriptor
//! ```
//! Integers are little-endian, pointers are four bytes that are not zero, padding goes to a multiple of four. The offsets within the
//! descriptor count from the begin of the value, as its parts are written into one buffer. Version 1 is written: Samba takes it as it is,
//! while the others hold hashes of what else it knows of the file. What the server itself
//! wrote at first, of version 1 too, counts from the descriptor: its parts lie behind its head, so that the least offset shows it.

use smb_wire::info::security::Descriptor;
use smb_wire::malformed::Malformed;

/// Longest value that is read or written, bytes: what Linux keeps in one attribute.
pub const BYTES_MAX: usize = 65_536;

/// Reason why an attribute's value is no descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The value is not as Samba writes it, or has entries that do more than to allow or deny rights.
    #[error("it is damaged, or says what is not understood: {0}")]
    Malformed(#[from] Malformed),
    /// The attribute is of an unknown version.
    #[error("it is of version {0}, which is not known")]
    Version(u16),
}

/// Parses the descriptor of an attribute's value.
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
    let mut descriptor = value.get(at..).ok_or(Malformed::Short)?.to_vec();
    let least = offsets(&descriptor)?.into_iter().filter(|offset| *offset != 0).min();
    if least.is_some_and(|least| least as usize >= at + HEAD) {
        shift(&mut descriptor, |offset| offset - at as u32)?;
    }
    Ok(Descriptor::parse(&descriptor)?)
}

/// Returns the attribute's value for a descriptor; `None` where it is too long.
pub fn encode(descriptor: &Descriptor) -> Option<Vec<u8>> {
    let mut bytes = descriptor.to_bytes();
    shift(&mut bytes, |offset| offset + FIRST as u32).ok()?;
    let mut value = vec![1, 0, 1, 0, 0, 0, 2, 0];
    value.extend(bytes);
    (value.len() <= BYTES_MAX).then_some(value)
}

/// Returns the offsets of a descriptor's owner, group and lists (MS-DTYP 2.4.6); 0: nowhere.
fn offsets(descriptor: &[u8]) -> Result<[u32; 4], Malformed> {
    let head: &[u8; HEAD] = descriptor.first_chunk().ok_or(Malformed::Short)?;
    Ok([4, 8, 12, 16].map(|at| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])))
}

/// Has them count from elsewhere.
fn shift(descriptor: &mut [u8], moved: impl Fn(u32) -> u32) -> Result<(), Malformed> {
    let offsets = offsets(descriptor)?;
    for (at, offset) in [4, 8, 12, 16].into_iter().zip(offsets).filter(|(_, offset)| *offset != 0) {
        descriptor[at..at + 4].copy_from_slice(&moved(offset).to_le_bytes());
    }
    Ok(())
}

fn padded(at: usize) -> usize {
    at.next_multiple_of(4)
}

/// Version, the same again, and a pointer.
const FIRST: usize = 8;
const POINTER: usize = 4;
const HASH: usize = 64;
const TIME: usize = 8;
/// Bytes of a descriptor's head: revision, control, and four offsets.
const HEAD: usize = 20;

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
            let mut descriptor = sample().to_bytes();
            shift(&mut descriptor, |offset| offset + head.len() as u32).unwrap();
            let value = [head, descriptor].concat();
            assert_eq!(parse(&value), Ok(sample()), "{:?}", &value[..4]);
            for end in 0..value.len() {
                assert!(matches!(parse(&value[..end]), Err(Unreadable::Malformed(_))), "{end}");
            }
        }
    }

    /// Data as smbd 4.17 has written it for smbcacls: every user reads, and the POSIX user 34 has all.
    #[test]
    fn what_smbd_has_written_is_read() {
        let hex = concat!(
            "040004000000020004000200010054558e53217bb5621edc8be12840c02fac223ab4976834e4fe0ba510946c2d71",
            "0000000000000000000000000000000000000000000000000000000000000000706f7369785f61636c0094b08825",
            "337ddd0105e69dd6d2101277a3f0cfdb56ce31b69ed8ee54cb80d9ee7581d32ad8ca06d800000000000000000000",
            "0000000000000000000000000000000000000000000001000480b4000000d000000000000000ec00000001050000",
            "00000005150000001034b4a9a426e70e789fd9c2e80300000105000000000005150000001034b4a9a426e70e789f",
            "d9c201020000030034000200000000001400a900120001010000000000010000000000001800ff011f0001020000",
            "000000160100000022000000",
        );
        let value: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        let read = parse(&value).unwrap();
        let dacl: Vec<_> = read.dacl.unwrap().iter().map(|ace| (ace.mask, ace.sid.to_string())).collect();
        assert_eq!(dacl, [(0x1200a9, "S-1-1-0".to_owned()), (0x1f01ff, "S-1-22-1-34".to_owned())]);
        let domain = "S-1-5-21-2847159312-250029732-3269042040";
        let told = [read.owner, read.group].map(|sid| sid.unwrap().to_string());
        assert_eq!(told, [format!("{domain}-1000"), format!("{domain}-513")]);
    }

    #[test]
    fn what_was_written_from_the_descriptor_s_begin_is_read_still() {
        let value = [vec![1, 0, 1, 0, 0, 0, 2, 0], sample().to_bytes()].concat();
        assert_eq!(parse(&value), Ok(sample()));
        assert_ne!(encode(&sample()), Some(value));
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
