//! Opens what is there, and empties it if that was asked for (MS-FSA 2.1.5.1.2).

use std::rc::Rc;

use identity::Rights;
use smb_wire::Status;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::{create_action, options};
use vfs::{FoundWithRights, Resolved, Writer};

use super::open_or_create::{GrantedOpen, OpenAttemptError, OpenTarget, action};
use super::params::CreateParams;
use crate::access::Allowed;
use crate::lane_handle::LaneHandle;
use crate::names::PathLookup;
use crate::opens::Room;
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;
use crate::streams::{self, StreamChange};

impl Share {
    pub(super) async fn open_existing(
        &self,
        ctx: &RequestContext,
        params: &CreateParams<'_>,
        room: &Room,
        lookup: &PathLookup,
        found: &FoundWithRights,
    ) -> Result<GrantedOpen, OpenAttemptError> {
        let is_directory = matches!(found.resolved, Resolved::Directory(..));
        let handle = LaneHandle::new(found.resolved.clone(), None);
        let allowed = self.allowed(ctx, lookup, found, is_directory).await?;
        let beside = allowed.beside(&ctx.caller.principal);
        if params.name.stream.is_some() {
            if params.name.is_directory {
                return Err(Status::OBJECT_NAME_INVALID.into());
            }
            // A caller that may not see the attributes gets the same status for every stream, there or not.
            if (allowed.mask() | beside) & rights::READ_ATTRIBUTES == 0 {
                return Err(Status::ACCESS_DENIED.into());
            }
        }
        let stream = self.stream_there(params, &handle).await?;
        if params.name.stream.is_some() && stream.is_none() && !params.makes() {
            return Err(Status::OBJECT_NAME_NOT_FOUND.into());
        }
        let is_there = params.name.stream.is_none() || stream.is_some();
        if is_there && !params.opens() {
            // A root is a directory before it is anything that has a name.
            let is_root = params.name.path.is_empty() && params.has(options::NON_DIRECTORY_FILE);
            let status = if is_root { Status::FILE_IS_A_DIRECTORY } else { Status::OBJECT_NAME_COLLISION };
            return Err(status.into());
        }
        if params.name.stream.is_none() {
            check_kind(params, is_directory)?;
        }
        let link = self.link_of(ctx, params, lookup).await?;
        let mut mask = allowed.mask();
        if let Some(link) = &link {
            mask = (mask & !rights::DELETE) | link.allowed;
        }
        let empties = params.overwrites() && is_there;
        let kept = self.dos_of(&handle).await?.attributes.unwrap_or_default();
        let (access, maximal_access) = access_of(params, (mask, beside), kept, is_directory, empties)?;
        let share_access = allowed.shared(params.share_access);
        // What the name is a link to stays: its opens are not asked for its deletion.
        let mask = if link.is_some() { access & !rights::DELETE } else { access };
        let (path, is_linked) = (lookup.path.as_path(), link.is_some());
        let target = OpenTarget { path, mask, share_access, is_new: false, is_directory, is_linked };
        let (open, resolved, break_registration) = self.open_beside(ctx, params, room, &target).await?;
        let by_link = match link.filter(|_| access & rights::DELETE != 0) {
            Some(link) => Some(self.open_named_link(ctx, params, &link).await?),
            None => None,
        };
        let caller = match empties {
            true => open.overwriting_caller(&ctx.caller),
            false => open.caller(&ctx.caller),
        };
        let writes = access & (rights::WRITE_DATA | rights::APPEND_DATA) != 0 || empties;
        let writer = match (&resolved, writes && params.name.stream.is_none()) {
            (Resolved::File(..), true) => Some(self.writer_of(&caller, lookup).await?),
            _ => None,
        };
        let handle = Rc::new(LaneHandle::new(resolved, writer));
        let object = open.object();
        let stream = match (&params.name.stream, stream) {
            (Some(_), Some(stored)) if empties => {
                self.change_stream(&caller, &handle, object, &stored, StreamChange::Empty).await?;
                self.archive_by(&caller, &handle, object).await;
                Some(stored)
            }
            (Some(wanted), None) => {
                self.change_stream(&caller, &handle, object, wanted, StreamChange::Make).await?;
                self.archive_by(&caller, &handle, object).await;
                Some(wanted.clone())
            }
            (_, stream) => stream,
        };
        if empties && params.name.stream.is_none() {
            self.empty(&caller, &handle, object, params).await?;
        }
        let action = if is_there { action(params) } else { create_action::CREATED };
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

    /// Finds the stream that is asked for as it is stored, if it is there.
    async fn stream_there(
        &self,
        params: &CreateParams<'_>,
        handle: &LaneHandle,
    ) -> Result<Option<String>, Status> {
        match &params.name.stream {
            Some(stream) => streams::find(handle, stream).await,
            None => Ok(None),
        }
    }

    /// Returns the caller's rights over what was found.
    pub(crate) async fn allowed(
        &self,
        ctx: &RequestContext,
        lookup: &PathLookup,
        found: &FoundWithRights,
        is_directory: bool,
    ) -> Result<Allowed, Status> {
        let who = &ctx.caller.principal;
        let above = self.rights_above(ctx, lookup).await?;
        Ok(Allowed::of(who, found, above, is_directory))
    }

    /// Returns the caller's rights in the directory above; `None` for a share's root.
    pub(super) async fn rights_above(
        &self,
        ctx: &RequestContext,
        lookup: &PathLookup,
    ) -> Result<Option<Rights>, Status> {
        let Some(above) = &lookup.above else { return Ok(None) };
        let above = self.volume().lookup_with_rights(&ctx.caller, above.as_path(), Rights::NONE).await;
        Ok(Some(above.map_err(status::of_way)?.rights(&ctx.caller.principal)))
    }

    async fn writer_of(&self, caller: &vfs::Caller, lookup: &PathLookup) -> Result<Writer, OpenAttemptError> {
        let Some(above) = &lookup.above else { return Err(Status::FILE_IS_A_DIRECTORY.into()) };
        let name = lookup.path.as_path().file_name().ok_or(Status::FILE_IS_A_DIRECTORY)?;
        let above = self.volume().lookup_as(caller, above.as_path(), Rights::NONE).await;
        let (directory, _) = above.and_then(Resolved::into_directory).map_err(retry_or)?;
        self.holds_directory(&directory)?;
        directory.open_writer(caller, name).await.map_err(retry_or)
    }

    /// Takes the content away, and what was kept with it.
    async fn empty(
        &self,
        caller: &vfs::Caller,
        handle: &LaneHandle,
        object: &vfs::Object,
        params: &CreateParams<'_>,
    ) -> Result<(), Status> {
        let writer = handle.writer(self.volume(), caller, object).await.map_err(status::of)?;
        writer.truncate(caller, 0).await.map_err(status::of)?;
        //= MS-FSA 2.1.5.1.2.1
        //# Named streams and extended attributes go with the content.
        for stream in streams::all(handle).await? {
            self.change_stream(caller, handle, object, &stream.name, StreamChange::Remove).await?;
        }
        self.set_initial_attributes(caller, handle, object, params).await
    }
}

pub(super) fn retry_or(error: vfs::Error) -> OpenAttemptError {
    match error {
        vfs::Error::NotFound | vfs::Error::Stale => OpenAttemptError::Retry,
        error => OpenAttemptError::Refused(status::of(error)),
    }
}

fn check_kind(params: &CreateParams<'_>, is_directory: bool) -> Result<(), Status> {
    match is_directory {
        //= MS-FSA 2.1.5.1
        //# A directory has no data: `::$DATA` of one fails as a directory does where a file is wanted.
        true if params.name.is_data => Err(Status::FILE_IS_A_DIRECTORY),
        //= MS-FSA 2.1.5.1.2
        //# A file where a directory was asked for, and the other way round.
        false if params.has(options::DIRECTORY_FILE) => Err(Status::NOT_A_DIRECTORY),
        //= MS-FSA 2.1.5.1
        //# A name with a backslash at its end is no file's.
        false if params.name.is_directory => Err(Status::OBJECT_NAME_INVALID),
        true if params.has(options::NON_DIRECTORY_FILE) => Err(Status::FILE_IS_A_DIRECTORY),
        true if params.overwrites() => Err(Status::INVALID_PARAMETER),
        _ => Ok(()),
    }
}

/// Returns what an open is granted of what it asks for, and the most that it could be, of what it is allowed
/// and what beside if it says so; `kept` are the attributes of what is there.
pub(super) fn access_of(
    params: &CreateParams<'_>,
    (allowed, beside): (u32, u32),
    kept: u32,
    is_directory: bool,
    empties: bool,
) -> Result<(u32, u32), Status> {
    let is_readonly = kept & attributes::READONLY != 0 && !is_directory;
    let writes = rights::WRITE_DATA | rights::APPEND_DATA;
    let usable = if is_readonly { allowed & !writes } else { allowed };
    let mut access = params.access;
    if access & rights::MAXIMUM_ALLOWED != 0 {
        access = (access & !rights::MAXIMUM_ALLOWED) | usable;
    }
    //= MS-FSA 2.1.5.1.2
    //# A file that is not to be written is opened for no writing, and not emptied; nor is a directory deleted on close, or a file.
    if is_readonly && (access & writes != 0 || empties) {
        return Err(Status::ACCESS_DENIED);
    }
    if access & !(allowed | beside) != 0 {
        return Err(Status::ACCESS_DENIED);
    }
    if kept & attributes::READONLY != 0 && params.has(options::DELETE_ON_CLOSE) {
        return Err(Status::CANNOT_DELETE);
    }
    if params.has(options::DELETE_ON_CLOSE) && access & rights::DELETE == 0 {
        return Err(Status::ACCESS_DENIED);
    }
    let guarded = kept & (attributes::HIDDEN | attributes::SYSTEM);
    //= MS-FSA 2.1.5.1.2.1
    //# What is hidden or the system's is emptied only by a client that names these attributes; and it takes the right to write.
    if empties && (guarded & !params.attributes != 0 || allowed & rights::WRITE_DATA == 0) {
        return Err(Status::ACCESS_DENIED);
    }
    Ok((access, usable))
}
