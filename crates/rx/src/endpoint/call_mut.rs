//! Call as the application uses it: writing into packet payloads, reading out of them, ending.

use std::time::Instant;

use smallvec::SmallVec;

use crate::call::{Call, ReadBatch, WriteBatch, WriteError};
use crate::connection::Connection;
use crate::event::{CallHandle, Side};
use crate::header::HEADER_LEN;
use crate::shared::Shared;

/// Live call of an [`Endpoint`](super::Endpoint).
#[derive(Debug)]
pub struct CallMut<'e> {
    now: Instant,
    connection: &'e mut Connection,
    shared: &'e mut Shared,
    channel: usize,
}

/// Reason why nothing can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The next bytes have not come; [`Event::Readable`](crate::Event::Readable) follows.
    #[error("no bytes to read now")]
    Blocked,
    /// The peer's stream has been read to the end.
    #[error("end of the peer's stream")]
    End,
    /// The reader holds the whole window: nothing more can come before some of it is released.
    #[error("the reader holds the whole window")]
    Held,
}

impl<'e> CallMut<'e> {
    pub(super) fn new(
        now: Instant,
        connection: &'e mut Connection,
        shared: &'e mut Shared,
        channel: usize,
    ) -> Self {
        Self { now, connection, shared, channel }
    }

    /// Reserves room in the current packet's payload, at least one byte: fill some of it, then
    /// [`commit`](Self::commit).
    pub fn reserve(&mut self) -> Result<&mut [u8], WriteError> {
        let limit = self.connection.channels[self.channel].send_limit(&self.shared.config);
        let Connection { core, channels, .. } = &mut *self.connection;
        let Some(call) = &mut channels[self.channel].call else { return Err(WriteError::Finished) };
        call.reserve(core, self.shared, limit)
    }

    /// Notes that `count` bytes of the room last reserved are written.
    pub fn commit(&mut self, count: usize) {
        if let Some(call) = &mut self.connection.channels[self.channel].call {
            call.commit(count);
        }
        self.shared.mark_ready(&mut self.connection.core);
    }

