//! Opens a file, or creates it where there is none, and tries again when another request creates or removes it meanwhile.

use std::cell::RefCell;
use std::rc::Rc;

use grants::NameEnd;
use smb_wire::Status;
use smb_wire::create::lease::Lease;
use smb_wire::create::{create_action, options};
use vfs::{Name, OpenError, OpenHow, RelPath, RequestedCaching, Resolved};

use super::params::{CreateParams, lease_key};
use crate::access;
use crate::breaks::{BreakTarget, caching_of};
use crate::lane_handle::LaneHandle;
use crate::names::{self, PathLookup};
use crate::opens::{BreakRegistration, Room};
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;
use crate::streams;

/// An open that was granted, before it has an id and a place in the table of opens.
pub(crate) struct GrantedOpen {
    pub(crate) open: vfs::Open,
    /// The symbolic link that its name is, where it may delete or rename that.
    pub(crate) by_link: Option<vfs::Open>,
    pub(crate) handle: Rc<LaneHandle>,
    /// The stream as it is stored.
    pub(crate) stream: Option<String>,
    pub(crate) access: u32,
    pub(crate) maximal_access: u32,
    /// Share mode of the open: at least what was asked for.
    pub(crate) share_access: u32,
    pub(crate) action: u32,
    pub(crate) break_registration: Option<BreakRegistration>,
}

/// The path that an attempt opens, and the rights and share mode that it opens it with.
pub(super) struct OpenTarget<'a> {
    pub(super) path: RelPath<'a>,
    /// Rights that the open has.
    pub(super) mask: u32,
    /// Accesses that it leaves to others: FILE_SHARE_READ, _WRITE and _DELETE.
    pub(super) share_access: u32,
    /// The file was just made.
    pub(super) is_new: bool,
    pub(super) is_directory: bool,
    /// The name is a symbolic link's, and the link is what goes where the name does.
    pub(super) is_linked: bool,
}

/// The reason why an attempt to open or create a file failed.
pub(super) enum OpenAttemptError {
    /// The file was removed, or one was created, since the name was looked up: look it up again.
    Retry,
    Refused(Status),
}

impl From<Status> for OpenAttemptError {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

impl Share {
    /// Opens the file that a CREATE names, or creates it, as its disposition says.
    pub(super) async fn open_or_create(
        &self,
        ctx: &RequestContext,
        params: &CreateParams<'_>,
        room: &Room,
    ) -> Result<GrantedOpen, Status> {
        if params.minds_links()
            && let Some(granted) = self.link_granted(ctx, params).await?
        {
            return Ok(granted);
        }
        for _ in 0..ATTEMPTS_MAX {
            let mut lookup = names::find(self, &ctx.caller, &params.name, params.case()).await?;
            if lookup.found.is_none() && params.makes() {
                self.tunnel(&mut lookup);
            }
            let granted = match &lookup.found {
                Some(found) => self.open_existing(ctx, params, room, &lookup, found).await,
                None if params.makes() => self.create_new(ctx, params, room, &lookup).await,
                None => return Err(Status::OBJECT_NAME_NOT_FOUND),
            };
            match granted {
                Ok(granted) => return Ok(granted),
                Err(OpenAttemptError::Retry)
                    if lookup.found.is_none() && self.is_dangling_link(ctx, &lookup).await =>
                {
                    return Err(Status::OBJECT_NAME_NOT_FOUND);
                }
                Err(OpenAttemptError::Retry) => {}
                Err(OpenAttemptError::Refused(status)) => return Err(status),
            }
        }
        Err(self.attempts_exhausted(params))
    }

    /// Returns true when the name is a dangling symbolic link, through which no file is created.
    async fn is_dangling_link(&self, ctx: &RequestContext, lookup: &PathLookup) -> bool {
        let (caller, path) = (&ctx.caller, lookup.path.as_path());
        if !matches!(self.volume().find_link(caller, path).await, Ok(Some(_))) {
            return false;
        }
        let led = self.volume().lookup_as(caller, path, identity::Rights::NONE).await;
        matches!(led, Err(vfs::Error::NotFound | vfs::Error::NotADirectory | vfs::Error::Hidden))
    }

    /// Returns the status of a CREATE whose name came and went at each attempt.
    pub(super) fn attempts_exhausted(&self, params: &CreateParams<'_>) -> Status {
        self.counters().creates_given_up.increment();
        match (params.opens(), params.makes()) {
            (false, _) => Status::OBJECT_NAME_COLLISION,
            (true, false) => Status::OBJECT_NAME_NOT_FOUND,
            (true, true) => Status::SHARING_VIOLATION,
        }
    }

    /// Gives what is made by the short name of a file that was there just now the long one of that.
    fn tunnel(&self, lookup: &mut PathLookup) {
        let (Some(above), true) = (&lookup.above, self.options().short_names) else { return };
        //= MS-FSA 2.1.5.1.1
        //# A file whose name is an entry's short one in TunnelCacheList gets the entry's long name.
        let short =
            lookup.path.as_path().file_name().and_then(|name| std::str::from_utf8(name.as_bytes()).ok());
        let long = short.and_then(|short| self.opens().tunnel().take(self.name(), above.as_path(), short));
        let path = long.and_then(|long| above.as_path().join(Name::parse(&long).ok()?).ok());
        if let Some(path) = path {
            lookup.path = path;
        }
    }

