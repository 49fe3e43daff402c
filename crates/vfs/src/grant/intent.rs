//! Who is about to open something and makes it first: what he makes spares the lease of the directory that he names, as what he changes
//! by the open does later.

use grants::LeaseRef;

use super::requests::LeasePlace;
use super::{Content, OpenCaller, OpenError, RequestedCaching};
use crate::caller::Caller;
use crate::error::Error;
use crate::volume::Volume;

/// The caller as who will have an open. As long as this lives its lease has its number.
pub struct Intent {
    caller: Caller,
    _named: Option<LeaseRef<LeasePlace>>,
}

impl Intent {
    /// As whom to make what will be opened.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }
}

impl Volume {
    /// The caller as who will open something with these wishes.
    ///
    /// # Errors
    /// [`grants::Refused::TooMany`] when the client names as many leases as it may; [`Error::ReadOnly`] on a volume without objects.
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
