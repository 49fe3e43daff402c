//! Received bytes: in a buffer of a ring that the kernel fills, or in memory of their own.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use super::BufRing;

/// Received bytes in memory that the backend provided, given back when dropped.
pub struct RecvBuf {
    memory: RecvMemory,
    start: usize,
    end: usize,
}

impl RecvBuf {
    /// Returns no bytes: the end of a stream.
    pub fn empty() -> Self {
        Self::from_vec(Vec::new())
    }

    /// Makes received bytes of memory of their own: for simulated networks, and bytes put back after a peek.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        let end = bytes.len();
        Self { memory: RecvMemory::Heap(bytes), start: 0, end }
    }

    /// Makes a copy with room for a little more of the same kind.
    pub(crate) fn copied(bytes: &[u8]) -> Self {
        let mut copy = Vec::with_capacity(bytes.len().max(COPY_BYTES_MIN));
        copy.extend_from_slice(bytes);
        Self::from_vec(copy)
    }

    /// Makes received bytes in a buffer of a simulated ring, which counts in `lent` the buffers that are out.
    pub(crate) fn lent(bytes: Vec<u8>, lent: &Rc<Cell<usize>>) -> Self {
        lent.set(lent.get() + 1);
        let end = bytes.len();
        Self { memory: RecvMemory::Simulated { bytes, lent: Rc::clone(lent) }, start: 0, end }
    }

    /// Returns the size of the bytes' own memory; `None` for a buffer of a ring.
    pub(crate) fn heap_bytes(&self) -> Option<usize> {
        match &self.memory {
            RecvMemory::Heap(bytes) => Some(bytes.capacity()),
            RecvMemory::Provided { .. } | RecvMemory::Simulated { .. } => None,
        }
    }

    /// Appends bytes to the memory of earlier ones.
    ///
    /// # Panics
    /// When it is a buffer of a ring.
    pub(crate) fn append(&mut self, more: &[u8]) {
        let RecvMemory::Heap(bytes) = &mut self.memory else { panic!("a ring's buffer has an end") };
        bytes.truncate(self.end);
        bytes.extend_from_slice(more);
        self.end = bytes.len();
    }

    /// Makes received bytes of `start..end` of a provided buffer, given back to `ring` on drop.
    pub(crate) fn provided(ring: Rc<BufRing>, id: u16, start: usize, end: usize) -> Self {
        Self { memory: RecvMemory::Provided { ring, id }, start, end }
    }

    /// Drops the first `n` bytes.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.len(), "advanced {n} of {} received bytes", self.len());
        self.start += n;
    }

    /// Keeps the first `n` bytes of those left.
    pub fn truncate(&mut self, n: usize) {
        self.end = self.end.min(self.start + n);
    }
}

impl Deref for RecvBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            RecvMemory::Heap(bytes) | RecvMemory::Simulated { bytes, .. } => &bytes[self.start..self.end],
            RecvMemory::Provided { ring, id } => &ring.slice(*id)[self.start..self.end],
        }
    }
}

impl DerefMut for RecvBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            RecvMemory::Heap(bytes) | RecvMemory::Simulated { bytes, .. } => &mut bytes[self.start..self.end],
            // SAFETY: the kernel gave this buffer id to this RecvBuf alone, and gets it back only on drop;
            // `&mut self` makes this the one reference to its bytes.
            RecvMemory::Provided { ring, id } => unsafe { &mut ring.slice_mut(*id)[self.start..self.end] },
        }
    }
}

impl std::fmt::Debug for RecvBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RecvBuf({} bytes)", self.len())
    }
}

impl Drop for RecvBuf {
    fn drop(&mut self) {
        match &self.memory {
            RecvMemory::Heap(_) => {}
            RecvMemory::Provided { ring, id } => ring.give_back(*id),
            RecvMemory::Simulated { lent, .. } => lent.set(lent.get() - 1),
        }
    }
}

enum RecvMemory {
    Heap(Vec<u8>),
    Provided { ring: Rc<BufRing>, id: u16 },
    Simulated { bytes: Vec<u8>, lent: Rc<Cell<usize>> },
}

/// Least memory of a copy: bytes that come one by one fill it before they are moved.
const COPY_BYTES_MIN: usize = 64;
