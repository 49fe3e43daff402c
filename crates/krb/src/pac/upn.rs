//! UPN_DNS_INFO (MS-PAC 2.10): names of a user by DNS.

use super::{PacRefused, Sid, utf16};

/// A user's principal name and what else a domain says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpnDnsInfo {
    /// `alice@ad.test`. A hint for people: an administrator may change it.
    pub upn: String,
    /// The domain's DNS name.
    pub dns_domain: String,
    /// Set if the domain made the principal name from the account's name, as no administrator set one.
    pub is_constructed: bool,
    /// The account's name, from Windows Server 2022 and Samba 4.17 on.
    pub account: Option<String>,
    /// The user's identifier, from the same versions on.
    pub sid: Option<Sid>,
}

impl UpnDnsInfo {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, PacRefused> {
        let malformed = PacRefused::Malformed("UPN_DNS_INFO");
        let u16_at = |at: usize| -> Result<usize, PacRefused> {
            let [low, high] = *bytes.get(at..at + 2).and_then(|pair| pair.first_chunk()).ok_or(malformed)?;
            Ok(usize::from(u16::from_le_bytes([low, high])))
        };
        // A length, then an offset from the beginning of the part.
        let piece = |at: usize| -> Result<&[u8], PacRefused> {
            let (len, offset) = (u16_at(at)?, u16_at(at + 2)?);
            bytes.get(offset..offset + len).ok_or(malformed)
        };
        let text = |at: usize| piece(at).and_then(|text| utf16(text).ok_or(malformed));
        let flags = u16_at(8)? | u16_at(10)? << 16;
        let is_extended = flags & EXTENDED != 0;
        Ok(Self {
            upn: text(0)?,
            dns_domain: text(4)?,
            is_constructed: flags & CONSTRUCTED != 0,
            account: is_extended.then(|| text(12)).transpose()?,
            sid: is_extended.then(|| piece(16).and_then(Sid::parse_whole)).transpose()?,
        })
    }
}

const CONSTRUCTED: usize = 1;
const EXTENDED: usize = 2;
