//! Access of opens, and share modes.

use std::fmt;
use std::ops::BitOr;

/// Access of an open as share modes count it. Executing counts as reading, appending as writing; attributes,
/// owners and rights count as nothing.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Access(u8);

/// Share mode of an open (MS-SMB2 2.2.13, ShareAccess).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Share(u8);

/// Open for attributes alone, a "stat open", which breaks no lease or oplock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatOpen {
    /// The open is for more than attributes.
    #[default]
    No,
    /// The open reads the access list and attributes: it breaks no lease, but counts as any open for oplocks.
    ReadControl,
    /// The open reads or sets attributes only.
    Attributes,
}

impl Access {
    /// Access to attributes alone.
    pub const NONE: Self = Self(0);
    /// Access to read or execute.
    pub const READ: Self = Self(1);
    /// Access to write or append.
    pub const WRITE: Self = Self(2);
    /// Access to delete or rename.
    pub const DELETE: Self = Self(4);

    /// Takes the three low bits of `bits`.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }

    /// Returns whether the access is to attributes alone.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns whether this access includes all of `other`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether this access includes any of `other`.
    pub const fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl Share {
    /// Share mode that allows no other access.
    pub const NONE: Self = Self(0);
    /// Share mode that allows all access.
    pub const ALL: Self = Self(7);

    /// Takes the bits of ShareAccess: FILE_SHARE_READ (1), WRITE (2), DELETE (4).
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }

    /// Returns whether the share mode allows all of `access`.
    pub const fn allows(self, access: Access) -> bool {
        access.0 & !self.0 == 0
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.0, f)
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.0, f)
    }
}

fn write(bits: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let letter = |bit: u8, letter: &'static str| if bits & bit == 0 { "-" } else { letter };
    write!(f, "{}{}{}", letter(1, "r"), letter(2, "w"), letter(4, "d"))
}
