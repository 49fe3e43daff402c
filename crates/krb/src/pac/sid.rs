//! Security identifiers (MS-DTYP 2.4.2).

use std::fmt;

use super::PacRefused;

/// A security identifier: `S-1-5-21-...`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sid {
    authority: [u8; 6],
    len: u8,
    sub: [u32; Self::SUB_AUTHORITIES_MAX],
}

impl Sid {
    /// Most sub-authorities.
    pub const SUB_AUTHORITIES_MAX: usize = 15;

    /// Creates an identifier from an authority of 48 bits and sub-authorities; `None` where either has too many.
    pub fn new(authority: u64, sub_authorities: &[u32]) -> Option<Self> {
        let mut sub = [0; Self::SUB_AUTHORITIES_MAX];
        sub.get_mut(..sub_authorities.len())?.copy_from_slice(sub_authorities);
        let [0, 0, authority @ ..] = authority.to_be_bytes() else { return None };
        Some(Self { authority, len: sub_authorities.len() as u8, sub })
    }

    /// Returns the authority.
    pub fn authority(&self) -> u64 {
        self.authority.iter().fold(0, |all, byte| all << 8 | u64::from(*byte))
    }

    /// Returns the sub-authorities. The last one is the relative identifier within the domain.
    pub fn sub_authorities(&self) -> &[u32] {
        &self.sub[..usize::from(self.len)]
    }

    /// Returns the identifier of a domain's member; `None` where the domain's is as long as one can be.
    pub fn with_rid(mut self, rid: u32) -> Option<Self> {
        *self.sub.get_mut(usize::from(self.len))? = rid;
        self.len += 1;
        Some(self)
    }

    /// Parses the identifier that bytes begin with, and its length.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let ([1, len, authority @ ..], rest) = bytes.split_first_chunk::<8>()? else { return None };
        let words = rest.get(..4 * usize::from(*len))?;
        let mut sub = [0; Self::SUB_AUTHORITIES_MAX];
        let sub_of_len = sub.get_mut(..usize::from(*len))?;
        for (sub, word) in sub_of_len.iter_mut().zip(words.as_chunks::<4>().0) {
            *sub = u32::from_le_bytes(*word);
        }
        Some((Self { authority: *authority, len: *len, sub }, 8 + words.len()))
    }

    /// Parses the identifier that a part of a certificate is.
    pub(super) fn parse_whole(bytes: &[u8]) -> Result<Self, PacRefused> {
        Self::parse(bytes).map(|(sid, _)| sid).ok_or(PacRefused::Malformed("SID"))
    }
}

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.authority() {
            small @ ..0x1_0000_0000 => write!(f, "S-1-{small}")?,
            large => write!(f, "S-1-0x{large:012x}")?,
        }
        self.sub_authorities().iter().try_for_each(|sub| write!(f, "-{sub}"))
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
