//! An open that an earlier server has kept, put back before the first request of a client.

use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use grants::{Holder, RangeLock};

use super::requests::at_once;
use super::{Open, OpenError, OpenHow};
use crate::attributes::Attributes;
use crate::caller::Caller;
use crate::error::Error;
use crate::name::RelPath;
use crate::volume::{Resolved, Volume};

/// An open as an earlier server has persisted it.
#[derive(Clone, Copy, Debug)]
pub struct PersistedOpen<'a> {
    /// [Lasting words](crate::Object::lasting_words) of the file.
    pub words: &'a [u8],
    /// Options of the open; `wanted` is what its client had, with the last epoch of a lease.
    pub how: OpenHow<'a>,
    /// Ranges that it had locked.
    pub locks: &'a [RangeLock],
}

impl Volume {
    /// Puts back an open of the file at `path`, if that still is the file that it was of and `is_it` says so by its
    /// attributes. The caller needs the rights that `kept.how` says. `tell` gets the number by which its client will
    /// be notified of breaks.
    ///
    /// # Errors
    /// [`Error::Stale`] where it is another file, or `is_it` says no; [`OpenError::Refused`] where it cannot stand
    /// beside what was put back before, or beside what another program has locked. Nothing is left of it then.
    pub fn restore_open<'a>(
        &'a self,
        caller: &'a Caller,
        path: RelPath<'a>,
        kept: &'a PersistedOpen<'a>,
        is_it: &'a dyn Fn(&Attributes) -> bool,
        tell: &'a mut dyn FnMut(Holder),
    ) -> LocalBoxFuture<'a, Result<Open, OpenError>> {
        Box::pin(async move {
            let PersistedOpen { words, how, locks } = kept;
            let found = self.lookup_as(caller, path, how.need).await?;
            let object = Arc::clone(found.object().ok_or(Error::ReadOnly)?);
            let Resolved::File(_, attributes) = found else { return Err(Error::Stale.into()) };
            if object.lasting_words() != *words || !is_it(&attributes) {
                return Err(Error::Stale.into());
            }
            let request_of = self.request_of(path, &object, false, how).await?;
            let request = &request_of.request;
            at_once(self.cache(), &object, |grants, _, _| {
                grants.restore(how.stream, request.clone(), locks)
            })?;
            let holder = request.want.map_or(Holder(request.open.0), |want| want.holder);
            tell(holder);
            let standing = object.grants().ask(|grants, _| grants.standing(holder)).value;
            // Dropped from here on, it gives back all that it has.
            let open = request_of.granted(&object, standing);
            self.lock_for_others(&object, how.consumer, locks).await?;
            Ok(open)
        })
    }
}
