//! What a promised look stands on, whatever was looked at.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use super::{Confirmed, OnItsWay, Ticket};
use crate::attributes::Attributes;
use crate::cache::{Joined, WatchedDir};
use crate::object::{LookMark, Object};
use crate::volume::Volume;

/// The promise of an object and the mark from before it was looked at, and the directory that rights rest on.
pub(super) struct Standing {
    pub(super) volume: Volume,
    pub(super) mark: LookMark,
    pub(super) ticket: Ticket,
    /// What the caller's rights rest on.
    pub(super) directory: Rc<WatchedDir>,
    pub(super) until: Instant,
}

impl Standing {
    /// Whether the look at this object is still what it was.
    pub(super) fn holds(&self, object: &Object, joined: &Joined) -> bool {
        joined.promises.stands(self.ticket, lane::time::now())
            && !object.is_busy()
            && object.version() == self.mark.version
            && self.directory.is_current()
    }

    /// As [`Promised::confirm`](crate::Promised::confirm), of this object that has these attributes.
    pub(super) fn confirm<'a>(
        &self,
        object: &Arc<Object>,
        attributes: &'a Attributes,
    ) -> Option<Confirmed<'a>> {
        let joined = self.volume.joined_promises().ok()?;
        if !self.holds(object, joined) {
            self.volume.counters().replies_overtaken.increment();
            return None;
        }
        joined.promises.note_told(self.ticket);
        self.volume.cache().rely_on(&self.directory, self.until);
        self.directory.keep_log(object);
        Some(Confirmed { version: self.mark.version, attributes, until: self.until })
    }

    /// As [`Promised::on_its_way`](crate::Promised::on_its_way).
    pub(super) fn on_its_way(&self) -> Option<OnItsWay> {
        let joined = self.volume.joined_promises().ok()?;
        Some(joined.promises.on_its_way(self.ticket))
    }
}
