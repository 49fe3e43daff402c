//! S4U_DELEGATION_INFO (MS-PAC 2.9): who acts for the user.

use super::PacRefused;
use super::ndr::Ndr;

/// Constrained delegation by which a service got a ticket in the user's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// The service that the ticket was asked for.
    pub target: String,
    /// The services that the user was delegated through, the last one last.
    pub services: Vec<String>,
}

impl Delegation {
    /// Most services that a user can be delegated through.
    pub const SERVICES_MAX: usize = 64;

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, PacRefused> {
        let mut ndr = Ndr::new("S4U_DELEGATION_INFO", bytes)?;
        let target = ndr.string_head()?;
        let (count, is_there) = (ndr.u32()? as usize, ndr.pointer()?);
        let target = ndr.string(target)?;
        let there = if is_there { ndr.count(8)? } else { 0 };
        if there != count || there > Self::SERVICES_MAX {
            return Err(ndr.malformed());
        }
        let heads = (0..there).map(|_| ndr.string_head()).collect::<Result<Vec<_>, _>>()?;
        let services = heads.into_iter().map(|head| ndr.string(head)).collect::<Result<_, _>>()?;
        Ok(Self { target, services })
    }
}
