//! The policy object, through which all else is asked (MS-LSAD 3.1.4.4), and the caller's name.

use smb_wire::Status;

use super::{Handles, WORKGROUP};
use crate::facts::Facts;
use crate::ndr::{Reader, Writer};
use crate::pdu::Fault;

mod class {
    pub(super) const PRIMARY_DOMAIN: u16 = 3;
    pub(super) const ACCOUNT_DOMAIN: u16 = 5;
    pub(super) const SERVER_ROLE: u16 = 6;
    pub(super) const DNS_DOMAIN: u16 = 12;
}

/// `PolicyServerRolePrimary`: the accounts are its own.
const ROLE_PRIMARY: u16 = 3;

/// Answers `LsarOpenPolicy` and `LsarOpenPolicy2`, MS-LSAD 3.1.4.4.1. Which server and which rights are asked for does
/// not matter: there is one, and nothing of it can be changed.
pub(super) fn open(out: &mut Writer, handles: &mut Handles, facts: &Facts<'_>) -> Status {
    //= MS-LSAD 3.1.4.4.1
    //# An unauthenticated client does not learn which other users exist.
    let opened = if facts.caller.is_anonymous() { Err(Status::ACCESS_DENIED) } else { Ok(handles.open()) };
    match opened {
        Ok(Some(handle)) => {
            out.bytes(&handle);
            Status::SUCCESS
        }
        refused => {
            out.bytes(&[0; 20]);
            refused.err().unwrap_or(Status::INSUFFICIENT_RESOURCES)
        }
    }
}

/// Answers `LsarQueryInformationPolicy` and its second form, MS-LSAD 3.1.4.4.4.
pub(super) fn query(read: &mut Reader<'_>, out: &mut Writer, facts: &Facts<'_>) -> Result<Status, Fault> {
    let class = read.u16()?;
    if !matches!(
        class,
        class::PRIMARY_DOMAIN | class::ACCOUNT_DOMAIN | class::SERVER_ROLE | class::DNS_DOMAIN
    ) {
        out.null();
        return Ok(Status::INVALID_PARAMETER);
    }
    out.pointer();
    out.u16(class);
    match class {
        class::SERVER_ROLE => out.u16(ROLE_PRIMARY),
        class::ACCOUNT_DOMAIN => {
            out.counted(facts.sids.domain_name());
            out.pointer();
            out.counted_text(facts.sids.domain_name());
            out.sid(&facts.sids.domain());
        }
        class::PRIMARY_DOMAIN => {
            out.counted(WORKGROUP);
            out.null();
            out.counted_text(WORKGROUP);
        }
        // In no domain, so it has no DNS name, no forest, no GUID and no identifier.
        _ => {
            out.counted(WORKGROUP);
            out.counted("");
            out.counted("");
            out.bytes(&[0; 16]);
            out.null();
            out.counted_text(WORKGROUP);
        }
    }
    Ok(Status::SUCCESS)
}

/// Answers `LsarGetUserName`, MS-LSAT 3.1.4.4: the caller's name here.
pub(super) fn user_name(out: &mut Writer, facts: &Facts<'_>) -> Status {
    let sid = facts.sids.of_id(facts.caller.id());
    let named = facts.sids.named(&sid, facts.accounts);
    // An account may have gone since its user signed in.
    let (name, domain) = match &named {
        Some(named) => (named.name.as_str(), named.domain.as_str()),
        None => (facts.caller.name(), facts.sids.domain_name()),
    };
    out.pointer();
    out.counted(name);
    out.counted_text(name);
    // The domain's is a pointer to a pointer.
    out.pointer();
    out.pointer();
    out.counted(domain);
    out.counted_text(domain);
    Status::SUCCESS
}
