//! The gate of a volume: when nothing may be changed in it, and why.

use std::sync::Arc;

use coherence::{Closed, GateRefusal};
use lane::mesh::Member;

use super::{GatePass, GatePause, SharedVolume};

impl SharedVolume {
    /// Lets no more changes in; each is refused with this reason. Those that are inside go on:
    /// [`SharedVolume::emptied`].
    pub fn close(&self, why: Closed) {
        self.gate.set_closed(Some(why));
    }

    /// Lets changes in again, unless [nothing may be changed](crate::Objects::freeze) anywhere.
    pub fn reopen(&self) {
        self.gate.set_closed(self.objects().is_frozen().then_some(Closed::Frozen));
    }

    /// Returns why it is closed, if it is.
    pub fn closed(&self) -> Option<Closed> {
        self.gate.closed()
    }

    /// Waits as long as nothing may be changed anywhere and this is closed for no other reason.
    pub(crate) async fn thawed(&self) {
        self.gate.when(|| !self.is_held_back()).await;
    }

    /// Returns whether it is closed because nothing may be changed anywhere.
    pub(crate) fn is_held_back(&self) -> bool {
        self.closed() == Some(Closed::Frozen) && self.objects().is_frozen()
    }

    /// Waits until every change that was inside when the gate was closed has ended, or it is open again. On any thread.
    pub async fn emptied(&self) {
        self.gate.when(|| self.gate.is_empty() || self.gate.closed().is_none()).await;
    }

    /// Returns whether no change is under way.
    pub fn is_still(&self) -> bool {
        self.gate.is_empty()
    }

    /// Has changes wait before the gate; `None` where they do already.
    pub(crate) fn pause(self: &Arc<Self>) -> Option<GatePause> {
        GatePause::begin(self)
    }

    /// Lets a change of this lane in.
    ///
    /// # Errors
    /// Why it is not let in.
    pub(crate) fn pass(self: &Arc<Self>, lane: Member) -> Result<GatePass, GateRefusal> {
        GatePass::enter(self, lane)
    }
}
