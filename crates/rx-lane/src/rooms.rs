//! Rooms of packets to come, in their owner's hands until they are filled.

use std::io::IoSliceMut;
use std::rc::Rc;

use rx::{WriteBatch, WriteError};

use crate::CallError;
use crate::state::{CallCell, Shared};

/// Payload rooms of consecutive packets, to be filled in place: by one vectored read of a file, for instance, which is
/// then the only copy. The first goes on where the last write ended, so no packet leaves half empty. They are their
/// owner's, also beyond the end of the call; meanwhile nothing else can be written. Dropped, they write nothing and go
/// back to the pool.
#[must_use = "rooms write nothing until they are committed"]
pub struct Rooms {
    shared: Rc<Shared>,
    cell: Rc<CallCell>,
    batch: Option<WriteBatch>,
}

impl Rooms {
    pub(super) fn new(shared: Rc<Shared>, cell: Rc<CallCell>, batch: WriteBatch) -> Self {
        Self { shared, cell, batch: Some(batch) }
    }

    /// The rooms in order; each is to be filled whole before the next.
    pub fn slices_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.batch.as_mut().into_iter().flat_map(WriteBatch::rooms)
    }

    /// The same for a vectored read.
    pub fn io_slices(&mut self) -> Vec<IoSliceMut<'_>> {
        self.slices_mut().map(IoSliceMut::new).collect()
    }

    /// Bytes of room.
    pub fn len(&self) -> usize {
        self.batch.as_ref().map_or(0, WriteBatch::len)
    }

    /// Whether there is no room; so where none was asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Packets that the rooms are of.
    pub fn packets(&self) -> usize {
        self.batch.as_ref().map_or(0, WriteBatch::packets)
    }

    /// Writes the first `filled` bytes of the rooms.
    ///
    /// # Errors
    /// How the call ended in the meantime.
    pub fn commit(mut self, filled: usize) -> Result<(), CallError> {
        self.give_back(filled)
    }

    fn give_back(&mut self, filled: usize) -> Result<(), CallError> {
        let Some(batch) = self.batch.take() else { return Ok(()) };
        let mut state = self.shared.state.borrow_mut();
        let endpoint = &mut state.endpoint;
        let Some(mut call) = endpoint.call(self.shared.now.get(), self.cell.handle) else {
            endpoint.discard_batch(batch);
            drop(state);
            return Err(self.cell.error());
        };
        let outcome = call.commit_batch(batch, filled);
        drop(state);
        self.shared.kick();
        outcome.map_err(|error| match error {
            WriteError::Security(code) => CallError::Aborted(code),
            WriteError::Blocked | WriteError::Finished | WriteError::Lent => CallError::Ended,
        })
    }
}

impl Drop for Rooms {
    fn drop(&mut self) {
        // Whoever drops them has no use for how the call ended.
        let _ = self.give_back(0);
    }
}

impl std::fmt::Debug for Rooms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rooms").field("packets", &self.packets()).field("len", &self.len()).finish()
    }
}
