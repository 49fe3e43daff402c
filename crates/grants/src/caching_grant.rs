//! Lease or oplock: the caching that its holder has, and the break under way.

use std::time::Instant;

use crate::caching::{Caching, HeldCaching, Kind};
use crate::caching_request::{CachingRequest, Opened};
use crate::conflict::{BreakAction, FileOperation, break_action, spares};
use crate::event::{Break, Event};
use crate::limits::Limits;
use crate::{ExemptHolder, Holder, Home};

/// Operation that is checked against the holders of leases and oplocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BreakRequest<'a> {
    pub(crate) now: Instant,
    pub(crate) operation: FileOperation,
    /// Holder that makes the change, if the operation comes from one.
    pub(crate) by: Option<ExemptHolder>,
    pub(crate) limits: &'a Limits,
}

impl ExemptHolder {
    /// Returns whether this grant is exempt from the break: the holder's own, or one with the parent key.
    pub(crate) fn has(self, holder: Holder, key: Option<[u8; 16]>) -> bool {
        match self {
            Self::Holder(by) => by == holder,
            Self::ParentKey(by) => key == Some(by),
        }
    }
}

/// Lease with all opens of its key, or oplock of one open.
#[derive(Debug)]
pub(crate) struct CachingGrant {
    pub(crate) holder: Holder,
    pub(crate) home: Home,
    pub(crate) kind: Kind,
    /// Key of the lease; `None` for an oplock.
    key: Option<[u8; 16]>,
    /// Caching that the holder may keep, or has not yet acknowledged to have given back.
    pub(crate) caching: Caching,
    epoch: u16,
    breaking: Option<Breaking>,
}

#[derive(Debug)]
struct Breaking {
    /// Caching that the holder was told to keep.
    to: Caching,
    /// Caching that is left in the end: sent when the holder has acknowledged `to`.
    final_caching: Caching,
    until: Instant,
}

/// Reason why an acknowledgement does not fit the break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAcknowledgement {
    /// No holder of that number holds anything here.
    #[error("nobody holds it")]
    NoHolder,
    /// The holder was not asked for one (STATUS_UNSUCCESSFUL; oplocks: STATUS_INVALID_OPLOCK_PROTOCOL).
    #[error("nothing was asked for")]
    NotAsked,
    /// The holder keeps more than the break left to it (STATUS_REQUEST_NOT_ACCEPTED).
    #[error("more is kept than was left")]
    KeepsMore,
}

impl CachingGrant {
    pub(crate) fn new(want: &CachingRequest) -> Self {
        let CachingRequest { holder, kind, home, key, .. } = *want;
        let epoch = match kind {
            Kind::Lease { epoch: Some(epoch) } => epoch,
            _ => 0,
        };
        Self { holder, home, kind, key, caching: Caching::NONE, epoch, breaking: None }
    }

    /// Restores a grant that the holder had before the server was started again, with its last epoch.
    pub(crate) fn restored(want: &CachingRequest) -> Self {
        Self { caching: want.caching, ..Self::new(want) }
    }

    /// Returns the result that an open with this grant's key gets.
    pub(crate) fn standing(&self) -> Opened {
        Opened {
            caching: self.caching,
            epoch: self.epoch,
            is_breaking: self.is_breaking(),
            kind: Some(self.kind),
        }
    }

    pub(crate) fn is_breaking(&self) -> bool {
        self.breaking.is_some()
    }

