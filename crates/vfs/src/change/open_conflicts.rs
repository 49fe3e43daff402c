//! Opens that conflict with a rename by SMB (MS-FSA 2.1.5.15.11): nothing beneath a directory that moves may
//! be, nor what is replaced, except by the open that renames or deletes it, or by one for attributes alone
//! (as with Samba: else of several that rename onto one name some are refused); and no client may have a
//! directory open to delete it that names leave or come to. Clients that keep opens for later are asked to
//! give them back first. A rename without an open, as of AFS and HTTP, is not refused; nor is POSIX's rename
//! by what is open beneath.

use std::cell::RefCell;
use std::slice;
use std::sync::Arc;

use grants::conflict::FileOperation;
use grants::{Change, Event};
use lane::offload::offload;

use super::lease_breaks::PendingLeaseBreak;
use super::located_directory::Interrupted;
use super::name_target::NameTarget;
use crate::caller::Caller;
use crate::error::Error;
use crate::grant::{GrantSlot, Grants, OpenCaller};
use crate::object::Object;
use crate::volume::Volume;

/// Opens that one rename has found in conflict, over all its attempts.
#[derive(Default)]
pub(super) struct OpenConflicts {
    beneath: RefCell<Vec<Beneath>>,
}

/// Opens that there were at first beneath a directory that moves.
struct Beneath {
    top: Arc<Object>,
    open: Vec<Arc<Object>>,
}

impl OpenConflicts {
    /// Returns whether something was opened beneath `top` while holders were waited for: else a client that
    /// opens one file after the other there would keep a rename waiting for ever.
    fn is_late(&self, top: &Arc<Object>, open: &[Arc<Object>]) -> bool {
        let mut beneath = self.beneath.borrow_mut();
        match beneath.iter().find(|known| Arc::ptr_eq(&known.top, top)) {
            Some(first) => {
                !open.iter().all(|object| first.open.iter().any(|known| Arc::ptr_eq(known, object)))
            }
            None => {
                beneath.push(Beneath { top: Arc::clone(top), open: open.to_vec() });
                false
            }
        }
    }
}

impl Volume {
    /// Checks, under the change lock, whether the object may be moved, and whether an open beneath it conflicts. Where
    /// no client holds anything this is one load.
    ///
    /// # Errors
    /// [`Interrupted::AwaitLease`] where opens that are kept for later have to be given back first;
    /// [`Error::AccessDenied`] where something is open.
    pub(super) async fn check_opens_beneath(
        &self,
        caller: &Caller,
        moved: &NameTarget,
        conflicts: &OpenConflicts,
    ) -> Result<(), Interrupted> {
        let shared = self.shared().ok_or(Error::ReadOnly)?;
        let is_asked = moved.is_directory() && !caller.moves_opens;
        let Some(by) = caller.open.filter(|_| is_asked && shared.objects().any_held()) else {
            return Ok(());
        };
        let (objects, top) = (shared.objects().clone(), Arc::clone(&moved.object));
        let open = offload(None, move || objects.open_beneath(&top)).await.map_err(|_| Error::Overloaded)?;
        if conflicts.is_late(&moved.object, &open) {
            return Err(Error::AccessDenied.into());
        }
        self.request_close(by, &open, BENEATH)
    }

    /// Checks, under its change lock, whether what a rename replaces may go.
    ///
    /// # Errors
    /// As [`Volume::check_opens_beneath`].
    pub(super) fn check_opens_of_replaced(
        &self,
        caller: &Caller,
        replaced: Option<&NameTarget>,
    ) -> Result<(), Interrupted> {
        match (caller.open, replaced) {
            (Some(by), Some(replaced)) => self.request_close(by, slice::from_ref(&replaced.object), REPLACED),
            _ => Ok(()),
        }
    }

    /// Checks, under the change locks, whether names may leave one directory and come to the other.
    ///
    /// # Errors
    /// [`Interrupted::AwaitLease`]; [`Error::Locked`] where a client has one open to delete it.
    pub(super) fn check_opens_of_directories(
        &self,
        caller: &Caller,
        here: &Arc<Object>,
        there: &Arc<Object>,
    ) -> Result<(), Interrupted> {
        let Some(open) = caller.open else { return Ok(()) };
        let other = Some(there).filter(|there| !Arc::ptr_eq(here, there));
        let by = Some(open.by());
        let asks =
            |grants: &mut Grants, now, events: &mut Vec<Event>| grants.move_names(now, by, None, events);
        self.break_each_lease(std::iter::once(here).chain(other).map(|directory| (directory, asks)))
    }

    fn request_close(
        &self,
        by: OpenCaller,
        open: &[Arc<Object>],
        counts: ConflictingOpens,
    ) -> Result<(), Interrupted> {
        // Where one stays open no other need be closed.
        if open.iter().any(|object| (counts.to_stay)(object.grants())) {
            return Err(Error::AccessDenied.into());
        }
        let change = Change { operation: FileOperation::Rename, by: Some(by.by()) };
        match self.break_leases_of(open.iter().map(|object| (object, change))) {
            Err(Interrupted::Refused(Error::Locked)) => return Err(Error::AccessDenied.into()),
            Err(Interrupted::AwaitLease(pending)) => {
                return Err(Interrupted::AwaitLease(
                    pending.into_iter().map(PendingLeaseBreak::until_closed).collect(),
                ));
            }
            asked => asked?,
        }
        let is_open = open.iter().any(|object| (counts.at_all)(object.grants()));
        if is_open { Err(Error::AccessDenied.into()) } else { Ok(()) }
    }
}

/// Opens that conflict with a change.
#[derive(Clone, Copy)]
struct ConflictingOpens {
    at_all: fn(GrantSlot<'_>) -> bool,
    /// Opens that stay when their holder is asked to close what it keeps for later.
    to_stay: fn(GrantSlot<'_>) -> bool,
}

/// Opens that conflict beneath a directory that moves: all.
const BENEATH: ConflictingOpens =
    ConflictingOpens { at_all: |slot| slot.is_open(), to_stay: |slot| slot.is_open_to_stay() };
/// Opens of a replaced file that conflict: one that has just renamed it to its name, or is for attributes
/// alone, does not.
const REPLACED: ConflictingOpens =
    ConflictingOpens { at_all: |slot| slot.is_used(), to_stay: |slot| slot.is_used_to_stay() };
