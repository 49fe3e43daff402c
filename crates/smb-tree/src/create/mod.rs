//! CREATE (MS-SMB2 3.3.5.9, MS-FSA 2.1.5.1): a file, directory or named stream is opened or made.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::future::LocalBoxFuture;
use grants::Opened;
use smb_proto::channel_word::ChannelWord;
use smb_wire::Status;
use smb_wire::create::access::rights;
use smb_wire::create::lease::Lease;
use smb_wire::create::{CreateRequest, CreateResponseFixed, create_action, oplock_level};
use smb_wire::fixed::Fixed;

use self::durable::Reconnect;
use self::open_or_create::GrantedOpen;
use self::params::{CreateContexts, CreateParams};
use crate::attributes::allocated;
use crate::breaks::{GrantedCaching, level};
use crate::lane_handle::LaneHandle;
use crate::open::{Open, OpenKind, OpenState};
use crate::opens::Room;
use crate::replays::ReplayEntry;
use crate::request_context::RequestContext;
use crate::share::Share;

mod app_instance;
mod contexts;
mod create_new;
mod durable;
mod existing;
pub(crate) mod lease_key_conflict;
pub(crate) mod link;
mod open_or_create;
pub(crate) mod params;
mod reconnect;
mod security;

/// Result of a CREATE: what was opened or made.
#[derive(Debug)]
pub struct Created {
    /// The open, which the table has.
    pub open: Arc<Open>,
    /// The response, but for where its contexts are.
    pub fixed: CreateResponseFixed,
    /// Contexts of the response.
    pub contexts: Vec<u8>,
}

/// Error of a CREATE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateError {
    /// The status.
    pub status: Status,
    /// Data of the error response: of `STATUS_STOPPED_ON_SYMLINK`; else none.
    pub data: Vec<u8>,
}

impl From<Status> for CreateError {
    fn from(status: Status) -> Self {
        Self { status, data: Vec::new() }
    }
}

/// The open and its state from which the response to a CREATE is made.
struct CreateAnswer<'a> {
    contexts: &'a CreateContexts<'a>,
    open: &'a Arc<Open>,
    handle: &'a LaneHandle,
    action: u32,
    /// State of the client's lease or oplock.
    standing: Opened,
    /// Set if the response says that the open is durable.
    tells_durable: bool,
}

