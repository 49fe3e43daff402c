//! KeyFileExt of OpenAFS: a count, then records {header length, type, kvno, etype, key length, key}, big-endian words.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::entry::{in_entry, in_file};
use super::{KeyEntry, KeyFileError, KeyFileProblem, KeyUse, Keys};
use crate::Etype;
use crate::crypto::Key;

/// Reads KeyFileExt. Keys of types that are not used are entries too, for listings.
pub fn parse_key_file_ext(file: &str, bytes: &[u8]) -> Result<Vec<KeyEntry>, KeyFileError> {
    let file: Arc<str> = file.into();
    if bytes.len() > Keys::FILE_BYTES_MAX {
        return Err(in_file(&file, KeyFileProblem::TooLong));
    }
    let mut rest = bytes;
    let count = word(&mut rest).map_err(|problem| in_file(&file, problem))? as usize;
    if count > Keys::KEYS_MAX {
        return Err(in_file(&file, KeyFileProblem::TooMany));
    }
    let mut entries = Vec::new();
    for number in 1..=count {
        let offset = bytes.len() - rest.len();
        let entry = parse_record(&file, number, &mut rest);
        entries.push(entry.map_err(|problem| in_entry(&file, number, offset, None, problem))?);
    }
    if !rest.is_empty() {
        let offset = bytes.len() - rest.len();
        return Err(in_entry(&file, count, offset, None, KeyFileProblem::Trailing));
    }
    Ok(entries)
}

fn parse_record(file: &Arc<str>, number: usize, rest: &mut &[u8]) -> Result<KeyEntry, KeyFileProblem> {
    // The header's length counts its own word, and may be longer than what is known of it.
    let header = (word(rest)? as usize).checked_sub(4).ok_or(KeyFileProblem::Lengths)?;
    let mut header = take(rest, header)?;
    let in_header = |header: &mut &[u8]| word(header).map_err(|_| KeyFileProblem::Lengths);
    let kind = in_header(&mut header)?;
    let kvno = in_header(&mut header)?;
    let etype = in_header(&mut header)? as i32;
    let len = word(rest)? as usize;
    let key = take(rest, len)?;
    let key_use = match kind {
        0 => KeyUse::Rxkad,
        1 => KeyUse::Rxgk,
        2 => KeyUse::RxkadKrb5,
        other => return Err(KeyFileProblem::KeyKind(other)),
    };
    let key = match Etype::from_number(etype) {
        Ok(etype) => Ok(Key::new(etype, key).map_err(|error| KeyFileProblem::KeyLength { len: error.len })?),
        Err(refused) => Err(refused),
    };
    Ok(KeyEntry { file: file.clone(), number, principal: None, kvno, etype, written: None, key_use, key })
}

/// Writes KeyFileExt of the entries that have a key; those with a principal become keys of the AFS service.
pub fn write_key_file_ext<'a>(entries: impl IntoIterator<Item = &'a KeyEntry>) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(vec![0; 4]);
    let mut count = 0u32;
    for entry in entries {
        let Ok(key) = &entry.key else { continue };
        let kind = match entry.key_use {
            KeyUse::Rxkad => 0u32,
            KeyUse::Rxgk => 1,
            KeyUse::Service | KeyUse::RxkadKrb5 => 2,
        };
        for word in [16, kind, entry.kvno, entry.etype as u32, key.bytes().len() as u32] {
            out.extend(word.to_be_bytes());
        }
        out.extend(key.bytes());
        count += 1;
    }
    out[..4].copy_from_slice(&count.to_be_bytes());
    out
}

fn word(rest: &mut &[u8]) -> Result<u32, KeyFileProblem> {
    let (word, after) = rest.split_first_chunk::<4>().ok_or(KeyFileProblem::Short)?;
    *rest = after;
    Ok(u32::from_be_bytes(*word))
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], KeyFileProblem> {
    let (bytes, after) = rest.split_at_checked(len).ok_or(KeyFileProblem::Short)?;
    *rest = after;
    Ok(bytes)
}