    /// Copies as much of `data` as there is room for, and returns how many bytes.
    pub fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        let mut written = 0;
        while written < data.len() {
            let room = match self.reserve() {
                Ok(room) => room,
                Err(WriteError::Blocked) if written > 0 => break,
                Err(error) => return Err(error),
            };
            let count = room.len().min(data.len() - written);
            room[..count].copy_from_slice(&data[written..written + count]);
            self.commit(count);
            written += count;
        }
        Ok(written)
    }

    /// Lends the payload rooms of as many packets as `len` bytes need, or as there is room for: a file can be
    /// read straight into them. The first room continues the last write. Nothing else can be written until
    /// [`commit_batch`](Self::commit_batch), or, if the call has ended in the meantime,
    /// [`Endpoint::discard_batch`](super::Endpoint::discard_batch) takes them back.
    pub fn lend_batch(&mut self, len: usize) -> Result<WriteBatch, WriteError> {
        let limit = self.connection.channels[self.channel].send_limit(&self.shared.config);
        let Connection { core, channels, .. } = &mut *self.connection;
        let Some(call) = &mut channels[self.channel].call else { return Err(WriteError::Finished) };
        call.lend(len, core, self.shared, limit)
    }

    /// Takes back a batch of this call with its first `filled` bytes written; 0 gives it up.
    pub fn commit_batch(&mut self, batch: WriteBatch, filled: usize) -> Result<(), WriteError> {
        self.with(|call, connection, shared| call.commit_batch(batch, filled, connection, shared))
    }

    /// Sends what is written, even if it does not fill a packet.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.with(|call, core, shared| call.flush(core, shared))
    }

    /// Ends our direction of the stream: what is written goes out, its last packet marked as the last.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        self.with(|call, core, shared| call.finish(core, shared))
    }

    fn with(
        &mut self,
        body: impl FnOnce(&mut Call, &mut crate::connection::Core, &mut Shared) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let Connection { core, channels, .. } = &mut *self.connection;
        let Some(call) = &mut channels[self.channel].call else { return Err(WriteError::Finished) };
        let outcome = body(call, core, self.shared);
        self.shared.mark_ready(&mut self.connection.core);
        if let Err(WriteError::Security(code)) = outcome {
            self.connection.abort_call(self.channel, code, true, self.shared);
        }
        outcome
    }

    /// Returns the next unread bytes, as they lie in their packet; [`consume`](Self::consume) marks them as
    /// read.
    pub fn read(&mut self) -> Result<&[u8], ReadError> {
        let Some(call) = &mut self.connection.channels[self.channel].call else { return Err(ReadError::End) };
        let consumed = call.rx.is_consumed();
        let Some(chunk) = call.rx.front(&mut self.shared.pool) else {
            return Err(call.nothing_to_read(consumed));
        };
        let range = HEADER_LEN + chunk.start as usize..HEADER_LEN + chunk.end as usize;
        let buffer = self.shared.pool.buffer(&chunk.packet);
        Ok(&buffer[range])
    }

    /// Takes up to `max` unread bytes out of the window, in their packets, to be held for a while: their
    /// places in the window stay taken until [`Endpoint::release`](super::Endpoint::release). The bytes count
    /// as read, so for a client the call ends with the last of them.
    pub fn hold(&mut self, max: usize) -> Result<ReadBatch, ReadError> {
        self.read()?;
        let Connection { core, channels, .. } = &mut *self.connection;
        let Some(call) = &mut channels[self.channel].call else { return Err(ReadError::End) };
        let batch = call.hold(max, self.now, core, self.shared);
        channels[self.channel].receive_window = call.rx.window();
        self.shared.mark_ready(&mut self.connection.core);
        self.connection.settle(self.channel, self.shared);
        Ok(batch)
    }

    /// Returns up to `max` unread slices in order, to be written out together.
    pub fn read_vectored(&self, max: usize) -> SmallVec<[&[u8]; 64]> {
        let Some(call) = &self.connection.channels[self.channel].call else { return SmallVec::new() };
        let unread = call.rx.chunks().filter(|chunk| chunk.start < chunk.end);
        let slices = unread.map(|chunk| {
            let range = HEADER_LEN + chunk.start as usize..HEADER_LEN + chunk.end as usize;
            &self.shared.pool.buffer(&chunk.packet)[range]
        });
        slices.take(max).collect()
    }

    /// Marks `count` unread bytes as read. For a client, reading the reply to its end finishes the call: its
    /// handle ends and [`Event::Finished`](crate::Event::Finished) follows.
    ///
    /// Panics if there are fewer unread bytes in order.
    pub fn consume(&mut self, count: usize) {
        let Connection { core, channels, .. } = &mut *self.connection;
        let Some(call) = &mut channels[self.channel].call else { return };
        assert!(call.consume(count, self.now, core, self.shared), "consume at most what was read");
        channels[self.channel].receive_window = call.rx.window();
        self.shared.mark_ready(&mut self.connection.core);
        self.connection.settle(self.channel, self.shared);
    }

    /// Ends the call with an abort code, telling the peer. The handle ends without an event.
    pub fn abort(self, code: i32) {
        self.connection.abort_call(self.channel, code, false, self.shared);
    }

    /// Returns the call's handle; `None` once reading or an error has ended the call.
    pub fn handle(&self) -> Option<CallHandle> {
        self.connection.channels[self.channel].call.as_ref().map(|call| call.handle)
    }

    /// Returns our side of the connection.
    pub fn side(&self) -> Side {
        self.connection.core.side
    }

    /// Returns the service of the connection, after any upgrade.
    pub fn service(&self) -> u16 {
        self.connection.core.service
    }

    /// Returns the principal that the client proved to be; `None` for an anonymous one.
    pub fn principal(&self) -> Option<&crate::security::Principal> {
        self.connection.core.security.principal()
    }

    /// Returns the address of the peer.
    pub fn remote(&self) -> std::net::SocketAddr {
        self.connection.core.remote
    }
}

impl Call {
    /// Returns why no byte can be read, where the last one may have been just dropped.
    fn nothing_to_read(&mut self, consumed: bool) -> ReadError {
        self.blocked_reading();
        if consumed || self.rx.is_consumed() {
            return ReadError::End;
        }
        let shut = self.rx.lent() > 0 && self.rx.next() == self.rx.edge();
        if shut { ReadError::Held } else { ReadError::Blocked }
    }
}

impl super::Endpoint {
    /// Takes back a batch whose call has ended, and frees it.
    pub fn discard_batch(&mut self, batch: WriteBatch) {
        for lent in batch.into_buffers() {
            let packet = self.shared.pool.restore(lent);
            self.shared.pool.free(packet);
        }
    }

    /// Takes back what the reader of `call` has held; the window moves on, if the call is still there.
    pub fn release(&mut self, now: Instant, call: CallHandle, batch: ReadBatch) {
        let packets = batch.packets() as u32;
        for lent in batch.into_buffers() {
            let packet = self.shared.pool.restore(lent);
            self.shared.pool.free(packet);
        }
        if let Some(call) = self.call(now, call) {
            let Connection { core, channels, .. } = &mut *call.connection;
            if let Some(live) = &mut channels[call.channel].call {
                live.release(packets, now, core, call.shared);
            }
            call.shared.mark_ready(core);
        }
    }
}
