//! Security identifiers and descriptors in their self-relative form (MS-DTYP 2.4.2 to 2.4.6).

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::fixed::{prefix, wire};
use crate::malformed::Malformed;

/// Most sub-authorities of an identifier.
pub const SUB_AUTHORITIES_MAX: usize = 15;
/// Most entries of a list that are taken; a list is of at most 64 KiB.
pub const ACES_MAX: usize = 2048;

/// Bits of a descriptor's `Control`.
pub mod control {
    /// SE_DACL_PRESENT: there is an access list.
    pub const DACL_PRESENT: u16 = 0x0004;
    /// SE_SACL_PRESENT: there is an audit list.
    pub const SACL_PRESENT: u16 = 0x0010;
    /// Asks that the list be taken for one that was inherited as its flags say.
    pub const DACL_AUTO_INHERIT_REQ: u16 = 0x0100;
    /// The list was inherited.
    pub const DACL_AUTO_INHERITED: u16 = 0x0400;
    /// The list does not inherit.
    pub const DACL_PROTECTED: u16 = 0x1000;
    /// Offsets, not pointers.
    pub const SELF_RELATIVE: u16 = 0x8000;
}

/// `AceType` of the entries that are taken.
pub mod ace_type {
    /// Allows.
    pub const ACCESS_ALLOWED: u8 = 0;
    /// Denies.
    pub const ACCESS_DENIED: u8 = 1;
}

/// Bits of `AceFlags`.
pub mod ace_flags {
    /// Files within inherit it.
    pub const OBJECT_INHERIT: u8 = 0x01;
    /// Directories within inherit it.
    pub const CONTAINER_INHERIT: u8 = 0x02;
    /// Only what is right below inherits it.
    pub const NO_PROPAGATE_INHERIT: u8 = 0x04;
    /// INHERIT_ONLY_ACE: the entry is handed down, and does not count here.
    pub const INHERIT_ONLY: u8 = 0x08;
    /// INHERITED_ACE: the entry was inherited.
    pub const INHERITED: u8 = 0x10;
}

/// A security identifier: names a user or group (MS-DTYP 2.4.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sid {
    authority: [u8; 6],
    len: u8,
    sub: [u32; SUB_AUTHORITIES_MAX],
}

impl Sid {
    /// Every user: `S-1-1-0`.
    pub const EVERYONE: Self = Self::well_known(1, 0);
    /// The file's creator: `S-1-3-0`.
    pub const CREATOR_OWNER: Self = Self::well_known(3, 0);
    /// The primary group of the file's creator: `S-1-3-1`.
    pub const CREATOR_GROUP: Self = Self::well_known(3, 1);
    /// The file's owner: `S-1-3-4`.
    pub const OWNER_RIGHTS: Self = Self::well_known(3, 4);
    /// An unauthenticated client: `S-1-5-7`.
    pub const ANONYMOUS: Self = Self::well_known(5, 7);
    /// Every authenticated user: `S-1-5-11`.
    pub const AUTHENTICATED_USERS: Self = Self::well_known(5, 11);
    /// The system: `S-1-5-18`.
    pub const LOCAL_SYSTEM: Self = Self::well_known(5, 18);

    const fn well_known(authority: u8, sub_authority: u32) -> Self {
        let mut sub = [0; SUB_AUTHORITIES_MAX];
        sub[0] = sub_authority;
        Self { authority: [0, 0, 0, 0, 0, authority], len: 1, sub }
    }

    /// Creates an identifier of an authority of 48 bits and sub-authorities; `None` if either has too many.
    pub fn new(authority: u64, sub_authorities: &[u32]) -> Option<Self> {
        let authority = authority.to_be_bytes();
        let mut sub = [0; SUB_AUTHORITIES_MAX];
        sub.get_mut(..sub_authorities.len())?.copy_from_slice(sub_authorities);
        let authority =
            (authority[..2] == [0, 0]).then(|| authority[2..].try_into().expect("six of eight"))?;
        Some(Self { authority, len: sub_authorities.len() as u8, sub })
    }

    /// Parses the identifier that `bytes` begin with, and what follows it.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let ([revision, len, authority @ ..], rest) =
            bytes.split_first_chunk::<8>().ok_or(Malformed::Short)?;
        if *revision != 1 || usize::from(*len) > SUB_AUTHORITIES_MAX {
            return Err(Malformed::Value);
        }
        let (words, rest) = rest.split_at_checked(4 * usize::from(*len)).ok_or(Malformed::Short)?;
        let mut sub = [0; SUB_AUTHORITIES_MAX];
        for (sub, word) in sub.iter_mut().zip(words.chunks_exact(4)) {
            *sub = u32::from_le_bytes(word.try_into().expect("chunks of four"));
        }
        Ok((Self { authority: *authority, len: *len, sub }, rest))
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([1, self.len]);
        out.extend(self.authority);
        out.extend(self.sub_authorities().iter().flat_map(|word| word.to_le_bytes()));
    }

    /// Returns the length on the wire, in bytes.
    pub fn wire_len(&self) -> usize {
        8 + 4 * usize::from(self.len)
    }

    /// Returns the identifier's authority.
    pub fn authority(&self) -> u64 {
        self.authority.iter().fold(0, |all, byte| all << 8 | u64::from(*byte))
    }

    /// Returns the identifier's sub-authorities.
    pub fn sub_authorities(&self) -> &[u32] {
        &self.sub[..usize::from(self.len)]
    }
}

