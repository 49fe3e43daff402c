//! Callbacks of a lane that has ended: no lane can break them one by one, so changes wait until their clients know
//! that all are void.

use std::sync::Arc;

use lane::mesh::Member;

use super::{CachedObject, CachedVolume, Client, InvalidationQueues};

/// The clients, objects and volumes of the callbacks of a lane that has ended.
pub struct EndedLane<O: CachedObject> {
    /// Clients that hold the callbacks.
    pub clients: Vec<Arc<Client<O>>>,
    /// Objects that the callbacks are on.
    pub(crate) objects: Vec<Arc<O>>,
    pub(crate) volumes: Vec<Arc<O::Volume>>,
}

/// Keeps the presence bits of a lane that has ended, and the changes that wait for it, until its clients know that
/// their callbacks are void.
pub struct OrphanedCallbacks<O: CachedObject> {
    queues: Arc<InvalidationQueues<O>>,
    lane: Member,
    ended: EndedLane<O>,
}

impl<O: CachedObject> EndedLane<O> {
    /// Keeps the presence bits of the lane set until the result is dropped.
    pub fn orphaned_callbacks(
        &self,
        queues: &Arc<InvalidationQueues<O>>,
        lane: Member,
    ) -> Arc<OrphanedCallbacks<O>> {
        let ended =
            Self { clients: Vec::new(), objects: self.objects.clone(), volumes: self.volumes.clone() };
        Arc::new(OrphanedCallbacks { queues: Arc::clone(queues), lane, ended })
    }

    /// Clears the lane's presence bits: no client holds a callback of it any more.
    pub fn clear_presence(&self, lane: Member) {
        self.objects.iter().for_each(|object| object.callback_lanes().clear(lane));
        self.volumes.iter().for_each(|volume| volume.callback_lanes().clear(lane));
    }
}

impl<O: CachedObject> Drop for OrphanedCallbacks<O> {
    fn drop(&mut self) {
        // A lane of the same number that has begun since shares some of them, it is not known which. A bit too
        // many costs an invalidation.
        if self.queues.end_orphaned(self.lane) {
            self.ended.clear_presence(self.lane);
        }
    }
}
