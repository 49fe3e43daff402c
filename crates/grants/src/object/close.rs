//! Close of opens, and deletion with the last one.

use std::time::Instant;

use super::Object;
use crate::caching_grant::BreakRequest;
use crate::conflict::FileOperation;
use crate::deletion::NameEnd;
use crate::event::{Event, GrantResult, Refused, Ticket};
use crate::range::Owner;
use crate::share::Access;
use crate::stream::Open;
use crate::{ExemptHolder, Holder, OpenId};

/// Work that a close leaves to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed<L> {
    /// The close leaves nothing to do.
    Stays,
    /// The name is to be deleted. Until [`Object::deleted`] no client opens it by that, and a write or rename
    /// of the file without an open waits.
    DeleteName {
        /// Link whose name is deleted.
        link: L,
        /// Key of the directory's lease that the deletion does not break, if the open that set it and the
        /// last one closed gave the same key.
        parent: Option<[u8; 16]>,
    },
    /// The named stream is to be deleted.
    DeleteStream,
}

impl<L: Clone + Eq> Object<L> {
    /// Closes an open and drops its locks, and its lease with the last open of it.
    ///
    /// # Errors
    /// [`Refused::NotOpen`].
    pub fn close(
        &mut self,
        now: Instant,
        open: OpenId,
        events: &mut Vec<Event>,
    ) -> Result<Closed<L>, Refused> {
        self.handle_timeout(now, events);
        let at = self.stream_of(open)?;
        let closing = self.streams[at].open(open).filter(|closing| closing.deletes_on_close.is_some());
        if let Some(by) = closing.map(|closing| closing.holder.unwrap_or(Holder(open.0))) {
            // The file is to go now. Closing waits for no holder.
            let break_request = BreakRequest {
                now,
                operation: FileOperation::Delete,
                by: Some(ExemptHolder::Holder(by)),
                limits: self.limits,
            };
            self.streams[at].ask(&break_request, events);
        }
        self.abandon(open, events)
    }

    /// Closes an open for a caller that does not know the time ([`Object::close`]).
    ///
    /// # Errors
    /// [`Refused::NotOpen`].
    pub fn abandon(&mut self, open: OpenId, events: &mut Vec<Event>) -> Result<Closed<L>, Refused> {
        let at = self.stream_of(open)?;
        let stream = &mut self.streams[at];
        let place = stream.opens.iter().position(|other| other.id == open).ok_or(Refused::NotOpen)?;
        let closed = stream.opens.swap_remove(place);
        stream.ranges.close(Owner::Open(open), events);
        stream.ranges.give(self.limits, events);
        if !stream.opens.iter().any(|open| open.holder == closed.holder) {
            stream.caching_grants.retain(|caching_grant| Some(caching_grant.holder) != closed.holder);
        }
        if closed.deletes_on_close.is_some() {
            if stream.name.is_empty() {
                self.deletions.set(closed.link.clone(), closed.parent);
            } else {
                self.streams[at].deletes = true;
            }
        }
        self.waiting.wake(&self.streams[at].name, events);
        let left = self.fall_due(at, closed);
        self.tidy();
        Ok(left)
    }

    fn fall_due(&mut self, at: usize, closed: Open<L>) -> Closed<L> {
        let Open { link, parent, deletes_on_close, ends_name, .. } = closed;
        let stream = &mut self.streams[at];
        let ends_name = stream.name.is_empty() && (ends_name || deletes_on_close == Some(NameEnd::OwnClose));
        if stream.opens.is_empty() && std::mem::take(&mut stream.deletes) {
            return Closed::DeleteStream;
        }
        let is_open = self.streams.iter().any(|stream| stream.opens.iter().any(|open| open.link == link));
        if is_open && !ends_name {
            return Closed::Stays;
        }
        match self.deletions.fall_due(&link) {
            Some(by) => Closed::DeleteName { link, parent: parent.filter(|_| by == parent) },
            None => Closed::Stays,
        }
    }