    /// Opens what is at `path` beside what others hold of it.
    pub(super) async fn open_beside(
        &self,
        ctx: &RequestContext,
        params: &CreateParams<'_>,
        room: &Room,
        target: &OpenTarget<'_>,
    ) -> Result<(vfs::Open, Resolved, Option<BreakRegistration>), OpenAttemptError> {
        let OpenTarget { path, mask, share_access, is_new, is_directory, is_linked } = *target;
        let stream = params.name.stream.as_deref().map(streams::folded).unwrap_or_default();
        let is_of_data = !is_directory || params.name.stream.is_some();
        let how = OpenHow {
            stream: stream.as_bytes(),
            // Its maker has the rights that it asked for.
            need: if is_new { identity::Rights::NONE } else { access::needed(mask, is_directory) },
            overwrites: params.overwrites() && !is_new && is_of_data,
            wanted: self.wanted(ctx, params, path, !is_of_data),
            ..beside(ctx, share_access, mask)
        };
        let break_registration = RefCell::new(None);
        let mut tell = |holder| {
            let break_target = match &params.contexts.lease {
                Some(lease) => BreakTarget::Lease { client: ctx.client, key: lease.key() },
                None => BreakTarget::Oplock { open: room.id(), session: ctx.session },
            };
            if how.wanted.is_some() {
                break_registration.replace(Some(self.opens().register_break_target(
                    holder,
                    break_target,
                    ctx,
                    path,
                )));
            }
        };
        let opened = self.volume().open_shared(&ctx.caller, path, &how, &mut tell).await;
        let (open, resolved) = opened.map_err(|error| match error {
            OpenError::Failed(vfs::Error::NotFound | vfs::Error::Stale) => OpenAttemptError::Retry,
            error => OpenAttemptError::Refused(status::of_open(error)),
        })?;
        self.holds_opened(ctx, path, open.object()).await?;
        if is_linked {
            return Ok((open, resolved, break_registration.into_inner()));
        }
        //= MS-FSA 2.1.5.15.3
        //# A share's root is not deleted.
        if params.has(options::DELETE_ON_CLOSE) && params.name.stream.is_none() && path == self.root_path() {
            return Err(Status::CANNOT_DELETE.into());
        }
        delete_on_close(params, &open)?;
        Ok((open, resolved, break_registration.into_inner()))
    }

    /// Returns what a client wants to cache, without what it is not granted as it did not answer a break in
    /// time.
    fn wanted(
        &self,
        ctx: &RequestContext,
        params: &CreateParams<'_>,
        path: RelPath<'_>,
        is_directory: bool,
    ) -> Option<RequestedCaching> {
        let mut wanted = wanted(ctx, params, is_directory)?;
        let caching = match &mut wanted {
            RequestedCaching::Oplock(caching) | RequestedCaching::Lease { caching, .. } => caching,
        };
        let less = caching.and(grants::Caching::R);
        if less != *caching && self.opens().break_timeouts().is_late(ctx, path) {
            self.counters().caching_withheld.increment();
            *caching = less;
        }
        Some(wanted)
    }
}

/// Returns how something is opened for what a mask says, and to cache nothing.
pub(super) fn beside(ctx: &RequestContext, share_access: u32, mask: u32) -> OpenHow<'static> {
    OpenHow {
        stream: b"",
        access: access::borne(mask),
        share: grants::Share::from_bits(share_access as u8),
        need: identity::Rights::NONE,
        looks: access::looks(mask),
        overwrites: false,
        consumer: ctx.consumer(),
        wanted: None,
    }
}

/// Marks the name to be deleted with the open, if that is asked for.
pub(super) fn delete_on_close(params: &CreateParams<'_>, open: &vfs::Open) -> Result<(), Status> {
    match params.has(options::DELETE_ON_CLOSE) {
        true => open.delete_on_close(Some(NameEnd::LastClose)).map_err(status::of_open),
        false => Ok(()),
    }
}

/// Returns what of caching is asked for. Of a directory: leases of version 2 alone, and no oplocks.
pub(super) fn wanted(
    ctx: &RequestContext,
    params: &CreateParams<'_>,
    is_directory: bool,
) -> Option<RequestedCaching> {
    let lease = match &params.contexts.lease {
        Some(_) if params.shared_lease_key.is_some() => return None,
        Some(lease) => lease,
        None => return caching_of(params.oplock).filter(|_| !is_directory).map(RequestedCaching::Oplock),
    };
    let epoch = match lease {
        Lease::V1(_) => None,
        Lease::V2(lease) => Some(lease.epoch.get()),
    };
    //= MS-SMB2 3.3.5.9.8
    //# A directory has no lease of version 1; its key is that of no other file all the same.
    let caching = match epoch {
        None if is_directory => grants::Caching::NONE,
        _ => grants::Caching::from_bits(lease.state() as u8 & 7),
    };
    Some(RequestedCaching::Lease {
        key: lease_key(ctx, lease.key()),
        caching,
        epoch,
        parent: lease.parent().map(crate::tree::guid_bytes),
    })
}

/// Returns what was done with what was there.
pub(super) fn action(params: &CreateParams<'_>) -> u32 {
    match params.disposition {
        smb_wire::create::Disposition::Supersede => create_action::SUPERSEDED,
        _ if params.overwrites() => create_action::OVERWRITTEN,
        _ => create_action::OPENED,
    }
}

/// Times that a name comes or goes between a look and an open.
const ATTEMPTS_MAX: u32 = 16;
