//! Payload buffers of packets to come, lent to the sender of a call until they are filled.

use std::cell::{Cell, RefCell};
use std::io::IoSliceMut;
use std::rc::Rc;

use lane::buffer::{Buf, Lender};
use rx::{WriteBatch, WriteError};

use crate::CallError;
use crate::state::{CallCell, DriverShared};

/// Payload rooms of consecutive packets, to be filled in place: by one vectored read of a file, for instance, which is
/// then the only copy. The first goes on where the last write ended, so no packet leaves half empty. They are their
/// owner's, also beyond the end of the call; meanwhile nothing else can be written. Dropped, they write nothing and go
/// back to the pool.
#[must_use = "rooms write nothing until they are committed"]
pub struct PacketBuffers {
    shared: Rc<DriverShared>,
    cell: Rc<CallCell>,
    batch: Option<WriteBatch>,
    /// Lent buffers, which take the batch's place until they are back.
    lending: Option<Rc<Lending>>,
    len: usize,
    packets: usize,
}

/// Payload rooms whose buffers are lent on.
struct Lending {
    shared: Rc<DriverShared>,
    cell: Rc<CallCell>,
    batch: RefCell<Option<WriteBatch>>,
    /// Number of lent buffers that are not back.
    out: Cell<usize>,
    /// True when no task waits for the buffers any more.
    given_up: Cell<bool>,
}

impl PacketBuffers {
    pub(super) fn new(shared: Rc<DriverShared>, cell: Rc<CallCell>, batch: WriteBatch) -> Self {
        let (len, packets) = (batch.len(), batch.packets());
        Self { shared, cell, batch: Some(batch), lending: None, len, packets }
    }

    /// Lends the rooms as buffers for an operation of the ring:
    /// `file.read_vectored_at(offset, len, packet_buffers.bufs())`. They are to be dropped before
    /// [`commit`](Self::commit); the buffers of an operation that was given up come back with its end.
    pub fn bufs(&mut self) -> Vec<Buf> {
        self.reclaim();
        let Some(mut batch) = self.batch.take() else { return Vec::new() };
        let buffers = batch.take_buffers();
        let lending = Rc::new(Lending {
            shared: Rc::clone(&self.shared),
            cell: Rc::clone(&self.cell),
            batch: RefCell::new(Some(batch)),
            out: Cell::new(buffers.len()),
            given_up: Cell::new(false),
        });
        self.lending = Some(Rc::clone(&lending));
        let lend = |(key, (bytes, part))| Buf::lent(bytes, part, 0, key, Rc::clone(&lending) as _);
        buffers.into_iter().enumerate().map(lend).collect()
    }

    /// Takes the batch back once all of its buffers are dropped.
    fn reclaim(&mut self) {
        if let Some(lending) = self.lending.take_if(|lending| lending.out.get() == 0) {
            self.batch = lending.batch.take();
        }
    }

    /// Returns the rooms in order; each is to be filled whole before the next.
    pub fn slices_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.reclaim();
        self.batch.as_mut().into_iter().flat_map(WriteBatch::payloads)
    }

    /// Returns the rooms for a vectored read.
    pub fn io_slices(&mut self) -> Vec<IoSliceMut<'_>> {
        self.slices_mut().map(IoSliceMut::new).collect()
    }

    /// Returns the bytes of all rooms.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no room, as when none was asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of packets that the rooms are part of.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Writes the first `filled` bytes of the rooms.
    ///
    /// # Errors
    /// How the call ended in the meantime; [`CallError::Lent`] when some of [`bufs`](Self::bufs) are not back: nothing is
    /// written then.
    pub fn commit(mut self, filled: usize) -> Result<(), CallError> {
        self.give_back(filled)
    }

    fn give_back(&mut self, filled: usize) -> Result<(), CallError> {
        self.reclaim();
        if let Some(lending) = self.lending.take() {
            lending.given_up.set(true);
            return Err(CallError::Lent);
        }
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

impl Lender for Lending {
    fn take_back(&self, key: usize, bytes: Box<[u8]>) {
        if let Some(batch) = self.batch.borrow_mut().as_mut() {
            batch.put_buffer(key, bytes);
        }
        self.out.set(self.out.get() - 1);
        if self.out.get() == 0 && self.given_up.get() {
            let batch = self.batch.take();
            drop(
                batch.map(|batch| PacketBuffers::new(Rc::clone(&self.shared), Rc::clone(&self.cell), batch)),
            );
        }
    }
}

impl Drop for PacketBuffers {
    fn drop(&mut self) {
        // A task that drops them has no use for how the call ended.
        let _ = self.give_back(0);
    }
}

impl std::fmt::Debug for PacketBuffers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketBuffers").field("packets", &self.packets()).field("len", &self.len()).finish()
    }
}