impl std::fmt::Display for Sid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "S-1-{}", self.authority())?;
        self.sub_authorities().iter().try_for_each(|sub| write!(f, "-{sub}"))
    }
}

impl std::fmt::Debug for Sid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

wire! {
    /// Head of a descriptor, MS-DTYP 2.4.6.
    pub struct DescriptorHead {
        revision: u8,
        sbz1: u8,
        control: U16,
        offset_owner: U32,
        offset_group: U32,
        offset_sacl: U32,
        offset_dacl: U32,
    }
}

wire! {
    /// Head of a list, MS-DTYP 2.4.5.
    pub struct AclHead {
        revision: u8,
        sbz1: u8,
        acl_size: U16,
        ace_count: U16,
        sbz2: U16,
    }
}

wire! {
    /// Head of an entry that allows or denies, MS-DTYP 2.4.4.2.
    pub struct AceHead {
        ace_type: u8,
        ace_flags: u8,
        ace_size: U16,
        mask: U32,
    }
}

/// An entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ace {
    /// Type of the entry: one of [`ace_type`].
    pub kind: u8,
    /// Bits of [`ace_flags`].
    pub flags: u8,
    /// Rights.
    pub mask: u32,
    /// The user or group that the entry is for.
    pub sid: Sid,
}

/// A descriptor. What is `None` is not there; a list of nothing allows nothing, no list allows everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Descriptor {
    /// Bits of [`control`] beside those that follow from the rest.
    pub control: u16,
    /// The owner.
    pub owner: Option<Sid>,
    /// The primary group.
    pub group: Option<Sid>,
    /// The discretionary access list. Where `control` has `DACL_PRESENT` all the same, it is a list that
    /// allows everything.
    pub dacl: Option<Vec<Ace>>,
}

impl Descriptor {
    /// Reads a descriptor. The entries of the audit list are passed over.
    ///
    /// # Errors
    /// A part outside of it, be it the audit list, and entries other than those that allow or deny an identifier, which no list of ours
    /// holds.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (head, _) = prefix::<DescriptorHead>(bytes)?;
        let bits = head.control.get();
        if head.revision != 1 || bits & control::SELF_RELATIVE == 0 {
            return Err(Malformed::Value);
        }
        let at = |offset: U32| bytes.get(offset.get() as usize..).ok_or(Malformed::Offset);
        let sid = |offset: U32| (offset != U32::ZERO).then(|| Ok(Sid::parse(at(offset)?)?.0)).transpose();
        let has_dacl = bits & control::DACL_PRESENT != 0 && head.offset_dacl != U32::ZERO;
        if bits & control::SACL_PRESENT != 0 && head.offset_sacl != U32::ZERO {
            acl_bytes(at(head.offset_sacl)?)?;
        }
        // Of one that is said to be there and is not the bit is all there is to see.
        let has_list = if has_dacl { control::DACL_PRESENT } else { 0 };
        Ok(Self {
            control: bits & !(control::SELF_RELATIVE | control::SACL_PRESENT | has_list),
            owner: sid(head.offset_owner)?,
            group: sid(head.offset_group)?,
            dacl: has_dacl.then(|| parse_acl(at(head.offset_dacl)?)).transpose()?,
        })
    }

    /// Returns the descriptor in its self-relative form: owner, group and list, in the order of their offsets and as
    /// Samba lays them out.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![0; size_of::<DescriptorHead>()];
        let mut head = DescriptorHead {
            revision: 1,
            sbz1: 0,
            control: U16::new(self.control | control::SELF_RELATIVE),
            offset_owner: U32::ZERO,
            offset_group: U32::ZERO,
            offset_sacl: U32::ZERO,
            offset_dacl: U32::ZERO,
        };
        if let Some(owner) = &self.owner {
            head.offset_owner.set(out.len() as u32);
            owner.write(&mut out);
        }
        if let Some(group) = &self.group {
            head.offset_group.set(out.len() as u32);
            group.write(&mut out);
        }
        if let Some(aces) = &self.dacl {
            head.control.set(head.control.get() | control::DACL_PRESENT);
            head.offset_dacl.set(out.len() as u32);
            write_acl(aces, &mut out);
        }
        out[..size_of_val(&head)].copy_from_slice(head.as_bytes());
        out
    }
}

/// Parses the head of a list, and its entries.
fn acl_bytes(bytes: &[u8]) -> Result<(&AclHead, &[u8]), Malformed> {
    let (head, _) = prefix::<AclHead>(bytes)?;
    let list = bytes.get(..head.acl_size.get().into()).ok_or(Malformed::Offset)?;
    Ok((head, list.get(size_of::<AclHead>()..).ok_or(Malformed::Offset)?))
}

