//! The keys of a service, of one file or several, and which of them opens a ticket.

use zeroize::Zeroizing;

use super::{KeyEntry, KeyUse};
use crate::crypto::{Key, usage};
use crate::message::{EncryptedData, Principal};
use crate::{Etype, EtypeRefused};

/// Keys of one or several files. Replaced as a whole when a file has changed; hold every version until its last ticket has ended.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    entries: Vec<KeyEntry>,
}

/// A ticket's content, and the key that opened it.
#[derive(Debug)]
pub struct Opened<'k> {
    /// The key's entry.
    pub entry: &'k KeyEntry,
    /// The key.
    pub key: &'k Key,
    /// What was encrypted.
    pub plain: Zeroizing<Vec<u8>>,
}

/// Why no key opens a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnopenedTicket {
    /// Its encryption type is not used.
    #[error("the ticket's encryption type {0}")]
    Etype(
        /// Which, and what to do.
        #[from]
        EtypeRefused,
    ),
    /// There is no key of this type at all.
    #[error("no key of type {0}: export the service's key of this type")]
    NoKey(
        /// The ticket's type.
        Etype,
    ),
    /// There is a key of this type, but none of this version: the KDC has a newer one.
    #[error("no key of type {etype} and version {kvno}: export the service's key anew")]
    NoVersion {
        /// The ticket's type.
        etype: Etype,
        /// The ticket's version.
        kvno: u32,
    },
    /// There is such a key, and it does not open the ticket.
    #[error("the ticket does not decrypt: it was changed, or the key is another service's")]
    Integrity,
}

impl Keys {
    /// Longest file of keys, bytes.
    pub const FILE_BYTES_MAX: usize = 4 << 20;
    /// Most keys of a file.
    pub const KEYS_MAX: usize = 4_096;
    /// Most keys that are tried for one ticket.
    pub const TRIED_MAX: usize = 32;

    /// Of the entries of any number of files. A key that is there twice counts once.
    pub fn new(entries: impl IntoIterator<Item = KeyEntry>) -> Self {
        let mut keys = Self::default();
        for entry in entries {
            if !keys.entries.iter().any(|known| is_same(known, &entry)) {
                keys.entries.push(entry);
            }
        }
        keys
    }

    /// All entries, also those that are not used. Each has a line of text for listings.
    pub fn entries(&self) -> &[KeyEntry] {
        &self.entries
    }

    /// Whether no entry has a key.
    pub fn is_empty(&self) -> bool {
        self.entries.iter().all(|entry| entry.key.is_err())
    }

    /// The key of a principal, a version and a type. Without a version it is the newest; without a principal any one's.
    pub fn find(&self, principal: Option<&Principal>, kvno: Option<u32>, etype: Etype) -> Option<&KeyEntry> {
        let fits = |entry: &&KeyEntry| {
            entry.etype == etype.number()
                && entry.key_use != KeyUse::Rxgk
                && kvno.is_none_or(|kvno| kvno == entry.kvno)
                && principal.is_none_or(|principal| entry.principal.as_ref() == Some(principal))
        };
        self.entries.iter().filter(fits).max_by_key(|entry| entry.kvno)
    }

    /// Decrypts the encrypted part of a ticket.
    ///
    /// The checksum tells whether a key is right, so that any may open it: those of the ticket's version first, of them the
    /// named service's first. At most [`TRIED_MAX`](Self::TRIED_MAX) are tried.
    pub fn open(
        &self,
        ticket: &EncryptedData<'_>,
        service: Option<&Principal>,
    ) -> Result<Opened<'_>, UnopenedTicket> {
        let etype = Etype::from_number(ticket.etype)?;
        let mut candidates: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| entry.etype == ticket.etype)
            .filter(|entry| matches!(entry.key_use, KeyUse::Service | KeyUse::RxkadKrb5))
            .filter_map(|entry| Some((entry, entry.key.as_ref().ok()?)))
            .collect();
        if candidates.is_empty() {
            return Err(UnopenedTicket::NoKey(etype));
        }
        let has_version = |entry: &KeyEntry| ticket.kvno.is_none_or(|kvno| is_version(entry.kvno, kvno));
        let is_versioned = candidates.iter().any(|(entry, _)| has_version(entry));
        candidates.sort_by_key(|(entry, _)| {
            let is_named = service.is_some() && entry.principal.as_ref() == service;
            (!has_version(entry), !is_named, std::cmp::Reverse(entry.kvno))
        });
        for (entry, key) in candidates.into_iter().take(Self::TRIED_MAX) {
            if let Ok(plain) = ticket.decrypt(key, usage::TICKET) {
                return Ok(Opened { entry, key, plain });
            }
        }
        match ticket.kvno {
            Some(kvno) if !is_versioned => Err(UnopenedTicket::NoVersion { etype, kvno }),
            _ => Err(UnopenedTicket::Integrity),
        }
    }
}

/// Whether an entry's version is that of a ticket: old files have its low 8 bits alone.
fn is_version(entry: u32, ticket: u32) -> bool {
    entry == ticket || (entry < 256 && entry == ticket & 0xff)
}

fn is_same(one: &KeyEntry, other: &KeyEntry) -> bool {
    one.principal == other.principal
        && (one.kvno, one.etype, one.key_use) == (other.kvno, other.etype, other.key_use)
        && one.key == other.key
}
