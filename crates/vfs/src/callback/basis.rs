//! Dependencies of a look under a callback, for files and for symbolic links.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use coherence::{CallbackRef, InFlightReply};

use super::Confirmed;
use crate::attributes::Attributes;
use crate::cache::{CoherencePeer, WatchedDir};
use crate::object::{LookMark, Object};
use crate::volume::Volume;

/// The callback on an object, the mark from before the look, and the directory from which the caller's rights come.
pub(super) struct CallbackBasis {
    pub(super) volume: Volume,
    pub(super) mark: LookMark,
    pub(super) callback_ref: CallbackRef,
    /// Directory that the caller's rights rest on.
    pub(super) directory: Rc<WatchedDir>,
    pub(super) until: Instant,
}

impl CallbackBasis {
    /// Returns whether the look at this object is still what it was.
    pub(super) fn holds(&self, object: &Object, peer: &CoherencePeer) -> bool {
        peer.callbacks.is_valid(self.callback_ref, lane::time::now())
            && !object.is_busy()
            && object.version() == self.mark.version
            && self.directory.is_current()
    }

    /// Confirms the callback on this object
    /// ([`LookupWithCallback::confirm`](crate::LookupWithCallback::confirm)), which has these attributes.
    pub(super) fn confirm<'a>(
        &self,
        object: &Arc<Object>,
        attributes: &'a Attributes,
    ) -> Option<Confirmed<'a>> {
        let peer = self.volume.coherence_peer().ok()?;
        if !self.holds(object, peer) {
            self.volume.counters().replies_overtaken.increment();
            return None;
        }
        peer.callbacks.note_delivered(self.callback_ref);
        self.volume.cache().pin_watch(&self.directory, self.until);
        self.directory.keep_log(object);
        Some(Confirmed { version: self.mark.version, attributes, until: self.until })
    }

    /// Returns the callback's guard for an in-flight reply
    /// ([`LookupWithCallback::in_flight_reply`](crate::LookupWithCallback::in_flight_reply)).
    pub(super) fn in_flight_reply(&self) -> Option<InFlightReply> {
        let peer = self.volume.coherence_peer().ok()?;
        Some(peer.callbacks.in_flight_reply(self.callback_ref))
    }
}
