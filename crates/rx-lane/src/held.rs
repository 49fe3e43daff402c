//! Received bytes in their packets, held by a reader.

use std::cell::{Cell, RefCell};
use std::io::IoSlice;
use std::ops::Range;
use std::rc::Rc;

use lane::buffer::{Buf, Lender};
use rx::{CallHandle, ReadBatch};

use crate::state::DriverShared;

/// Received bytes that their reader holds across any number of `await`s, to be written to a file by one
/// vectored write without a copy. Their places in the call's window stay taken until this is dropped: a slow
/// disk is a closed window to the peer, and a call never holds more than its window.
#[must_use = "what is dropped is not written anywhere"]
pub struct Held {
    shared: Rc<DriverShared>,
    call: CallHandle,
    batch: ReadBatch,
}

impl Held {
    pub(super) fn new(shared: Rc<DriverShared>, call: CallHandle, batch: ReadBatch) -> Self {
        Self { shared, call, batch }
    }

    /// Returns the bytes in order, in as many pieces as packets.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.batch.slices()
    }

    /// Returns the bytes from `from` on, for a vectored write; at most 1,001 pieces.
    pub fn io_slices(&self, from: usize) -> Vec<IoSlice<'_>> {
        let mut skip = from;
        let rest = self.slices().map(|slice| {
            let (_, rest) = slice.split_at(skip.min(slice.len()));
            skip -= slice.len() - rest.len();
            rest
        });
        rest.filter(|slice| !slice.is_empty()).map(IoSlice::new).collect()
    }

    /// Converts to the packets' buffers, for an operation of the ring:
    /// `file.write_vectored_at(offset, held.into_bufs())`. Once all are dropped, also by an operation that
    /// was given up, the window moves on.
    pub fn into_bufs(mut self) -> Vec<Buf> {
        let mut batch = std::mem::take(&mut self.batch);
        let buffers = batch.take_buffers();
        let lending = Lending {
            shared: Rc::clone(&self.shared),
            call: self.call,
            batch: RefCell::new(batch),
            out: Cell::new(buffers.len()),
        };
        let lender: Rc<dyn Lender> = Rc::new(lending);
        let lend = |(key, (bytes, part)): (usize, (Box<[u8]>, Range<usize>))| {
            let len = part.len();
            Buf::lent(bytes, part, len, key, Rc::clone(&lender))
        };
        buffers.into_iter().enumerate().map(lend).collect()
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Returns whether no byte is held, as at the end of the peer's stream.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }
}

/// Held packets whose buffers are lent on.
struct Lending {
    shared: Rc<DriverShared>,
    call: CallHandle,
    batch: RefCell<ReadBatch>,
    /// Number of lent buffers that are not back.
    out: Cell<usize>,
}

impl Lender for Lending {
    fn take_back(&self, key: usize, bytes: Box<[u8]>) {
        self.batch.borrow_mut().put_buffer(key, bytes);
        self.out.set(self.out.get() - 1);
        if self.out.get() == 0 {
            drop(Held::new(Rc::clone(&self.shared), self.call, self.batch.take()));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if batch.packets() == 0 {
            return;
        }
        self.shared.state.borrow_mut().endpoint.release(self.shared.now.get(), self.call, batch);
        self.shared.kick();
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("packets", &self.batch.packets()).field("len", &self.len()).finish()
    }
}
