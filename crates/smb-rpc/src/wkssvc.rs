//! The machine as a workstation (MS-WKST): its name and version.

use crate::enumeration::{Asked, error};
use crate::facts::Facts;
use crate::lsarpc::WORKGROUP;
use crate::ndr::{Reader, Writer};
use crate::pdu::{Fault, Syntax};
use crate::srvsvc::{PLATFORM, VERSION};

/// The interface, 1.0.
pub(crate) const SYNTAX: Syntax = Syntax::new(
    [0x98, 0xd0, 0xff, 0x6b, 0x12, 0xa1, 0x10, 0x36, 0x98, 0x33, 0x46, 0xc3, 0xf8, 0x7e, 0x34, 0x5a],
    1,
);

mod number {
    pub(super) const GET_INFO: u16 = 0;
    pub(super) const USER_ENUM: u16 = 2;
}

pub(crate) fn call(
    number: u16,
    read: &mut Reader<'_>,
    out: &mut Writer,
    facts: &Facts<'_>,
) -> Result<(), Fault> {
    match number {
        number::GET_INFO => get_info(read, out, facts),
        number::USER_ENUM => {
            let _server = read.text_pointer()?;
            Asked::read(read)?.refuse(out, error::ACCESS_DENIED);
            Ok(())
        }
        _ => Err(Fault::NO_SUCH_CALL),
    }
}

/// Answers `NetrWkstaGetInfo`, MS-WKST 3.2.4.1.
fn get_info(read: &mut Reader<'_>, out: &mut Writer, facts: &Facts<'_>) -> Result<(), Fault> {
    let _server = read.text_pointer()?;
    let level = read.u32()?;
    out.u32(level);
    //= MS-WKST 3.2.4.1
    //# Level 100 is for every client, 101 for users, 102 for administrators.
    let refusal = match level {
        100 => None,
        101 if !facts.caller.is_anonymous() => None,
        102 if facts.caller.is_administrator() => None,
        101 | 102 => Some(error::ACCESS_DENIED),
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
    out.pointer();
    out.u32(VERSION.0);
    out.u32(VERSION.1);
    if level > 100 {
        out.pointer();
    }
    if level > 101 {
        // No user is signed in at the machine itself.
        out.u32(0);
    }
    out.text(facts.server_name);
    out.text(WORKGROUP);
    if level > 100 {
        out.text("");
    }
    out.u32(error::SUCCESS);
    Ok(())
}
