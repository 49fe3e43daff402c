//! Names to identifiers and back (MS-LSAT 3.1.4).

use smb_sid::{Kind, Named};
use smb_wire::Status;
use smb_wire::info::security::Sid;

use crate::facts::Facts;
use crate::ndr::{BadStub, Reader, Writer};
use crate::pdu::Fault;

/// Names of one call (MS-LSAT 3.1.4.8).
const NAMES_MAX: usize = 1000;
/// Identifiers of one call. The specification takes 20,480, which no client sends.
const SIDS_MAX: usize = 4096;

/// `STATUS_SOME_NOT_MAPPED`.
const SOME_NOT_MAPPED: Status = Status(0x0000_0107);
/// `STATUS_NONE_MAPPED`.
const NONE_MAPPED: Status = Status(0xc000_0073);
/// Number in place of a domain's where there is no domain.
const NO_DOMAIN: u32 = u32::MAX;

/// Form of the answer, in which calls differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    First,
    /// The answer has flags.
    Second,
    /// The answer has whole identifiers.
    Third,
}

/// Answers `LsarLookupNames` to `LsarLookupNames3`, MS-LSAT 3.1.4.6 to 3.1.4.8.
pub(super) fn names(
    form: Form,
    read: &mut Reader<'_>,
    out: &mut Writer,
    facts: &Facts<'_>,
) -> Result<Status, Fault> {
    let texts = read_names(read)?;
    let found: Vec<_> = texts.iter().map(|text| facts.sids.find(text, facts.accounts)).collect();
    let domains = domains(out, &found);
    out.count(found.len());
    array(out, found.len());
    for named in &found {
        out.align(4);
        out.u16(named.as_ref().map_or(Kind::Unknown, |named| named.kind) as u16);
        match (form, named) {
            (Form::Third, Some(_)) => out.pointer(),
            (Form::Third, None) => out.null(),
            (_, named) => out.u32(named.as_ref().map_or(0, rid)),
        }
        out.u32(domain_of(named, &domains));
        if form != Form::First {
            out.u32(0);
        }
    }
    if form == Form::Third {
        found.iter().flatten().for_each(|named| out.sid(&named.sid));
    }
    Ok(end(out, &found))
}

/// Answers `LsarLookupSids` and `LsarLookupSids2`, MS-LSAT 3.1.4.10 and 3.1.4.11.
pub(super) fn sids(
    form: Form,
    read: &mut Reader<'_>,
    out: &mut Writer,
    facts: &Facts<'_>,
) -> Result<Status, Fault> {
    let sids = read_sids(read)?;
    let found: Vec<_> = sids.iter().map(|sid| facts.sids.named(sid, facts.accounts)).collect();
    let domains = domains(out, &found);
    // An unknown user is named by the text of its identifier.
    let name = |(named, sid): (&Option<Named>, &Sid)| match named {
        Some(named) => named.name.clone(),
        None => sid.to_string(),
    };
    let names: Vec<_> = found.iter().zip(&sids).map(name).collect();
    out.count(found.len());
    array(out, found.len());
    for (named, name) in found.iter().zip(&names) {
        out.align(4);
        out.u16(named.as_ref().map_or(Kind::Unknown, |named| named.kind) as u16);
        out.counted(name);
        out.u32(domain_of(named, &domains));
        if form != Form::First {
            out.u32(0);
        }
    }
    names.iter().for_each(|name| out.counted_text(name));
    Ok(end(out, &found))
}

/// Writes the answer of a call that is refused: nothing was found.
pub(super) fn refuse(out: &mut Writer) -> Status {
    out.null();
    out.u32(0);
    out.null();
    out.u32(0);
    Status::ACCESS_DENIED
}

fn read_names(read: &mut Reader<'_>) -> Result<Vec<String>, BadStub> {
    let count = read.u32()? as usize;
    if read.count(NAMES_MAX, 8)? != count {
        return Err(BadStub);
    }
    let mut heads = Vec::with_capacity(count);
    for _ in 0..count {
        let (len, _max) = (read.u16()?, read.u16()?);
        heads.push((usize::from(len) / 2, read.pointer()?));
    }
    let text = |(len, is_there): (usize, bool)| match is_there {
        true => read
            .counted_text()
            .and_then(|text| (text.encode_utf16().count() == len).then_some(text).ok_or(BadStub)),
        false => Ok(String::new()),
    };
    heads.into_iter().map(text).collect()
}

fn read_sids(read: &mut Reader<'_>) -> Result<Vec<Sid>, BadStub> {
    let count = read.u32()? as usize;
    if !read.pointer()? {
        return if count == 0 { Ok(Vec::new()) } else { Err(BadStub) };
    }
    if read.count(SIDS_MAX, 4)? != count {
        return Err(BadStub);
    }
    for _ in 0..count {
        if !read.pointer()? {
            return Err(BadStub);
        }
    }
    (0..count).map(|_| read.sid()).collect()
}

/// Writes the domains of all that were found, and gives them in the order of their numbers.
fn domains(out: &mut Writer, found: &[Option<Named>]) -> Vec<Sid> {
    let mut domains: Vec<(Sid, &str)> = Vec::new();
    for named in found.iter().flatten() {
        // There are as many as the rule of names knows, fewer than ten.
        if !domains.iter().any(|(sid, _)| *sid == named.domain_sid) {
            domains.push((named.domain_sid, &named.domain));
        }
    }
    out.pointer();
    out.count(domains.len());
    if domains.is_empty() {
        out.null();
        out.u32(0);
        return Vec::new();
    }
    out.pointer();
    // `MaxEntries`, which is ignored.
    out.u32(32);
    out.count(domains.len());
    for (_, name) in &domains {
        out.counted(name);
        out.pointer();
    }
    for (sid, name) in &domains {
        out.counted_text(name);
        out.sid(sid);
    }
    domains.into_iter().map(|(sid, _)| sid).collect()
}

fn domain_of(named: &Option<Named>, domains: &[Sid]) -> u32 {
    let index = named.as_ref().and_then(|named| domains.iter().position(|sid| *sid == named.domain_sid));
    index.map_or(NO_DOMAIN, |index| index as u32)
}

/// Writes a pointer to an array and how many it has, or to none.
fn array(out: &mut Writer, count: usize) {
    if count == 0 {
        out.null();
    } else {
        out.pointer();
        out.count(count);
    }
}

fn rid(named: &Named) -> u32 {
    match named.kind {
        Kind::Domain => u32::MAX,
        _ => named.sid.sub_authorities().last().copied().unwrap_or(0),
    }
}

fn end(out: &mut Writer, found: &[Option<Named>]) -> Status {
    let mapped = found.iter().flatten().count();
    out.count(mapped);
    match mapped {
        _ if mapped == found.len() => Status::SUCCESS,
        0 => NONE_MAPPED,
        _ => SOME_NOT_MAPPED,
    }
}
