//! One stream of a file: its opens, what their clients cache of it, its locked ranges.

use std::time::Instant;

use budget::Consumer;

use crate::caching::Caching;
use crate::conflict::shares;
use crate::event::Event;
use crate::grant::Beside;
use crate::holding::{Holding, Question};
use crate::object::Want;
use crate::range::Ranges;
use crate::share::{Access, Looks, Share};
use crate::{Holder, OpenId};

/// A file's own data, a named stream, or a directory.
#[derive(Debug)]
pub(crate) struct Stream<L> {
    /// Empty for a file's own data.
    pub(crate) name: Box<[u8]>,
    pub(crate) opens: Vec<Open<L>>,
    pub(crate) holdings: Vec<Holding>,
    pub(crate) ranges: Ranges,
    /// A named stream goes with its last open.
    pub(crate) deletes: bool,
}

#[derive(Debug)]
pub(crate) struct Open<L> {
    pub(crate) id: OpenId,
    pub(crate) consumer: Consumer,
    /// By whose lease or oplock he is spared.
    pub(crate) holder: Option<Holder>,
    pub(crate) access: Access,
    pub(crate) share: Share,
    pub(crate) looks: Looks,
    pub(crate) deletes_on_close: bool,
    /// The name by which it was opened.
    pub(crate) link: L,
    /// The key that it has named as that of its directory's lease.
    pub(crate) parent: Option<[u8; 16]>,
}

impl<L> Open<L> {
    /// Whether it reads or writes, or lets nobody delete.
    pub(crate) fn uses(&self) -> bool {
        self.access.overlaps(Access::READ | Access::WRITE) || !self.share.allows(Access::DELETE)
    }
}

impl<L> Stream<L> {
    pub(crate) fn new(name: &[u8]) -> Self {
        Self {
            name: name.into(),
            opens: Vec::new(),
            holdings: Vec::new(),
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

    pub(crate) fn holding(&mut self, holder: Holder) -> Option<&mut Holding> {
        self.holdings.iter_mut().find(|holding| holding.holder == holder)
    }

    /// Whether all opens bear one more like this.
    pub(crate) fn shares_with(&self, access: Access, share: Share) -> bool {
        self.opens.iter().all(|open| shares((open.access, open.share), (access, share)))
    }

    /// Whether its opens bear that the file is deleted.
    pub(crate) fn shares_deletion(&self) -> bool {
        self.opens.iter().all(|open| open.access.is_none() || open.share.allows(Access::DELETE))
    }

    /// Whether the holder has it open.
    pub(crate) fn is_opened_by(&self, holder: Holder) -> bool {
        self.opens.iter().any(|open| open.holder == Some(holder) || OpenId(holder.0) == open.id)
    }

    /// Asks all who hold something. Gives when the first of those has to have answered who are waited for.
    pub(crate) fn ask(&mut self, question: &Question<'_>, events: &mut Vec<Event>) -> Option<Instant> {
        let asked = self.holdings.iter_mut().filter_map(|holding| {
            let is_awaited = holding.ask(question, events);
            is_awaited.then(|| holding.until()).flatten()
        });
        asked.min()
    }

    /// What stands beside a wish to cache.
    pub(crate) fn beside(&self, want: &Want, open: OpenId) -> Beside {
        let holder = want.holder;
        let mut beside = Beside { ranges: self.ranges.any(), ..Default::default() };
        let others = self.opens.iter().filter(|other| other.id != open && other.holder != Some(holder));
        beside.opens = others.into_iter().any(|other| other.looks != Looks::AtAttributes);
        for other in self.holdings.iter().filter(|other| other.holder != holder) {
            let relied_on = other.relied_on();
            beside.readers |= relied_on.contains(Caching::R);
            beside.writer |= relied_on.contains(Caching::W);
            beside.handles |= relied_on.contains(Caching::H);
            beside.oplocks |= other.kind.is_oplock() && !relied_on.is_none();
        }
        beside
    }

    /// Holders whose time is over lose what they had. Says whether there were any.
    pub(crate) fn expire(&mut self, now: Instant, events: &mut Vec<Event>) -> bool {
        let mut any = false;
        for holding in &mut self.holdings {
            if holding.expire(now) {
                events.push(Event::Expired(holding.holder));
                any = true;
            }
        }
        any
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.holdings.iter().filter_map(Holding::until).chain(self.ranges.next_timeout()).min()
    }
}