fn parse_acl(bytes: &[u8]) -> Result<Vec<Ace>, Malformed> {
    let (head, mut rest) = acl_bytes(bytes)?;
    let count = usize::from(head.ace_count.get());
    if count > ACES_MAX {
        return Err(Malformed::Count);
    }
    let mut aces = Vec::with_capacity(count.min(rest.len() / 16));
    for _ in 0..count {
        let (ace, _) = prefix::<AceHead>(rest)?;
        let (entry, behind) = rest.split_at_checked(ace.ace_size.get().into()).ok_or(Malformed::Offset)?;
        if !matches!(ace.ace_type, ace_type::ACCESS_ALLOWED | ace_type::ACCESS_DENIED) {
            return Err(Malformed::Value);
        }
        let body = entry.get(size_of::<AceHead>()..).ok_or(Malformed::Offset)?;
        let (sid, _) = Sid::parse(body)?;
        aces.push(Ace { kind: ace.ace_type, flags: ace.ace_flags, mask: ace.mask.get(), sid });
        rest = behind;
    }
    Ok(aces)
}

fn write_acl(aces: &[Ace], out: &mut Vec<u8>) {
    let entry_len = |ace: &Ace| size_of::<AceHead>() + ace.sid.wire_len();
    let len = size_of::<AclHead>() + aces.iter().map(entry_len).sum::<usize>();
    let head = AclHead {
        revision: 2,
        sbz1: 0,
        acl_size: U16::new(u16::try_from(len).expect("lists of ours are short")),
        ace_count: U16::new(aces.len() as u16),
        sbz2: U16::ZERO,
    };
    out.extend(head.as_bytes());
    for ace in aces {
        let head = AceHead {
            ace_type: ace.kind,
            ace_flags: ace.flags,
            ace_size: U16::new(entry_len(ace) as u16),
            mask: ace.mask.into(),
        };
        out.extend(head.as_bytes());
        ace.sid.write(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Descriptor {
        let user = Sid::new(22, &[1, 1000]).unwrap();
        let allow = |mask, sid| Ace { kind: ace_type::ACCESS_ALLOWED, flags: 3, mask, sid };
        Descriptor {
            control: control::DACL_PROTECTED,
            owner: Some(user),
            group: Some(Sid::new(22, &[2, 100]).unwrap()),
            dacl: Some(vec![allow(0x1f_01ff, user), allow(0x12_0089, Sid::EVERYONE)]),
        }
    }

    #[test]
    fn a_descriptor_comes_back() {
        let bytes = sample().to_bytes();
        assert_eq!(Descriptor::parse(&bytes), Ok(sample()));
        let empty = Descriptor { dacl: Some(Vec::new()), ..Descriptor::default() };
        assert_eq!(Descriptor::parse(&empty.to_bytes()), Ok(empty));
        let none = Descriptor::default();
        assert_eq!(Descriptor::parse(&none.to_bytes()), Ok(none));
        assert_eq!(Sid::new(5, &[21, 1, 2, 3, 500]).unwrap().to_string(), "S-1-5-21-1-2-3-500");
        assert_eq!(Sid::new(5, &[0; 16]), None);
        assert_eq!(Sid::new(1 << 48, &[]), None);
    }

    #[test]
    fn parts_lie_in_the_order_of_their_offsets_one_behind_the_other() {
        let whole = sample();
        for without in 0..8 {
            let Descriptor { control, owner, group, dacl } = whole.clone();
            let left = Descriptor {
                control,
                owner: owner.filter(|_| without & 1 == 0),
                group: group.filter(|_| without & 2 == 0),
                dacl: dacl.filter(|_| without & 4 == 0),
            };
            let bytes = left.to_bytes();
            let (head, _) = prefix::<DescriptorHead>(&bytes).unwrap();
            let sid_len = |sid: &Option<Sid>| sid.as_ref().map_or(0, Sid::wire_len) as u32;
            let mut end = size_of::<DescriptorHead>() as u32;
            for (offset, len) in
                [(head.offset_owner, sid_len(&left.owner)), (head.offset_group, sid_len(&left.group))]
            {
                assert_eq!(offset.get(), if len > 0 { end } else { 0 }, "{without}");
                end += len;
            }
            assert_eq!(head.offset_dacl.get(), if left.dacl.is_some() { end } else { 0 }, "{without}");
            assert_eq!(head.offset_sacl.get(), 0);
        }
    }

    #[test]
    fn parts_that_lie_are_refused() {
        let whole = sample().to_bytes();
        for end in 0..whole.len() {
            assert!(Descriptor::parse(&whole[..end]).is_err(), "{end}");
        }
        let acl = u32::from_le_bytes(*whole[16..].first_chunk().unwrap()) as usize;
        for (at, value) in [
            (0, 2),
            (3, 0),
            (4, 0xff),
            (16, 0xff),
            (acl + 2, 0xff),
            (acl + 4, 3),
            (acl + 8, 5),
            (acl + 10, 7),
        ] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            assert!(Descriptor::parse(&bytes).is_err(), "{at}");
        }
    }
}
