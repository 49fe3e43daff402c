//! GUIDs (MS-DTYP 2.3.4.2), which are compared and never taken apart.

use crate::fixed::wire;

wire! {
    /// 16 bytes as they travel.
    #[derive(Default, Hash, PartialOrd, Ord)]
    pub struct Guid {
        bytes: [u8; 16],
    }
}

impl Guid {
    /// Creates a GUID of these bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self { bytes }
    }

    /// Returns whether all of it is zero: none.
    pub fn is_zero(self) -> bool {
        self.bytes == [0; 16]
    }
}

impl std::fmt::Display for Guid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g, h, i, tail @ ..] = self.bytes;
        write!(f, "{:08x}-", u32::from_le_bytes([a, b, c, d]))?;
        write!(f, "{:04x}-{:04x}-", u16::from_le_bytes([e, g]), u16::from_le_bytes([h, i]))?;
        write!(f, "{:02x}{:02x}-", tail[0], tail[1])?;
        tail[2..].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

wire! {
    /// Names an open: the server's for as long as it runs, and the connection's (MS-SMB2 2.2.14.1).
    #[derive(Hash)]
    pub struct FileId {
        persistent: zerocopy::little_endian::U64,
        volatile: zerocopy::little_endian::U64,
    }
}

impl FileId {
    /// Value that a related operation sends for "the open of the operation before".
    pub const RELATED: Self = Self {
        persistent: zerocopy::little_endian::U64::from_bytes([0xff; 8]),
        volatile: zerocopy::little_endian::U64::from_bytes([0xff; 8]),
    };

    /// Creates an id of these halves.
    pub fn new(persistent: u64, volatile: u64) -> Self {
        Self { persistent: persistent.into(), volatile: volatile.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_is_shown_as_everybody_shows_it() {
        let guid = Guid::new([0x33, 0x22, 0x11, 0, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 1, 2, 3, 4, 5, 6]);
        assert_eq!(guid.to_string(), "00112233-4455-6677-8899-010203040506");
        assert!(Guid::default().is_zero() && !guid.is_zero());
        assert_ne!(FileId::new(1, 2), FileId::RELATED);
    }
}
