//! State of all grants on one object, and the requests that it answers.

use std::time::Instant;

pub use self::close::Closed;
pub use self::lock::{AdvisoryLock, Lock};
pub use self::open::Request;
use crate::caching::Caching;
use crate::caching_grant::{BadAcknowledgement, BreakRequest, CachingGrant};
use crate::caching_request::Opened;
use crate::conflict::{FileOperation, needs};
use crate::deletion::Deletions;
use crate::event::{Event, GrantResult, Refused, Ticket, Wait};
use crate::limits::Limits;
use crate::share::{Access, Share};
use crate::stream::{Open, Stream};
use crate::waiting::WaitQueue;
use crate::{ExemptHolder, Holder, Home, OpenId};

mod close;
mod lock;
mod open;
mod restore;

/// Grants on one file or directory. `L` names it: a directory and a name in that.
///
/// Every call takes the time, and adds to `events` what has to be sent. What is asked again after a
/// [`GrantResult::Wait`] comes with its ticket.
#[derive(Debug)]
pub struct Object<L> {
    pub(crate) limits: &'static Limits,
    pub(crate) streams: Vec<Stream<L>>,
    pub(crate) deletions: Deletions<L>,
    pub(crate) waiting: WaitQueue,
    next_ticket: u64,
}

/// Change that is about to be made, or a read without an open.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Operation of the change.
    pub operation: FileOperation,
    /// Holder that makes the change, if any: its own grants are not broken.
    pub by: Option<ExemptHolder>,
}

impl<L: Clone + Eq> Object<L> {
    /// Makes an object without opens, grants and locks.
    pub fn new(limits: &'static Limits) -> Self {
        let (deletions, waiting) = (Deletions::new(), WaitQueue::default());
        Self { limits, streams: Vec::new(), deletions, waiting, next_ticket: 0 }
    }

