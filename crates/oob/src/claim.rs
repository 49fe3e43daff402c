//! Claim, the first bytes of a connection: names the call that the connection is for.

use crate::VERSION;

/// Bytes of a token.
pub const TOKEN_BYTES: usize = 32;
/// Random bytes of a token.
pub const RANDOM_BYTES: usize = 26;
/// Bytes of a claim.
pub const CLAIM_BYTES: usize = 8 + TOKEN_BYTES;

/// Token that ties a connection to a call. To clients it is opaque; its server finds in it the lane and the
/// place where the call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token([u8; TOKEN_BYTES]);

/// The first bytes of a connection: magic number, version and token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Token of the call that the connection is for.
    pub token: Token,
}

/// Reason why bytes are no claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The bytes do not begin with the magic number.
    #[error("the connection does not begin with a claim")]
    Magic,
    /// The claim has another version, or bits set that are to be 0.
    #[error("a claim of version {0}")]
    Version(u16),
}

impl Token {
    /// Makes the token of the call that waits at `place` of `lane`, with the bytes `random`.
    pub fn new(lane: u16, place: u32, random: [u8; RANDOM_BYTES]) -> Self {
        let mut bytes = [0; TOKEN_BYTES];
        bytes[..2].copy_from_slice(&lane.to_be_bytes());
        bytes[2..6].copy_from_slice(&place.to_be_bytes());
        bytes[6..].copy_from_slice(&random);
        Self(bytes)
    }

    /// Makes the token from the bytes of a grant.
    pub fn from_bytes(bytes: [u8; TOKEN_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the token's bytes.
    pub fn as_bytes(&self) -> &[u8; TOKEN_BYTES] {
        &self.0
    }

    /// Returns the lane that the token names, which any host may have made up.
    pub fn lane(&self) -> u16 {
        u16::from_be_bytes([self.0[0], self.0[1]])
    }

    pub(crate) fn place(&self) -> u32 {
        u32::from_be_bytes([self.0[2], self.0[3], self.0[4], self.0[5]])
    }

    /// Compares in a time that does not tell where the tokens differ.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let differ = self.0.iter().zip(&other.0).fold(0, |differ, (one, other)| differ | (one ^ other));
        std::hint::black_box(differ) == 0
    }
}

impl Claim {
    /// Encodes the claim as it is sent, in network byte order.
    pub fn encode(&self) -> [u8; CLAIM_BYTES] {
        let mut bytes = [0; CLAIM_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_be_bytes());
        bytes[8..].copy_from_slice(&self.token.0);
        bytes
    }

    /// Decodes a claim.
    ///
    /// # Errors
    /// [`ClaimError`].
    pub fn decode(bytes: &[u8; CLAIM_BYTES]) -> Result<Self, ClaimError> {
        if bytes[..4] != MAGIC {
            return Err(ClaimError::Magic);
        }
        let version = u16::from_be_bytes([bytes[4], bytes[5]]);
        if version != VERSION || bytes[6..8] != [0, 0] {
            return Err(ClaimError::Version(version));
        }
        let mut token = [0; TOKEN_BYTES];
        token.copy_from_slice(&bytes[8..]);
        Ok(Self { token: Token(token) })
    }
}

const MAGIC: [u8; 4] = *b"LOOB";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_has_the_bytes_of_the_specification() {
        let claim = Claim { token: Token::new(0x0102, 0x0304_0506, [0xee; RANDOM_BYTES]) };
        let bytes = claim.encode();
        assert_eq!(bytes[..14], *b"LOOB\x00\x01\x00\x00\x01\x02\x03\x04\x05\x06");
        assert!(bytes[14..].iter().all(|byte| *byte == 0xee));
        assert_eq!(Claim::decode(&bytes), Ok(claim));
        assert_eq!((claim.token.lane(), claim.token.place()), (0x0102, 0x0304_0506));
    }

    #[test]
    fn what_is_no_claim_is_told_apart() {
        let good = Claim { token: Token::new(0, 0, [1; RANDOM_BYTES]) }.encode();
        for (at, error) in [
            (0, ClaimError::Magic),
            (3, ClaimError::Magic),
            (5, ClaimError::Version(0)),
            (7, ClaimError::Version(1)),
        ] {
            let mut bytes = good;
            bytes[at] ^= 1;
            assert_eq!(Claim::decode(&bytes), Err(error), "byte {at}");
        }
    }
}
