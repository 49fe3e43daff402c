//! A request's body: content in the buffers it was received into, piece by piece, from whichever version of HTTP.

use std::rc::Rc;
use std::time::{Duration, Instant};

use lane::buffer::{Buf, BufClass, RecvBuf};
use lane::time::now;
use service::memory::Charge;

use super::abort::Abort;
use super::http2::Incoming;
use super::receive_buffer::ReceiveBuffer;
use super::wire::Wire;
use crate::body::BodyReader;
use crate::request::{BodyLength, Head};
use crate::request_error::RequestError;

/// The body of one request.
pub(super) enum RequestBody<'c> {
    /// The body is not for handlers.
    None,
    Http1(Box<Http1Body<'c>>),
    Http2(Rc<Incoming>),
}

/// Content, in the order of its bytes.
pub(super) struct Piece {
    pub(super) bufs: Vec<Buf>,
    _held: Option<Charge>,
}

/// The body behind a head that was consumed. Nothing is received before the piece before it was done with: a
/// handler that takes a body slowly holds its client up, not the lane's memory.
pub(super) struct Http1Body<'c> {
    wire: &'c mut Wire,
    receive_buffer: &'c mut ReceiveBuffer,
    reader: BodyReader,
    length: BodyLength,
    /// The client waits for `100 Continue`.
    is_awaited: bool,
    /// The last wait brought so much that more is likely to follow at once.
    is_fast: bool,
    /// Set if its end is not known.
    is_lost: bool,
    broken: Option<Abort>,
}

/// State of a body by the time its request is answered.
pub(super) enum BodyEnd {
    /// This is left of it, perhaps nothing.
    Left(BodyReader),
    /// The beginning of the next request is not known.
    Unclear,
    /// The connection is over.
    Broken(Abort),
}

impl RequestBody<'_> {
    /// Returns the body's length, where that is known beforehand.
    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Http1(body) => match body.length {
                BodyLength::None => Some(0),
                BodyLength::Exact(length) => Some(length),
                BodyLength::Chunked => None,
            },
            Self::Http2(incoming) => incoming.length(),
        }
    }

    /// Returns what became of it, if that concerns the connection.
    pub(super) fn end(self) -> Option<BodyEnd> {
        match self {
            Self::Http1(body) => Some(body.end()),
            Self::None | Self::Http2(_) => None,
        }
    }

    /// Tells a client that asked whether it may that it may send the body (RFC 9110 10.1.1).
    pub(super) async fn invite(&mut self) -> Result<(), RequestError> {
        match self {
            Self::None => Ok(()),
            Self::Http1(body) => body.invite().await,
            Self::Http2(incoming) => {
                incoming.invite();
                Ok(())
            }
        }
    }

    /// Returns the next piece; `None` at the body's end.
    ///
    /// # Errors
    /// [`RequestError::UploadSlow`] when nothing comes until `deadline`; [`RequestError::BodyCut`], [`RequestError::ChunkedBody`],
    /// [`RequestError::UploadTooLarge`]. There is no more of it then.
    pub(super) async fn next(&mut self, deadline: Instant) -> Result<Option<Piece>, RequestError> {
        match self {
            Self::None => Ok(None),
            Self::Http1(body) => body.next(deadline).await,
            Self::Http2(incoming) => {
                let bytes = incoming.next(deadline).await?;
                Ok(bytes.map(|bytes| Piece { bufs: vec![bytes.into()], _held: None }))
            }
        }
    }
}

impl Piece {
    /// Returns the number of bytes in it.
    pub(super) fn len(&self) -> u64 {
        self.bufs.iter().map(|buf| buf.len() as u64).sum()
    }
}