impl Share {
    /// Opens or makes what the request names, or gives back an open that outlived its session. `channel_sequence` is that of its
    /// header, 0 before dialect 3.0; `replay` says whether it has SMB2_FLAGS_REPLAY_OPERATION.
    ///
    /// Waits for clients that have to give back what they cache of it, for 75 s at most.
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn create<'a>(
        &'a self,
        ctx: &'a RequestContext,
        request: &'a CreateRequest<'a>,
        channel_sequence: u16,
        replay: bool,
    ) -> LocalBoxFuture<'a, Result<Created, CreateError>> {
        Box::pin(async move {
            let created = self.try_create(ctx, request, channel_sequence, replay).await;
            match created {
                Ok(created) => Ok(created),
                Err(status @ Status::STOPPED_ON_SYMLINK) => {
                    Err(CreateError { status, data: self.stopped_on(ctx, request).await })
                }
                Err(status) => {
                    self.count_refused(status);
                    Err(status.into())
                }
            }
        })
    }

    async fn try_create(
        &self,
        ctx: &RequestContext,
        request: &CreateRequest<'_>,
        channel_sequence: u16,
        replay: bool,
    ) -> Result<Created, Status> {
        if let Some(wanted) = Reconnect::of(ctx, request)? {
            let again = self.reconnect(ctx, request, wanted, channel_sequence).await;
            return again.inspect_err(|_| self.counters().durable_reconnect_refused.increment());
        }
        // While this lives the same CREATE finds that this one is under way.
        let oplock = request.fixed.requested_oplock_level;
        let contexts = CreateContexts::of(ctx, request)?.with_lease_of(oplock);
        let replay = match self.replayed(ctx, request, &contexts, replay, channel_sequence).await? {
            Ok(before) => return Ok(before),
            Err(entry) => entry,
        };
        let mut params = CreateParams::of(request, contexts)?;
        if let Some(app_instance) = params.contexts.app_instance {
            self.take_over_app_instance(ctx, &params, app_instance).await?;
        }
        let room = self.opens().room(ctx.session, ctx.consumer());
        let room = room.inspect_err(|_| self.counters().opens_refused_limit.increment())?;
        params.shared_lease_key = self.find_lease_key_conflict(ctx, &params).await;
        let granted = self.open_or_create(ctx, &params, &room).await?;
        let (action, handle) = (granted.action, Rc::clone(&granted.handle));
        let open = self.new_open(ctx, &params, room, granted, channel_sequence, replay);
        self.opens().insert(&open);
        let handle = self.lane_state().keep_handle(&open, handle, None);
        self.counters().made(&open);
        self.counters().durable_granted.add(open.is_durable().into());
        let unanswered = UnansweredOpen { share: self, ctx, open: Some(&open) };
        let standing = open.grants().opened();
        let create_answer = CreateAnswer {
            contexts: &params.contexts,
            open: &open,
            handle: &handle,
            action,
            standing,
            tells_durable: true,
        };
        match self.response(ctx, &create_answer).await {
            Ok((fixed, contexts)) => {
                if let Some(entry) = &open.replay {
                    entry.done(&open);
                }
                unanswered.disarm();
                Ok(Created { open, fixed, contexts })
            }
            Err(status) => {
                // Before the client hears of it: the next CREATE may be of the same file.
                let _ = self.close(ctx, &open, 0).await;
                unanswered.disarm();
                Err(status)
            }
        }
    }

    fn new_open(
        &self,
        ctx: &RequestContext,
        params: &CreateParams<'_>,
        room: Room,
        granted: GrantedOpen,
        channel_sequence: u16,
        replay: Option<ReplayEntry>,
    ) -> Arc<Open> {
        let is_of_directory = granted.handle.directory().is_some();
        let kind = match (&granted.stream, is_of_directory) {
            (Some(_), _) => OpenKind::Stream,
            (None, true) => OpenKind::Directory,
            (None, false) if granted.handle.link().is_some() => OpenKind::Link,
            (None, false) => OpenKind::File,
        };
        let held = held(params, &granted);
        let app_instances = self.opens().app_instances();
        let volatile = room.id().volatile.get();
        Arc::new(Open {
            held,
            action: granted.action,
            durability: params.contexts.durable.of(&granted, held),
            create_guid: params.contexts.durable.create_guid(),
            allocation: allocation(params, &granted),
            replay: replay.filter(|_| kind != OpenKind::Directory && granted.access & REPLAYABLE != 0),
            app_instance: params
                .contexts
                .app_instance
                .map(|app_instance| app_instances.join(app_instance, volatile)),
            grants: granted.open,
            became: OnceLock::new(),
            by_link: granted.by_link,
            room,
            _break_registration: granted.break_registration,
            _shared_lease_key: params.shared_lease_key.clone(),
            tree: AtomicU32::new(ctx.tree),
            made_by: ctx.clone(),
            share: Arc::clone(&self.inner.name),
            root: Arc::clone(&self.root),
            kind,
            access: granted.access,
            maximal_access: granted.maximal_access,
            share_access: granted.share_access,
            options: params.options,
            case: params.case(),
            word: ChannelWord::new(channel_sequence),
            position: AtomicU64::new(0),
            writes: AtomicU32::new(0),
            state: Mutex::new(OpenState { stream: granted.stream.map(Into::into), ..OpenState::default() }),
        })
    }

    async fn response(
        &self,
        ctx: &RequestContext,
        create_answer: &CreateAnswer<'_>,
    ) -> Result<(CreateResponseFixed, Vec<u8>), Status> {
        let &CreateAnswer { open, handle, action, standing, .. } = create_answer;
        let info = self.open_info(open, handle).await?;
        let mut fixed = CreateResponseFixed::blank();
        fixed.oplock_level = match open.held {
            GrantedCaching::Nothing => oplock_level::NONE,
            GrantedCaching::Oplock => level(standing.caching),
            GrantedCaching::Lease { .. } => oplock_level::LEASE,
        };
        fixed.create_action.set(action);
        fixed.creation_time.set(info.created);
        fixed.last_access_time.set(info.accessed);
        fixed.last_write_time.set(info.written);
        fixed.change_time.set(info.changed);
        fixed.allocation_size.set(info.allocation.max(open.allocation));
        fixed.end_of_file.set(info.size);
        fixed.file_attributes.set(info.attributes);
        fixed.file_id = open.id();
        let contexts = contexts::write(ctx, create_answer, &info);
        Ok((fixed, contexts))
    }

    fn count_refused(&self, status: Status) {
        let counters = self.counters();
        let counter = match status {
            Status::SHARING_VIOLATION => &counters.refused_sharing,
            Status::ACCESS_DENIED | Status::PRIVILEGE_NOT_HELD => &counters.refused_access,
            Status::OBJECT_NAME_NOT_FOUND
            | Status::OBJECT_PATH_NOT_FOUND
            | Status::OBJECT_NAME_COLLISION
            | Status::OBJECT_NAME_INVALID => &counters.refused_name,
            _ => &counters.refused_other,
        };
        counter.increment();
    }
}

