//! The key table of MIT Kerberos, format 0x0502: records with a length, big-endian; a negative length is a hole.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::entry::{in_entry, in_file};
use super::{KeyEntry, KeyFileError, KeyFileProblem, KeyUse, Keys};
use crate::crypto::Key;
use crate::message::Principal;
use crate::{Etype, Time};

/// Reads a key table. Keys of types that are not used are entries too, for listings.
pub fn parse_keytab(file: &str, bytes: &[u8]) -> Result<Vec<KeyEntry>, KeyFileError> {
    let file: Arc<str> = file.into();
    if bytes.len() > Keys::FILE_BYTES_MAX {
        return Err(in_file(&file, KeyFileProblem::TooLong));
    }
    let mut rest = bytes.strip_prefix(&FORMAT).ok_or_else(|| in_file(&file, KeyFileProblem::Format))?;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let (number, offset) = (entries.len() + 1, bytes.len() - rest.len());
        let fail = |problem| in_entry(&file, number, offset, None, problem);
        let (len, after) = rest.split_first_chunk::<4>().ok_or_else(|| fail(KeyFileProblem::Short))?;
        let len = i32::from_be_bytes(*len);
        // A length of 0 ends the table: MIT fills a file that grew beforehand with zeros.
        if len == 0 {
            break;
        }
        let split = after.split_at_checked(len.unsigned_abs() as usize);
        let (record, after) = split.ok_or_else(|| fail(KeyFileProblem::Short))?;
        rest = after;
        if len < 0 {
            continue;
        }
        if entries.len() == Keys::KEYS_MAX {
            return Err(fail(KeyFileProblem::TooMany));
        }
        let mut principal = None;
        let entry = parse_record(&file, number, record, &mut principal);
        entries.push(entry.map_err(|problem| in_entry(&file, number, offset, principal.as_ref(), problem))?);
    }
    Ok(entries)
}

/// Parses one record. `principal` is set as soon as it is known, so that an error can name it.
fn parse_record(
    file: &Arc<str>,
    number: usize,
    record: &[u8],
    principal: &mut Option<Principal>,
) -> Result<KeyEntry, KeyFileProblem> {
    let mut record = Record(record);
    let count = record.u16()?;
    let realm = record.text()?;
    let components = (0..count).map(|_| record.text()).collect::<Result<Vec<_>, _>>()?;
    let name_type = i32::from_be_bytes(record.array()?);
    let named = Principal { name_type, components, realm };
    *principal = Some(named.clone());
    let written = Time::from_seconds(u32::from_be_bytes(record.array()?).into());
    let [low_kvno] = record.array()?;
    let etype = i32::from(record.u16()? as i16);
    let key = record.counted()?;
    // A version of 32 bits follows where there is room for one; 0 there is none. What follows it is for later formats.
    let kvno = match record.0.first_chunk::<4>().map(|kvno| u32::from_be_bytes(*kvno)) {
        Some(kvno @ 1..) => kvno,
        _ => u32::from(low_kvno),
    };
    let key = match Etype::from_number(etype) {
        Ok(etype) => Ok(Key::new(etype, key).map_err(|error| KeyFileProblem::KeyLength { len: error.len })?),
        Err(refused) => Err(refused),
    };
    Ok(KeyEntry {
        file: file.clone(),
        number,
        principal: Some(named),
        kvno,
        etype,
        written: Some(written),
        key_use: KeyUse::Service,
        key,
    })
}

/// Writes a key table of the entries that have a principal and a key.
pub fn write_keytab<'a>(entries: impl IntoIterator<Item = &'a KeyEntry>) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(FORMAT.to_vec());
    for entry in entries {
        let (Some(principal), Ok(key)) = (&entry.principal, &entry.key) else { continue };
        let mut record = Zeroizing::new(Vec::new());
        let counted = |record: &mut Vec<u8>, bytes: &[u8]| {
            record.extend((bytes.len() as u16).to_be_bytes());
            record.extend(bytes);
        };
        record.extend((principal.components.len() as u16).to_be_bytes());
        counted(&mut record, principal.realm.as_bytes());
        principal.components.iter().for_each(|part| counted(&mut record, part.as_bytes()));
        record.extend(principal.name_type.to_be_bytes());
        let written = entry.written.map_or(0, |time| u32::try_from(time.seconds).unwrap_or(0));
        record.extend(written.to_be_bytes());
        record.push(entry.kvno as u8);
        record.extend((entry.etype as u16).to_be_bytes());
        counted(&mut record, key.bytes());
        record.extend(entry.kvno.to_be_bytes());
        out.extend((record.len() as u32).to_be_bytes());
        out.extend(&*record);
    }
    out
}

/// The rest of a record.
struct Record<'a>(&'a [u8]);

impl<'a> Record<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], KeyFileProblem> {
        let (array, rest) = self.0.split_first_chunk().ok_or(KeyFileProblem::Lengths)?;
        self.0 = rest;
        Ok(*array)
    }

    fn u16(&mut self) -> Result<u16, KeyFileProblem> {
        self.array().map(u16::from_be_bytes)
    }

    fn counted(&mut self) -> Result<&'a [u8], KeyFileProblem> {
        let len = usize::from(self.u16()?);
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(KeyFileProblem::Lengths)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<String, KeyFileProblem> {
        String::from_utf8(self.counted()?.to_vec()).map_err(|_| KeyFileProblem::Name)
    }
}

/// Key tables before 0x0502 were in the byte order of their machine.
const FORMAT: [u8; 2] = [5, 2];
