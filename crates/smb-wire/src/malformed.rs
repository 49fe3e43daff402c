//! Errors of malformed messages.

use crate::status::Status;

/// The error of a malformed structure. The peer hears [`Malformed::status`]; the connection ends where
/// [`Malformed::ends_connection`] says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Fewer bytes than the fixed part has.
    #[error("shorter than its structure")]
    Short,
    /// A frame longer than this side takes.
    #[error("frame of {0} bytes is too long")]
    Long(u32),
    /// The bytes are no SMB2 header, or one of the wrong size.
    #[error("not an SMB2 header")]
    Protocol,
    /// A command that MS-SMB2 2.2.1 does not define.
    #[error("unknown command {0:#x}")]
    Command(u16),
    /// `StructureSize` is not that of the command.
    #[error("wrong StructureSize")]
    StructureSize,
    /// An offset and length reach outside the message, or into its fixed part, or parts overlap.
    #[error("an offset or length leaves the message")]
    Offset,
    /// The structure is not aligned as it must be.
    #[error("not aligned")]
    Alignment,
    /// A count is of more elements than there are bytes for, of none where one must be, or of more than are taken.
    #[error("a count that the message does not hold")]
    Count,
    /// An odd number of bytes of UTF-16.
    #[error("UTF-16 of odd length")]
    OddText,
    /// Compounded requests whose `NextCommand` leaves the frame or is unaligned, or too many of them.
    #[error("a compound that overruns")]
    Compound,
    /// A value that the structure does not allow.
    #[error("a value that is not allowed")]
    Value,
}

impl Malformed {
    /// Returns what the request fails with.
    pub fn status(self) -> Status {
        //= MS-SMB2 3.3.5.2.6
        //# A request that does not conform to its structure fails with STATUS_INVALID_PARAMETER.
        Status::INVALID_PARAMETER
    }

    /// Returns whether nothing that follows on the connection can be trusted: where the next message begins
    /// is not known, or the specification asks for it.
    pub fn ends_connection(self) -> bool {
        //= MS-SMB2 3.3.5.2.6
        //# Unknown commands and requests shorter than a header disconnect without an answer.
        matches!(self, Self::Long(_) | Self::Protocol | Self::Command(_) | Self::Compound)
    }
}
