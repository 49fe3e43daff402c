//! Payload buffers lent out to be filled outside the endpoint: by a read from a file, for instance.

use std::ops::Range;

use super::{Call, Filling, WriteError};
use crate::connection::Core;
use crate::packet::{LentBuffer, PacketPool};
use crate::send_limit::SendLimit;
use crate::shared::Shared;

/// Payload rooms of consecutive packets, lent out to be filled outside the endpoint. The first goes on where
/// the packet last written to ends. Give it back with `CallMut::commit_batch`; it counts as in use till then.
#[derive(Debug, Default)]
#[must_use = "buffers that do not come back are leaked"]
pub struct WriteBatch {
    payloads: Vec<PayloadBuffer>,
    len: usize,
}

#[derive(Debug)]
struct PayloadBuffer {
    lent: LentBuffer,
    /// Data bytes in the packet before the room.
    used: usize,
    /// Data bytes that the packet takes in all; the room may be shorter.
    capacity: usize,
}

impl PayloadBuffer {
    fn len(&self) -> usize {
        self.lent.end - self.lent.start
    }
}

impl WriteBatch {
    /// Returns the payload rooms, in order, each to be filled whole before the next is begun.
    pub fn payloads(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.payloads.iter_mut().map(|room| room.lent.bytes_mut())
    }

    /// Returns the number of packets that the rooms are part of.
    pub fn packets(&self) -> usize {
        self.payloads.len()
    }

    /// Returns the bytes of all rooms.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the batch has no room.
    pub fn is_empty(&self) -> bool {
        self.payloads.is_empty()
    }

    /// Takes the buffers out, to be lent on to an operation that fills them: each with the place of its room.
    /// Until all are [put back](Self::put_buffer) the batch has no rooms.
    pub fn take_buffers(&mut self) -> Vec<(Box<[u8]>, Range<usize>)> {
        let payloads = self.payloads.iter_mut().map(|room| &mut room.lent);
        payloads.map(|lent| (std::mem::take(&mut lent.bytes), lent.start..lent.end)).collect()
    }

    /// Puts back the buffer at `index` of those taken out.
    pub fn put_buffer(&mut self, index: usize, bytes: Box<[u8]>) {
        self.payloads[index].lent.bytes = bytes;
    }

    /// Adds the rest of a packet as a room, until the batch has `len` bytes.
    fn push(&mut self, filling: Filling, header_room: usize, len: usize, pool: &mut PacketPool) {
        let Filling { packet, used, capacity } = filling;
        let count = (len - self.len).min(capacity - used);
        let start = header_room + used;
        self.payloads.push(PayloadBuffer { lent: pool.lend(packet, start, start + count), used, capacity });
        self.len += count;
    }

    pub(crate) fn into_buffers(self) -> impl Iterator<Item = LentBuffer> {
        self.payloads.into_iter().map(|room| room.lent)
    }
}

impl Call {
    /// Lends rooms for about `len` bytes: the rest of the packet being filled, and whole packets.
    pub(crate) fn lend(
        &mut self,
        len: usize,
        core: &mut Core,
        shared: &mut Shared,
        limit: SendLimit,
    ) -> Result<WriteBatch, WriteError> {
        self.refuse_if_finished()?;
        if self.filling.as_ref().is_some_and(|filling| filling.used == filling.capacity) {
            self.queue_filling(core, shared, false)?;
        }
        let header_room = core.security.header_room();
        let begun = self.filling.as_ref().map_or(0, |filling| filling.capacity - filling.used).min(len);
        // The rest of one packet alone is not worth a read of its own: there will be more room soon.
        let first = match begun < len {
            true => Some(self.start_packet(core, shared, limit.held.saturating_sub((begun > 0).into()))?),
            false => None,
        };
        let packets = first.as_ref().map_or(0, |filling| (len - begun).div_ceil(filling.capacity));
        let mut batch = WriteBatch { payloads: Vec::with_capacity(1 + packets.min(ROOMS_FORESEEN)), len: 0 };
        let begun = self.filling.take_if(|_| begun > 0);
        for filling in begun.into_iter().chain(first) {
            batch.push(filling, header_room, len, &mut shared.pool);
        }
        while batch.len < len
            && let held = limit.held.saturating_sub(batch.payloads.len() as u32)
            && let Ok(filling) = self.start_packet(core, shared, held)
        {
            batch.push(filling, header_room, len, &mut shared.pool);
        }
        self.rooms_lent = !batch.is_empty();
        Ok(batch)
    }

    /// Takes a lent batch back with its first `filled` bytes written; rooms beyond are freed.
    pub(crate) fn commit_batch(
        &mut self,
        batch: WriteBatch,
        mut filled: usize,
        core: &mut Core,
        shared: &mut Shared,
    ) -> Result<(), WriteError> {
        self.rooms_lent &= batch.is_empty();
        let mut outcome = self.refuse_if_finished();
        for room in batch.payloads {
            let count = room.len().min(filled);
            filled -= count;
            let PayloadBuffer { lent, used, capacity } = room;
            let packet = shared.pool.restore(lent);
            if used + count == 0 || outcome.is_err() {
                shared.pool.free(packet);
                continue;
            }
            if self.filling.is_some() {
                outcome = self.queue_filling(core, shared, false);
            }
            self.filling = Some(Filling { packet, used: used + count, capacity });
        }
        outcome
    }
}

//@ limit: rooms that a handler has in hand
//@ section: Rx
//@ unit: packet
//@ connection: what it may have queued, one batch
//@ address: as packet buffers
//@ all: lane: as packet buffers
//@ empty: the handler waits; others feel nothing
//@ counter: rx_over_share_writes, rx_packets_in_use
//@ attack: rx-soft-acks
/// Number of rooms in a batch that memory is reserved for at once.
const ROOMS_FORESEEN: usize = 128;