impl<'c> Http1Body<'c> {
    /// Creates the body that `head` announces. Of chunks no more than `content_max` bytes are taken; what is announced
    /// is for the handler to judge.
    pub(super) fn new(
        wire: &'c mut Wire,
        receive_buffer: &'c mut ReceiveBuffer,
        head: &Head<'_>,
        content_max: u64,
    ) -> Result<Self, RequestError> {
        let content_max = match head.body {
            BodyLength::Exact(length) => length.max(content_max),
            _ => content_max,
        };
        let reader = BodyReader::new(head.body, content_max, content_max.saturating_add(FRAMING_BYTES_MIN))?;
        let (length, is_awaited) = (head.body, head.expect_continue);
        Ok(Self {
            wire,
            receive_buffer,
            reader,
            length,
            is_awaited,
            is_fast: false,
            is_lost: false,
            broken: None,
        })
    }

    /// Returns what became of it.
    pub(super) fn end(self) -> BodyEnd {
        match self.broken {
            Some(abort) => BodyEnd::Broken(abort),
            // Not invited it may come or not (RFC 9110 10.1.1).
            None if self.is_lost || self.is_awaited => BodyEnd::Unclear,
            None => BodyEnd::Left(self.reader),
        }
    }

    async fn invite(&mut self) -> Result<(), RequestError> {
        // A client that has begun to send waits for nothing.
        if !std::mem::take(&mut self.is_awaited) || !self.receive_buffer.unread().is_empty() {
            return Ok(());
        }
        let told = async {
            self.wire.reserve(CONTINUE.len(), BufClass::Small).await?;
            self.wire.send_bytes(CONTINUE).await?;
            self.wire.flush(false).await
        };
        told.await.map_err(|abort| self.fail(abort))
    }

    pub(super) async fn next(&mut self, deadline: Instant) -> Result<Option<Piece>, RequestError> {
        loop {
            let content = self.unread()?;
            if !content.is_empty() {
                return Ok(Some(Piece { bufs: vec![content.into()], _held: None }));
            }
            if self.reader.is_done() {
                return Ok(None);
            }
            if let Some(piece) = self.next_whole(deadline).await? {
                return Ok(Some(piece));
            }
            let received =
                self.wire.receive_lent(LENT_MAX, deadline).await.map_err(|abort| self.fail(abort))?;
            if received.is_empty() {
                return Err(self.fail(Abort::PeerClosed));
            }
            self.is_fast = received.len() >= FAST_FROM;
            let bufs = match self.wire.is_tls() {
                false => self.content_of(received)?,
                true => self.opened(received).await?,
            };
            if !bufs.is_empty() {
                return Ok(Some(Piece { bufs, _held: None }));
            }
        }
    }

    /// Returns what came with the head, or in a buffer with something else.
    fn unread(&mut self) -> Result<Vec<u8>, RequestError> {
        let mut content = Vec::new();
        while !self.receive_buffer.unread().is_empty() && !self.reader.is_done() {
            let fed = self
                .reader
                .feed(self.receive_buffer.unread())
                .map_err(|refusal| lost(&mut self.is_lost, refusal))?;
            content.extend_from_slice(&self.receive_buffer.unread()[fed.content]);
            self.receive_buffer.consume(fed.consumed);
        }
        Ok(content)
    }

    /// Receives content of a client that sends fast, and has much to send, in one piece: the kernel puts it there by
    /// itself. `None` where that is not so, or there is no memory for it.
    async fn next_whole(&mut self, deadline: Instant) -> Result<Option<Piece>, RequestError> {
        let left = self.reader.run_left();
        if !self.is_fast || self.wire.is_tls() || left < WHOLE_BYTES_MIN {
            return Ok(None);
        }
        let len = left.min(WHOLE_BYTES_MAX) as usize;
        let Some(held) = self.wire.large_buffers().try_charge(len) else { return Ok(None) };
        let soon = deadline.min(now() + WHOLE_PATIENCE);
        let whole = self.wire.receive_whole(len, soon).await.map_err(|abort| self.fail(abort))?;
        self.is_fast = whole.is_some();
        Ok(whole.map(|bytes| {
            self.reader.pass(bytes.len() as u64);
            Piece { bufs: vec![bytes.into()], _held: Some(held) }
        }))
    }