    /// Returns whether there are no opens, grants, locks and waiting requests.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.deletions.is_empty() && self.waiting.is_empty()
    }

    /// Returns whether the object has any open.
    pub fn is_open(&self) -> bool {
        self.streams.iter().any(|stream| !stream.opens.is_empty())
    }

    /// Returns whether any client may cache anything of the object.
    pub fn is_cached(&self) -> bool {
        self.streams
            .iter()
            .any(|stream| stream.caching_grants.iter().any(|caching_grant| !caching_grant.caching.is_none()))
    }

    /// Returns whether an open exists that a break of handle caching would not close.
    pub fn is_open_to_stay(&self) -> bool {
        self.stays_open(|_| true)
    }

    /// Returns whether an open reads or writes the object, or does not share deletion. An open to rename or
    /// delete it, or for attributes alone, has a file without a name where another comes in its place, as
    /// when it is deleted.
    pub fn is_used(&self) -> bool {
        self.streams.iter().any(|stream| stream.opens.iter().any(Open::uses))
    }

    /// Returns whether an open that [uses](Object::is_used) the file [stays](Object::is_open_to_stay).
    pub fn is_used_to_stay(&self) -> bool {
        self.stays_open(Open::uses)
    }

    fn stays_open(&self, counts: impl Fn(&Open<L>) -> bool) -> bool {
        self.streams.iter().any(|stream| {
            let may_close = |open: &Open<L>| {
                let holder = open.holder.unwrap_or(Holder(open.id.0));
                let caching_grant =
                    stream.caching_grants.iter().find(|caching_grant| caching_grant.holder == holder);
                caching_grant.is_some_and(|caching_grant| caching_grant.caching.contains(Caching::H))
            };
            stream.opens.iter().any(|open| counts(open) && !may_close(open))
        })
    }

    /// Returns whether any range is locked.
    pub fn has_ranges(&self) -> bool {
        self.streams.iter().any(|stream| stream.ranges.any())
    }

    /// Returns the next time at which a break or an advisory lock ends by itself.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.streams.iter().filter_map(Stream::next_timeout).min()
    }

    /// Ends breaks and advisory locks whose time is over. Every other call with a time begins with this.
    pub fn handle_timeout(&mut self, now: Instant, events: &mut Vec<Event>) {
        for at in 0..self.streams.len() {
            if self.streams[at].expire(now, events) {
                self.waiting.wake(&self.streams[at].name, events);
            }
            if self.streams[at].ranges.expire(now) {
                self.streams[at].ranges.give(self.limits, events);
            }
        }
        self.tidy();
    }

    /// Asks whether a change may be made: once granted, the caller makes it before any other call on this
    /// object.
    pub fn change(
        &mut self,
        now: Instant,
        stream: &[u8],
        change: Change,
        ticket: Option<Ticket>,
        events: &mut Vec<Event>,
    ) -> GrantResult<()> {
        self.handle_timeout(now, events);
        let (at, Change { operation, by }) = (self.stream(stream), change);
        let is_opener = matches!((at, by), (Some(at), Some(ExemptHolder::Holder(by))) if self.streams[at].is_opened_by(by));
        // The share mode that kept others away has ended with the open: what they did now would be lost with the name.
        if stream.is_empty() && !is_opener && is_lost_with_the_name(operation) && self.deletions.has_due() {
            return self.wait(stream, ticket, by, operation, now + self.limits.acknowledge);
        }
        let Some(at) = at else { return GrantResult::Granted(()) };
        let shares = is_opener || self.streams[at].shares_with(needs(operation), Share::ALL);
        let operation = if shares { operation } else { FileOperation::Share };
        match self.streams[at].ask(&BreakRequest { now, operation, by, limits: self.limits }, events) {
            Some(until) => self.wait_of(at, ticket, by, operation, until),
            None if shares => GrantResult::Granted(()),
            None => GrantResult::Refused(Refused::Sharing),
        }
    }

    /// Asks whether names may be moved out of this directory or into it: not while an open may delete it
    /// (MS-FSA 2.1.5.15.11).
    pub fn move_names(
        &mut self,
        now: Instant,
        by: Option<ExemptHolder>,
        ticket: Option<Ticket>,
        events: &mut Vec<Event>,
    ) -> GrantResult<()> {
        self.handle_timeout(now, events);
        let Some(at) = self.stream(b"") else { return GrantResult::Granted(()) };
        if !self.streams[at].opens.iter().any(|open| open.access.overlaps(Access::DELETE)) {
            return GrantResult::Granted(());
        }
        let break_request = BreakRequest { now, operation: FileOperation::Share, by, limits: self.limits };
        match self.streams[at].ask(&break_request, events) {
            Some(until) => self.wait_of(at, ticket, by, FileOperation::Share, until),
            None => GrantResult::Refused(Refused::Sharing),
        }
    }

    /// Renames a named stream by its only open.
    ///
    /// # Errors
    /// [`Refused::Sharing`] beside other opens of it, or where a stream of that name is open;
    /// [`Refused::NotOpen`].
    pub fn rename_stream(&mut self, open: OpenId, to: &[u8], events: &mut Vec<Event>) -> Result<(), Refused> {
        let at = self.stream_of(open)?;
        let is_named = !self.streams[at].name.is_empty() && !to.is_empty();
        debug_assert!(is_named, "a file's own data has no name to lose");
        let is_taken = self.stream(to).is_some_and(|other| other != at);
        if !is_named || is_taken || self.streams[at].opens.len() > 1 {
            return Err(Refused::Sharing);
        }
        let from = std::mem::replace(&mut self.streams[at].name, to.into());
        // A request that waits for something of it does so by its name.
        self.waiting.wake(&from, events);
        Ok(())
    }

    fn wait_of<T>(
        &mut self,
        at: usize,
        ticket: Option<Ticket>,
        by: Option<ExemptHolder>,
        operation: FileOperation,
        until: Instant,
    ) -> GrantResult<T> {
        let stream = self.streams[at].name.clone();
        self.wait(&stream, ticket, by, operation, until)
    }

    fn wait<T>(
        &mut self,
        stream: &[u8],
        ticket: Option<Ticket>,
        by: Option<ExemptHolder>,
        operation: FileOperation,
        until: Instant,
    ) -> GrantResult<T> {
        let ticket = match ticket {
            Some(ticket) => ticket,
            None if self.waiting.len() >= self.limits.waiting => {
                return GrantResult::Refused(Refused::TooMany);
            }
            None => self.next_ticket(),
        };
        self.waiting.join(ticket, stream, by, operation);
        GrantResult::Wait(Wait { ticket, until })
    }

    /// Ends a wait: the waiter was granted its request, or gave up.
    pub fn leave(&mut self, ticket: Ticket) {
        self.waiting.leave(ticket);
    }

    /// Breaks all caching of a holder without a conflicting request: its lease key turned out to name another
    /// file too. No request waits for this.
    pub fn recall(&mut self, now: Instant, holder: Holder, events: &mut Vec<Event>) {
        self.handle_timeout(now, events);
        let limits = self.limits;
        if let Some(caching_grant) = self.streams.iter_mut().find_map(|stream| stream.caching_grant(holder)) {
            caching_grant.recall(now, limits, events);
        }
    }

    /// Takes the acknowledgement of a break, with the caching that the holder keeps, on any lane. Returns the
    /// caching that is left to it.
    ///
    /// # Errors
    /// [`BadAcknowledgement`]; nothing changes then, and its time goes on.
    pub fn acknowledge(
        &mut self,
        now: Instant,
        holder: Holder,
        keeps: Caching,
        events: &mut Vec<Event>,
    ) -> Result<Caching, BadAcknowledgement> {
        self.handle_timeout(now, events);
        let found = self.streams.iter_mut().find_map(|stream| {
            let name = stream.name.clone();
            stream.caching_grant(holder).map(|caching_grant| (name, caching_grant))
        });
        let (name, caching_grant) = found.ok_or(BadAcknowledgement::NoHolder)?;
        let left = caching_grant.acknowledge(now, keeps, self.limits, events)?;
        self.waiting.wake(&name, events);
        Ok(left)
    }

    /// Returns the caching that a holder has; `None` without a grant.
    pub fn held(&self, holder: Holder) -> Option<Caching> {
        let mut caching_grants = self.streams.iter().flat_map(|stream| &stream.caching_grants);
        caching_grants
            .find(|caching_grant| caching_grant.holder == holder)
            .map(|caching_grant| caching_grant.caching)
    }

    /// Returns a holder's grant as an open with its key would get it; no caching without a grant.
    pub fn standing(&self, holder: Holder) -> Opened {
        let mut caching_grants = self.streams.iter().flat_map(|stream| &stream.caching_grants);
        let found = caching_grants.find(|caching_grant| caching_grant.holder == holder);
        found.map_or_else(Opened::default, CachingGrant::standing)
    }

    /// Sets the lane of a holder, whose connection has moved there.
    pub fn move_home(&mut self, holder: Holder, home: Home) {
        if let Some(caching_grant) = self.streams.iter_mut().find_map(|stream| stream.caching_grant(holder)) {
            caching_grant.home = home;
        }
    }

    fn stream(&self, name: &[u8]) -> Option<usize> {
        self.streams.iter().position(|stream| *stream.name == *name)
    }

    fn stream_or_new(&mut self, name: &[u8]) -> Option<usize> {
        self.stream(name).or_else(|| {
            let is_room = self.streams.len() < self.limits.streams;
            is_room.then(|| {
                self.streams.push(Stream::new(name));
                self.streams.len() - 1
            })
        })
    }

    fn stream_of(&self, open: OpenId) -> Result<usize, Refused> {
        self.streams.iter().position(|stream| stream.open(open).is_some()).ok_or(Refused::NotOpen)
    }

    /// Removes streams without opens, grants and locks.
    fn tidy(&mut self) {
        self.streams.retain(|stream| !stream.is_empty());
        if self.streams.is_empty() {
            self.streams = Vec::new();
        }
    }

    fn next_ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }
}

/// Returns whether a change has no effect once the file loses its name.
fn is_lost_with_the_name(operation: FileOperation) -> bool {
    matches!(operation, FileOperation::Write | FileOperation::Overwrite | FileOperation::Rename)
}
