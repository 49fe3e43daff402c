//! A CREATE that wants a durable open again (MS-SMB2 3.3.5.9.7, 3.3.5.9.12), and one that comes a second time (3.3.5.9.10).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smb_wire::Status;
use smb_wire::create::lease::Lease;
use smb_wire::create::{CreateRequest, create_action, oplock_level};
use smb_wire::name::Name;

use super::durable::Reconnect;
use super::params::CreateContexts;
use super::{CreateAnswer, Created};
use crate::breaks::{BreakTarget, GrantedCaching};
use crate::names;
use crate::open::Open;
use crate::replays::{ReplayEntry, ReplayLookup};
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::streams;

impl Share {
    /// Gives a session an open that has none.
    ///
    /// # Errors
    /// `STATUS_OBJECT_NAME_NOT_FOUND` where there is no such open to be had; `STATUS_ACCESS_DENIED` where it is another user's;
    /// `STATUS_INVALID_PARAMETER` where the file has another name.
    pub(super) async fn reconnect(
        &self,
        ctx: &RequestContext,
        request: &CreateRequest<'_>,
        wanted: Reconnect,
        sequence: u16,
    ) -> Result<Created, Status> {
        let contexts = CreateContexts::of(ctx, request)?;
        let open = self.opens().find_durable(wanted.id.persistent.get());
        let open = open.ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        if wanted.create_guid.is_some_and(|guid| guid != open.create_guid) {
            return Err(Status::OBJECT_NAME_NOT_FOUND);
        }
        self.resume_open(ctx, request, &contexts, &open, sequence).await?;
        self.answer_reconnect(ctx, &contexts, &open, create_action::OPENED, None).await
    }

    /// Returns what a CREATE is to be answered with that came before; else its entry, if it has a number.
    ///
    /// # Errors
    /// `STATUS_FILE_NOT_AVAILABLE` while the first is under way; `STATUS_DUPLICATE_OBJECTID` where this one does not say that it comes
    /// again, or comes in another session.
    pub(super) async fn replayed(
        &self,
        ctx: &RequestContext,
        request: &CreateRequest<'_>,
        contexts: &CreateContexts<'_>,
        replay: bool,
        sequence: u16,
    ) -> Result<Result<Created, Option<ReplayEntry>>, Status> {
        let guid = contexts.durable.create_guid();
        if guid.is_zero() {
            return Ok(Err(None));
        }
        let open = match self.opens().replays().look(ctx.client, guid) {
            ReplayLookup::First(entry) => return Ok(Err(Some(entry))),
            // Windows says STATUS_ACCESS_DENIED; so the client tries again.
            ReplayLookup::UnderWay => {
                self.counters().creates_replayed_early.increment();
                return Err(Status::FILE_NOT_AVAILABLE);
            }
            ReplayLookup::Done(open) => open,
        };
        //= MS-SMB2 3.3.5.9.10
        //# An open that is known by this CreateGuid, and a request without SMB2_FLAGS_REPLAY_OPERATION: STATUS_DUPLICATE_OBJECTID.
        let is_its = open.session() == ctx.session || open.session() == 0;
        if !replay || !is_its || open.share_name() != self.name() {
            self.counters().creates_replayed_wrongly.increment();
            return Err(Status::DUPLICATE_OBJECTID);
        }
        //= MS-SMB2 3.3.5.9.8
        //# A request with a lease comes again only to an open with the same.
        if let Some(lease) = &contexts.lease
            && !matches!(open.held, GrantedCaching::Lease { key, .. } if key == lease.key())
        {
            return Err(Status::ACCESS_DENIED);
        }
        if open.session() == 0 {
            self.resume_open(ctx, request, contexts, &open, sequence).await?;
        }
        self.counters().creates_replayed.increment();
        let oplock = request.fixed.requested_oplock_level;
        Ok(Ok(self.answer_reconnect(ctx, contexts, &open, open.action, Some(oplock)).await?))
    }

