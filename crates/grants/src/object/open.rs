//! Opens of an object: made beside what others hold, with the caching that can be had; closed, and what is deleted then.

use std::time::Instant;

use super::Object;
use crate::caching::{Caching, Kind};
use crate::conflict::Asks;
use crate::event::{Asked, Event, Refused};
use crate::grant::{granted, left_beside, rises};
use crate::holding::{Holding, Question};
use crate::share::{Access, Share};
use crate::stream::Open;
use crate::waiting::Ticket;
use crate::{Client, Holder, Home, OpenId};

/// An open that somebody wants (MS-SMB2 2.2.13), rights having been looked at.
#[derive(Clone, Copy, Debug)]
pub struct Request<L> {
    /// Its number.
    pub open: OpenId,
    /// Whose it is.
    pub client: Client,
    /// What it is for.
    pub access: Access,
    /// What others may do beside it.
    pub share: Share,
    /// It is to see or set attributes alone, and needs nothing back.
    pub looks: bool,
    /// It puts an end to the content there is.
    pub overwrites: bool,
    /// It is of a directory.
    pub is_directory: bool,
    /// The name by which it was found.
    pub link: L,
    /// What the client wants to cache.
    pub want: Option<Want>,
}

/// A wish for a lease or an oplock.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// The lease's number; for an oplock that of the open.
    pub holder: Holder,
    /// Which of them.
    pub kind: Kind,
    /// How much.
    pub caching: Caching,
    /// Where the holder is told.
    pub home: Home,
}

/// An open that there is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// What its client may cache.
    pub caching: Caching,
    /// Epoch of a lease of version 2; else 0.
    pub epoch: u16,
    /// A break of the lease is under way (SMB2_LEASE_FLAG_BREAK_IN_PROGRESS).
    pub is_breaking: bool,
    /// As what the holder has it: the first who asked says so. `None` where he has nothing.
    pub kind: Option<Kind>,
}

impl<L: Clone + Eq> Object<L> {
    /// Opens a stream.
    pub fn open(
        &mut self,
        now: Instant,
        stream: &[u8],
        request: Request<L>,
        ticket: Option<Ticket>,
        events: &mut Vec<Event>,
    ) -> Asked<Opened> {
        self.handle_timeout(now, events);
        if self.deletions.has(&request.link) {
            return Asked::Refused(Refused::DeletePending);
        }
        if let Some(refused) = self.is_full(&request) {
            return Asked::Refused(refused);
        }
        let Some(at) = self.stream_or_new(stream) else { return Asked::Refused(Refused::TooMany) };
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
    ) -> Asked<Opened> {
        let by = request.want.map(|want| want.holder);
        let stream = &self.streams[at];
        if stream.deletes {
            return Asked::Refused(Refused::DeletePending);
        }
        let shares = stream.shares_with(request.access, request.share);
        let asks = match (shares, request.overwrites, request.looks) {
            (false, ..) => Asks::Share,
            (true, true, _) => Asks::Overwrite,
            (true, false, true) => Asks::Look,
            (true, false, false) => Asks::Open,
        };
        if let Some(until) = self.streams[at].ask(&Question { now, asks, by, limits: self.limits }, events) {
            return self.wait(at, ticket, by, asks, until);
        }
        if !shares {
            return Asked::Refused(Refused::Sharing);
        }
        let Request { open: id, client, access, share, looks, link, want, .. } = request;
        let holder = want.map(|want| want.holder);
        self.streams[at].opens.push(Open {
            id,
            client,
            holder,
            access,
            share,
            looks,
            deletes_on_close: false,
            link,
        });
        Asked::Granted(match want {
            Some(want) => self.hold(at, id, want, request.is_directory, ticket),
            None => Opened::default(),
        })
    }

    /// Gives the holder what can be had of what he wants.
    fn hold(
        &mut self,
        at: usize,
        open: OpenId,
        want: Want,
        is_directory: bool,
        ticket: Option<Ticket>,
    ) -> Opened {
        let stream = &mut self.streams[at];
        let beside = stream.beside(want.holder, open);
        let mut granted = granted(want.kind, want.caching, is_directory, beside);
        // He who waits would only have it taken back.
        let others = self.waiting.iter().filter(|waiter| {
            Some(waiter.ticket) != ticket
                && waiter.holder != Some(want.holder)
                && waiter.stream == stream.name
        });
        for waiter in others {
            granted = left_beside(want.kind, granted, waiter.asks);
        }
        let Some(holding) = stream.holding(want.holder) else {
            if granted.is_none() {
                return Opened::default();
            }
            let mut holding = Holding::new(want.holder, want.home, want.kind);
            holding.give(granted);
            let opened = holding.standing();
            stream.holdings.push(holding);
            return opened;
        };
        if !holding.is_breaking() && rises(holding.caching, want.caching, granted) {
            holding.give(granted);
        }
        holding.home = want.home;
        holding.standing()
    }

    fn is_full(&self, request: &Request<L>) -> Option<Refused> {
        let (mut opens, mut own) = (0, 0);
        for stream in &self.streams {
            opens += stream.opens.len();
            own += stream.opens.iter().filter(|open| open.client == request.client).count();
        }
        let is_full = opens >= self.limits.opens || own >= self.limits.opens_per_client;
        is_full.then_some(Refused::TooMany)
    }
}
