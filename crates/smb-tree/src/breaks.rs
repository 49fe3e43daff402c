//! Delivery of lease and oplock breaks to clients: `vfs` notifies the lane of a holder, which hands the break to its
//! service.

use grants::Caching;
use smb_wire::create::oplock_level;
use smb_wire::{FileId, Guid};

/// Receiver of breaks in a service, on the lane of the holder's connection. The frame is queued, behind what
/// is queued already, before these return: the reply to the client that caused the break comes after. One of
/// [names](LeaseBroken::names) may come behind it where both leave by one connection.
pub trait Breaks {
    /// Breaks an oplock: the open of this session is left `level`, [`oplock_level::II`] or [`oplock_level::NONE`].
    /// Unless it falls from level II its client answers.
    fn oplock(&self, open: FileId, session: u64, level: u8);

    /// Breaks a lease.
    fn lease(&self, broken: &LeaseBroken);
}

/// A lease falls (MS-SMB2 2.2.23.2). Bits are those of [`smb_wire::create::lease::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseBroken {
    /// ClientGuid: any of the client's connections may tell it.
    pub client: Guid,
    /// LeaseKey.
    pub key: Guid,
    /// State that the holder has.
    pub from: u32,
    /// State that is left to it.
    pub to: u32,
    /// The new epoch of a lease of version 2; else 0.
    pub epoch: u16,
    /// The client has to answer.
    pub acknowledge: bool,
    /// The break is of a directory, because of names in it: no request waits for the answer.
    pub names: bool,
}

/// The destination of a break: the session of an oplock, or the client of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakTarget {
    Oplock { open: FileId, session: u64 },
    Lease { client: Guid, key: Guid },
}

/// Returns what is left of an oplock, on the wire.
pub(crate) fn level(caching: Caching) -> u8 {
    match caching {
        Caching::RWH => oplock_level::BATCH,
        Caching::RW => oplock_level::EXCLUSIVE,
        it if it.is_none() => oplock_level::NONE,
        _ => oplock_level::II,
    }
}

/// Returns what an oplock level asks for.
pub(crate) fn caching_of(level: u8) -> Option<Caching> {
    match level {
        oplock_level::II => Some(Caching::R),
        oplock_level::EXCLUSIVE => Some(Caching::RW),
        oplock_level::BATCH => Some(Caching::RWH),
        _ => None,
    }
}

/// The kind of caching that an open was granted: none, an oplock or a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrantedCaching {
    Nothing,
    Oplock,
    Lease {
        key: Guid,
        /// Version of its context: 1 or 2.
        version: u8,
    },
}

impl GrantedCaching {
    /// Returns whether a durable open can rest on it, of which this is what there is: a batch oplock, or a
    /// lease with handle caching.
    pub(crate) fn keeps_handle(self, caching: Caching) -> bool {
        match self {
            Self::Nothing => false,
            Self::Oplock => caching.contains(Caching::RWH),
            Self::Lease { .. } => caching.contains(Caching::H),
        }
    }
}