    /// Returns when the holder's time to answer a break ends.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.breaking.as_ref().map(|breaking| breaking.until)
    }

    pub(crate) fn column(&self) -> Option<HeldCaching> {
        HeldCaching::of(self.kind, self.caching)
    }

    /// Returns the caching that the holder may still use: without what a break took that needs no
    /// acknowledgement.
    pub(crate) fn relied_on(&self) -> Caching {
        match &self.breaking {
            // Until the answer comes the holder may still write back.
            Some(_) if self.caching.contains(Caching::W) => self.caching,
            Some(breaking) => self.caching.and(breaking.to),
            None => self.caching,
        }
    }

    /// Grants `caching`, which includes what the holder has, and raises the epoch when it is more.
    pub(crate) fn give(&mut self, caching: Caching) {
        debug_assert!(caching.contains(self.caching) && self.breaking.is_none());
        if caching != self.caching {
            self.caching = caching;
            self.next_epoch();
        }
    }

    /// Sends the holder a break of what conflicts with the request. Returns whether the request has to wait
    /// for it.
    pub(crate) fn ask(&mut self, break_request: &BreakRequest<'_>, events: &mut Vec<Event>) -> bool {
        let BreakRequest { now, operation, by, limits } = *break_request;
        let Some(held) = self.column() else { return false };
        if by.is_some_and(|by| by.has(self.holder, self.key)) && spares(operation, held) {
            return false;
        }
        let (to, is_awaited) = match break_action(operation, held) {
            // A break under way is of a lease that another client has opened against: a later request waits
            // until its holder has answered, as with Windows and Samba.
            BreakAction::Keep => {
                return operation == FileOperation::Open
                    && matches!(self.kind, Kind::Lease { .. })
                    && self.is_breaking();
            }
            BreakAction::Notify(to) => (to, false),
            BreakAction::AwaitAck(to) => (to, true),
        };
        match &mut self.breaking {
            Some(breaking) => {
                breaking.final_caching = breaking.final_caching.and(to);
                // The holder goes on reading what it was left, until it answers and is told again.
                is_awaited || breaking.to != breaking.final_caching
            }
            None => {
                self.send_break((now, Some(operation)), to, limits, events);
                is_awaited
            }
        }
    }

    /// Breaks all caching of the holder. No request waits for it.
    pub(crate) fn recall(&mut self, now: Instant, limits: &Limits, events: &mut Vec<Event>) {
        match &mut self.breaking {
            Some(breaking) => breaking.final_caching = Caching::NONE,
            None if self.caching.is_none() => {}
            None => self.send_break((now, Some(FileOperation::Open)), Caching::NONE, limits, events),
        }
    }

    /// Sends a break to the holder: for an operation, or for what is left of the break before.
    fn send_break(
        &mut self,
        (now, operation): (Instant, Option<FileOperation>),
        to: Caching,
        limits: &Limits,
        events: &mut Vec<Event>,
    ) {
        let from = self.caching;
        // Only a holder that may have something to write back or opens to close has anything to say.
        let acknowledge = from != Caching::R;
        if operation.is_some() {
            // What follows an answer is of the same break, as with Samba.
            self.next_epoch();
        }
        if acknowledge {
            self.breaking = Some(Breaking { to, final_caching: to, until: now + limits.acknowledge });
        } else {
            self.caching = to;
        }
        let (holder, home, epoch, names) =
            (self.holder, self.home, self.epoch, operation == Some(FileOperation::Names));
        events.push(Event::Break(Break { holder, home, from, to, epoch, acknowledge, names }));
    }

    /// Takes the acknowledgement of a break, with which the holder keeps `keeps`. Returns the caching that is
    /// left to it.
    pub(crate) fn acknowledge(
        &mut self,
        now: Instant,
        keeps: Caching,
        limits: &Limits,
        events: &mut Vec<Event>,
    ) -> Result<Caching, BadAcknowledgement> {
        let breaking = self.breaking.as_ref().ok_or(BadAcknowledgement::NotAsked)?;
        if !breaking.to.contains(keeps) {
            return Err(BadAcknowledgement::KeepsMore);
        }
        let final_caching = breaking.final_caching.and(keeps);
        self.breaking = None;
        self.caching = keeps;
        if final_caching != keeps {
            // A holder that has answered once gives back its opens before its reads, as with Windows and
            // Samba.
            let next = if keeps == Caching::RH { Caching::R } else { final_caching };
            self.send_break((now, None), next, limits, events);
            self.final_caching(final_caching);
        }
        Ok(keeps)
    }

    /// Sets the caching that a break leaves in the end.
    fn final_caching(&mut self, final_caching: Caching) {
        if let Some(breaking) = &mut self.breaking {
            breaking.final_caching = final_caching;
        }
    }

    /// Ends the break without an acknowledgement: no caching is left to the holder.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let is_over = self.until().is_some_and(|until| until <= now);
        if is_over {
            self.breaking = None;
            self.caching = Caching::NONE;
            self.next_epoch();
        }
        is_over
    }

    fn next_epoch(&mut self) {
        if matches!(self.kind, Kind::Lease { epoch: Some(_) }) {
            self.epoch = self.epoch.wrapping_add(1);
        }
    }
}
