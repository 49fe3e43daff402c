//! Caching: what a client may keep of a file without asking again (MS-SMB2 2.2.13.2.8, MS-FSA 2.1.1.10).

use std::fmt;

/// A set of read, handle and write caching. A client reads its own copy with `R`, keeps its open after the program has
/// closed it with `H`, and keeps what is written and locked with `W`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Caching(u8);

/// Way in which a client asked for caching: oplock or lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An oplock: level II is [`Caching::R`], exclusive [`Caching::RW`], batch [`Caching::RWH`]. It belongs to one
    /// open.
    Oplock,
    /// Lease, shared by all opens with its key.
    Lease {
        /// Epoch of the client's request, for version 2 of the context; `None` for version 1.
        epoch: Option<u16>,
    },
}

/// Lease or oplock that is held: the columns of [`conflict`](crate::conflict).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldCaching {
    /// Level II oplock, for reads.
    Level2,
    /// Exclusive oplock, for reads and writes.
    Exclusive,
    /// Batch oplock, for reads, writes and opens.
    Batch,
    /// Lease to cache reads.
    R,
    /// Lease to cache reads and handles.
    RH,
    /// Lease to cache reads and writes.
    RW,
    /// Lease to cache reads, writes and handles.
    RWH,
}

impl Caching {
    /// No caching.
    pub const NONE: Self = Self(0);
    /// Read caching.
    pub const R: Self = Self(1);
    /// Handle caching, to keep opens; never alone.
    pub const H: Self = Self(2);
    /// Write caching; never alone.
    pub const W: Self = Self(4);
    /// Read and handle caching.
    pub const RH: Self = Self(3);
    /// Read and write caching.
    pub const RW: Self = Self(5);
    /// Read, handle and write caching.
    pub const RWH: Self = Self(7);

    /// Takes the bits SMB2_LEASE_READ_CACHING (1), HANDLE (2) and WRITE (4) and ignores others. Without the
    /// read bit, which every grant has, the result is [`Self::NONE`].
    pub const fn from_bits(bits: u8) -> Self {
        if bits & 1 == 0 { Self::NONE } else { Self(bits & 7) }
    }

    /// Returns the bits as sent in SMB2_LEASE contexts.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns whether this set has all of `other`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the caching in both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns this set without the caching in `other`: empty once it loses `R`.
    pub const fn without(self, other: Self) -> Self {
        Self::from_bits(self.0 & !other.0)
    }

    /// Returns whether the set is empty.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl HeldCaching {
    /// Columns of the table of conflicts, in order.
    pub const ALL: [Self; 7] =
        [Self::Level2, Self::Exclusive, Self::Batch, Self::R, Self::RH, Self::RW, Self::RWH];

    /// Returns the column of a holder with `caching` of this kind; `None` for no caching.
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
    /// Returns whether the caching was asked for as an oplock.
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
