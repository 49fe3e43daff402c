//! How much of a packet is protected.

use std::fmt;

use crate::Code;

/// Protection of each packet's data. The header's checksum is there at every level.
///
/// Crypt is compatibility, not secrecy: its key has 56 bits, and only the order and length of packets are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// The data goes as it is.
    #[default]
    Clear = 0,
    /// The first block is encrypted, with the packet's place and length.
    Auth = 1,
    /// All is encrypted.
    Crypt = 2,
}

impl Level {
    /// Returns the level of a number on the wire.
    pub const fn from_number(number: u32) -> Result<Self, Code> {
        match number {
            0 => Ok(Self::Clear),
            1 => Ok(Self::Auth),
            2 => Ok(Self::Crypt),
            _ => Err(Code::LevelFail),
        }
    }

    /// Returns the number of bytes before the data.
    pub(crate) const fn header_len(self) -> usize {
        match self {
            Self::Clear => 0,
            Self::Auth => 4,
            Self::Crypt => 8,
        }
    }

    /// Returns the most bytes that follow the data.
    pub(crate) const fn padding_max(self) -> usize {
        match self {
            Self::Clear => 0,
            Self::Auth => 4,
            Self::Crypt => 7,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clear => "clear",
            Self::Auth => "auth",
            Self::Crypt => "crypt",
        })
    }
}
