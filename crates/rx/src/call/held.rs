//! Received packets that the reader holds, for a write to a file that takes time.
//!
//! Their places in the receive window stay taken, so a slow disk is a closed window to the peer.

use std::ops::Range;
use std::time::Instant;

use super::Call;
use crate::connection::Core;
use crate::packet::{LentBuffer, PacketPool};
use crate::shared::Shared;

/// Received bytes in order, in the packets' own buffers. Give it back with `Endpoint::release`; the buffers
/// count as in use, and their places in the call's window as taken, till then.
#[derive(Debug, Default)]
#[must_use = "buffers that do not come back are leaked"]
pub struct ReadBatch {
    packets: Vec<LentBuffer>,
    /// Copy of the first part of a packet of which no more was asked for.
    tail: Box<[u8]>,
    len: usize,
}

impl ReadBatch {
    /// Returns the bytes, in order, in as many pieces as packets.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let tail = Some(&*self.tail).filter(|tail| !tail.is_empty());
        self.packets.iter().map(LentBuffer::bytes).chain(tail)
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the batch has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of packet buffers in the batch.
    pub fn packets(&self) -> usize {
        self.packets.len()
    }

    /// Takes the buffers out, to be lent on to an operation that reads them: each with the place of its
    /// bytes. Until all are [put back](Self::put_buffer) the batch has no bytes.
    pub fn take_buffers(&mut self) -> Vec<(Box<[u8]>, Range<usize>)> {
        let packets = self.packets.iter_mut();
        let mut buffers: Vec<_> =
            packets.map(|lent| (std::mem::take(&mut lent.bytes), lent.start..lent.end)).collect();
        let tail = std::mem::take(&mut self.tail);
        let len = tail.len();
        buffers.extend((len > 0).then_some((tail, 0..len)));
        buffers
    }

    /// Puts back the buffer at `index` of those taken out.
    pub fn put_buffer(&mut self, index: usize, bytes: Box<[u8]>) {
        match self.packets.get_mut(index) {
            Some(lent) => lent.bytes = bytes,
            None => self.tail = bytes,
        }
    }

    pub(crate) fn into_buffers(self) -> impl Iterator<Item = LentBuffer> {
        self.packets.into_iter()
    }
}

impl Call {
    /// Takes up to `max` unread bytes, in their packets.
    pub(crate) fn hold(&mut self, max: usize, now: Instant, core: &Core, shared: &mut Shared) -> ReadBatch {
        let mut batch = ReadBatch::default();
        while batch.len < max
            && batch.packets.len() < HELD_PACKETS_MAX
            && let Some(chunk) = self.rx.take(max - batch.len, &mut shared.pool)
        {
            batch.len += (chunk.end - chunk.start) as usize;
            let lent = shared.pool.lend(chunk.packet, chunk.start as usize, chunk.end as usize);
            batch.packets.push(lent);
        }
        if batch.len < max && batch.packets.len() < HELD_PACKETS_MAX {
            batch.tail = self.copy_front(max - batch.len, &mut shared.pool);
            batch.len += batch.tail.len();
        }
        // Frees what the copy has used up, and sees to it that the reader is told of more.
        self.consume(batch.tail.len(), now, core, shared);
        batch
    }

    /// Copies the first `max` bytes of a packet that has more.
    fn copy_front(&mut self, max: usize, pool: &mut PacketPool) -> Box<[u8]> {
        let Some(chunk) = self.rx.front(pool) else { return Box::default() };
        let (start, len) = (chunk.start as usize, ((chunk.end - chunk.start) as usize).min(max));
        let from = crate::header::HEADER_LEN + start;
        pool.buffer(&chunk.packet)[from..from + len].into()
    }

    /// Takes back held packets from the reader.
    pub(crate) fn release(&mut self, packets: u32, now: Instant, core: &Core, shared: &mut Shared) {
        self.rx.release(packets);
        self.rx.drop_used(&mut shared.pool);
        self.progress_at = now;
        self.on_room(now, core, shared);
    }
}

//@ limit: packets that a handler holds
//@ section: Rx
//@ unit: packet
//@ connection: its receive window, {} in one piece
//@ address: as packet buffers
//@ all: lane: as packet buffers
//@ empty: the window is closed; a slow disk slows its own client
//@ counter: rx_packets_in_use
//@ attack: afs-announced-stores
/// Most packets in one batch: what one vectored write takes (IOV_MAX is 1,024), with room for what a service
/// puts before.
const HELD_PACKETS_MAX: usize = 1000;
