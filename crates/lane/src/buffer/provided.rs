//! Provided buffer rings (IORING_REGISTER_PBUF_RING): memory from which the kernel picks when bytes arrive,
//! so that an idle connection holds none.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::{Submitter, types::BufRingEntry};

use crate::memory::Mapping;

/// A group of equal buffers shared with the kernel. Never grows; when all are lent, receives stop and start
/// again as buffers come back.
pub(crate) struct BufRing {
    entries: Mapping,
    memory: Mapping,
    group: u16,
    count: u16,
    size: usize,
    tail: Cell<u16>,
    lent: Cell<usize>,
}

impl BufRing {
    /// Registers `count` buffers (a power of two) of `size` bytes as `group`.
    pub(crate) fn register(
        submitter: &Submitter<'_>,
        group: u16,
        count: u16,
        size: usize,
    ) -> io::Result<Self> {
        assert!(count.is_power_of_two() && count <= 1 << 15);
        let entries = Mapping::new(usize::from(count) * size_of::<BufRingEntry>())?;
        let memory = Mapping::new(usize::from(count) * size)?;
        // SAFETY: the entries' memory outlives the registration: `Uring` drops its rings after the io_uring.
        unsafe { submitter.register_buf_ring_with_flags(entries.base() as u64, count, group, 0)? };
        let ring = Self { entries, memory, group, count, size, tail: Cell::new(0), lent: Cell::new(0) };
        for id in 0..count {
            ring.push(id);
        }
        Ok(ring)
    }

    /// Returns the address range of the ring's buffers.
    pub(crate) fn addresses(&self) -> std::ops::Range<usize> {
        self.memory.addresses()
    }

    pub(crate) fn group(&self) -> u16 {
        self.group
    }

    /// Returns the number of buffers that are not with the kernel.
    pub(crate) fn lent(&self) -> usize {
        self.lent.get()
    }

    /// Returns the number of buffers of the ring, lent ones included.
    pub(crate) fn count(&self) -> usize {
        self.count.into()
    }

    /// Notes that the kernel filled a buffer and lent it to the lane.
    pub(crate) fn note_lent(&self) {
        self.lent.set(self.lent.get() + 1);
    }

    /// Hands buffer `id` back to the kernel.
    pub(crate) fn give_back(&self, id: u16) {
        self.lent.set(self.lent.get() - 1);
        self.push(id);
    }

    pub(crate) fn slice(&self, id: u16) -> &[u8] {
        // SAFETY: the kernel writes a buffer only between `push` and the completion that names it; the
        // caller holds `id` from such a completion.
        unsafe { self.memory.slice(usize::from(id) * self.size, self.size) }
    }

    /// Returns the bytes of buffer `id`, for writing.
    ///
    /// # Safety
    /// The caller holds buffer `id` from a completion and makes no second reference to it.
    #[allow(clippy::mut_from_ref)] // One id is one exclusive borrow; see the contract.
    pub(crate) unsafe fn slice_mut(&self, id: u16) -> &mut [u8] {
        // SAFETY: the caller's contract.
        unsafe { self.memory.slice_mut(usize::from(id) * self.size, self.size) }
    }

    fn push(&self, id: u16) {
        let tail = self.tail.get();
        let base = self.entries.base().cast::<BufRingEntry>();
        // SAFETY: the index is masked to the ring; the kernel reads an entry only after the tail passes it,
        // and buffer memory is in bounds for every id below `count`.
        unsafe {
            let entry = &mut *base.add(usize::from(tail & (self.count - 1)));
            entry.set_addr(self.memory.base().add(usize::from(id) * self.size) as u64);
            entry.set_len(u32::try_from(self.size).expect("buffers are far below 4 GiB"));
            entry.set_bid(id);
            let shared_tail = BufRingEntry::tail(base).cast::<AtomicU16>();
            (*shared_tail).store(tail.wrapping_add(1), Ordering::Release);
        }
        self.tail.set(tail.wrapping_add(1));
    }
}
