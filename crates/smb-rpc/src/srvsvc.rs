//! The server and its shares (MS-SRVS), as far as it is asked: nothing is changed by it.

use crate::enumeration::{Asked, error};
use crate::facts::{Facts, ShareFact};
use crate::ndr::{Reader, Writer};
use crate::pdu::{Fault, Syntax};

/// The interface, 3.0.
pub(crate) const SYNTAX: Syntax = Syntax::new(
    [0xc8, 0x4f, 0x32, 0x4b, 0x70, 0x16, 0xd3, 0x01, 0x12, 0x78, 0x5a, 0x47, 0xbf, 0x6e, 0xe1, 0x88],
    3,
);

/// `PLATFORM_ID_NT`.
pub(crate) const PLATFORM: u32 = 500;
/// The version of Windows whose calls are known here: clients of a later one leave out what came after it.
pub(crate) const VERSION: (u32, u32) = (6, 1);
/// `SV_TYPE_WORKSTATION`, `SV_TYPE_SERVER`, `SV_TYPE_NT`, `SV_TYPE_SERVER_NT`.
const SERVER_TYPE: u32 = 0x9003;
/// Number of users of a share that as many as come may use.
const UNLIMITED: u32 = u32::MAX;
/// `SHI1005_FLAGS_ACCESS_BASED_DIRECTORY_ENUM`.
const ACCESS_BASED_DIRECTORY_ENUM: u32 = 0x800;

mod number {
    pub(super) const CONNECTION_ENUM: u16 = 8;
    pub(super) const FILE_ENUM: u16 = 9;
    pub(super) const FILE_GET_INFO: u16 = 10;
    pub(super) const FILE_CLOSE: u16 = 11;
    pub(super) const SESSION_ENUM: u16 = 12;
    pub(super) const SESSION_DEL: u16 = 13;
    pub(super) const SHARE_ADD: u16 = 14;
    pub(super) const SHARE_ENUM: u16 = 15;
    pub(super) const SHARE_GET_INFO: u16 = 16;
    pub(super) const SHARE_SET_INFO: u16 = 17;
    pub(super) const SHARE_DEL: u16 = 18;
    pub(super) const SERVER_GET_INFO: u16 = 21;
    pub(super) const SERVER_SET_INFO: u16 = 22;
    pub(super) const REMOTE_TOD: u16 = 28;
    pub(super) const SHARE_ENUM_STICKY: u16 = 36;
}

pub(crate) fn call(
    number: u16,
    read: &mut Reader<'_>,
    out: &mut Writer,
    facts: &Facts<'_>,
) -> Result<(), Fault> {
    match number {
        number::SHARE_ENUM | number::SHARE_ENUM_STICKY => share_enum(read, out, facts),
        number::SHARE_GET_INFO => share_get_info(read, out, facts),
        number::SERVER_GET_INFO => server_get_info(read, out, facts),
        number::REMOTE_TOD => remote_tod(read, out, facts),
        // Other sessions and their opens are for the operator alone: `linerate smb` shows them.
        number::CONNECTION_ENUM => refused_enum(1, read, out),
        number::FILE_ENUM | number::SESSION_ENUM => refused_enum(2, read, out),
        number::FILE_GET_INFO
        | number::FILE_CLOSE
        | number::SESSION_DEL
        | number::SHARE_ADD
        | number::SHARE_SET_INFO
        | number::SHARE_DEL
        | number::SERVER_SET_INFO => Err(Fault::ACCESS_DENIED),
        _ => Err(Fault::NO_SUCH_CALL),
    }
}

/// Information about a share at one level (MS-SRVS 2.2.4.22 to 2.2.4.26).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Name,
    Usual,
    Administrative,
    Flags,
    Descriptor,
}

impl Level {
    fn of(level: u32) -> Option<Self> {
        match level {
            0 => Some(Self::Name),
            1 => Some(Self::Usual),
            2 => Some(Self::Administrative),
            501 => Some(Self::Flags),
            502 => Some(Self::Descriptor),
            _ => None,
        }
    }

    /// Checks that the caller may see it.
    fn checked(level: u32, facts: &Facts<'_>) -> Result<Self, u32> {
        let level = Self::of(level).ok_or(error::INVALID_LEVEL)?;
        //= MS-SRVS 3.1.4.8
        //# Levels that tell where a share is on the server are for administrators.
        let is_open = !matches!(level, Self::Administrative | Self::Descriptor);
        if is_open || facts.caller.is_administrator() { Ok(level) } else { Err(error::ACCESS_DENIED) }
    }

    /// Writes the fixed part.
    fn fixed(self, out: &mut Writer, share: &ShareFact<'_>) {
        out.pointer();
        if self == Self::Name {
            return;
        }
        out.u32(share.wire_type());
        out.pointer();
        match self {
            Self::Name | Self::Usual => {}
            // Files may be kept by clients as oplocks have it.
            Self::Flags => out.u32(0),
            Self::Administrative | Self::Descriptor => {
                // Permissions of share-level security, which there is none of.
                out.u32(0);
                out.u32(share.users_max.unwrap_or(UNLIMITED));
                out.u32(share.users);
                out.pointer();
                out.null();
                if self == Self::Descriptor {
                    // Shares have no descriptor: directories' lists decide.
                    out.u32(0);
                    out.null();
                }
            }
        }
    }

