//! Names and identifiers (MS-LSAD, MS-LSAT): the user or group of a descriptor's identifier, and the other
//! way round.

mod handles;
mod lookup;
mod policy;

pub(crate) use handles::Handles;
use smb_wire::Status;

use crate::facts::Facts;
use crate::ndr::{Reader, Writer};
use crate::pdu::{Fault, Syntax};

/// The interface, 0.0.
pub(crate) const SYNTAX: Syntax = Syntax::new(
    [0x78, 0x57, 0x34, 0x12, 0x34, 0x12, 0xcd, 0xab, 0xef, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab],
    0,
);

/// The workgroup of a server that is in none.
pub(crate) const WORKGROUP: &str = "WORKGROUP";

mod number {
    pub(super) const CLOSE: u16 = 0;
    pub(super) const OPEN_POLICY: u16 = 6;
    pub(super) const QUERY_INFORMATION_POLICY: u16 = 7;
    pub(super) const LOOKUP_NAMES: u16 = 14;
    pub(super) const LOOKUP_SIDS: u16 = 15;
    pub(super) const OPEN_POLICY2: u16 = 44;
    pub(super) const GET_USER_NAME: u16 = 45;
    pub(super) const QUERY_INFORMATION_POLICY2: u16 = 46;
    pub(super) const LOOKUP_SIDS2: u16 = 57;
    pub(super) const LOOKUP_NAMES2: u16 = 58;
    pub(super) const LOOKUP_NAMES3: u16 = 68;
    pub(super) const LOOKUP_SIDS3: u16 = 76;
    pub(super) const LOOKUP_NAMES4: u16 = 77;
}

pub(crate) fn call(
    number: u16,
    read: &mut Reader<'_>,
    out: &mut Writer,
    handles: &mut Handles,
    facts: &Facts<'_>,
) -> Result<(), Fault> {
    use lookup::Form;
    let status = match number {
        number::CLOSE => {
            handles.close(&handle(read)?)?;
            out.bytes(&[0; 20]);
            Status::SUCCESS
        }
        number::OPEN_POLICY | number::OPEN_POLICY2 => policy::open(out, handles, facts),
        number::QUERY_INFORMATION_POLICY | number::QUERY_INFORMATION_POLICY2 => {
            handles.check(&handle(read)?)?;
            policy::query(read, out, facts)?
        }
        number::LOOKUP_NAMES | number::LOOKUP_NAMES2 | number::LOOKUP_NAMES3 => {
            let form = match number {
                number::LOOKUP_NAMES => Form::First,
                number::LOOKUP_NAMES2 => Form::Second,
                _ => Form::Third,
            };
            handles.check(&handle(read)?)?;
            lookup::names(form, read, out, facts)?
        }
        number::LOOKUP_SIDS | number::LOOKUP_SIDS2 => {
            let form = if number == number::LOOKUP_SIDS { Form::First } else { Form::Second };
            handles.check(&handle(read)?)?;
            lookup::sids(form, read, out, facts)?
        }
        //= MS-LSAT 3.1.4.9
        //# LsarLookupSids3 and LsarLookupNames4 are for members of a domain, over a channel secured by netlogon: over
        //# any other they are refused.
        number::LOOKUP_SIDS3 | number::LOOKUP_NAMES4 => lookup::refuse(out),
        number::GET_USER_NAME => policy::user_name(out, facts),
        _ => return Err(Fault::NO_SUCH_CALL),
    };
    out.u32(status.0);
    Ok(())
}

/// Reads the handle that a call is about.
fn handle(read: &mut Reader<'_>) -> Result<[u8; 20], Fault> {
    Ok(read.bytes(20)?.try_into().expect("twenty"))
}
