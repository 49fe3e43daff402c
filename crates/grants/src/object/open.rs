//! Opens of an object: share modes are checked, conflicting caching is broken, new caching granted.

use std::time::Instant;

use budget::{Consumer, Shares};

use super::Object;
use crate::caching_grant::{BreakRequest, CachingGrant};
use crate::caching_request::{CachingRequest, Opened};
use crate::conflict::FileOperation;
use crate::event::{Event, GrantResult, Refused, Ticket};
use crate::grant::{granted, is_upgrade, left_after};
use crate::share::{Access, Share, StatOpen};
use crate::stream::Open;
use crate::{ExemptHolder, OpenId};

/// Request for an open (MS-SMB2 2.2.13), whose rights have been checked.
#[derive(Clone, Copy, Debug)]
pub struct Request<L> {
    /// Number of the open.
    pub open: OpenId,
    /// Consumer whose share the open counts against, by its address and user.
    pub consumer: Consumer,
    /// Access that the open asks for.
    pub access: Access,
    /// Share mode: the access that other opens may have.
    pub share: Share,
    /// Kind of an open for attributes alone, which breaks no caching.
    pub looks: StatOpen,
    /// Set if the open replaces the content.
    pub overwrites: bool,
    /// Set if the open is of a directory.
    pub is_directory: bool,
    /// Link by which the file was found.
    pub link: L,
    /// Key of the parent directory's lease, which changes by this open do not break.
    pub parent: Option<[u8; 16]>,
    /// Caching that the client asks for.
    pub want: Option<CachingRequest>,
}

impl<L> Request<L> {
    /// Returns the open that the granted request makes.
    pub(super) fn into_open(self) -> Open<L> {
        let Self { open: id, consumer, access, share, looks, link, parent, want, .. } = self;
        let holder = want.map(|want| want.holder);
        let (deletes_on_close, ends_name) = (None, false);
        Open { id, consumer, holder, access, share, looks, deletes_on_close, ends_name, link, parent }
    }
}

impl<L: Clone + Eq> Object<L> {
    /// Opens a stream, if share modes allow it and no caching of others conflicts.
    pub fn open(
        &mut self,
        now: Instant,
        stream: &[u8],
        request: Request<L>,
        ticket: Option<Ticket>,
        events: &mut Vec<Event>,
    ) -> GrantResult<Opened> {
        self.handle_timeout(now, events);
        if self.deletions.has(&request.link) {
            return GrantResult::Refused(Refused::DeletePending);
        }
        if let Some(refused) = self.is_full(&request) {
            return GrantResult::Refused(refused);
        }
        let Some(at) = self.stream_or_new(stream) else { return GrantResult::Refused(Refused::TooMany) };
        let answer = self.try_open(now, at, request, ticket, events);
        self.tidy();
        answer
    }

    fn try_open(
        &mut self,
        now: Instant,
        at: usize,
        request: Request<L>,
        ticket: Option<Ticket>,
        events: &mut Vec<Event>,
    ) -> GrantResult<Opened> {
        let by = request.want.map(|want| ExemptHolder::Holder(want.holder));
        let stream = &self.streams[at];
        if stream.deletes {
            return GrantResult::Refused(Refused::DeletePending);
        }
        if !self.shares_deletion(at, &request) {
            return GrantResult::Refused(Refused::Sharing);
        }
        // An open that empties a file writes to it, whatever it is opened for; afterwards others need not
        // bear with that.
        let does = if request.overwrites { request.access | Access::WRITE } else { request.access };
        let shares = stream.shares_with(does, request.share);
        let operation = match (shares, request.overwrites, request.looks) {
            (false, ..) => FileOperation::Share,
            (true, true, _) => FileOperation::Overwrite,
            (true, false, StatOpen::Attributes) => FileOperation::Look,
            (true, false, StatOpen::ReadControl) => FileOperation::LookAtRights,
            (true, false, StatOpen::No) => FileOperation::Open,
        };
        if let Some(until) =
            self.streams[at].ask(&BreakRequest { now, operation, by, limits: self.limits }, events)
        {
            return self.wait_of(at, ticket, by, operation, until);
        }
        if !shares {
            return GrantResult::Refused(Refused::Sharing);
        }
        let (id, want, is_directory) = (request.open, request.want, request.is_directory);
        self.streams[at].opens.push(request.into_open());
        GrantResult::Granted(match want {
            Some(want) => self.hold(at, id, want, is_directory, ticket),
            None => Opened::default(),
        })
    }

    /// Returns whether a request is compatible with the opens of the file's other streams as to deletion.
    pub(super) fn shares_deletion(&self, at: usize, request: &Request<L>) -> bool {
        //= MS-FSA 2.1.5.1.2.1
        //# The streams of a file go with it: it is opened to be deleted only where all opens of all of them share that, and a stream without
        //# sharing it only where no client has the file open to delete it. Else STATUS_SHARING_VIOLATION.
        let mut other_grants = self.streams.iter().enumerate().filter(|(other, _)| *other != at);
        match self.streams[at].name.is_empty() {
            true if request.access.overlaps(Access::DELETE) => {
                other_grants.all(|(_, stream)| stream.shares_deletion())
            }
            false if !request.access.is_none() && !request.share.allows(Access::DELETE) => {
                let main = other_grants.find(|(_, stream)| stream.name.is_empty());
                main.is_none_or(|(_, main)| {
                    !main.opens.iter().any(|open| open.access.overlaps(Access::DELETE))
                })
            }
            _ => true,
        }
    }

    /// Grants the holder the caching that can be had of its request.
    fn hold(
        &mut self,
        at: usize,
        open: OpenId,
        want: CachingRequest,
        is_directory: bool,
        ticket: Option<Ticket>,
    ) -> Opened {
        let stream = &mut self.streams[at];
        let other_grants = stream.other_grants(&want, open);
        let mut granted = granted(want.kind, want.caching, is_directory, other_grants);
        // Nothing is granted that the next queued opener would break at once.
        let others = self.waiting.iter().filter(|waiter| {
            Some(waiter.ticket) != ticket
                && !waiter.by.is_some_and(|by| by.has(want.holder, want.key))
                && waiter.stream == stream.name
        });
        for waiter in others {
            granted = left_after(want.kind, granted, waiter.operation);
        }
        let Some(caching_grant) = stream.caching_grant(want.holder) else {
            if granted.is_none() {
                return Opened::default();
            }
            let mut caching_grant = CachingGrant::new(&want);
            caching_grant.give(granted);
            let opened = caching_grant.standing();
            stream.caching_grants.push(caching_grant);
            return opened;
        };
        if !caching_grant.is_breaking() && is_upgrade(caching_grant.caching, want.caching, granted) {
            caching_grant.give(granted);
        }
        caching_grant.home = want.home;
        caching_grant.standing()
    }

    pub(super) fn is_full(&self, request: &Request<L>) -> Option<Refused> {
        let all = self.streams.iter().map(|stream| stream.opens.len()).sum();
        let free = self.limits.opens.saturating_sub(all);
        // No client holds more than all hold together.
        if all < free {
            return None;
        }
        let held_by = |claimant| {
            let opens = self.streams.iter().flat_map(|stream| &stream.opens);
            opens.filter(|open| open.consumer.is_of(claimant)).count()
        };
        let mut claimants = request.consumer.claimants(SHARES);
        let is_over =
            free == 0 || claimants.any(|(claimant, times)| held_by(claimant) >= SHARES.may_hold(times, free));
        is_over.then_some(Refused::TooMany)
    }
}

/// Shares of the opens of one object.
const SHARES: Shares = Shares::THRICE;
