//! What the checksum of type 0x8003 in an authenticator says (RFC 4121 4.1.1).

use crate::der::Malformed;

/// Flags of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GssFlags(
    /// The 32 bits.
    pub u32,
);

impl GssFlags {
    /// The client delegates its ticket.
    pub const DELEGATE: Self = Self(0x01);
    /// The client wants proof of who the service is.
    pub const MUTUAL: Self = Self(0x02);
    /// Replays of messages are to be noticed.
    pub const REPLAY: Self = Self(0x04);
    /// Messages out of sequence are to be noticed.
    pub const SEQUENCE: Self = Self(0x08);
    /// Messages will be sealed.
    pub const CONFIDENTIAL: Self = Self(0x10);
    /// Messages will be signed.
    pub const INTEGRITY: Self = Self(0x20);
    /// Three messages, as DCE/RPC has it (MS-KILE 3.4.5.1).
    pub const DCE_STYLE: Self = Self(0x1000);

    /// Returns true if all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The "checksum" of an authenticator in GSS-API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GssChecksum {
    /// The hash of the channel bindings; zeros where the client gave none.
    pub bindings: [u8; 16],
    /// The flags.
    pub flags: GssFlags,
}

impl GssChecksum {
    /// The type's number.
    pub const TYPE: i32 = 0x8003;

    /// Reads it. A delegated ticket and extensions that follow are not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let malformed = Malformed("authenticator checksum");
        let (len, rest) = bytes.split_first_chunk::<4>().ok_or(malformed)?;
        let (bindings, rest) = rest.split_first_chunk::<16>().ok_or(malformed)?;
        let (flags, _) = rest.split_first_chunk::<4>().ok_or(malformed)?;
        if u32::from_le_bytes(*len) != 16 {
            return Err(malformed);
        }
        Ok(Self { bindings: *bindings, flags: GssFlags(u32::from_le_bytes(*flags)) })
    }

    /// Writes it, without a delegated ticket.
    pub fn encode(&self) -> Vec<u8> {
        [&16u32.to_le_bytes()[..], &self.bindings, &self.flags.0.to_le_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_has_24_bytes_and_may_have_more() {
        let checksum = GssChecksum { bindings: [3; 16], flags: GssFlags(0x2e) };
        let bytes = checksum.encode();
        assert_eq!(bytes.len(), 24);
        assert_eq!(GssChecksum::parse(&[&bytes[..], &[1, 0, 0, 0]].concat()), Ok(checksum));
        for len in 0..24 {
            assert!(GssChecksum::parse(&bytes[..len]).is_err());
        }
        assert!(GssChecksum::parse(&[&[17][..], &bytes[1..]].concat()).is_err());
    }
}
