//! The right to change several objects at once. Everybody takes them in the order of identity, so nobody waits in a circle.

use std::sync::Arc;

use super::line::{InLine, Shared, Sharer, Turn};
use super::{Object, Pass, in_order};
use crate::error::Error;

/// Permits of some objects, given back when this is dropped. While they are held only lanes are waited for.
pub(crate) struct Permits {
    turns: Vec<Turn>,
    /// Through the volume's gate, for who changes something; given back last.
    pass: Option<Pass>,
}

impl Permits {
    /// Waits for the permits of all `objects`, each in [line](super::line). Dropped while it waits, it leaves all lines.
    ///
    /// # Errors
    /// [`Error::Busy`] where `waiting_max` wait for one of them already.
    pub(crate) async fn take(mut objects: Vec<Arc<Object>>, waiting_max: usize) -> Result<Self, Error> {
        in_order(&mut objects);
        let mut turns = Vec::with_capacity(objects.len() + 2);
        for object in objects {
            let turn = match Turn::try_take(&object) {
                Some(turn) => turn,
                None => InLine::join(object, waiting_max).map_err(|_| Error::Busy)?.await,
            };
            turns.push(turn);
        }
        Ok(Self { turns, pass: None })
    }

    /// The same, inside the gate of the volume.
    pub(crate) fn inside(self, pass: Pass) -> Self {
        Self { pass: Some(pass), ..self }
    }

    /// Adds the permits of more objects if they are free, out of order, therefore without waiting. `false` if one is
    /// not; those taken by then stay.
    pub(crate) fn try_add<'a>(&mut self, objects: impl IntoIterator<Item = &'a Arc<Object>>) -> bool {
        objects.into_iter().all(|object| {
            if self.has(object) {
                return true;
            }
            let turn = Turn::try_take(object);
            turn.map(|turn| self.turns.push(turn)).is_some()
        })
    }

    /// Of one object: shared with further writes of the same.
    pub(crate) fn share(mut self, sharer: Sharer) -> Shared {
        let turn = self.turns.pop().expect("there is one");
        debug_assert!(self.turns.is_empty(), "one file is written");
        turn.share(sharer, self.pass)
    }

    /// Whether one of them is for `object`.
    pub(crate) fn has(&self, object: &Arc<Object>) -> bool {
        self.turns.iter().any(|turn| Arc::ptr_eq(turn.object(), object))
    }
}

impl std::fmt::Debug for Permits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.turns.iter().map(Turn::object)).finish()
    }
}

#[cfg(test)]
mod tests;
