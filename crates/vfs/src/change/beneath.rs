//! A directory that SMB renames: nothing beneath it may be open (MS-FSA 2.1.5.15.11). Clients that keep opens for later are asked to
//! give them back first. Who renames without an open, as AFS and HTTP do, is not kept from it.

use std::sync::Arc;

use grants::Change;
use grants::conflict::Asks;
use lane::offload::offload;

use super::find::Found;
use super::here::Unmade;
use crate::caller::Caller;
use crate::error::Error;
use crate::volume::Volume;

impl Volume {
    /// Asks whether what is moved may be, under its permit, as for all that is open beneath it. Where nobody holds anything this is one look.
    ///
    /// # Errors
    /// [`Unmade::Held`] where opens that are kept for later have to be given back first; [`Error::AccessDenied`] where something is open.
    pub(super) async fn ask_beneath(&self, caller: &Caller, moved: &Found) -> Result<(), Unmade> {
        let shared = self.shared().ok_or(Error::ReadOnly)?;
        let Some(by) = caller.open.filter(|_| moved.is_directory() && shared.objects().any_held()) else {
            return Ok(());
        };
        let (objects, top) = (shared.objects().clone(), Arc::clone(&moved.object));
        let open = offload(None, move || objects.open_beneath(&top)).await.map_err(|_| Error::Overloaded)?;
        let change = || Change { asks: Asks::Rename, by: Some(by.own) };
        match self.ask_all(open.iter().map(|object| (object, change()))) {
            Err(Unmade::Refused(Error::Locked)) => return Err(Error::AccessDenied.into()),
            asked => asked?,
        }
        let is_open = open.iter().any(|object| object.grants().is_open());
        if is_open { Err(Error::AccessDenied.into()) } else { Ok(()) }
    }
}
