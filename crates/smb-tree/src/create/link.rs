//! Symbolic links themselves: opened by a client that asks for a reparse point, and what stops a client that
//! follows links on its own (MS-FSA 2.1.5.1, MS-SMB2 2.2.2.2.1).

use std::rc::Rc;

use identity::Rights;
use smb_wire::Status;
use smb_wire::body::error::SymlinkError;
use smb_wire::create::access::{rights, share};
use smb_wire::create::{CreateRequest, create_action, options};
use smb_wire::fsctl::reparse::Symlink;
use smb_wire::name::Name;
use vfs::{LinkWithRights, OpenError, RelPath, RelPathBuf, Resolved, SymbolicLink};

use super::existing::{access_of, retry_or};
use super::open_or_create::{GrantedOpen, OpenAttemptError, beside, delete_on_close};
use super::params::CreateParams;
use crate::access::{Allowed, deletes};
use crate::lane_handle::LaneHandle;
use crate::names::{self, PathLookup};
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;

/// A link by whose name something is opened.
pub(super) struct NamedLink {
    /// Real path of the link.
    path: RelPathBuf,
    /// DELETE, for a user that may take its name away.
    pub(super) allowed: u32,
}

impl Share {
    /// Opens the link that the name ends with; `None` where it ends with none.
    ///
    /// # Errors
    /// `STATUS_STOPPED_ON_SYMLINK` for a client that has not asked for the link itself; those of any open.
    pub(super) async fn link_granted(
        &self,
        ctx: &RequestContext,
        params: &CreateParams<'_>,
    ) -> Result<Option<GrantedOpen>, Status> {
        for _ in 0..ATTEMPTS_MAX {
            let Some((path, found)) = self.link_named(&ctx.caller, &params.name).await? else {
                return Ok(None);
            };
            if !params.opens() {
                return Err(Status::OBJECT_NAME_COLLISION);
            }
            if !params.has(options::OPEN_REPARSE_POINT) {
                return Err(Status::STOPPED_ON_SYMLINK);
            }
            match self.open_link(ctx, params, path, &found).await {
                Ok(granted) => return Ok(Some(granted)),
                Err(OpenAttemptError::Retry) => {}
                Err(OpenAttemptError::Refused(status)) => return Err(status),
            }
        }
        Err(self.attempts_exhausted(params))
    }

    async fn open_link(
        &self,
        ctx: &RequestContext,
        params: &CreateParams<'_>,
        path: RelPathBuf,
        found: &LinkWithRights,
    ) -> Result<GrantedOpen, OpenAttemptError> {
        if params.has(options::DIRECTORY_FILE) {
            return Err(Status::NOT_A_DIRECTORY.into());
        }
        // Its content is where it leads, and that is given by a control code.
        if params.overwrites() {
            return Err(Status::ACCESS_DENIED.into());
        }
        let lookup = names::lookup(self, path, None);
        let who = &ctx.caller.principal;
        let above = self.rights_above(ctx, &lookup).await?;
        let above = deletes(above, || found.is_own(who));
        let allowed = Allowed::new(who, found.rights(who), above, false);
        let (access, maximal_access) = access_of(params, (allowed.mask(), 0), 0, false, false)?;
        let share_access = allowed.shared(params.share_access);
        let how = beside(ctx, share_access, access);
        let opened = self.volume().open_link(&ctx.caller, lookup.path.as_path(), &how, &mut |_| {}).await;
        let (open, link) = opened.map_err(|error| match error {
            OpenError::Failed(vfs::Error::NotFound | vfs::Error::Stale) => OpenAttemptError::Retry,
            error => OpenAttemptError::Refused(status::of_open(error)),
        })?;
        delete_on_close(params, &open)?;
        let handle = Rc::new(LaneHandle::of_link(link));
        let action = create_action::OPENED;
        let (by_link, stream, break_registration) = (None, None, None);
        Ok(GrantedOpen {
            open,
            by_link,
            handle,
            stream,
            access,
            maximal_access,
            share_access,
            action,
            break_registration,
        })
    }

    /// Finds the link that a name ends with, in just this case, and where it really is.
    pub(crate) async fn link_named(
        &self,
        caller: &vfs::Caller,
        name: &Name,
    ) -> Result<Option<(RelPathBuf, LinkWithRights)>, Status> {
        if name.path.is_empty() {
            // A root is a directory.
            return Ok(None);
        }
        let path = names::exact(self, name)?;
        self.link_at(caller, path.as_path()).await
    }