    /// Attaches a disconnected open to the session of a client that may reconnect to it.
    async fn resume_open(
        &self,
        ctx: &RequestContext,
        request: &CreateRequest<'_>,
        contexts: &CreateContexts<'_>,
        open: &Arc<Open>,
        sequence: u16,
    ) -> Result<(), Status> {
        if open.is_durable() && open.session() != ctx.session && open.user() == ctx.caller.principal.name() {
            self.opens().disconnected().until_disconnected(open, LOST_PATIENCE).await;
        }
        let is_lost = open.is_durable() && open.session() == 0 && open.share_name() == self.name();
        if !is_lost || !open.keeps_handle() || !fits(ctx, contexts, open) || !self.has(open) {
            return Err(Status::OBJECT_NAME_NOT_FOUND);
        }
        //= MS-SMB2 3.3.5.9.7
        //# Another user than the one that made it: STATUS_ACCESS_DENIED.
        if open.user() != ctx.caller.principal.name() {
            return Err(Status::ACCESS_DENIED);
        }
        if let GrantedCaching::Lease { .. } = open.held {
            self.check_name(ctx, request, open).await?;
        }
        // Only one takes it out: a conflicting request, its timer, or this client.
        if !self.opens().disconnected().claim(open) {
            return Err(Status::OBJECT_NAME_NOT_FOUND);
        }
        // Before its client may replay them, the writes of its lost session have reached the file.
        let settled = open.grants().settled(self.volume()).await;
        if settled.is_err_and(|_| open.is_writing()) {
            self.lane_state().closer().close(Arc::clone(open)).await;
            return Err(Status::OBJECT_NAME_NOT_FOUND);
        }
        open.writes.store(0, Ordering::Release);
        if let Err(status) = self.opens().attach_session(open, ctx.session, ctx.tree) {
            self.lane_state().closer().close(Arc::clone(open)).await;
            return Err(status);
        }
        let holder = open.grants().holder();
        if let GrantedCaching::Oplock = open.held {
            self.opens()
                .set_break_target(holder, BreakTarget::Oplock { open: open.id(), session: ctx.session });
        }
        open.grants().set_home_lane(self.volume().cache());
        open.word().begin_anew(sequence);
        self.counters().durable_reconnected.increment();
        Ok(())
    }

    async fn check_name(
        &self,
        ctx: &RequestContext,
        request: &CreateRequest<'_>,
        open: &Open,
    ) -> Result<(), Status> {
        //= MS-SMB2 3.3.5.9.7
        //# A lease is of a file by its name: another name in the request fails with STATUS_INVALID_PARAMETER.
        let name = Name::parse(request.name).map_err(|_| Status::INVALID_PARAMETER)?;
        let found = names::find(self, &ctx.caller, &name, open.case).await;
        let lookup = found.map_err(|_| Status::INVALID_PARAMETER)?;
        // A conflicting request may have had it closed meanwhile.
        let path = open.grants().path(self.volume()).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        let is_it = path == lookup.path
            && name.stream.as_deref().map(streams::folded) == open.stream().as_deref().map(streams::folded);
        if is_it { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
    }

    /// Answers a CREATE with an open that its client has already.
    async fn answer_reconnect(
        &self,
        ctx: &RequestContext,
        contexts: &CreateContexts<'_>,
        open: &Arc<Open>,
        action: u32,
        replayed: Option<u8>,
    ) -> Result<Created, Status> {
        let handle = self.handle(ctx, open).await?;
        let standing = open.grants().standing();
        let mut create_answer =
            CreateAnswer { contexts, open, handle: &handle, action, standing, tells_durable: false };
        if let Some(oplock) = replayed {
            // As Samba does it: a second request that asks for less gets no more in its answer.
            create_answer.tells_durable = matches!(oplock, oplock_level::BATCH | oplock_level::LEASE);
            if oplock == oplock_level::NONE {
                create_answer.standing = grants::Opened::default();
            }
        }
        let (fixed, contexts) = self.response(ctx, &create_answer).await?;
        Ok(Created { open: Arc::clone(open), fixed, contexts })
    }
}

/// Returns whether a lease is named where the open has one, and the same; and none where it has an oplock.
fn fits(ctx: &RequestContext, contexts: &CreateContexts<'_>, open: &Open) -> bool {
    //= MS-SMB2 3.3.5.9.12
    //# An open with a lease is had again by its client, with a context of the same version and key; one with an oplock without any.
    match (open.held, &contexts.lease) {
        (GrantedCaching::Lease { key, version }, Some(lease)) => {
            let asked = match lease {
                Lease::V1(_) => 1,
                Lease::V2(_) => 2,
            };
            open.client() == ctx.client && key == lease.key() && version == asked
        }
        (GrantedCaching::Oplock, None) => true,
        _ => false,
    }
}

/// Time for which a client that reconnects an open waits for the end of the session that still has it.
const LOST_PATIENCE: Duration = Duration::from_millis(500);
