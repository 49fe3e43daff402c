//! What is left of a lane that has ended: promises that nobody can break any more, until their clients have heard that all is void.

use std::sync::Arc;

use lane::mesh::Member;

use super::Client;
use crate::object::{Object, Objects, SharedVolume};

/// The promises of a lane that has ended.
pub(crate) struct EndedLane {
    /// Who relied on them.
    pub(crate) clients: Vec<Arc<Client>>,
    /// What they were of.
    pub(super) objects: Vec<Arc<Object>>,
    pub(super) volumes: Vec<Arc<SharedVolume>>,
}

/// Keeps the bits of a lane that has ended, and changes waiting that it is asked about, until it is dropped.
pub(crate) struct OrphanedCallbacks {
    table: Objects,
    lane: Member,
    ended: EndedLane,
}

impl EndedLane {
    pub(crate) fn into_orphaned(&self, table: &Objects, lane: Member) -> Arc<OrphanedCallbacks> {
        let ended =
            Self { clients: Vec::new(), objects: self.objects.clone(), volumes: self.volumes.clone() };
        Arc::new(OrphanedCallbacks { table: table.clone(), lane, ended })
    }

    /// Nobody relies on the lane any more.
    pub(crate) fn clear_presence(&self, lane: Member) {
        self.objects.iter().for_each(|object| object.callback_lanes().clear(lane));
        self.volumes.iter().for_each(|volume| volume.callback_lanes().clear(lane));
    }
}

impl Drop for OrphanedCallbacks {
    fn drop(&mut self) {
        // A lane of the same number that has begun since relies on some of them, nobody knows which: a bit too many costs a question.
        if self.table.queues().end_orphaned(self.lane) {
            self.ended.clear_presence(self.lane);
        }
    }
}
