//! A caller that is about to open something and makes it first: this change spares the lease of the directory
//! that the caller names, as changes by the open do later.

use grants::LeaseRef;

use super::requests::LeasePlace;
use super::{Content, OpenCaller, OpenError, RequestedCaching};
use crate::caller::Caller;
use crate::error::Error;
use crate::volume::Volume;

/// The caller marked as one that will have an open. As long as this lives its lease has its number.
pub struct Intent {
    caller: Caller,
    _named: Option<LeaseRef<LeasePlace>>,
}

impl Intent {
    /// Returns the caller on whose behalf to make what will be opened.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }
}

impl Volume {
    /// Returns the caller marked as one that will open something with these wishes.
    ///
    /// # Errors
    /// [`grants::Refused::TooMany`] when the client names as many leases as it may; [`Error::ReadOnly`] on a volume
    /// without objects.
    pub fn intending(&self, caller: &Caller, wanted: Option<RequestedCaching>) -> Result<Intent, OpenError> {
        let leases = self.shared().ok_or(Error::ReadOnly)?.objects().leases();
        let Some(RequestedCaching::Lease { key, parent, .. }) = wanted else {
            return Ok(Intent { caller: caller.clone(), _named: None });
        };
        let own = leases.name(key)?;
        let open = OpenCaller { own: own.holder(), parent, content: Content::Written };
        let caller = Caller { open: Some(open), ..caller.clone() };
        Ok(Intent { caller, _named: Some(own) })
    }
}

impl std::fmt::Debug for Intent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Intent").field("caller", &self.caller).finish_non_exhaustive()
    }
}
