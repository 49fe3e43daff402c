//! Change locks of several objects at once. They are taken in the order of identity, so changes never wait in a
//! circle.

use std::sync::Arc;

use super::change_lock::{ChangeLockGuard, LockWait};
use super::{GatePass, LockQueueFull, LockSharer, LockedObject, SharedChangeLock};

/// Change locks of some objects, released when this is dropped. While they are held only lanes are waited for.
pub struct ChangeLockSet<O: LockedObject> {
    guards: Vec<ChangeLockGuard<O>>,
    /// Pass of the volume's gate, for a change; dropped last.
    pass: Option<GatePass<O::Volume>>,
}

impl<O: LockedObject> ChangeLockSet<O> {
    /// Waits for the change locks of all `objects`, each in its queue. Dropped while it waits,
    /// it leaves all queues.
    ///
    /// # Errors
    /// [`LockQueueFull`] where `waiting_max` wait for one of them already.
    pub async fn take(mut objects: Vec<Arc<O>>, waiting_max: usize) -> Result<Self, LockQueueFull> {
        objects.sort_unstable_by(|a, b| a.identity().cmp(b.identity()));
        objects.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let mut guards = Vec::with_capacity(objects.len() + 2);
        for object in objects {
            let guard = match ChangeLockGuard::try_take(&object) {
                Some(guard) => guard,
                None => LockWait::join(object, waiting_max)?.await,
            };
            guards.push(guard);
        }
        Ok(Self { guards, pass: None })
    }

    /// Returns the set, inside the gate of the volume.
    pub fn inside(self, pass: GatePass<O::Volume>) -> Self {
        Self { pass: Some(pass), ..self }
    }

    /// Adds the locks of more objects if they are free, out of order, therefore without waiting. Returns `false` if
    /// one is not; those taken by then stay.
    pub fn try_add<'a>(&mut self, objects: impl IntoIterator<Item = &'a Arc<O>>) -> bool {
        objects.into_iter().all(|object| {
            if self.has(object) {
                return true;
            }
            let guard = ChangeLockGuard::try_take(object);
            guard.map(|guard| self.guards.push(guard)).is_some()
        })
    }

    /// Shares the lock of the one object with further writes of the same.
    ///
    /// # Panics
    /// When the set is empty.
    pub fn share(mut self, sharer: LockSharer) -> SharedChangeLock<O> {
        let guard = self.guards.pop().expect("there is one");
        debug_assert!(self.guards.is_empty(), "one file is written");
        guard.share(sharer, self.pass)
    }

    /// Returns whether one of them is for `object`.
    pub fn has(&self, object: &Arc<O>) -> bool {
        self.guards.iter().any(|guard| Arc::ptr_eq(guard.object(), object))
    }
}

impl<O: LockedObject + std::fmt::Debug> std::fmt::Debug for ChangeLockSet<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.guards.iter().map(ChangeLockGuard::object)).finish()
    }
}

#[cfg(test)]
mod tests;
