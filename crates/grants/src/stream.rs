//! Stream of a file: its opens, their clients' caching, its locked ranges.

use std::time::Instant;

use budget::Consumer;

use crate::caching::Caching;
use crate::caching_grant::{BreakRequest, CachingGrant};
use crate::caching_request::CachingRequest;
use crate::conflict::shares;
use crate::deletion::NameEnd;
use crate::event::Event;
use crate::grant::OtherGrants;
use crate::range::Ranges;
use crate::share::{Access, Share, StatOpen};
use crate::{Holder, OpenId};

/// File's own data, a named stream, or a directory.
#[derive(Debug)]
pub(crate) struct Stream<L> {
    /// Name of the stream; empty for a file's own data.
    pub(crate) name: Box<[u8]>,
    pub(crate) opens: Vec<Open<L>>,
    pub(crate) caching_grants: Vec<CachingGrant>,
    pub(crate) ranges: Ranges,
    /// Set if a named stream is deleted with its last open.
    pub(crate) deletes: bool,
}

#[derive(Debug)]
pub(crate) struct Open<L> {
    pub(crate) id: OpenId,
    pub(crate) consumer: Consumer,
    /// Holder whose lease or oplock operations of this open do not break.
    pub(crate) holder: Option<Holder>,
    pub(crate) access: Access,
    pub(crate) share: Share,
    pub(crate) looks: StatOpen,
    /// FILE_DELETE_ON_CLOSE: the name is to be deleted from its close on.
    pub(crate) deletes_on_close: Option<NameEnd>,
    /// The name, if it is to be deleted, goes with this open.
    pub(crate) ends_name: bool,
    /// Link by which the file was opened.
    pub(crate) link: L,
    /// Key of the parent directory's lease, as the client gave it.
    pub(crate) parent: Option<[u8; 16]>,
}

impl<L> Open<L> {
    /// Returns whether the open reads or writes, or does not share deletion.
    pub(crate) fn uses(&self) -> bool {
        self.access.overlaps(Access::READ | Access::WRITE) || !self.share.allows(Access::DELETE)
    }
}

impl<L> Stream<L> {
    pub(crate) fn new(name: &[u8]) -> Self {
        Self {
            name: name.into(),
            opens: Vec::new(),
            caching_grants: Vec::new(),
            ranges: Ranges::default(),
            deletes: false,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.opens.is_empty() && self.ranges.is_empty()
    }

    pub(crate) fn open(&self, id: OpenId) -> Option<&Open<L>> {
        self.opens.iter().find(|open| open.id == id)
    }

    pub(crate) fn open_mut(&mut self, id: OpenId) -> Option<&mut Open<L>> {
        self.opens.iter_mut().find(|open| open.id == id)
    }

    pub(crate) fn caching_grant(&mut self, holder: Holder) -> Option<&mut CachingGrant> {
        self.caching_grants.iter_mut().find(|caching_grant| caching_grant.holder == holder)
    }

    /// Returns whether all opens are compatible with one more of this access and share mode.
    pub(crate) fn shares_with(&self, access: Access, share: Share) -> bool {
        self.opens.iter().all(|open| shares((open.access, open.share), (access, share)))
    }

    /// Returns whether all opens allow the file to be deleted.
    pub(crate) fn shares_deletion(&self) -> bool {
        self.opens.iter().all(|open| open.access.is_none() || open.share.allows(Access::DELETE))
    }

    pub(crate) fn is_opened_by(&self, holder: Holder) -> bool {
        self.opens.iter().any(|open| open.holder == Some(holder) || OpenId(holder.0) == open.id)
    }

    /// Sends breaks to all holders that conflict with the request. Returns the earliest deadline of those
    /// that it has to wait for. Returns when the first of those has to have answered that are waited for.
    pub(crate) fn ask(
        &mut self,
        break_request: &BreakRequest<'_>,
        events: &mut Vec<Event>,
    ) -> Option<Instant> {
        let asked = self.caching_grants.iter_mut().filter_map(|caching_grant| {
            let is_awaited = caching_grant.ask(break_request, events);
            is_awaited.then(|| caching_grant.until()).flatten()
        });
        asked.min()
    }

    /// Returns the opens, caching and locks of others that limit a request for caching.
    pub(crate) fn other_grants(&self, want: &CachingRequest, open: OpenId) -> OtherGrants {
        let holder = want.holder;
        let mut other_grants = OtherGrants { ranges: self.ranges.any(), ..Default::default() };
        let others = self.opens.iter().filter(|other| other.id != open && other.holder != Some(holder));
        other_grants.opens = others.into_iter().any(|other| other.looks != StatOpen::Attributes);
        for other in self.caching_grants.iter().filter(|other| other.holder != holder) {
            let relied_on = other.relied_on();
            other_grants.readers |= relied_on.contains(Caching::R);
            other_grants.writer |= relied_on.contains(Caching::W);
            other_grants.handles |= relied_on.contains(Caching::H);
            other_grants.oplocks |= other.kind.is_oplock() && !relied_on.is_none();
        }
        other_grants
    }

    /// Takes the caching of holders that did not answer in time, and returns whether there were any.
    pub(crate) fn expire(&mut self, now: Instant, events: &mut Vec<Event>) -> bool {
        let mut any = false;
        for caching_grant in &mut self.caching_grants {
            if caching_grant.expire(now) {
                events.push(Event::Expired(caching_grant.holder));
                any = true;
            }
        }
        any
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.caching_grants.iter().filter_map(CachingGrant::until).chain(self.ranges.next_timeout()).min()
    }
}
