//! Opens that end, and names that go with them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::LocalBoxFuture;
use grants::conflict::FileOperation;
use grants::{Change, Closed, ExemptHolder, NameEnd};
use identity::Accounts;

use super::local::release;
use super::requests::{BreaksToSend, When, at_once, name_of, retry_until_decided};
use super::{Link, Open, OpenCaller, OpenError};
use crate::caller::Caller;
use crate::error::Error;
use crate::name::{Name, RelPathBuf};
use crate::object::Object;
use crate::volume::{Resolved, Volume};

/// Effect of closing an open on its name or stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseOutcome {
    /// The file stays.
    Stays,
    /// The name is gone.
    Deleted,
    /// The named stream is to be taken away by the service, which keeps it in an extended attribute.
    StreamGoes,
}

impl Open {
    /// Closes the open. Its locks go, its lease goes with the last open that has it, and its name if that is to be
    /// deleted and this was the last open by it. The right to delete was granted when it was opened: what `caller` may
    /// do, which may only be the last to close it, is not looked at.
    ///
    /// # Errors
    /// Of the deletion alone: the name stays then.
    pub fn close<'a>(
        &'a self,
        volume: &'a Volume,
        caller: &'a Caller,
    ) -> LocalBoxFuture<'a, Result<CloseOutcome, Error>> {
        Box::pin(async move {
            if self.is_closed.swap(true, Ordering::SeqCst) {
                return Ok(CloseOutcome::Stays);
            }
            let caller = self.caller(caller);
            if self.is_modified.load(Ordering::Relaxed) {
                self.break_directory_lease(volume).await;
            }
            let closed = at_once(volume.cache(), &self.object, |grants, now, events| {
                grants.close(now, self.id, events)
            });
            match closed {
                Ok(Closed::Stays) | Err(_) => Ok(CloseOutcome::Stays),
                Ok(Closed::DeleteStream) => Ok(CloseOutcome::StreamGoes),
                Ok(Closed::DeleteName { link, parent }) => {
                    let open = caller.open.map(|open| OpenCaller { parent, ..open });
                    let going = PendingDelete { object: &self.object, link };
                    let deleted = volume.delete(&Caller { open, ..caller }, self, &going.link).await;
                    drop(going);
                    deleted.map(|()| CloseOutcome::Deleted)
                }
            }
        })
    }

    /// Breaks the leases of the directory that shows the change, but for those with the key that this open has named
    /// as its parent's.
    pub fn break_directory_lease<'a>(&'a self, volume: &'a Volume) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(directory) = self.link.directory() {
                volume.break_directory_lease(directory, self.parent.map(ExemptHolder::ParentKey));
                directory.grants().all_breaks_sent().await;
            }
        })
    }

    /// Has the name deleted from its close on, or not after all.
    ///
    /// # Errors
    /// [`grants::Refused::Access`] without [`grants::Access::DELETE`].
    pub fn delete_on_close(&self, deletes: Option<NameEnd>) -> Result<(), OpenError> {
        Ok(self.object.grants().ask(|grants, _| grants.delete_on_close(self.id, deletes)).value?)
    }

    /// Has the name deleted when all that is open by it is closed, or this alone, or not after all. Waits for holders
    /// that keep opens.
    ///
    /// # Errors
    /// [`grants::Refused::Access`] without [`grants::Access::DELETE`].
    pub fn set_deletion<'a>(
        &'a self,
        volume: &'a Volume,
        deletes: Option<NameEnd>,
    ) -> LocalBoxFuture<'a, Result<(), OpenError>> {
        Box::pin(async move {
            let set =
                retry_until_decided(volume, &self.object, When::Always, |grants, now, ticket, events| {
                    grants.set_deletion(now, self.id, deletes, ticket, events)
                });
            set.await
        })
    }

    /// Returns the present path, as far as this server has moved the file: by the name by which it was
    /// opened, or the one that this has become. `None` once it cannot be reached in the volume, or is closed.
    pub fn path(&self, volume: &Volume) -> Option<RelPathBuf> {
        let link = self.object.grants().ask_if_any(|grants, _| grants.link(self.id).cloned())?.value?;
        match name_of(&link) {
            Some((directory, name)) => volume.path_of(directory)?.as_path().child(name),
            None => Some(RelPathBuf::root()),
        }
    }

    /// Returns whether its name, or the named stream that it is of, goes when all that is open by it is
    /// closed.
    pub fn is_deleting(&self) -> bool {
        self.object
            .grants()
            .ask_if_any(|grants, _| grants.is_deleting(self.id))
            .is_some_and(|breaks| breaks.value)
    }

    /// Closes the open, which was dropped and not closed.
    pub(super) fn abandon(&mut self) {
        let outcome = self.object.grants().ask_if_any(|grants, events| {
            if let Ok(Closed::DeleteName { link, .. }) = grants.abandon(self.id, events) {
                grants.deleted(&link, events);
            }
        });
        // Off lanes the process ends, and all locks with it.
        if let Some(local) = outcome.and_then(|outcome| outcome.unlocked).filter(|_| lane::on_lane()) {
            lane::spawn(release(Arc::clone(&self.object), local)).detach();
        }
    }
}

/// A name that is being deleted. Dropped, it is gone, or stays.
struct PendingDelete<'a> {
    object: &'a Arc<Object>,
    link: Arc<Link>,
}

impl Drop for PendingDelete<'_> {
    fn drop(&mut self) {
        self.object.grants().ask_if_any(|grants, events| grants.deleted(&self.link, events));
    }
}

impl Volume {
    async fn delete(&self, caller: &Caller, open: &Open, link: &Link) -> Result<(), Error> {
        let caller = &Caller { principal: Accounts::none().local_administrator(), ..caller.clone() };
        let Some((directory, name)) = name_of(link) else { return Err(Error::AccessDenied) };
        let name = Name::parse(name)?;
        let above = self.directory_of(caller, directory).await?;
        // Nothing would tell that the name stayed.
        above.confirm_place().await?;
        let which = open.object.number();
        let removed = async |is_directory| match above.remove_which(caller, which, name, is_directory).await {
            // The name leads to another file by now.
            Err(Error::Unexpected) => Ok(()),
            removed => removed,
        };
        if open.is_link {
            return match above.symbolic_link(caller, name).await {
                Ok(link) if Arc::ptr_eq(&link.object, &open.object) => removed(false).await,
                Ok(_) | Err(Error::NotServable) => Ok(()),
                Err(error) => Err(error),
            };
        }
        match above.lookup_as(caller, name, identity::Rights::NONE).await? {
            it if it.object().is_none_or(|object| !Arc::ptr_eq(object, &open.object)) => Ok(()),
            Resolved::Directory(..) => removed(true).await,
            Resolved::File(..) => removed(false).await,
        }
    }

    /// Breaks the leases of a directory that shows a change, and waits for no holder.
    pub(crate) fn break_directory_lease(&self, directory: &Arc<Object>, by: Option<ExemptHolder>) {
        let change = Change { operation: FileOperation::Names, by };
        let now = lane::time::now();
        let asked = directory.grants().ask_if_any(|grants, events| {
            let asked = grants.change(now, b"", change, None, events);
            if let grants::GrantResult::Wait(wait) = asked {
                grants.leave(wait.ticket);
            }
        });
        if let Some(outcome) = asked {
            let mut breaks = BreaksToSend::default();
            breaks.take(directory, outcome);
            self.cache().send_breaks(breaks);
        }
    }
}
