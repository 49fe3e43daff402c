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
    /// The entries that open tickets, those of one version and key together: such a key is tried once, whatever its names.
    groups: Vec<Vec<usize>>,
}

/// A ticket's content, and the key that opened it.
#[derive(Debug)]
pub struct Opened<'k> {
    /// The key's entry.
    pub entry: &'k KeyEntry,
    /// The key.
    pub key: &'k Key,
    /// The decrypted content.
    pub plain: Zeroizing<Vec<u8>>,
}

/// Reason why no key opens a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnopenedTicket {
    /// The ticket's encryption type is not used.
    #[error("the ticket's encryption type {0}")]
    Etype(
        /// The type, and what to do about it.
        #[from]
        EtypeRefused,
    ),
    /// The keys have none of this type.
    #[error("no key of type {0}: export the service's key of this type")]
    NoKey(
        /// The ticket's type.
        Etype,
    ),
    /// The keys have some of this type, but none of this version: the KDC has a newer one.
    #[error("no key of type {etype} and version {kvno}: export the service's key anew")]
    NoVersion {
        /// The ticket's type.
        etype: Etype,
        /// The ticket's version.
        kvno: u32,
    },
    /// The key of this type and version does not open the ticket.
    #[error("the ticket does not decrypt: it was changed, or the key is another service's")]
    Integrity,
}

impl Keys {
    /// Longest file of keys, bytes.
    pub const FILE_BYTES_MAX: usize = 4 << 20;
    /// Most keys of a file.
    pub const KEYS_MAX: usize = 4_096;
    /// Most different keys that are tried for one ticket: a ticket under none of them costs no more.
    pub const TRIED_MAX: usize = 8;

    /// Collects the entries of any number of files. A key that is there twice counts once.
    pub fn new(entries: impl IntoIterator<Item = KeyEntry>) -> Self {
        let mut keys = Self::default();
        for entry in entries {
            if keys.entries.iter().any(|known| is_same(known, &entry)) {
                continue;
            }
            if entry.key.is_ok() && matches!(entry.key_use, KeyUse::Service | KeyUse::RxkadKrb5) {
                let number = keys.entries.len();
                let is_of = |group: &&mut Vec<usize>| {
                    let known = &keys.entries[group[0]];
                    known.kvno == entry.kvno && known.key == entry.key
                };
                match keys.groups.iter_mut().find(is_of) {
                    Some(group) => group.push(number),
                    None => keys.groups.push(vec![number]),
                }
            }
            keys.entries.push(entry);
        }
        keys
    }

    /// Returns all entries, also those that are not used. Each has a line of text for listings.
    pub fn entries(&self) -> &[KeyEntry] {
        &self.entries
    }

    /// Returns true if no entry has a key that is used.
    pub fn is_empty(&self) -> bool {
        self.entries.iter().all(|entry| entry.key.is_err())
    }

    /// Returns the key of a principal, a version and a type. Without a version it is the newest; without a principal
    /// any one's.
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
        let of_type = self.groups.iter().filter(|group| self.entries[group[0]].etype == ticket.etype);
        let mut candidates: Vec<&Vec<usize>> = of_type.collect();
        if candidates.is_empty() {
            return Err(UnopenedTicket::NoKey(etype));
        }
        let has_version = |group: &[usize]| {
            let entry = &self.entries[group[0]];
            ticket.kvno.is_none_or(|kvno| is_version(entry.kvno, kvno))
        };
        let is_versioned = candidates.iter().any(|group| has_version(group));
        let is_named =
            |number: &usize| service.is_some() && self.entries[*number].principal.as_ref() == service;
        candidates.sort_by_cached_key(|group| {
            let newest_first = std::cmp::Reverse(self.entries[group[0]].kvno);
            (!has_version(group), !group.iter().any(is_named), newest_first)
        });
        for group in candidates.into_iter().take(Self::TRIED_MAX) {
            let number = group.iter().find(|number| is_named(number)).unwrap_or(&group[0]);
            let entry = &self.entries[*number];
            if let Ok(key) = &entry.key
                && let Ok(plain) = ticket.decrypt(key, usage::TICKET)
            {
                return Ok(Opened { entry, key, plain });
            }
        }
        match ticket.kvno {
            Some(kvno) if !is_versioned => Err(UnopenedTicket::NoVersion { etype, kvno }),
            _ => Err(UnopenedTicket::Integrity),
        }
    }
}

/// Returns true if an entry's version is that of a ticket: old files have its low 8 bits alone.
fn is_version(entry: u32, ticket: u32) -> bool {
    entry == ticket || (entry < 256 && entry == ticket & 0xff)
}

fn is_same(one: &KeyEntry, other: &KeyEntry) -> bool {
    one.principal == other.principal
        && (one.kvno, one.etype, one.key_use) == (other.kvno, other.etype, other.key_use)
        && one.key == other.key
}
