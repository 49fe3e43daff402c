//! Caching: what a client may keep of a file without asking again (MS-SMB2 2.2.13.2.8, MS-FSA 2.1.1.10).

use std::fmt;

/// A set of read, handle and write caching. A client reads its own copy with `R`, keeps its open after the program has
/// closed it with `H`, and keeps what is written and locked with `W`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Caching(u8);

/// Way in which the caching was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An oplock: level II is [`Caching::R`], exclusive [`Caching::RW`], batch [`Caching::RWH`]. It belongs to one open.
    Oplock,
    /// A lease, shared by all opens with its key. `epoch` is that of the client's request, for version 2 of the context.
    Lease {
        /// `None` for version 1.
        epoch: Option<u16>,
    },
}

/// The lease or oplock that is held: the columns of [`conflict`](crate::conflict).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldCaching {
    /// Level II oplock.
    Level2,
    /// Exclusive oplock.
    Exclusive,
    /// Batch oplock.
    Batch,
    /// A lease to read.
    R,
    /// A lease to read, and to keep opens.
    RH,
    /// A lease to read and write.
    RW,
    /// A lease to read and write, and to keep opens.
    RWH,
}

impl Caching {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// To read.
    pub const R: Self = Self(1);
    /// To keep opens; never alone.
    pub const H: Self = Self(2);
    /// To write; never alone.
    pub const W: Self = Self(4);
    /// To read, and to keep opens.
    pub const RH: Self = Self(3);
    /// To read and write.
    pub const RW: Self = Self(5);
    /// All there is.
    pub const RWH: Self = Self(7);

    /// Of the bits of SMB2_LEASE_READ_CACHING (1), HANDLE (2) and WRITE (4); others are left out. What no server grants
    /// (`H`, `W`, `WH` without `R`) is nothing.
    pub const fn from_bits(bits: u8) -> Self {
        if bits & 1 == 0 { Self::NONE } else { Self(bits & 7) }
    }

    /// Returns the bits as on the wire.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns whether all of `other` is here.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns what both have.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns these rights without those of `other`; without `R` nothing is left.
    pub const fn without(self, other: Self) -> Self {
        Self::from_bits(self.0 & !other.0)
    }

    /// Returns whether it is nothing.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl HeldCaching {
    /// All columns, in order.
    pub const ALL: [Self; 7] =
        [Self::Level2, Self::Exclusive, Self::Batch, Self::R, Self::RH, Self::RW, Self::RWH];

    /// Returns which column `caching` of this kind is; `None` for nothing.
    pub const fn of(kind: Kind, caching: Caching) -> Option<Self> {
        Some(match (kind, caching) {
            (_, Caching::NONE) => return None,
            (Kind::Oplock, Caching::RWH) => Self::Batch,
            (Kind::Oplock, Caching::RW) => Self::Exclusive,
            (Kind::Oplock, _) => Self::Level2,
            (Kind::Lease { .. }, Caching::RWH) => Self::RWH,
            (Kind::Lease { .. }, Caching::RW) => Self::RW,
            (Kind::Lease { .. }, Caching::RH) => Self::RH,
            (Kind::Lease { .. }, _) => Self::R,
        })
    }
}

impl Kind {
    /// Returns whether it is an oplock.
    pub const fn is_oplock(self) -> bool {
        matches!(self, Self::Oplock)
    }
}

impl fmt::Debug for Caching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [(Self::R, "R"), (Self::W, "W"), (Self::H, "H")];
        if self.is_none() {
            return f.write_str("none");
        }
        letters.iter().filter(|(bit, _)| self.contains(*bit)).try_for_each(|(_, letter)| f.write_str(letter))
    }
}
