//! A call as straight-line code: write, finish, read.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use crate::CallError;
use crate::close_on_drop::CloseOnDrop;
use crate::held::Held;
use crate::packet_buffers::PacketBuffers;
use crate::state::{CallCell, DriverShared};
use rx::abort;
use rx::{CallMut, ReadError, Side, WriteError};

/// Call in progress, ours or a client's. A call that is dropped before its end is aborted.
pub struct Call {
    shared: Rc<DriverShared>,
    cell: Rc<CallCell>,
    /// True when nothing is left to write.
    finished: bool,
    /// Handle that keeps the connection open.
    _connection: Option<Rc<CloseOnDrop>>,
}

impl Call {
    pub(super) fn new(
        shared: Rc<DriverShared>,
        cell: Rc<CallCell>,
        connection: Option<Rc<CloseOnDrop>>,
    ) -> Self {
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

    /// Writes `len` bytes in place by `fill`, which gets one payload room after the other and fills each
    /// whole. `fill` must not use the driver.
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

    /// Lends payload rooms for up to `len` bytes, as many as the call may have queued now, waiting for some. Where less
    /// than a packet is asked for there may be less.
    ///
    /// # Errors
    /// How the call ended; [`CallError::Lent`] where other rooms of it are lent out.
    pub async fn packet_buffers(&mut self, len: usize) -> Result<PacketBuffers, CallError> {
        let batch = self.when_writable(|call| call.lend_batch(len)).await?;
        Ok(PacketBuffers::new(Rc::clone(&self.shared), Rc::clone(&self.cell), batch))
    }

    /// Sends what is written, even if it does not fill a packet.
    ///
    /// # Errors
    /// How the call ended.
    pub async fn flush(&mut self) -> Result<(), CallError> {
        self.when_writable(|call| call.flush()).await
    }

    /// Ends our direction of the stream. Written data still goes out when a server then drops the call; a
    /// client reads the reply.
    ///
    /// # Errors
    /// How the call ended.
    pub async fn finish(&mut self) -> Result<(), CallError> {
        self.when_writable(|call| call.finish()).await?;
        self.finished = true;
        Ok(())
    }

    /// Lends the next bytes to `take`, in order and in as many pieces as packets, waiting for the first.
    /// Returns how many there were; 0 at the end of the peer's stream. `take` must not use the driver.
    ///
    /// # Errors
    /// How the call ended, if not well.
    pub async fn read(&mut self, mut take: impl FnMut(&[u8])) -> Result<usize, CallError> {
        let count = self.when_readable(|call| {
            call.read()?;
            Ok(lend(call, &mut take))
        });
        count.await.map(Option::unwrap_or_default)
    }

    /// Copies the next bytes, as many as have come and `into` takes, waiting for the first. Returns how many there were; 0
    /// at the end of the peer's stream. What comes behind them stays for the next read.
    ///
    /// # Errors
    /// How the call ended, if not well.
    pub async fn read_into(&mut self, into: &mut [u8]) -> Result<usize, CallError> {
        if into.is_empty() {
            return Ok(0);
        }
        self.when_readable(|call| copy_out(call, into)).await.map(Option::unwrap_or_default)
    }

    /// Fills `into` with the next bytes, waiting for all of them. Bytes behind them stay for the next read.
    ///
    /// # Errors
    /// [`CallError::Short`] when the peer's stream ends before; how the call ended, if not well.
    pub async fn read_exact(&mut self, into: &mut [u8]) -> Result<(), CallError> {
        let mut filled = 0;
        while filled < into.len() {
            match self.read_into(&mut into[filled..]).await? {
                0 => return Err(CallError::Short),
                count => filled += count,
            }
        }
        Ok(())
    }

    /// Takes the next bytes in their packets, as many as have come and at most `max`, waiting for the first.
    /// The result is empty at the end of the peer's stream. Bytes behind stay for the next read. Reading goes
    /// on while packets are held, up to the call's window.
    ///
    /// # Errors
    /// [`CallError::Held`] when the whole window is held already; how the call ended, if not well.
    pub async fn read_held(&mut self, max: usize) -> Result<Held, CallError> {
        let batch = self.when_readable(|call| call.hold(max)).await?.unwrap_or_default();
        Ok(Held::new(Rc::clone(&self.shared), self.cell.handle, batch))
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
        self.shared.end_call(&self.cell, code);
    }

    pub(super) fn cell(&self) -> &Rc<CallCell> {
        &self.cell
    }

    /// Runs `body`, again after more data has come if it had nothing to read; `None` at the end of the
    /// stream.
    async fn when_readable<T>(
        &mut self,
        mut body: impl FnMut(&mut CallMut<'_>) -> Result<T, ReadError>,
    ) -> Result<Option<T>, CallError> {
        poll_fn(|cx| {
            let mut state = self.shared.state.borrow_mut();
            let Some(mut call) = state.endpoint.call(lane::time::clock(), self.cell.handle) else {
                drop(state);
                // How it ended may not have been dispatched yet.
                self.shared.dispatch();
                return Poll::Ready(match self.cell.error() {
                    CallError::Ended => Ok(None),
                    error => Err(error),
                });
            };
            match body(&mut call) {
                Ok(value) => {
                    drop(state);
                    self.shared.kick();
                    Poll::Ready(Ok(Some(value)))
                }
                Err(ReadError::End) => Poll::Ready(Ok(None)),
                Err(ReadError::Held) => Poll::Ready(Err(CallError::Held)),
                Err(ReadError::Blocked) => {
                    *self.cell.reader.borrow_mut() = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Runs `body`, again after room has become free if it had none.
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

/// Copies unread bytes, marks them read, and returns how many.
fn copy_out(call: &mut CallMut<'_>, into: &mut [u8]) -> Result<usize, ReadError> {
    let mut filled = 0;
    while filled < into.len() {
        let bytes = match call.read() {
            Ok(bytes) => bytes,
            Err(error) if filled == 0 => return Err(error),
            Err(_) => break,
        };
        let count = bytes.len().min(into.len() - filled);
        into[filled..filled + count].copy_from_slice(&bytes[..count]);
        call.consume(count);
        filled += count;
    }
    Ok(filled)
}

/// Lends unread bytes, marks them read, and returns how many.
fn lend(call: &mut CallMut<'_>, take: &mut impl FnMut(&[u8])) -> usize {
    let mut count = 0;
    for slice in call.read_vectored(SLICES_MAX) {
        take(slice);
        count += slice.len();
    }
    call.consume(count);
    count
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.cell.end.get().is_some() {
            return;
        }
        // A server's reply goes on by itself; a client that does not wait for its answer gives it up.
        let replying = self.finished && self.with(|call| call.side()) == Some(Side::Server);
        if replying {
            return;
        }
        // A handler's outcome, which comes now, says with which code.
        if self.cell.handled.get() {
            self.cell.unfinished.set(true);
        } else {
            self.end(abort::USER_ABORT);
        }
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("cell", &self.cell).finish_non_exhaustive()
    }
}

/// Most slices lent by one read.
const SLICES_MAX: usize = 256;
