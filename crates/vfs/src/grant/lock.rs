//! Locked ranges of bytes.

use std::sync::Arc;

use grants::{Advisory, Event, Lock, Range, RangeLock, Refused};

use super::asked::{When, at_once, until_answered};
use super::slot::Came;
use super::{Open, OpenError, Pause};
use crate::object::Object;
use crate::volume::Volume;

impl Open {
    /// Locks all these ranges, or none. A single one waits for its turn if `waits`: dropped meanwhile, it waits no more.
    ///
    /// # Errors
    /// [`Refused::Locked`], [`Refused::BadRange`], [`Refused::TooMany`]; [`Refused::NotOpen`] when the open is closed while it
    /// waits.
    pub async fn lock(&self, volume: &Volume, locks: &[RangeLock], waits: bool) -> Result<(), OpenError> {
        let locked = until_answered(volume, &self.object, When::Always, |grants, now, ticket, events| {
            grants.lock(now, self.id, locks, waits, ticket, events)
        });
        let locked = match locked.await? {
            Lock::Held => Ok(()),
            Lock::Waits(ticket) => {
                let mut turn = Turn { open: self, lock: locks[0], pause: Pause::new(&self.object, ticket) };
                turn.pause.ended().await.into_result()
            }
        };
        locked.inspect_err(|_| volume.counters().grants_refused.increment())
    }

    /// Unlocks ranges as they were locked, one after another.
    ///
    /// # Errors
    /// [`Refused::NotLocked`] at the first that is not; those before are unlocked then.
    pub fn unlock(&self, volume: &Volume, ranges: &[Range]) -> Result<(), OpenError> {
        Ok(at_once(volume.cache(), &self.object, |grants, _, events| grants.unlock(self.id, ranges, events))?)
    }
}

impl Came {
    fn into_result(self) -> Result<(), OpenError> {
        match self {
            Self::Back | Self::Locked => Ok(()),
            Self::Cancelled => Err(Refused::NotOpen.into()),
        }
    }
}

/// Waits for a lock. Dropped as it comes, it gives the lock on.
struct Turn<'a> {
    open: &'a Open,
    lock: RangeLock,
    pause: Pause,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.open.object.grants().leave(self.pause.ticket()) == Some(Came::Locked) {
            let range = [self.lock.range];
            // It may be closed by now, with all its locks.
            let _ =
                self.open.object.grants().ask(|grants, events| grants.unlock(self.open.id, &range, events));
        }
    }
}

impl Volume {
    /// Locks a file for somebody without an open: AFS's locks, and those of other processes. Never waits for another lock, but
    /// for who keeps locks to himself.
    ///
    /// # Errors
    /// [`Refused::Locked`], [`Refused::TooMany`].
    pub async fn lock_advisory(&self, object: &Arc<Object>, advisory: Advisory) -> Result<(), OpenError> {
        let locked = until_answered(self, object, When::Always, |grants, now, ticket, events| {
            grants.lock_advisory(now, b"", advisory, ticket, events)
        });
        locked.await?;
        Ok(())
    }

    /// Unlocks it.
    ///
    /// # Errors
    /// [`Refused::NotLocked`].
    pub fn unlock_advisory(&self, object: &Arc<Object>, owner: u64, range: Range) -> Result<(), OpenError> {
        let unlock = |grants: &mut super::slot::Grants, events: &mut Vec<Event>| {
            grants.unlock_advisory(b"", owner, range, events)
        };
        Ok(at_once(self.cache(), object, |grants, _, events| unlock(grants, events))?)
    }
}
