//! Creates a file or directory where there is none (MS-FSA 2.1.5.1.1).

use std::rc::Rc;
use std::sync::Arc;

use identity::{Accounts, Rights};
use lane::fs::AttributeChange;
use smb_wire::Status;
use smb_wire::create::access::{attributes, rights};
use smb_wire::create::{create_action, options};
use smb_wire::info::security::Descriptor;
use vfs::{CreateOptions, Directory, Error, Expect, Name, Resolved, Writer};

use super::open_or_create::{GrantedOpen, OpenAttemptError, OpenTarget};
use super::params::{CreateParams, GIVEN};
use crate::ea::checked_list;
use crate::lane_handle::{LaneHandle, VALUE_MAX};
use crate::names::PathLookup;
use crate::opens::Room;
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;
use crate::streams::StreamChange;
use smb_wire::dos::{self, Dos};

impl Share {
    pub(super) async fn create_new(
        &self,
        ctx: &RequestContext,
        params: &CreateParams<'_>,
        room: &Room,
        lookup: &PathLookup,
    ) -> Result<GrantedOpen, OpenAttemptError> {
        let is_directory = params.has(options::DIRECTORY_FILE);
        //= MS-FSA 2.1.5.1
        //# A name with a backslash at its end is no file's: STATUS_OBJECT_NAME_INVALID.
        if params.name.is_directory && !is_directory {
            return Err(Status::OBJECT_NAME_INVALID.into());
        }
        //= MS-FSA 2.1.5.1.1
        //# A directory that is to be temporary: STATUS_INVALID_PARAMETER.
        if is_directory && params.attributes & attributes::TEMPORARY != 0 {
            return Err(Status::INVALID_PARAMETER.into());
        }
        //= MS-FSA 2.1.5.1.1
        //# What is made not to be written is not deleted on close.
        if params.attributes & attributes::READONLY != 0 && params.has(options::DELETE_ON_CLOSE) {
            return Err(Status::CANNOT_DELETE.into());
        }
        if let Some(bytes) = params.contexts.allocation.filter(|_| !is_directory) {
            //= MS-FSA 2.1.5.1.1
            //# Nothing is made where there is no room for what is to be set aside: STATUS_DISK_FULL.
            self.volume().fits(bytes).map_err(status::of)?;
            self.has_room_for(bytes).await?;
        }
        if let Some(list) = params.contexts.ea {
            checked_list(list)?;
        }
        let secured = self.secured(ctx, params, lookup, is_directory).await?;
        let made = self.make(ctx, params, lookup, is_directory, secured.own()).await?;
        let access = match params.access & rights::MAXIMUM_ALLOWED {
            0 => params.access,
            _ => rights::FILE_ALL,
        };
        let share_access = params.share_access;
        let target = OpenTarget {
            path: lookup.path.as_path(),
            mask: access,
            share_access,
            is_new: true,
            is_directory,
            is_linked: false,
        };
        // The maker of a file sets its attributes, whatever the descriptor leaves it afterwards.
        let operator = Accounts::none().local_administrator();
        let opened = self.open_beside(ctx, params, room, &target).await;
        let (open, resolved, break_registration) = match opened {
            Ok(opened) if Arc::ptr_eq(opened.0.object(), &made.object) => opened,
            // Another client has it open by now.
            Err(error @ OpenAttemptError::Refused(Status::SHARING_VIOLATION)) => return Err(error),
            other => {
                let operator = vfs::Caller { principal: operator, ..ctx.caller.clone() };
                let name = lookup.path.as_path().file_name().ok_or(Status::OBJECT_NAME_COLLISION)?;
                undo_create(&operator, &made, &made.above, name).await;
                // What was opened has taken the name of what was made: it is another client's, or another program's.
                return Err(other.err().unwrap_or(OpenAttemptError::Retry));
            }
        };
        let caller = open.caller(&ctx.caller);
        let handle = Rc::new(LaneHandle::new(resolved, made.writer.clone()));
        let operator = vfs::Caller { principal: operator, ..caller.clone() };
        let fitted = match self.give_list(&caller, &handle, &secured).await {
            Ok(()) => self.apply_create_params(&operator, &handle, open.object(), params).await,
            refused => refused,
        };
        if let Err(status) = fitted {
            if let Ok((above, name)) = open.directory_and_name(self.volume(), &operator).await
                && let Ok(name) = Name::parse(&name)
            {
                undo_create(&operator, &made, &above, name).await;
            }
            return Err(status.into());
        }
        let action = create_action::CREATED;
        let who = &ctx.caller.principal;
        let granted = |own: Arc<Descriptor>| self.options().sids.granted(who, &own);
        let maximal_access = open.object().descriptor().map_or(rights::FILE_ALL, granted);
        let stream = params.name.stream.clone();
        let by_link = None;
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

    /// Applies the attributes, security, extended attributes and allocation of a CREATE to the file that it created.
    async fn apply_create_params(
        &self,
        caller: &vfs::Caller,
        handle: &LaneHandle,
        object: &vfs::Object,
        params: &CreateParams<'_>,
    ) -> Result<(), Status> {
        self.set_initial_attributes(caller, handle, object, params).await?;
        //= MS-FSA 2.1.5.1.1
        //# FILE_NO_COMPRESSION: what is made is not compressed, whatever the directory says.
        if params.has(options::NO_COMPRESSION) {
            self.have_compressed(caller, handle, object, false).await?;
        }
        if let Some(list) = params.contexts.ea {
            self.set_eas(caller, handle, object, list).await?;
        }
        if let (Some(bytes), Ok(writer)) =
            (params.contexts.allocation, handle.writer(self.volume(), caller, object).await)
        {
            // A file system that cannot set room aside writes as well without.
            let room = writer.allocate(caller, lane::fs::Allocate::KeepSize, 0, bytes).await;
            if let Err(error @ (Error::NoSpace | Error::Quota)) = room {
                return Err(status::of(error));
            }
        }
        if let Some(stream) = &params.name.stream {
            self.change_stream(caller, handle, object, stream, StreamChange::Make).await?;
        }
        self.withhold_owner_bits(caller, handle, object, params).await
    }

    /// Takes the owner's bits away that a POSIX mode lacks. What is made has them all at first, so that the server can open it. The right to
    /// read stays where the server needs it: one that is not root reads no attributes of a file without.
    async fn withhold_owner_bits(
        &self,
        caller: &vfs::Caller,
        handle: &LaneHandle,
        object: &vfs::Object,
        params: &CreateParams<'_>,
    ) -> Result<(), Status> {
        let Some(asked) = params.contexts.posix else { return Ok(()) };
        let withheld = OWNER_BITS & !asked;
        if withheld == 0 || handle.directory().is_some() {
            return Ok(());
        }
        let mode = self.info(handle, None).await?.posix().mode & 0o777 & !withheld;
        self.set_mode(caller, handle, object, mode).await?;
        match handle.extended(dos::NAME, VALUE_MAX).await {
            Ok(_) => Ok(()),
            Err(_) => self.set_mode(caller, handle, object, mode | READ_BIT).await,
        }
    }

    async fn set_mode(
        &self,
        caller: &vfs::Caller,
        handle: &LaneHandle,
        object: &vfs::Object,
        mode: u32,
    ) -> Result<(), Status> {
        let change = AttributeChange { mode: Some(mode), ..AttributeChange::NONE };
        let writer = handle.writer(self.volume(), caller, object).await.map_err(status::of)?;
        writer.set_attributes(caller, change).await.map_err(status::of)
    }

    async fn make(
        &self,
        ctx: &RequestContext,
        params: &CreateParams<'_>,
        lookup: &PathLookup,
        is_directory: bool,
        own: Option<&Arc<Descriptor>>,
    ) -> Result<Made, OpenAttemptError> {
        let wanted = super::open_or_create::wanted(ctx, params, is_directory);
        let intent = self.volume().intending(&ctx.caller, wanted).map_err(status::of_open)?;
        let caller = intent.caller();
        let (Some(above), Some(name)) = (&lookup.above, lookup.path.as_path().file_name()) else {
            return Err(Status::OBJECT_NAME_COLLISION.into());
        };
        if self.volume().options().serve_hidden || !name.is_hidden() {
            let above = self.volume().lookup_as(caller, above.as_path(), Rights::NONE).await;
            let (directory, _) = above.and_then(Resolved::into_directory).map_err(of_way)?;
            self.holds_directory(&directory)?;
            let made = if is_directory {
                let mode = params.contexts.posix.unwrap_or(DIRECTORY_MODE) & 0o777;
                let made = directory.make_directory_described(caller, name, mode, own).await;
                made.map(|made| (made.object().cloned(), None))
            } else {
                let mode = params.contexts.posix.unwrap_or(FILE_MODE) & 0o777 | OWNER_BITS;
                let options = CreateOptions { exclusive: true, mode };
                let made = directory.create_described(caller, name, options, own).await;
                made.map(|made| (made.writer.file().object().cloned(), Some(made.writer)))
            };
            let (object, writer) = made.map_err(|error| match error {
                Error::Exists => OpenAttemptError::Retry,
                error => of_way(error),
            })?;
            let object = object.ok_or(Status::ACCESS_DENIED)?;
            return Ok(Made { above: directory, object, writer, is_directory });
        }
        Err(Status::ACCESS_DENIED.into())
    }

    /// Sets the attributes that a CREATE asks for on the file that it has created or emptied.
    pub(super) async fn set_initial_attributes(
        &self,
        caller: &vfs::Caller,
        handle: &LaneHandle,
        object: &vfs::Object,
        params: &CreateParams<'_>,
    ) -> Result<(), Status> {
        let is_directory = handle.directory().is_some();
        let default = if is_directory { 0 } else { attributes::ARCHIVE };
        let given = (params.attributes & GIVEN) | default;
        let now = self.dos_of(handle).await?;
        if now.attributes.unwrap_or(default) == given {
            return Ok(());
        }
        let dos = Dos { attributes: Some(given), changed: None, ..now };
        match self.keep_dos(caller, handle, object, dos).await {
            // Without a place for them there are none.
            Err(Status::NOT_SUPPORTED) => Ok(()),
            kept => kept,
        }
    }
}

/// A new file or directory that a CREATE has made, and the directory above it.
struct Made {
    above: Directory,
    object: Arc<vfs::Object>,
    writer: Option<Writer>,
    is_directory: bool,
}

/// Removes what a failed CREATE has made, if the name still leads to that and no client or program has put anything into it.
async fn undo_create(caller: &vfs::Caller, made: &Made, above: &Directory, name: Name<'_>) {
    let is_empty = |found: Option<&vfs::Attributes>| found.is_some_and(|found| found.size == 0);
    // A directory goes only if it is empty, whatever its size.
    let expect = if made.is_directory { Expect::Anything } else { Expect::Like(&is_empty) };
    // No client hears why it stayed.
    let _ = above.remove_which_if(caller, made.object.number(), name, made.is_directory, expect).await;
}

fn of_way(error: Error) -> OpenAttemptError {
    OpenAttemptError::Refused(match error {
        //= MS-SMB2 3.3.5.9
        //# Where nothing may be changed nothing is made.
        Error::ReadOnly => Status::ACCESS_DENIED,
        error => status::of_way(error),
    })
}

/// The owner's bits that a new file has at first, whatever its mode. A directory has its mode at once.
const OWNER_BITS: u32 = 0o600;
/// The owner's right to read.
const READ_BIT: u32 = 0o400;
/// Mode of a new file, of which the process's umask takes some bits.
const FILE_MODE: u32 = 0o666;
const DIRECTORY_MODE: u32 = 0o777;