    /// Writes what its pointers point at.
    fn texts(self, out: &mut Writer, share: &ShareFact<'_>) {
        out.text(share.name);
        if self != Self::Name {
            out.text(share.comment);
        }
        if matches!(self, Self::Administrative | Self::Descriptor) {
            out.text(share.path);
        }
    }
}

/// Answers `NetrShareEnum`, MS-SRVS 3.1.4.8.
fn share_enum(read: &mut Reader<'_>, out: &mut Writer, facts: &Facts<'_>) -> Result<(), Fault> {
    let _server = read.text_pointer()?;
    let asked = Asked::read(read)?;
    match Level::checked(asked.level, facts) {
        Ok(level) => asked.answer(
            out,
            facts.shares.iter(),
            |out, share| level.fixed(out, share),
            |out, share| level.texts(out, share),
        ),
        Err(error) => asked.refuse(out, error),
    }
    Ok(())
}

/// Answers `NetrShareGetInfo`, MS-SRVS 3.1.4.10.
fn share_get_info(read: &mut Reader<'_>, out: &mut Writer, facts: &Facts<'_>) -> Result<(), Fault> {
    let _server = read.text_pointer()?;
    let name = read.text()?;
    let level = read.u32()?;
    out.u32(level);
    let Some(share) = facts.share(&name) else {
        out.null();
        out.u32(error::NO_SUCH_SHARE);
        return Ok(());
    };
    // Of its flags one: it is in no DFS, and the cache is the clients' own matter.
    if level == 1005 {
        out.pointer();
        out.u32(if share.hides_unreadable { ACCESS_BASED_DIRECTORY_ENUM } else { 0 });
        out.u32(error::SUCCESS);
        return Ok(());
    }
    match Level::checked(level, facts) {
        Ok(level) => {
            out.pointer();
            level.fixed(out, share);
            level.texts(out, share);
            out.u32(error::SUCCESS);
        }
        Err(error) => {
            out.null();
            out.u32(error);
        }
    }
    Ok(())
}

/// Answers `NetrServerGetInfo`, MS-SRVS 3.1.4.17.
fn server_get_info(read: &mut Reader<'_>, out: &mut Writer, facts: &Facts<'_>) -> Result<(), Fault> {
    let _server = read.text_pointer()?;
    let level = read.u32()?;
    out.u32(level);
    let refusal = match level {
        100 | 101 => None,
        102 if facts.caller.is_administrator() => None,
        102 => Some(error::ACCESS_DENIED),
        _ => Some(error::INVALID_LEVEL),
    };
    if let Some(error) = refusal {
        out.null();
        out.u32(error);
        return Ok(());
    }
    out.pointer();
    out.u32(PLATFORM);
    out.pointer();
    if level > 100 {
        out.u32(VERSION.0);
        out.u32(VERSION.1);
        out.u32(SERVER_TYPE);
        out.pointer();
    }
    if level > 101 {
        out.u32(UNLIMITED);
        // Sessions are not ended for being idle, the server is listed, announces nothing, and counts no licences.
        for value in [UNLIMITED, 0, 0, 0, 0] {
            out.u32(value);
        }
        out.pointer();
    }
    out.text(facts.server_name);
    if level > 100 {
        out.text(facts.comment);
    }
    if level > 101 {
        out.text("");
    }
    out.u32(error::SUCCESS);
    Ok(())
}

/// Answers `NetrRemoteTOD`, MS-SRVS 3.1.4.21: the time of day, in UTC.
fn remote_tod(read: &mut Reader<'_>, out: &mut Writer, facts: &Facts<'_>) -> Result<(), Fault> {
    let _server = read.text_pointer()?;
    let (days, second) = (facts.now_s / 86_400, (facts.now_s % 86_400) as u32);
    let (year, month, day) = date(days);
    out.pointer();
    for value in [
        facts.now_s as u32,
        facts.uptime_ms as u32,
        second / 3600,
        second / 60 % 60,
        second % 60,
        0,
        0,
        // Resolution of what goes before: 0.1 ms are a unit.
        310,
        day,
        month,
        year,
        // 1970 began on a Thursday.
        ((days + 4) % 7) as u32,
    ] {
        out.u32(value);
    }
    out.u32(error::SUCCESS);
    Ok(())
}

/// Returns year, month and day of a day since 1970, in the Gregorian calendar: years are counted from March, so that
/// the odd day is a year's last.
fn date(days: u64) -> (u32, u32, u32) {
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    ((era * 400 + year + next) as u32, month as u32, day_of_month as u32)
}

/// Writes an empty list, behind the server's name and `texts` more.
fn refused_enum(texts: usize, read: &mut Reader<'_>, out: &mut Writer) -> Result<(), Fault> {
    for _ in 0..1 + texts {
        read.text_pointer()?;
    }
    Asked::read(read)?.refuse(out, error::ACCESS_DENIED);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_the_dates_of_the_calendar() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (19_722, (2023, 12, 31)),
            (19_723, (2024, 1, 1)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(days), expected, "{days}");
        }
    }
}
