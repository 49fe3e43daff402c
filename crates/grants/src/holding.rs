//! One lease or oplock: what its holder may keep, and what he is just giving back.

use std::time::Instant;

use crate::caching::{Caching, Held, Kind};
use crate::conflict::{Answer, Asks, answer, spares};
use crate::event::{Break, Event};
use crate::limits::Limits;
use crate::object::{Opened, Want};
use crate::{By, Holder, Home};

/// Somebody asks something of who holds something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) now: Instant,
    pub(crate) asks: Asks,
    /// Who, if he holds something himself.
    pub(crate) by: Option<By>,
    pub(crate) limits: &'a Limits,
}

impl By {
    /// Whether it is he who holds this, or would.
    pub(crate) fn has(self, holder: Holder, key: Option<[u8; 16]>) -> bool {
        match self {
            Self::Holder(by) => by == holder,
            Self::ParentKey(by) => key == Some(by),
        }
    }
}

/// A lease, with all opens of its key, or the oplock of one open.
#[derive(Debug)]
pub(crate) struct Holding {
    pub(crate) holder: Holder,
    pub(crate) home: Home,
    pub(crate) kind: Kind,
    /// That of a lease.
    key: Option<[u8; 16]>,
    /// What he may keep, or has not said yet to have given back.
    pub(crate) caching: Caching,
    epoch: u16,
    breaking: Option<Breaking>,
}

#[derive(Debug)]
struct Breaking {
    /// What he has been told.
    to: Caching,
    /// What it has come to since: he is told when he has answered.
    finally: Caching,
    until: Instant,
}

/// What a holder says does not fit what he was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAcknowledgement {
    /// Nobody by that number holds anything here.
    #[error("nobody holds it")]
    NoHolder,
    /// He was not asked (STATUS_UNSUCCESSFUL; oplocks: STATUS_INVALID_OPLOCK_PROTOCOL).
    #[error("nothing was asked for")]
    NotAsked,
    /// He keeps more than is left to him (STATUS_REQUEST_NOT_ACCEPTED).
    #[error("more is kept than was left")]
    KeepsMore,
}

impl Holding {
    pub(crate) fn new(want: &Want) -> Self {
        let Want { holder, kind, home, key, .. } = *want;
        let epoch = match kind {
            Kind::Lease { epoch: Some(epoch) } => epoch,
            _ => 0,
        };
        Self { holder, home, kind, key, caching: Caching::NONE, epoch, breaking: None }
    }

    /// One that he had before the server began anew, with its last epoch.
    pub(crate) fn restored(want: &Want) -> Self {
        Self { caching: want.caching, ..Self::new(want) }
    }

    /// What an open with its key is told.
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

    /// When he has to have answered.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.breaking.as_ref().map(|breaking| breaking.until)
    }

    pub(crate) fn column(&self) -> Option<Held> {
        Held::of(self.kind, self.caching)
    }

    /// What he relies on from now on: what he has been told to drop without being waited for is gone.
    pub(crate) fn relied_on(&self) -> Caching {
        match &self.breaking {
            // Until the answer comes he may still write back.
            Some(_) if self.caching.contains(Caching::W) => self.caching,
            Some(breaking) => self.caching.and(breaking.to),
            None => self.caching,
        }
    }

    /// More than there was, or the first.
    pub(crate) fn give(&mut self, caching: Caching) {
        debug_assert!(caching.contains(self.caching) && self.breaking.is_none());
        if caching != self.caching {
            self.caching = caching;
            self.next_epoch();
        }
    }

    /// Somebody asks. Says whether he has to wait for this holder.
    pub(crate) fn ask(&mut self, question: &Question<'_>, events: &mut Vec<Event>) -> bool {
        let Question { now, asks, by, limits } = *question;
        let Some(held) = self.column() else { return false };
        if by.is_some_and(|by| by.has(self.holder, self.key)) && spares(asks, held) {
            return false;
        }
        let (to, is_awaited) = match answer(asks, held) {
            // A break under way is of a lease that somebody else has opened against: who comes later waits until its holder has answered,
            // as with Windows and Samba.
            Answer::Keeps => {
                return asks == Asks::Open && matches!(self.kind, Kind::Lease { .. }) && self.is_breaking();
            }
            Answer::Told(to) => (to, false),
            Answer::Awaited(to) => (to, true),
        };
        match &mut self.breaking {
            Some(breaking) => {
                breaking.finally = breaking.finally.and(to);
                // He goes on reading what he was left, until he answers and is told again.
                is_awaited || breaking.to != breaking.finally
            }
            None => {
                self.tell((now, Some(asks)), to, limits, events);
                is_awaited
            }
        }
    }

    /// He gives back all that he has. Nobody waits for him.
    pub(crate) fn recall(&mut self, now: Instant, limits: &Limits, events: &mut Vec<Event>) {
        match &mut self.breaking {
            Some(breaking) => breaking.finally = Caching::NONE,
            None if self.caching.is_none() => {}
            None => self.tell((now, Some(Asks::Open)), Caching::NONE, limits, events),
        }
    }

    /// Tells the holder what is left to him, as somebody asks, or as it has come to since he was told before.
    fn tell(
        &mut self,
        (now, asks): (Instant, Option<Asks>),
        to: Caching,
        limits: &Limits,
        events: &mut Vec<Event>,
    ) {
        let from = self.caching;
        // Only who may have something to write back or opens to close has anything to say.
        let acknowledge = from != Caching::R;
        if asks.is_some() {
            // What follows an answer is of the same break, as with Samba.
            self.next_epoch();
        }
        if acknowledge {
            self.breaking = Some(Breaking { to, finally: to, until: now + limits.acknowledge });
        } else {
            self.caching = to;
        }
        let (holder, home, epoch, names) = (self.holder, self.home, self.epoch, asks == Some(Asks::Names));
        events.push(Event::Break(Break { holder, home, from, to, epoch, acknowledge, names }));
    }

    /// The holder says what he keeps. Says what is left to him.
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
        let finally = breaking.finally.and(keeps);
        self.breaking = None;
        self.caching = keeps;
        if finally != keeps {
            // Who has answered once gives back his opens before his reads, as with Windows and Samba.
            let next = if keeps == Caching::RH { Caching::R } else { finally };
            self.tell((now, None), next, limits, events);
            self.finally(finally);
        }
        Ok(keeps)
    }

    /// What a break comes to after the answer.
    fn finally(&mut self, finally: Caching) {
        if let Some(breaking) = &mut self.breaking {
            breaking.finally = finally;
        }
    }

    /// His time is over: nothing is left to him.
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