/// An open whose CREATE was not answered yet. Dropped, it closes the open, which no client knows.
///
/// A CREATE ends early where its client cancels it or its session ends. The session's own opens may have been
/// closed before this one came into the table.
struct UnansweredOpen<'a> {
    share: &'a Share,
    ctx: &'a RequestContext,
    open: Option<&'a Arc<Open>>,
}

impl UnansweredOpen<'_> {
    /// Disarms the guard: the client has the open, or it is closed.
    fn disarm(mut self) {
        self.open = None;
    }
}

impl Drop for UnansweredOpen<'_> {
    fn drop(&mut self) {
        let Some(open) = self.open else { return };
        let (share, ctx, open) = (self.share.clone(), self.ctx.clone(), Arc::clone(open));
        lane::spawn(async move {
            // The end of its session has closed it before.
            let _ = share.close(&ctx, &open, 0).await;
        })
        .detach();
    }
}

/// Returns the room that was set aside for a file that was made.
fn allocation(params: &CreateParams<'_>, granted: &GrantedOpen) -> u64 {
    //= MS-SMB2 3.3.5.9.2
    //# AllocationSize is what is set aside, where that was asked for.
    let is_made = granted.action == create_action::CREATED && granted.handle.directory().is_none();
    params.contexts.allocation.filter(|_| is_made).map_or(0, allocated)
}

/// Returns what of caching the open has.
fn held(params: &CreateParams<'_>, granted: &GrantedOpen) -> GrantedCaching {
    match (&params.contexts.lease, &granted.break_registration) {
        // The response has its key all the same, with no caching.
        (Some(lease), None) if params.shared_lease_key.is_some() => GrantedCaching::Lease {
            key: lease.key(),
            version: contexts::version(lease, &granted.open.opened()),
        },
        (_, None) => GrantedCaching::Nothing,
        (Some(Lease::V1(_)), Some(_)) if granted.handle.directory().is_some() => GrantedCaching::Nothing,
        (Some(lease), Some(_)) => GrantedCaching::Lease {
            key: lease.key(),
            version: contexts::version(lease, &granted.open.opened()),
        },
        (None, Some(_)) => GrantedCaching::Oplock,
    }
}

/// Rights with one of which an open's CREATE may come again (MS-SMB2 3.3.5.9.10).
const REPLAYABLE: u32 =
    rights::READ_DATA | rights::EXECUTE | rights::WRITE_DATA | rights::APPEND_DATA | rights::DELETE;
