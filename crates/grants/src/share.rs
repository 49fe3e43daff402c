//! Access of opens, and share modes.

use std::fmt;
use std::ops::BitOr;

/// Access of an open, as far as others have to bear it. Executing counts as reading, appending as writing;
/// attributes, owners and rights count as nothing.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Access(u8);

/// Share mode of an open (MS-SMB2 2.2.13, ShareAccess).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Share(u8);

/// An open that asks for attributes alone, which breaks no lease or oplock (a "stat open").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatOpen {
    /// The open is for more than attributes.
    #[default]
    No,
    /// To read the access list, and attributes: nothing to a lease that is held already, else an open like
    /// any.
    ReadControl,
    /// To see or set attributes.
    Attributes,
}

impl Access {
    /// Attributes alone.
    pub const NONE: Self = Self(0);
    /// Reads, or executes.
    pub const READ: Self = Self(1);
    /// Writes, or appends.
    pub const WRITE: Self = Self(2);
    /// Deletes, or renames.
    pub const DELETE: Self = Self(4);

    /// Of some of the three bits.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }

    /// Returns whether it is nothing that others have to bear.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns whether all of `other` is here.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether any of `other` is here.
    pub const fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl Share {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Everything.
    pub const ALL: Self = Self(7);

    /// Reads the bits of the wire: FILE_SHARE_READ (1), WRITE (2), DELETE (4).
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }

    /// Returns whether others may do all of that.
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
