//! Change locks of several objects at once. They are taken in the order of identity, so changes never wait in a
//! circle.

use std::sync::Arc;

use super::change_lock::{ChangeLockGuard, LockSharer, LockWait, SharedChangeLock};
use super::{GatePass, Object, in_order};
use crate::error::Error;

/// Change locks of some objects, released when this is dropped. While they are held only lanes are waited for.
pub(crate) struct ChangeLockSet {
    guards: Vec<ChangeLockGuard>,
    /// Through the volume's gate, for a change; given back last.
    pass: Option<GatePass>,
}

impl ChangeLockSet {
    /// Waits for the change locks of all `objects`, each in its [queue](super::change_lock). Dropped while it waits,
    /// it leaves all queues.
    ///
    /// # Errors
    /// [`Error::Busy`] where `waiting_max` wait for one of them already.
    pub(crate) async fn take(mut objects: Vec<Arc<Object>>, waiting_max: usize) -> Result<Self, Error> {
        in_order(&mut objects);
        let mut guards = Vec::with_capacity(objects.len() + 2);
        for object in objects {
            let guard = match ChangeLockGuard::try_take(&object) {
                Some(guard) => guard,
                None => LockWait::join(object, waiting_max).map_err(|_| Error::Busy)?.await,
            };
            guards.push(guard);
        }
        Ok(Self { guards, pass: None })
    }

    /// Returns the set, inside the gate of the volume.
    pub(crate) fn inside(self, pass: GatePass) -> Self {
        Self { pass: Some(pass), ..self }
    }

    /// Adds the permits of more objects if they are free, out of order, therefore without waiting. `false` if one is
    /// not; those taken by then stay.
    pub(crate) fn try_add<'a>(&mut self, objects: impl IntoIterator<Item = &'a Arc<Object>>) -> bool {
        objects.into_iter().all(|object| {
            if self.has(object) {
                return true;
            }
            let guard = ChangeLockGuard::try_take(object);
            guard.map(|guard| self.guards.push(guard)).is_some()
        })
    }

    /// Of one object: shared with further writes of the same.
    pub(crate) fn share(mut self, sharer: LockSharer) -> SharedChangeLock {
        let guard = self.guards.pop().expect("there is one");
        debug_assert!(self.guards.is_empty(), "one file is written");
        guard.share(sharer, self.pass)
    }

    /// Returns whether one of them is for `object`.
    pub(crate) fn has(&self, object: &Arc<Object>) -> bool {
        self.guards.iter().any(|guard| Arc::ptr_eq(guard.object(), object))
    }
}

impl std::fmt::Debug for ChangeLockSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.guards.iter().map(ChangeLockGuard::object)).finish()
    }
}

#[cfg(test)]
mod tests;
