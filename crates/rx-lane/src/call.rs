//! A call as straight-line code: write, finish, read.

use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::task::Poll;

use crate::CallError;
use crate::connection::Open;
use crate::state::{CallCell, Shared};
use rx::abort;
use rx::security::Principal;
use rx::{CallMut, ReadError, Side, WriteBatch, WriteError};

/// A call in progress, ours or a client's. Dropped before its end it is aborted.
pub struct Call {
    shared: Rc<Shared>,
    cell: Rc<CallCell>,
    /// Nothing is left to write.
    finished: bool,
    /// Keeps the connection open.
    _connection: Option<Rc<Open>>,
}

/// A call that a client made; a [`Call`] that knows its client.
pub struct ServerCall {
    call: Call,
}

/// Payload rooms of consecutive packets, to be filled in place: by a read from the page cache, for instance, which
/// is then the only copy. Dropped, it writes nothing.
#[must_use = "a reservation writes nothing until it is committed"]
pub struct Reserved<'c> {
    call: &'c mut Call,
    batch: Option<WriteBatch>,
}

impl Call {
    pub(super) fn new(shared: Rc<Shared>, cell: Rc<CallCell>, connection: Option<Rc<Open>>) -> Self {
        Self { shared, cell, finished: false, _connection: connection }
    }

    /// Copies all of `data` into packets, waiting for room.
    ///
    /// # Errors
    /// How the call ended.
    pub async fn write(&mut self, mut data: &[u8]) -> Result<(), CallError> {
        while !data.is_empty() {
            let written = self.when_writable(|call| call.write(data)).await?;
            data = &data[written..];
        }
        Ok(())
    }

    /// Has `len` bytes written in place by `fill`, which gets one payload room after the other and fills each
    /// whole. It must not use the driver.
    ///
    /// # Errors
    /// How the call ended.
    pub async fn write_with(&mut self, len: u64, mut fill: impl FnMut(&mut [u8])) -> Result<(), CallError> {
        let mut left = len;
        while left > 0 {
            let wanted = left;
            left -= self.when_writable(|call| fill_rooms(call, wanted, &mut fill)).await?;
        }
        Ok(())
    }

