//! One key of a file, and what can be wrong with one.

use std::fmt;
use std::sync::Arc;

use crate::crypto::{Key, etype_name};
use crate::message::Principal;
use crate::{EtypeRefused, Time};

/// Use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// The tickets of a service.
    Service,
    /// The tickets of the AFS service, of any principal (`rxkad_krb5` of KeyFileExt).
    RxkadKrb5,
    /// The tokens of rxgk, which are not Kerberos tickets.
    Rxgk,
    /// The krb4 tickets of old AFS cells: not used.
    Rxkad,
}

/// A key of a file.
#[derive(Clone, Debug)]
pub struct KeyEntry {
    /// The file, as the caller called it.
    pub file: Arc<str>,
    /// Position of the entry in the file, from 1 on.
    pub number: usize,
    /// Owner of the key; KeyFileExt does not say it.
    pub principal: Option<Principal>,
    /// Version of the key.
    pub kvno: u32,
    /// Number of the key's encryption type.
    pub etype: i32,
    /// Time at which it was written, where the file says so.
    pub written: Option<Time>,
    /// Use of the key.
    pub key_use: KeyUse,
    /// The key, or why it is not used. The bytes of keys that are not used are not kept.
    pub key: Result<Key, EtypeRefused>,
}

impl fmt::Display for KeyEntry {
    /// Writes one line of a listing: version, type, principal, and what to do about a key that is not used.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kvno {}, {}", self.kvno, etype_name(self.etype))?;
        match (&self.principal, self.key_use) {
            (Some(principal), _) => write!(f, ", {principal}")?,
            (None, KeyUse::Rxgk) => f.write_str(", rxgk")?,
            (None, KeyUse::Rxkad) => f.write_str(", rxkad of krb4, not used")?,
            (None, _) => f.write_str(", any principal of the AFS service")?,
        }
        match &self.key {
            Err(refused) if self.key_use != KeyUse::Rxkad => write!(f, ": {refused}"),
            _ => Ok(()),
        }
    }
}

/// A file of keys is damaged. The text names the entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, {at}: {problem}")]
pub struct KeyFileError {
    /// The file, as the caller called it.
    pub file: Arc<str>,
    /// The damaged entry, and what is known of it.
    pub at: String,
    /// The damage.
    pub problem: KeyFileProblem,
}

/// Damage of an entry of a file of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileProblem {
    /// Another format, or another byte order.
    #[error("not a key table of format 0x0502")]
    Format,
    /// Longer than [`Keys::FILE_BYTES_MAX`](super::Keys::FILE_BYTES_MAX).
    #[error("longer than a file of keys can be")]
    TooLong,
    /// The file ends before the entry does.
    #[error("the file ends within the entry")]
    Short,
    /// Lengths within the entry do not fit it.
    #[error("lengths within the entry do not fit it")]
    Lengths,
    /// A name is no text.
    #[error("a name is not UTF-8")]
    Name,
    /// The key has another length than its type's keys.
    #[error("the key has {len} bytes, which its type's keys have not")]
    KeyLength {
        /// Bytes.
        len: usize,
    },
    /// A kind of key that KeyFileExt does not have.
    #[error("keys of type {0} are not known")]
    KeyKind(
        /// The number.
        u32,
    ),
    /// The file has more keys than [`Keys::KEYS_MAX`](super::Keys::KEYS_MAX).
    #[error("too many keys")]
    TooMany,
    /// Bytes follow the last entry.
    #[error("bytes follow the last entry")]
    Trailing,
}

/// Returns a problem before or outside of the entries.
pub(super) fn in_file(file: &Arc<str>, problem: KeyFileProblem) -> KeyFileError {
    KeyFileError { file: file.clone(), at: "header".to_owned(), problem }
}

/// Returns a problem of an entry, numbered from 1 on, at an offset of the file.
pub(super) fn in_entry(
    file: &Arc<str>,
    number: usize,
    offset: usize,
    principal: Option<&Principal>,
    problem: KeyFileProblem,
) -> KeyFileError {
    let of = principal.map(|principal| format!(", {principal}")).unwrap_or_default();
    KeyFileError { file: file.clone(), at: format!("entry {number} (offset {offset}{of})"), problem }
}
