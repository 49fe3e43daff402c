//! Locked ranges of bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use budget::Consumer;
use futures_util::future::LocalBoxFuture;
use grants::{AdvisoryLock, Event, Lock, Range, RangeLock, Refused};

use super::local::PAUSE;
use super::requests::{When, at_once, retry_until_decided};
use super::slot::WaitOutcome;
use super::{GrantWait, Open, OpenError};
use crate::object::Object;
use crate::volume::Volume;

impl Open {
    /// Locks all these ranges, or none. A single one waits for its turn if `waits`: dropped meanwhile, it waits no
    /// more. Of other programs on this machine, where the volume has [their locks
    /// meet](crate::VolumeSpec::local_locks), it asks ten times a second.
    ///
    /// # Errors
    /// [`Refused::Locked`], [`Refused::BadRange`], [`Refused::TooMany`]; [`Refused::NotOpen`] when the open is closed
    /// while it waits.
    pub fn lock<'a>(
        &'a self,
        volume: &'a Volume,
        locks: &'a [RangeLock],
        waits: bool,
    ) -> LocalBoxFuture<'a, Result<(), OpenError>> {
        Box::pin(async move {
            let locked =
                retry_until_decided(volume, &self.object, When::Always, |grants, now, ticket, events| {
                    grants.lock(now, self.id, locks, waits, ticket, events)
                });
            let locked = match locked.await? {
                Lock::Held => Ok(()),
                Lock::Waits(ticket) => {
                    let mut turn =
                        LockWait { open: self, lock: locks[0], pause: GrantWait::new(&self.object, ticket) };
                    turn.pause.ended().await.into_result()
                }
            };
            locked.inspect_err(|_| volume.counters().grants_refused.increment())?;
            let mut granted = Granted { open: self, volume, locks, stays: false };
            loop {
                match volume.lock_for_others(&self.object, self.consumer, locks).await {
                    Ok(()) => {
                        granted.stays = true;
                        return Ok(());
                    }
                    Err(OpenError::Refused(Refused::Locked)) if waits && locks.len() == 1 => {
                        lane::time::sleep(PAUSE).await;
                        if self.is_closed.load(Ordering::SeqCst) {
                            return Err(Refused::NotOpen.into());
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
        })
    }

    /// Unlocks ranges as they were locked, one after another. Other programs find them unlocked a moment later: see
    /// [`Volume::unlocked_for_others`].
    ///
    /// # Errors
    /// [`Refused::NotLocked`] at the first that is not; those before are unlocked then.
    pub fn unlock(&self, volume: &Volume, ranges: &[Range]) -> Result<(), OpenError> {
        Ok(at_once(volume.cache(), &self.object, |grants, _, events| grants.unlock(self.id, ranges, events))?)
    }
}

impl WaitOutcome {
    fn into_result(self) -> Result<(), OpenError> {
        match self {
            Self::Back | Self::Locked => Ok(()),
            Self::Cancelled => Err(Refused::NotOpen.into()),
        }
    }
}

/// Locks on the books that another program may be in the way of. Dropped, they are taken off again unless they stay.
struct Granted<'a> {
    open: &'a Open,
    volume: &'a Volume,
    locks: &'a [RangeLock],
    stays: bool,
}

impl Drop for Granted<'_> {
    fn drop(&mut self) {
        if !self.stays {
            let ranges: Vec<_> = self.locks.iter().map(|lock| lock.range).collect();
            // It may be closed by now, with all its locks.
            let _ = self.open.unlock(self.volume, &ranges);
        }
    }
}

/// Waits for a lock. Dropped as it comes, it gives the lock on.
struct LockWait<'a> {
    open: &'a Open,
    lock: RangeLock,
    pause: GrantWait,
}

impl Drop for LockWait<'_> {
    fn drop(&mut self) {
        if self.open.object.grants().leave(self.pause.ticket()) == Some(WaitOutcome::Locked) {
            let range = [self.lock.range];
            // It may be closed by now, with all its locks.
            let _ =
                self.open.object.grants().ask(|grants, events| grants.unlock(self.open.id, &range, events));
        }
    }
}

impl Volume {
    /// Locks a file for an owner without an open: AFS's locks, and those of other processes. Never waits for
    /// another lock, but for a client that keeps locks to itself.
    ///
    /// # Errors
    /// [`Refused::Locked`], [`Refused::TooMany`].
    pub fn lock_advisory<'a>(
        &'a self,
        object: &'a Arc<Object>,
        consumer: Consumer,
        advisory: AdvisoryLock,
    ) -> LocalBoxFuture<'a, Result<(), OpenError>> {
        Box::pin(async move {
            let locked = retry_until_decided(self, object, When::Always, |grants, now, ticket, events| {
                grants.lock_advisory(now, b"", advisory, ticket, events)
            });
            locked.await?;
            let (volume, object) = (self.clone(), Arc::clone(object));
            // What other programs see of it ends in time though this is dropped.
            lane::run_to_completion(async move {
                let AdvisoryLock { owner, lock, until } = advisory;
                let shown = volume.lock_for_others(&object, consumer, &[lock]).await;
                match &shown {
                    Ok(()) => until.into_iter().for_each(|until| volume.end_in_time(&object, until)),
                    // Its time may be over already.
                    Err(_) => drop(volume.unlock_advisory(&object, owner, lock.range)),
                }
                shown
            })
            .await
        })
    }

    /// Extends the locks of an owner without an open until then.
    ///
    /// # Errors
    /// [`Refused::NotLocked`] if the owner has nothing locked any more.
    pub fn extend_advisory(&self, object: &Arc<Object>, owner: u64, until: Instant) -> Result<(), OpenError> {
        at_once(self.cache(), object, |grants, now, events| {
            grants.extend_advisory(now, b"", owner, until, events)
        })?;
        self.end_in_time(object, until);
        Ok(())
    }

    /// Unlocks it. Other programs find it unlocked a moment later: see [`Volume::unlocked_for_others`].
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
