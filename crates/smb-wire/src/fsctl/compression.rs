//! FSCTL_GET_COMPRESSION and FSCTL_SET_COMPRESSION (MS-FSCC 2.3.18, 2.3.67): two bytes that name a format.

/// The file is not compressed.
pub const NONE: u16 = 0;
/// The format that the server chooses; only asked for.
pub const DEFAULT: u16 = 1;
/// The one format that there is.
pub const LZNT1: u16 = 2;

/// Parses the format that is asked for; `None` of a request that is too short.
pub fn parse(input: &[u8]) -> Option<u16> {
    input.first_chunk().map(|format| u16::from_le_bytes(*format))
}
