//! Callbacks of a lane that has ended: no lane can break them one by one, so changes wait until their clients know
//! that all are void.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lane::mesh::Member;

use super::{Ack, CachedObject, CachedVolume, Client, InvalidationQueues};

/// The clients, objects and volumes of the callbacks of a lane that has ended.
pub struct EndedLane<O: CachedObject> {
    /// Clients that hold the callbacks.
    pub(crate) clients: Vec<Arc<Client<O>>>,
    /// Objects that the callbacks are on.
    pub(crate) objects: Vec<Arc<O>>,
    pub(crate) volumes: Vec<Arc<O::Volume>>,
}

/// Keeps the presence bits of a lane that has ended, and the changes that wait for it, until its clients know that
/// their callbacks are void.
struct OrphanedCallbacks<O: CachedObject> {
    queues: Arc<InvalidationQueues<O>>,
    lane: Member,
    ended: EndedLane<O>,
}

impl<O: CachedObject> EndedLane<O> {
    /// Closes the queue of the lane and voids all callbacks of its clients, on all lanes. Until the clients were
    /// notified, changes wait for the lane as if it were there. No callback lasts longer than `longest`; `now` is
    /// asked for the time only where there are clients.
    pub fn end(
        self,
        queues: &Arc<InvalidationQueues<O>>,
        lane: Member,
        longest: Duration,
        now: impl FnOnce() -> Instant,
    ) {
        let left = if self.clients.is_empty() {
            self.clear_presence(lane);
            queues.close(lane)
        } else {
            queues.close_orphaned(lane)
        };
        self.void_clients(queues, lane, longest, now);
        for client in left {
            queues.notify_next(lane, &client, client.hand_back());
        }
    }

    fn void_clients(
        mut self,
        queues: &Arc<InvalidationQueues<O>>,
        lane: Member,
        longest: Duration,
        now: impl FnOnce() -> Instant,
    ) {
        let clients = std::mem::take(&mut self.clients);
        if clients.is_empty() {
            return;
        }
        let now = now();
        let orphaned = Arc::new(OrphanedCallbacks { queues: Arc::clone(queues), lane, ended: self });
        for client in clients {
            // What other lanes have told the client comes first: else it would keep that under a void callback.
            client.hold_all();
            let next = client.post_all(now + longest, Ack::orphaned(Arc::clone(&orphaned) as _), now);
            queues.notify_next(lane, &client, next);
            queues.release_after_replies(lane, &client);
            client.defer_breaks();
        }
    }

    /// Clears the lane's presence bits: no client holds a callback of it any more.
    fn clear_presence(&self, lane: Member) {
        self.objects.iter().for_each(|object| object.callback_lanes().clear(lane));
        self.volumes.iter().for_each(|volume| volume.callback_lanes().clear(lane));
    }
}

impl<O: CachedObject> Drop for OrphanedCallbacks<O> {
    fn drop(&mut self) {
        // A lane of the same number that has begun since shares some of them, it is not known which. A bit too
        // many costs an invalidation.
        self.queues.end_orphaned(self.lane, || self.ended.clear_presence(self.lane));
    }
}
