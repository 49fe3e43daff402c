//! KERB_VALIDATION_INFO (MS-PAC 2.5): the user's and the groups' identifiers.

use super::ndr::Ndr;
use super::{PacRefused, Sid};

/// A group that a user is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Identifier of the group.
    pub sid: Sid,
    /// SE_GROUP attributes (MS-PAC 2.2.1).
    pub attributes: u32,
}

impl Group {
    /// Returns true if the group gives rights: it is enabled, and not there to deny alone.
    pub fn is_enabled(&self) -> bool {
        self.attributes & SE_GROUP_ENABLED != 0 && self.attributes & SE_GROUP_USE_FOR_DENY_ONLY == 0
    }
}

/// A user's account, identifier and groups in its domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogonInfo {
    /// The account's name.
    pub account: String,
    /// The person's name.
    pub full_name: String,
    /// The domain's NetBIOS name.
    pub domain: String,
    /// The domain controller's NetBIOS name.
    pub server: String,
    /// The user's identifier.
    pub user_sid: Sid,
    /// The domain's identifier.
    pub domain_sid: Sid,
    /// The primary group, the groups of the domain, those of other domains, and those of the service's domain.
    pub groups: Vec<Group>,
    /// Flags of the sign-in.
    pub user_flags: u32,
    /// Flags of the account (MS-SAMR 2.2.1.12).
    pub account_control: u32,
}

impl LogonInfo {
    /// Most groups: Windows refuses a sign-in with more than 1,015.
    pub const GROUPS_MAX: usize = 2_048;

    /// Returns the identifiers of the groups that give rights.
    pub fn group_sids(&self) -> impl Iterator<Item = Sid> {
        self.groups.iter().filter(|group| group.is_enabled()).map(|group| group.sid)
    }

    /// Reads it. The user's session key and the times are not looked at.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, PacRefused> {
        let mut ndr = Ndr::new("KERB_VALIDATION_INFO", bytes)?;
        // LogonTime, LogoffTime, KickOffTime, PasswordLastSet, PasswordCanChange, PasswordMustChange.
        ndr.take(6 * 8)?;
        // EffectiveName, FullName, LogonScript, ProfilePath, HomeDirectory, HomeDirectoryDrive.
        let mut names = Vec::with_capacity(6);
        for _ in 0..6 {
            names.push(ndr.string_head()?);
        }
        // LogonCount, BadPasswordCount.
        ndr.take(4)?;
        let (user_rid, primary_rid) = (ndr.u32()?, ndr.u32()?);
        let (group_count, has_groups) = (ndr.u32()?, ndr.pointer()?);
        let user_flags = ndr.u32()?;
        // UserSessionKey.
        ndr.take(16)?;
        let (server, domain) = (ndr.string_head()?, ndr.string_head()?);
        let has_domain_sid = ndr.pointer()?;
        // Reserved1.
        ndr.take(8)?;
        let account_control = ndr.u32()?;
        // SubAuthStatus, LastSuccessfulILogon, LastFailedILogon, FailedILogonCount, Reserved3.
        ndr.take(4 + 8 + 8 + 4 + 4)?;
        let (extra_count, has_extra) = (ndr.u32()?, ndr.pointer()?);
        let has_resource_domain = ndr.pointer()?;
        let (resource_count, has_resource) = (ndr.u32()?, ndr.pointer()?);

        let mut texts = Vec::with_capacity(6);
        for name in names {
            texts.push(ndr.string(name)?);
        }
        let domain_rids = rids(&mut ndr, group_count, has_groups)?;
        let (server, domain) = (ndr.string(server)?, ndr.string(domain)?);
        if !has_domain_sid {
            return Err(ndr.malformed());
        }
        let domain_sid = ndr.sid()?;
        let extra = sids(&mut ndr, extra_count, has_extra)?;
        let resource_domain = if has_resource_domain { Some(ndr.sid()?) } else { None };
        let resource_rids = rids(&mut ndr, resource_count, has_resource)?;

        let malformed = ndr.malformed();
        let of = |domain: Sid, rid: u32| domain.with_rid(rid).ok_or(malformed);
        // A user of no domain has its identifier before the others.
        let (user_sid, extra) = match (user_rid, extra.split_first()) {
            (0, Some((user, rest))) => (user.sid, rest),
            (0, None) => return Err(malformed),
            (rid, _) => (of(domain_sid, rid)?, &extra[..]),
        };
        let primary = Group { sid: of(domain_sid, primary_rid)?, attributes: SE_GROUP_DEFAULT };
        let mut groups = vec![primary];
        for (rid, attributes) in domain_rids.into_iter().filter(|(rid, _)| *rid != primary_rid) {
            groups.push(Group { sid: of(domain_sid, rid)?, attributes });
        }
        groups.extend(extra);
        for (rid, attributes) in resource_rids {
            groups.push(Group { sid: of(resource_domain.ok_or(malformed)?, rid)?, attributes });
        }
        if groups.len() > Self::GROUPS_MAX {
            return Err(PacRefused::TooManyGroups);
        }
        let mut texts = texts.into_iter();
        let account = texts.next().unwrap_or_default();
        let full_name = texts.next().unwrap_or_default();
        Ok(Self {
            account,
            full_name,
            domain,
            server,
            user_sid,
            domain_sid,
            groups,
            user_flags,
            account_control,
        })
    }
}

/// Reads what a pointer to GROUP_MEMBERSHIPs points to.
fn rids(ndr: &mut Ndr<'_>, count: u32, is_there: bool) -> Result<Vec<(u32, u32)>, PacRefused> {
    let mut all = Vec::new();
    for _ in 0..elements(ndr, count, is_there)? {
        all.push((ndr.u32()?, ndr.u32()?));
    }
    Ok(all)
}

/// Reads what a pointer to KERB_SID_AND_ATTRIBUTES points to: pointers first, then the identifiers.
fn sids(ndr: &mut Ndr<'_>, count: u32, is_there: bool) -> Result<Vec<Group>, PacRefused> {
    let mut attributes = Vec::new();
    for _ in 0..elements(ndr, count, is_there)? {
        if !ndr.pointer()? {
            return Err(ndr.malformed());
        }
        attributes.push(ndr.u32()?);
    }
    attributes.into_iter().map(|attributes| Ok(Group { sid: ndr.sid()?, attributes })).collect()
}

/// Reads the size of a conformant array of elements of 8 bytes, which must be what the structure said.
fn elements(ndr: &mut Ndr<'_>, count: u32, is_there: bool) -> Result<usize, PacRefused> {
    if !is_there {
        return if count == 0 { Ok(0) } else { Err(ndr.malformed()) };
    }
    let there = ndr.count(8)?;
    if there != count as usize {
        return Err(ndr.malformed());
    }
    if there > LogonInfo::GROUPS_MAX { Err(PacRefused::TooManyGroups) } else { Ok(there) }
}

const SE_GROUP_ENABLED: u32 = 0x04;
const SE_GROUP_USE_FOR_DENY_ONLY: u32 = 0x10;
/// Mandatory, enabled by default, enabled.
const SE_GROUP_DEFAULT: u32 = 0x07;