    /// Returns the content where it was received. A buffer that holds more than one run of it is copied.
    fn content_of(&mut self, received: Vec<RecvBuf>) -> Result<Vec<Buf>, RequestError> {
        let mut bufs = Vec::with_capacity(received.len());
        for mut received in received {
            if self.reader.is_done() {
                self.receive_buffer.extend(&received);
                continue;
            }
            let first = self.reader.feed(&received).map_err(|refusal| lost(&mut self.is_lost, refusal))?;
            if first.consumed == received.len() || self.reader.is_done() {
                self.receive_buffer.extend(&received[first.consumed..]);
                received.truncate(first.content.end);
                received.advance(first.content.start);
                if !received.is_empty() {
                    bufs.push(received.into());
                }
                continue;
            }
            let mut content = received[first.content].to_vec();
            self.receive_buffer.extend(&received[first.consumed..]);
            content.extend(self.unread()?);
            bufs.push(content.into());
        }
        Ok(bufs)
    }

    /// Returns the content of records.
    async fn opened(&mut self, received: Vec<RecvBuf>) -> Result<Vec<Buf>, RequestError> {
        let mut content = Vec::with_capacity(received.iter().map(|received| received.len()).sum());
        let mut refused = None;
        for received in received {
            let (reader, receive_buffer) = (&mut self.reader, &mut *self.receive_buffer);
            let each = |plain: &[u8]| {
                let mut rest = plain;
                while !rest.is_empty() && !reader.is_done() && refused.is_none() {
                    match reader.feed(rest) {
                        Ok(fed) => {
                            content.extend_from_slice(&rest[fed.content]);
                            rest = &rest[fed.consumed..];
                        }
                        Err(refusal) => refused = Some(refusal),
                    }
                }
                receive_buffer.extend(rest);
            };
            let opened = self.wire.open_records(received, each).await;
            opened.map_err(|abort| self.fail(abort))?;
        }
        match (refused, content.is_empty()) {
            (Some(refusal), _) => Err(lost(&mut self.is_lost, refusal)),
            (None, true) => Ok(Vec::new()),
            (None, false) => Ok(vec![content.into()]),
        }
    }

    /// Remembers what ended the connection, if it is ended.
    fn fail(&mut self, abort: Abort) -> RequestError {
        if abort.is_timeout() {
            self.is_lost = true;
            return RequestError::UploadSlow;
        }
        self.broken = Some(abort);
        RequestError::BodyCut
    }
}

/// Marks the connection as lost, as its framing is unclear after a malformed body. The limit of a wanted body is that
/// of uploads.
fn lost(is_lost: &mut bool, refusal: RequestError) -> RequestError {
    *is_lost = true;
    if refusal == RequestError::BodyTooLarge { RequestError::UploadTooLarge } else { refusal }
}

/// Sizes, extensions and trailers of chunks, beyond one byte for each of content.
const FRAMING_BYTES_MIN: u64 = 64 * 1024;
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Received buffers that are written at once, of 8 KiB each; no stream has more of them untaken.
const LENT_MAX: usize = 8;
/// Number of buffers at hand from which on the client sends faster than they are taken.
const FAST_FROM: usize = 4;
/// Bytes that are received in one piece: as much as stays in a CPU's cache until it is written.
const WHOLE_BYTES_MIN: u64 = 64 * 1024;
//@ limit: memory of an upload over HTTP/1.1
//@ section: HTTP
//@ unit: byte
//@ connection: {LENT_MAX} receive buffers; a fast sender a piece of {:b} for {WHOLE_PATIENCE} at most
//@ all: lane: on the books of large buffers
//@ empty: smaller pieces; others feel nothing
//@ counter: lane_buffers_large_in_use, lane_recv_copied
//@ attack: http-slow-uploads
const WHOLE_BYTES_MAX: u64 = 256 * 1024;
/// A client that takes longer for one piece holds no memory for it.
const WHOLE_PATIENCE: Duration = Duration::from_secs(1);
