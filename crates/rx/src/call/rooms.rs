//! Payload rooms lent out to be filled outside the endpoint: by a read from a file straight into them, for instance.

use std::ops::Range;

use super::{Call, Filling, WriteError};
use crate::connection::{Core, SendLimit};
use crate::packet::LentBuffer;
use crate::shared::Shared;

/// Payload rooms of consecutive packets, lent out to be filled outside the endpoint. The first goes on where the packet
/// last written to ends. Give it back with `CallMut::commit_batch`; it counts as in use till then.
#[derive(Debug, Default)]
#[must_use = "buffers that do not come back are leaked"]
pub struct WriteBatch {
    rooms: Vec<Room>,
    len: usize,
}

#[derive(Debug)]
struct Room {
    lent: LentBuffer,
    /// Data bytes in the packet before the room.
    used: usize,
    /// Data bytes that the packet takes in all; the room may be shorter.
    capacity: usize,
}

impl Room {
    fn len(&self) -> usize {
        self.lent.end - self.lent.start
    }
}

impl WriteBatch {
    /// The payload rooms, in order, each to be filled whole before the next is begun.
    pub fn rooms(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.rooms.iter_mut().map(|room| room.lent.bytes_mut())
    }

    /// Packets that the rooms are of.
    pub fn packets(&self) -> usize {
        self.rooms.len()
    }

    /// Bytes of room in all.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no room at all.
    pub fn is_empty(&self) -> bool {
        self.rooms.is_empty()
    }

    /// Takes the buffers out, to be lent on to an operation that fills them: each with the place of its room. Until all
    /// are [put back](Self::put_buffer) the batch has no rooms.
    pub fn take_buffers(&mut self) -> Vec<(Box<[u8]>, Range<usize>)> {
        let rooms = self.rooms.iter_mut().map(|room| &mut room.lent);
        rooms.map(|lent| (std::mem::take(&mut lent.bytes), lent.start..lent.end)).collect()
    }

    /// Puts the buffer at `index` of those taken out back.
    pub fn put_buffer(&mut self, index: usize, bytes: Box<[u8]>) {
        self.rooms[index].lent.bytes = bytes;
    }

    pub(crate) fn into_buffers(self) -> impl Iterator<Item = LentBuffer> {
        self.rooms.into_iter().map(|room| room.lent)
    }
}

impl Call {
    /// Lends rooms for about `len` bytes: what is left of the packet being filled, and whole packets.
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
        let mut fresh = Vec::new();
        let mut granted = begun;
        while granted < len {
            let ahead = fresh.len() as u32 + u32::from(begun > 0);
            let filling = match self.start_packet(core, shared, limit.held.saturating_sub(ahead)) {
                Ok(filling) => filling,
                // The rest of one packet alone is not worth a read of its own: there will be more room soon.
                Err(error) if fresh.is_empty() => return Err(error),
                Err(_) => break,
            };
            granted += filling.capacity.min(len - granted);
            fresh.push(filling);
        }
        let mut batch = WriteBatch { rooms: Vec::with_capacity(fresh.len() + 1), len: granted };
        let mut left = granted;
        let begun = self.filling.take_if(|_| begun > 0);
        for Filling { packet, used, capacity } in begun.into_iter().chain(fresh) {
            let count = left.min(capacity - used);
            left -= count;
            let start = header_room + used;
            batch.rooms.push(Room { lent: shared.pool.lend(packet, start, start + count), used, capacity });
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
        for room in batch.rooms {
            let count = room.len().min(filled);
            filled -= count;
            let Room { lent, used, capacity } = room;
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