    /// Lends payload rooms for up to `len` bytes, waiting until there is one at least.
    ///
    /// # Errors
    /// How the call ended.
    pub async fn reserve(&mut self, len: usize) -> Result<Reserved<'_>, CallError> {
        let batch = self.when_writable(|call| call.lend_batch(len)).await?;
        Ok(Reserved { call: self, batch: Some(batch) })
    }

    /// Sends what is written even if it does not fill a packet.
    ///
    /// # Errors
    /// How the call ended.
    pub async fn flush(&mut self) -> Result<(), CallError> {
        self.when_writable(|call| call.flush()).await
    }

    /// Ends our direction. What is written still goes out when the call is dropped after this by a server; a
    /// client reads the reply.
    ///
    /// # Errors
    /// How the call ended.
    pub async fn finish(&mut self) -> Result<(), CallError> {
        self.when_writable(|call| call.finish()).await?;
        self.finished = true;
        Ok(())
    }

    /// Lends the next bytes to `take`, in order and in as many pieces as packets, waiting for the first. Returns
    /// how many there were; 0 at the end of the peer's stream. `take` must not use the driver.
    ///
    /// # Errors
    /// How the call ended, if not well.
    pub async fn read(&mut self, mut take: impl FnMut(&[u8])) -> Result<usize, CallError> {
        poll_fn(|cx| {
            let mut state = self.shared.state.borrow_mut();
            let Some(mut call) = state.endpoint.call(lane::time::clock(), self.cell.handle) else {
                drop(state);
                // How it ended may not have been told yet.
                self.shared.dispatch();
                return Poll::Ready(match self.cell.error() {
                    CallError::Ended => Ok(0),
                    error => Err(error),
                });
            };
            match call.read() {
                Ok(_) => {
                    let count = lend(&mut call, &mut take);
                    drop(state);
                    self.shared.kick();
                    Poll::Ready(Ok(count))
                }
                Err(ReadError::End) => Poll::Ready(Ok(0)),
                Err(ReadError::Held) => Poll::Ready(Err(CallError::Held)),
                Err(ReadError::Blocked) => {
                    *self.cell.reader.borrow_mut() = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Reads the rest of the peer's stream; more than `max` bytes abort the call.
    ///
    /// # Errors
    /// How the call ended, if not well.
    pub async fn read_to_end(&mut self, max: usize) -> Result<Vec<u8>, CallError> {
        let mut bytes = Vec::new();
        while self.read(|part| bytes.extend_from_slice(part)).await? > 0 {
            if bytes.len() > max {
                self.end(abort::MESSAGE_SIZE);
                return Err(CallError::Aborted(abort::MESSAGE_SIZE));
            }
        }
        Ok(bytes)
    }

    /// Waits until the call has ended: for a server, until the client has the whole reply.
    ///
    /// # Errors
    /// How the call ended, if not well.
    pub async fn closed(&mut self) -> Result<(), CallError> {
        poll_fn(|cx| match self.cell.end.get().map(CallError::from) {
            Some(CallError::Ended) => Poll::Ready(Ok(())),
            Some(error) => Poll::Ready(Err(error)),
            None => {
                *self.cell.writer.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    /// Ends the call with an abort code.
    pub fn abort(mut self, code: i32) {
        self.end(code);
    }

    fn end(&mut self, code: i32) {
        self.finished = true;
        let mut state = self.shared.state.borrow_mut();
        if let Some(call) = state.endpoint.call(self.shared.now.get(), self.cell.handle) {
            call.abort(code);
            state.forget(self.cell.handle);
            drop(state);
            self.cell.end.set(Some(crate::error::CallEnd::Aborted(code)));
            self.shared.kick();
        }
    }

    /// Does `body`, again when there is room if there is none now.
    async fn when_writable<T>(
        &mut self,
        mut body: impl FnMut(&mut CallMut<'_>) -> Result<T, WriteError>,
    ) -> Result<T, CallError> {
        poll_fn(|cx| {
            let mut state = self.shared.state.borrow_mut();
            let Some(mut call) = state.endpoint.call(lane::time::clock(), self.cell.handle) else {
                drop(state);
                self.shared.dispatch();
                return Poll::Ready(Err(self.cell.error()));
            };
            let outcome = body(&mut call);
            drop(state);
            self.shared.kick();
            match outcome {
                Ok(value) => Poll::Ready(Ok(value)),
                Err(WriteError::Finished) => Poll::Ready(Err(CallError::Ended)),
                Err(WriteError::Lent) => Poll::Ready(Err(CallError::Lent)),
                Err(WriteError::Security(code)) => Poll::Ready(Err(CallError::Aborted(code))),
                Err(WriteError::Blocked) => {
                    *self.cell.writer.borrow_mut() = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Runs `look` on the live call.
    fn with<T>(&self, look: impl FnOnce(CallMut<'_>) -> T) -> Option<T> {
        let mut state = self.shared.state.borrow_mut();
        state.endpoint.call(self.shared.now.get(), self.cell.handle).map(look)
    }
}

/// Writes up to `len` bytes in place, as far as there is room.
fn fill_rooms(call: &mut CallMut<'_>, len: u64, fill: &mut impl FnMut(&mut [u8])) -> Result<u64, WriteError> {
    let mut filled = 0;
    while filled < len {
        let room = match call.reserve() {
            Ok(room) => room,
            Err(WriteError::Blocked) if filled > 0 => break,
            Err(error) => return Err(error),
        };
        let count = room.len().min(usize::try_from(len - filled).unwrap_or(usize::MAX));
        fill(&mut room[..count]);
        call.commit(count);
        filled += count as u64;
    }
    Ok(filled)
}

/// Lends unread bytes and marks them read; returns how many.
fn lend(call: &mut CallMut<'_>, take: &mut impl FnMut(&[u8])) -> usize {
    let mut count = 0;
    for slice in call.read_vectored(SLICES_MAX) {
        take(slice);
        count += slice.len();
    }
    call.consume(count);
    count
}

impl Reserved<'_> {
    /// The rooms in order; each is to be filled whole before the next.
    pub fn rooms(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.batch.as_mut().into_iter().flat_map(WriteBatch::rooms)
    }

    /// Bytes of room.
    pub fn len(&self) -> usize {
        self.batch.as_ref().map_or(0, WriteBatch::len)
    }

    /// Whether there is no room; never so, as there is one at least.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the first `filled` bytes of the rooms.
    ///
    /// # Errors
    /// How the call ended in the meantime.
    pub fn commit(mut self, filled: usize) -> Result<(), CallError> {
        let Some(batch) = self.batch.take() else { return Err(CallError::Ended) };
        let shared = &self.call.shared;
        let mut state = shared.state.borrow_mut();
        let endpoint = &mut state.endpoint;
        let handle = self.call.cell.handle;
        if endpoint.call(lane::time::clock(), handle).is_none() {
            endpoint.discard_batch(batch);
            drop(state);
            shared.dispatch();
            return Err(self.call.cell.error());
        }
        let outcome = match endpoint.call(lane::time::clock(), handle) {
            Some(mut call) => call.commit_batch(batch, filled),
            None => Ok(()),
        };
        drop(state);
        shared.kick();
        outcome.map_err(|error| match error {
            WriteError::Security(code) => CallError::Aborted(code),
            WriteError::Blocked | WriteError::Finished | WriteError::Lent => CallError::Ended,
        })
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.call.shared.state.borrow_mut().endpoint.discard_batch(batch);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.cell.end.get().is_some() {
            return;
        }
        // A server's reply goes on by itself; a client that does not wait for its answer gives it up.
        let replying = self.finished && self.with(|call| call.side()) == Some(Side::Server);
        if !replying {
            self.end(abort::USER_ABORT);
        }
    }
}

impl ServerCall {
    pub(super) fn new(shared: Rc<Shared>, cell: Rc<CallCell>) -> Self {
        Self { call: Call::new(shared, cell, None) }
    }

    /// The service it is for, after any upgrade; `None` when the call has ended.
    pub fn service(&self) -> Option<u16> {
        self.call.with(|call| call.service())
    }

    /// The client's address; `None` when the call has ended.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.call.with(|call| call.remote())
    }

    /// Address of ours that the client uses, where the host has several: a connection back to it goes from there.
    pub fn local_ip(&self) -> Option<IpAddr> {
        let state = self.call.shared.state.borrow();
        state.endpoint.connection(self.call.cell.handle.connection)?.local_ip()
    }

    /// Who the client proved to be; `None` for an anonymous one.
    pub fn principal(&self) -> Option<Principal> {
        self.call.with(|call| call.principal().cloned()).flatten()
    }

    /// Ends the call with an abort code.
    pub fn abort(self, code: i32) {
        self.call.abort(code);
    }
}

impl Deref for ServerCall {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}

impl DerefMut for ServerCall {
    fn deref_mut(&mut self) -> &mut Call {
        &mut self.call
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("cell", &self.cell).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ServerCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.call.fmt(f)
    }
}

impl std::fmt::Debug for Reserved<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reserved").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Slices lent by one read.
const SLICES_MAX: usize = 256;