    /// Finds the link that a path ends with, and where it really is.
    pub(crate) async fn link_at(
        &self,
        caller: &vfs::Caller,
        path: RelPath<'_>,
    ) -> Result<Option<(RelPathBuf, LinkWithRights)>, Status> {
        // What hinders the look hinders the one that follows, which says so.
        let found = self.volume().find_link(caller, path).await.ok().flatten();
        let Some(found) = found else { return Ok(None) };
        // A link further up may have led anywhere in the volume.
        let above = self.holds(found.directory())?;
        let name = path.file_name().ok_or(Status::OBJECT_NAME_INVALID)?;
        let real = above.as_path().join(name).map_err(|_| Status::OBJECT_NAME_INVALID)?;
        Ok(Some((real, found)))
    }

    /// Finds the link that the name of what was found ends with, which goes where the name does; `None` where links are
    /// but further up.
    pub(super) async fn link_of(
        &self,
        ctx: &RequestContext,
        params: &CreateParams<'_>,
        lookup: &PathLookup,
    ) -> Result<Option<NamedLink>, OpenAttemptError> {
        let Some(path) = lookup.by_link.as_ref().map(RelPathBuf::as_path) else { return Ok(None) };
        let is_asked = params.access & (rights::DELETE | rights::MAXIMUM_ALLOWED) != 0;
        // A named stream is the file's.
        if params.name.stream.is_some() || !(is_asked || params.contexts.maximal_access.is_some()) {
            return Ok(None);
        }
        if let Some((path, found)) = self.link_at(&ctx.caller, path).await? {
            let who = &ctx.caller.principal;
            let above = self.rights_above(ctx, &names::lookup(self, path.clone(), None)).await?;
            let allowed = Allowed::new(who, found.rights(who), above, false).mask() & rights::DELETE;
            return Ok(Some(NamedLink { path, allowed }));
        }
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let above = self.volume().lookup_as(&ctx.caller, above, Rights::NONE).await;
        let (above, _) = above.and_then(Resolved::into_directory).map_err(retry_or)?;
        // It may have been a link when it was found, and be none any more.
        match above.path().join(name) {
            Ok(real) if real == lookup.path => Ok(None),
            _ => Err(OpenAttemptError::Retry),
        }
    }

    /// Opens the link to delete or rename it: whatever others do with what it leads to, its name is not in their way.
    pub(super) async fn open_named_link(
        &self,
        ctx: &RequestContext,
        params: &CreateParams<'_>,
        link: &NamedLink,
    ) -> Result<vfs::Open, OpenAttemptError> {
        let how = beside(ctx, share::ALL, rights::DELETE);
        let path = link.path.as_path();
        let opened = self.volume().open_link(&ctx.caller, path, &how, &mut |_| {}).await;
        let (open, _) = opened.map_err(|error| match error {
            OpenError::Failed(vfs::Error::NotFound | vfs::Error::Stale) => OpenAttemptError::Retry,
            error => OpenAttemptError::Refused(status::of_open(error)),
        })?;
        delete_on_close(params, &open)?;
        Ok(open)
    }

    /// Returns what an error tells of the link that stopped a CREATE.
    pub(super) async fn stopped_on(&self, ctx: &RequestContext, request: &CreateRequest<'_>) -> Vec<u8> {
        let Ok(name) = Name::parse(request.name) else { return Vec::new() };
        let Ok(Some((_, found))) = self.link_named(&ctx.caller, &name).await else { return Vec::new() };
        let Symlink { target, relative } = wire_symlink(ctx, &found.link);
        SymlinkError { target, relative, unparsed_len: 0 }.to_bytes().unwrap_or_default()
    }
}

/// Returns the target of a link as clients get it: with backslashes, unless the POSIX extensions were negotiated.
pub(crate) fn wire_symlink(ctx: &RequestContext, link: &SymbolicLink) -> Symlink {
    let target = names::to_text(&link.target, |_| false);
    let relative = !target.starts_with('/');
    let target = if ctx.posix { target.into_owned() } else { target.replace('/', "\\") };
    Symlink { target, relative }
}

/// Times that a link comes or goes between a look and an open.
const ATTEMPTS_MAX: u32 = 16;
