//! Callbacks of a lane that has ended: no lane can break them one by one, so changes wait until their clients know
//! that all are void.

use std::sync::Arc;

use lane::mesh::Member;

use super::Client;
use crate::object::{Object, Objects, SharedVolume};

/// The clients, objects and volumes of the callbacks of a lane that has ended.
pub(crate) struct EndedLane {
    /// Clients that relied on the callbacks.
    pub(crate) clients: Vec<Arc<Client>>,
    /// Objects that the callbacks were on.
    pub(super) objects: Vec<Arc<Object>>,
    pub(super) volumes: Vec<Arc<SharedVolume>>,
}

/// Keeps the presence bits of a lane that has ended, and the changes that wait for it, until its clients know that
/// their callbacks are void.
pub(crate) struct OrphanedCallbacks {
    table: Objects,
    lane: Member,
    ended: EndedLane,
}

impl EndedLane {
    /// Keeps the presence bits of the lane set until the result is dropped.
    pub(crate) fn orphaned_callbacks(&self, table: &Objects, lane: Member) -> Arc<OrphanedCallbacks> {
        let ended =
            Self { clients: Vec::new(), objects: self.objects.clone(), volumes: self.volumes.clone() };
        Arc::new(OrphanedCallbacks { table: table.clone(), lane, ended })
    }

    /// Clears the lane's presence bits: no client holds a callback of it any more.
    pub(crate) fn clear_presence(&self, lane: Member) {
        self.objects.iter().for_each(|object| object.callback_lanes().clear(lane));
        self.volumes.iter().for_each(|volume| volume.callback_lanes().clear(lane));
    }
}

impl Drop for OrphanedCallbacks {
    fn drop(&mut self) {
        // A lane of the same number that has begun since relies on some of them, it is not known which: a bit
        // too many costs a question.
        if self.table.queues().end_orphaned(self.lane) {
            self.ended.clear_presence(self.lane);
        }
    }
}
