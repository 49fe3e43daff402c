//! POSIX access lists (acl(5)), as local programs set them and the kernel keeps them. Where one lies on a
//! file, the group's bits of its mode are the most that any entry but the owner's and the others' gives, so
//! that mode bits alone would let in users that the list keeps out.
//!
//! Here an entry lets no user in: it is read for what it denies. Members of the file's group have what its
//! own entry gives, and both they and the others no more than what each entry for a user or another group
//! gives.

use std::ffi::CStr;

/// Attribute that holds a file's list.
pub(crate) const ATTRIBUTE: &CStr = c"system.posix_acl_access";
/// Attribute that holds the list that a directory hands down to what is made in it.
pub(crate) const HANDED_DOWN: &CStr = c"system.posix_acl_default";
/// A longer one is taken for one that denies: the file systems keep less.
pub(crate) const BYTES_MAX: usize = 64 << 10;

/// Mode bits that a POSIX access list leaves to the group and to others: three bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AclMask(u8);

impl AclMask {
    /// Mask that leaves everything: the list is for what is made in the directory alone.
    pub(crate) const ALL: Self = Self(0o77);
    /// Mask that leaves nothing but the owner's bits.
    const NONE: Self = Self(0);

    /// Reads the mask of a list; one that cannot be read leaves nothing.
    pub(crate) fn of(list: &[u8]) -> Self {
        Self::parsed(list).unwrap_or(Self::NONE)
    }

    /// Returns mode bits without those that the list takes.
    pub(crate) fn narrowed(self, mode: u32) -> u32 {
        mode & (!0o77 | u32::from(self.0))
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        Self(bits & 0o77)
    }

    fn parsed(list: &[u8]) -> Option<Self> {
        let (version, entries) = list.split_first_chunk()?;
        let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
        if u32::from_le_bytes(*version) != VERSION || !rest.is_empty() {
            return None;
        }
        let (mut mask, mut group, mut others) = (ALL, None, None);
        // What every entry of a user, and of a group, gives.
        let (mut users, mut groups) = (None, None);
        for [tag, tag_high, bits, bits_high, ..] in entries {
            let bits =
                u8::try_from(u16::from_le_bytes([*bits, *bits_high])).ok().filter(|bits| *bits <= ALL)?;
            match u16::from_le_bytes([*tag, *tag_high]) {
                OWNER => {}
                USER => users = Some(users.unwrap_or(ALL) & bits),
                GROUP_OF_FILE => group = Some(bits),
                GROUP => groups = Some(groups.unwrap_or(ALL) & bits),
                MASK => mask = bits,
                OTHERS => others = Some(bits),
                _ => return None,
            }
        }
        let [users, groups] = [users, groups].map(|given| given.map_or(ALL, |bits| bits & mask));
        Some(Self((group? & mask & users) << 3 | (others? & users & groups)))
    }
}

const VERSION: u32 = 2;
const ENTRY_BYTES: usize = 8;
const ALL: u8 = 0o7;
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OF_FILE: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut list = VERSION.to_le_bytes().to_vec();
        for (tag, bits, id) in entries {
            list.extend(tag.to_le_bytes());
            list.extend(bits.to_le_bytes());
            list.extend(id.to_le_bytes());
        }
        list
    }

    #[test]
    fn an_entry_takes_what_it_denies_and_gives_nothing() {
        const NO_ID: u32 = u32::MAX;
        let owner = (OWNER, 7, NO_ID);
        for (entries, mode, judged) in [
            // `setfacl -m u:bob:rw`: the group's bits are the mask now.
            (
                vec![owner, (USER, 6, 501), (GROUP_OF_FILE, 0, NO_ID), (MASK, 6, NO_ID), (OTHERS, 0, NO_ID)],
                0o760,
                0o700,
            ),
            (
                vec![owner, (USER, 7, 501), (GROUP_OF_FILE, 5, NO_ID), (MASK, 7, NO_ID), (OTHERS, 4, NO_ID)],
                0o774,
                0o754,
            ),
            // A user that may not what all others may.
            (
                vec![owner, (USER, 0, 501), (GROUP_OF_FILE, 5, NO_ID), (MASK, 5, NO_ID), (OTHERS, 5, NO_ID)],
                0o755,
                0o700,
            ),
            (
                vec![owner, (GROUP_OF_FILE, 6, NO_ID), (GROUP, 1, 50), (MASK, 7, NO_ID), (OTHERS, 5, NO_ID)],
                0o775,
                0o761,
            ),
            (
                vec![owner, (USER, 7, 501), (GROUP_OF_FILE, 7, NO_ID), (MASK, 4, NO_ID), (OTHERS, 7, NO_ID)],
                0o747,
                0o744,
            ),
            (vec![owner, (GROUP_OF_FILE, 5, NO_ID), (OTHERS, 4, NO_ID)], 0o754, 0o754),
        ] {
            assert_eq!(AclMask::of(&list(&entries)).narrowed(mode), judged, "{entries:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_leaves_its_owner_alone() {
        let whole = list(&[(OWNER, 7, 0), (GROUP_OF_FILE, 7, 0), (OTHERS, 7, 0)]);
        assert_eq!(AclMask::of(&whole).narrowed(0o4777), 0o4777);
        let others = [
            whole[..whole.len() - 1].to_vec(),
            whole[1..].to_vec(),
            Vec::new(),
            list(&[(OWNER, 7, 0), (GROUP_OF_FILE, 7, 0)]),
            list(&[(OWNER, 7, 0), (GROUP_OF_FILE, 7, 0), (OTHERS, 8, 0)]),
            list(&[(OWNER, 7, 0), (GROUP_OF_FILE, 7, 0), (OTHERS, 7, 0), (0x40, 7, 0)]),
        ];
        for list in others {
            assert_eq!(AclMask::of(&list).narrowed(0o4777), 0o4700, "{list:?}");
        }
    }
}