    /// Has the name, or the named stream, deleted from the open's close on (FILE_DELETE_ON_CLOSE), or not after all.
    ///
    /// # Errors
    /// [`Refused::Access`] without [`Access::DELETE`]; [`Refused::NotOpen`].
    pub fn delete_on_close(&mut self, open: OpenId, deletes: Option<NameEnd>) -> Result<(), Refused> {
        let at = self.stream_of(open)?;
        let open = self.streams[at].open_mut(open).ok_or(Refused::NotOpen)?;
        if !open.access.contains(Access::DELETE) {
            return Err(Refused::Access);
        }
        open.deletes_on_close = deletes;
        Ok(())
    }

    /// Has the name deleted with its last open or this one, or not (FileDispositionInformation): from now on no client
    /// opens it. A named stream goes with its last open.
    pub fn set_deletion(
        &mut self,
        now: Instant,
        open: OpenId,
        deletes: Option<NameEnd>,
        ticket: Option<Ticket>,
        events: &mut Vec<Event>,
    ) -> GrantResult<()> {
        self.handle_timeout(now, events);
        let at = match self.stream_of(open) {
            Ok(at) => at,
            Err(refused) => return GrantResult::Refused(refused),
        };
        let Some(it) = self.streams[at].open(open) else { return GrantResult::Refused(Refused::NotOpen) };
        if !it.access.contains(Access::DELETE) {
            return GrantResult::Refused(Refused::Access);
        }
        let by = Some(ExemptHolder::Holder(it.holder.unwrap_or(Holder(open.0))));
        let (link, parent) = (it.link.clone(), it.parent);
        if deletes.is_some() {
            let asked = self.streams[at].ask(
                &BreakRequest { now, operation: FileOperation::Delete, by, limits: self.limits },
                events,
            );
            if let Some(until) = asked {
                return self.wait_of(at, ticket, by, FileOperation::Delete, until);
            }
        }
        if !self.streams[at].name.is_empty() {
            self.streams[at].deletes = deletes.is_some();
            return GrantResult::Granted(());
        }
        let is_by_link = |other: &&mut Open<L>| other.link == link && (other.id == open || deletes.is_none());
        let ends_name = deletes == Some(NameEnd::OwnClose);
        self.streams[at].opens.iter_mut().filter(is_by_link).for_each(|open| open.ends_name = ends_name);
        match deletes {
            Some(_) => self.deletions.set(link, parent),
            None => self.deletions.take_back(&link),
        }
        GrantResult::Granted(())
    }

    /// Returns the name that an open was made by, or its new name since a rename; `None` for an unknown open.
    pub fn link(&self, open: OpenId) -> Option<&L> {
        self.streams.iter().find_map(|stream| stream.open(open)).map(|open| &open.link)
    }

    /// Returns whether the name, or the named stream, of an open is deleted with its last open.
    pub fn is_deleting(&self, open: OpenId) -> bool {
        let stream = self.streams.iter().find(|stream| stream.open(open).is_some());
        stream.is_some_and(|stream| match stream.name.is_empty() {
            true => stream.open(open).is_some_and(|open| self.deletions.has(&open.link)),
            false => stream.deletes,
        })
    }

    /// Returns whether a name is deleted with its last open.
    pub fn is_deleted(&self, link: &L) -> bool {
        self.deletions.has(link)
    }

    /// Returns whether anything is open by this name, as renames have left it.
    pub fn is_open_by(&self, link: &L) -> bool {
        self.streams.iter().any(|stream| stream.opens.iter().any(|open| open.link == *link))
    }

    /// Ends the deletion of a name, which is gone or cannot be deleted.
    pub fn deleted(&mut self, link: &L, events: &mut Vec<Event>) {
        let was_due = self.deletions.has_due();
        self.deletions.clear(link);
        if was_due && !self.deletions.has_due() {
            self.waiting.wake(b"", events);
        }
    }

    /// Moves opens and the deletion of a name to its new name.
    pub fn renamed(&mut self, from: &L, to: &L) {
        self.deletions.renamed(from, to);
        let opens = self.streams.iter_mut().flat_map(|stream| &mut stream.opens);
        opens.filter(|open| open.link == *from).for_each(|open| open.link = to.clone());
    }
}
