//! The security descriptor that a CREATE brings for what it makes (MS-SMB2 3.3.5.9.1). A list that a new directory gets anyhow is no
//! descriptor; what one of its own can hold becomes that; all else is kept with what is made.

use std::sync::Arc;

use identity::{Acl, Nearest, Rights};
use smb_sid::Sids;
use smb_wire::Status;
use smb_wire::info::security::{Descriptor, control};
use vfs::Resolved;

use super::params::CreateParams;
use crate::lane_handle::LaneHandle;
use crate::names::PathLookup;
use crate::request_context::RequestContext;
use crate::security::kept_list;
use crate::share::Share;
use crate::status;

/// The security of a new file or directory: an access list, or a descriptor of its own.
pub(super) enum InitialSecurity {
    /// The descriptor is inherited.
    AsAbove,
    /// A directory gets this list.
    List(Acl),
    /// The new file or directory gets a descriptor of its own.
    Own(Arc<Descriptor>),
}

impl Share {
    /// Returns the security of what is to be made.
    ///
    /// # Errors
    /// `STATUS_ACCESS_DENIED` where it is to be another user's; `STATUS_INVALID_SECURITY_DESCR`.
    pub(super) async fn secured(
        &self,
        ctx: &RequestContext,
        params: &CreateParams<'_>,
        lookup: &PathLookup,
        is_directory: bool,
    ) -> Result<InitialSecurity, Status> {
        //= MS-SMB2 3.3.5.9.1
        //# What is made has the descriptor of SMB2_CREATE_SD_BUFFER.
        let Some(bytes) = params.contexts.security else { return Ok(InitialSecurity::AsAbove) };
        let asked = Descriptor::parse(bytes).map_err(|_| Status::INVALID_SECURITY_DESCR)?;
        let who = &ctx.caller.principal;
        let mine = |named| self.may_own(ctx, &named) || self.options().sids.is_called(who, &named);
        if [asked.owner, asked.group].into_iter().flatten().any(|named| !mine(named)) {
            return Err(self.security_refused());
        }
        let is_list_asked = asked.dacl.is_some() || asked.control & control::DACL_PRESENT != 0;
        let (true, Some(above)) = (is_list_asked, &lookup.above) else { return Ok(InitialSecurity::AsAbove) };
        let above = above.as_path();
        let found = self.volume().lookup_as(&ctx.caller, above, Rights::NONE).await;
        let (directory, _) = found.and_then(Resolved::into_directory).map_err(status::of_way)?;
        let has_own = directory.object().is_some_and(|object| object.is_described());
        if let (Some(aces), false) = (&asked.dacl, has_own) {
            // A client that may not see the list gets what it asks for all the same.
            if let Ok(Nearest::List(acl)) = directory.access_list(&ctx.caller).await
                && self.is_same(Some(aces), Some(&self.listed(&acl, is_directory)))
            {
                return Ok(InitialSecurity::AsAbove);
            }
            let may = self.volume().lookup_as(&ctx.caller, above, Rights::ADMINISTER).await;
            if let (true, true, Some(acl)) = (is_directory, may.is_ok(), self.to_acl(aces)) {
                return Ok(InitialSecurity::List(acl));
            }
        }
        let sids = &self.options().sids;
        Ok(InitialSecurity::Own(Arc::new(Descriptor {
            control: self.kept_control(&asked),
            owner: Some(asked.owner.unwrap_or_else(|| sids.of_id(who.id()))),
            group: Some(
                asked.group.unwrap_or_else(|| Sids::of_gid(who.gids().first().copied().unwrap_or(NOGROUP))),
            ),
            dacl: asked.dacl.as_deref().map(kept_list).transpose()?,
        })))
    }

    /// Gives a directory that was made the list that was asked for.
    pub(super) async fn give_list(
        &self,
        caller: &vfs::Caller,
        handle: &LaneHandle,
        secured: &InitialSecurity,
    ) -> Result<(), Status> {
        match (secured, handle.directory()) {
            (InitialSecurity::List(list), Some(directory)) => {
                directory.set_access_list(caller, Some(list)).await.map_err(status::of)
            }
            _ => Ok(()),
        }
    }
}

impl InitialSecurity {
    /// Returns what is made has this from the start.
    pub(super) fn own(&self) -> Option<&Arc<Descriptor>> {
        if let Self::Own(descriptor) = self { Some(descriptor) } else { None }
    }
}

/// POSIX's group of files without a known group.
const NOGROUP: u32 = 65534;
