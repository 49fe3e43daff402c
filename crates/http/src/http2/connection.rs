//! A connection as the server has it (RFC 9113 3.4, 5 and 6): what the client may send, what it asks for, what it is
//! answered beside the bodies, and how much of them it takes.
//!
//! `handle` takes what came, one frame a call. `head`, `data` and `reset` answer. What must be sent waits in `replies`,
//! in its order before any data that follows.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::frame::{self, FrameHead, Reason};
use super::hpack::Decoder;
use super::patience::Patience;
use super::request::{Block, Request, read_request, read_trailers};
use super::stream::{Stream, Unfit};

/// The rules of one connection.
#[derive(Debug)]
pub(crate) struct Connection {
    bounds: Bounds,
    stage: Stage,
    decoder: Decoder,
    /// A header block whose end has not come.
    block: Option<Unfinished>,
    streams: BTreeMap<u32, Stream>,
    /// The highest stream that the client has opened.
    last_stream: u32,
    /// Streams that this side ended before the client had: what was on its way for them means nothing.
    let_go: VecDeque<u32>,
    send_window: i64,
    /// Of streams to come (SETTINGS_INITIAL_WINDOW_SIZE).
    initial_window: i64,
    /// DATA that came and whose room was not given back.
    received: usize,
    patience: Patience,
    leaving: Leaving,
    replies: Vec<u8>,
    /// Streams that were reset for what the client did, since somebody last asked.
    refused: u64,
    broken: Option<Reason>,
}

/// What one connection may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Requests at a time.
    pub(crate) streams_max: usize,
    /// Bytes of one request's fields, as SETTINGS_MAX_HEADER_LIST_SIZE counts them.
    pub(crate) head_bytes_max: usize,
    /// Fields of one request.
    pub(crate) fields_max: usize,
}

/// What a frame brought.
#[derive(Debug)]
pub(crate) enum Event {
    /// A request, to be answered on this stream.
    Request(u32, Box<Request>),
    /// The stream is over: nothing can be sent on it.
    Gone(u32),
    /// More may be sent, on all streams or on this one.
    Room(Option<u32>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The client's preface has not come.
    Preface,
    /// Its first frame, which must be SETTINGS, has not come.
    Settings,
    Open,
    /// Nothing more is read.
    Over,
}

/// How far this side is with ending the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// The client was told; what it had sent by then is still to come.
    Told,
    /// Requests up to this stream are answered.
    After(u32),
}

#[derive(Debug)]
struct Unfinished {
    stream: u32,
    ends: bool,
    depends_on_itself: bool,
    bytes: Vec<u8>,
}

/// What a frame breaks.
#[derive(Clone, Copy, Debug)]
enum Broken {
    Connection(Reason),
    Stream(u32, Reason),
}

type Outcome = Result<Option<Event>, Broken>;

impl Connection {
    /// Waits for a client; SETTINGS are the first of the replies.
    pub(crate) fn new(bounds: Bounds, now: Instant) -> Self {
        let mut connection = Self {
            bounds,
            stage: Stage::Preface,
            decoder: Decoder::new(),
            block: None,
            streams: BTreeMap::new(),
            last_stream: 0,
            let_go: VecDeque::new(),
            send_window: frame::WINDOW_INITIAL,
            initial_window: frame::WINDOW_INITIAL,
            received: 0,
            patience: Patience::new(now),
            leaving: Leaving::No,
            replies: Vec::new(),
            refused: 0,
            broken: None,
        };
        let mut settings = Vec::new();
        for (name, value) in [
            (frame::MAX_CONCURRENT_STREAMS, bounds.streams_max),
            (frame::MAX_HEADER_LIST_SIZE, bounds.head_bytes_max),
        ] {
            settings.extend_from_slice(&name.to_be_bytes());
            settings.extend_from_slice(&u32::try_from(value).unwrap_or(u32::MAX).to_be_bytes());
        }
        frame::put(&mut connection.replies, frame::SETTINGS, 0, 0, &settings);
        connection
    }

    /// Takes the first frame of what came; says how many bytes that was, 0 if it is not whole yet.
    pub(crate) fn handle(&mut self, input: &[u8], now: Instant) -> (usize, Option<Event>) {
        let (consumed, outcome) = match self.stage {
            Stage::Over => (input.len(), Ok(None)),
            Stage::Preface => self.preface(input),
            Stage::Settings | Stage::Open => self.next_frame(input, now),
        };
        let outcome = match outcome {
            Err(Broken::Stream(stream, reason)) => self.refuse(stream, reason, now),
            other => other,
        };
        match outcome {
            Ok(event) => (consumed, event),
            Err(Broken::Connection(reason) | Broken::Stream(_, reason)) => {
                self.end(reason);
                (input.len(), None)
            }
        }
    }

    /// Whether the client has introduced itself.
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(self.stage, Stage::Preface | Stage::Settings)
    }

    /// Whether nothing more is to be read or answered.
    pub(crate) fn is_over(&self) -> bool {
        match self.leaving {
            Leaving::After(_) => self.streams.is_empty() || self.stage == Stage::Over,
            _ => self.stage == Stage::Over,
        }
    }

    /// Why the connection had to end, if its client broke the protocol.
    pub(crate) fn broken(&self) -> Option<Reason> {
        self.broken
    }

    /// How many streams were reset for what the client did, since this was last asked.
    pub(crate) fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }

    /// What must be sent, before any data; the caller takes from its front.
    pub(crate) fn replies(&mut self) -> &mut Vec<u8> {
        &mut self.replies
    }

    /// Bytes of a body that the client takes on this stream now.
    pub(crate) fn room(&self, stream: u32) -> usize {
        let window = self.streams.get(&stream).map_or(0, |stream| stream.send_window);
        usize::try_from(window.min(self.send_window)).unwrap_or(0)
    }

    /// Begins an answer, and ends it if it has no body.
    pub(crate) fn head(&mut self, stream: u32, ends: bool, block: &[u8]) {
        if self.streams.contains_key(&stream) {
            frame::put_block(&mut self.replies, stream, ends, block, frame::FRAME_BYTES);
            if ends {
                self.answered(stream);
            }
        }
    }

    /// Counts `len` bytes of a body that are sent, for which there must be room.
    pub(crate) fn data(&mut self, stream: u32, len: usize, ends: bool) {
        debug_assert!(len <= self.room(stream) && len <= frame::FRAME_BYTES);
        self.send_window -= len as i64;
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.send_window -= len as i64;
        }
        if ends {
            self.answered(stream);
        }
    }

    /// Ends a stream in the middle.
    pub(crate) fn reset(&mut self, stream: u32, reason: Reason) {
        if let Some(state) = self.streams.remove(&stream) {
            self.put_reset(stream, reason);
            if !state.is_half_closed {
                self.let_go(stream);
            }
        }
    }

    /// Takes no more requests than those on their way (RFC 9113 6.8); the connection is over when they are answered.
    pub(crate) fn leave(&mut self) {
        if self.leaving == Leaving::No && self.stage != Stage::Over {
            self.leaving = Leaving::Told;
            self.put_goaway(frame::STREAM_MAX, Reason::NoError);
            // Its answer tells that the client has heard of it.
            frame::put(&mut self.replies, frame::PING, 0, 0, LEAVING);
        }
    }

    /// The answer has ended. A client that still sends its request is told that nobody wants the rest (RFC 9113 8.1).
    fn answered(&mut self, stream: u32) {
        if let Some(state) = self.streams.remove(&stream)
            && !state.is_half_closed
        {
            self.put_reset(stream, Reason::NoError);
            self.let_go(stream);
        }
    }

    fn let_go(&mut self, stream: u32) {
        if self.let_go.len() == LET_GO_MAX {
            self.let_go.pop_front();
        }
        self.let_go.push_back(stream);
    }

    fn end(&mut self, reason: Reason) {
        tracing::debug!(target: TRACED, ?reason, "the connection ends: its client broke the protocol");
        self.put_goaway(self.last_stream, reason);
        self.broken = Some(reason);
        self.stage = Stage::Over;
    }

    fn put_goaway(&mut self, last_stream: u32, reason: Reason) {
        let [a, b, c, d] = last_stream.to_be_bytes();
        let [e, f, g, h] = (reason as u32).to_be_bytes();
        frame::put(&mut self.replies, frame::GOAWAY, 0, 0, &[a, b, c, d, e, f, g, h]);
    }

    fn put_reset(&mut self, stream: u32, reason: Reason) {
        frame::put(&mut self.replies, frame::RST_STREAM, 0, stream, &(reason as u32).to_be_bytes());
    }

    /// A stream error (RFC 9113 5.4.2). Clients can make this side reset streams as they can do it themselves, so it
    /// costs them as much.
    fn refuse(&mut self, stream: u32, reason: Reason, now: Instant) -> Outcome {
        tracing::debug!(target: TRACED, stream, ?reason, "a stream is reset");
        self.patience.spend(COST_OF_RESET, now).map_err(Broken::Connection)?;
        self.refused += 1;
        let state = self.streams.remove(&stream);
        self.put_reset(stream, reason);
        if !state.as_ref().is_some_and(|state| state.is_half_closed) {
            self.let_go(stream);
        }
        Ok(state.map(|_| Event::Gone(stream)))
    }

    fn preface(&mut self, input: &[u8]) -> (usize, Outcome) {
        let len = input.len().min(frame::PREFACE.len());
        if input[..len] != frame::PREFACE[..len] {
            return (0, Err(Broken::Connection(Reason::Protocol)));
        }
        if len < frame::PREFACE.len() {
            return (0, Ok(None));
        }
        self.stage = Stage::Settings;
        (len, Ok(None))
    }

    fn next_frame(&mut self, input: &[u8], now: Instant) -> (usize, Outcome) {
        let Some(head) = input.first_chunk().map(FrameHead::parse) else { return (0, Ok(None)) };
        let broken = |reason| (0, Err(Broken::Connection(reason)));
        if head.len > frame::FRAME_BYTES {
            return broken(Reason::FrameSize);
        }
        if self.stage == Stage::Settings && (head.kind != frame::SETTINGS || head.has(frame::ACK)) {
            return broken(Reason::Protocol);
        }
        // Nothing comes between the parts of a header block (RFC 9113 6.10).
        let continues = head.kind == frame::CONTINUATION;
        match &self.block {
            Some(block) if !continues || block.stream != head.stream => return broken(Reason::Protocol),
            None if continues => return broken(Reason::Protocol),
            _ => {}
        }
        let Some(payload) = input[frame::HEAD_BYTES..].get(..head.len) else { return (0, Ok(None)) };
        tracing::trace!(target: TRACED, kind = head.kind, flags = head.flags, stream = head.stream, len = head.len);
        let outcome = match head.kind {
            frame::DATA => self.data_frame(head, payload, now),
            frame::HEADERS => self.headers(head, payload),
            frame::CONTINUATION => self.continuation(head, payload, now),
            frame::PRIORITY => self.priority(head, payload),
            frame::RST_STREAM => self.rst_stream(head, payload, now),
            frame::SETTINGS => self.settings(head, payload),
            frame::PING => self.ping(head, payload),
            frame::GOAWAY => goaway(head),
            frame::WINDOW_UPDATE => self.window_update(head, payload),
            frame::PUSH_PROMISE => Err(Broken::Connection(Reason::Protocol)),
            // RFC 9113 5.5.
            _ => Ok(None),
        };
        (frame::HEAD_BYTES + head.len, outcome)
    }

    fn is_idle(&self, stream: u32) -> bool {
        stream > self.last_stream || stream.is_multiple_of(2)
    }

    /// What a frame on a stream without state means: nothing if this side ended it.
    fn closed(&self, stream: u32) -> Outcome {
        match self.let_go.contains(&stream) {
            true => Ok(None),
            false => Err(Broken::Connection(Reason::StreamClosed)),
        }
    }

    /// RFC 9113 6.1. Nobody wants the bytes: the connection's window is given back, streams' are not.
    fn data_frame(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> Outcome {
        if self.is_idle(head.stream) {
            return Err(Broken::Connection(Reason::Protocol));
        }
        if payload.is_empty() && !head.has(frame::END_STREAM) {
            self.patience.spend(COST_OF_NOTHING, now).map_err(Broken::Connection)?;
        }
        let data = unpadded(head, payload)?;
        self.received += payload.len();
        if self.received as i64 > frame::WINDOW_INITIAL {
            return Err(Broken::Connection(Reason::FlowControl));
        }
        if self.received >= GIVEN_BACK_FROM {
            let received = std::mem::take(&mut self.received) as u32;
            frame::put(&mut self.replies, frame::WINDOW_UPDATE, 0, 0, &received.to_be_bytes());
        }
        let Some(stream) = self.streams.get_mut(&head.stream) else { return self.closed(head.stream) };
        if stream.is_half_closed {
            return Err(Broken::Stream(head.stream, Reason::StreamClosed));
        }
        let fit = stream.receive(payload.len(), data.len());
        let fit = if head.has(frame::END_STREAM) { fit.and_then(|()| stream.end()) } else { fit };
        fit.map(|()| None).map_err(|unfit| match unfit {
            Unfit::Window => Broken::Stream(head.stream, Reason::FlowControl),
            Unfit::Length => Broken::Stream(head.stream, Reason::Protocol),
        })
    }

    /// RFC 9113 6.2.
    fn headers(&mut self, head: FrameHead, payload: &[u8]) -> Outcome {
        if head.stream.is_multiple_of(2) {
            return Err(Broken::Connection(Reason::Protocol));
        }
        let mut fragment = unpadded(head, payload)?;
        let mut depends_on_itself = false;
        if head.has(frame::HAS_PRIORITY) {
            let (priority, rest) =
                fragment.split_first_chunk::<5>().ok_or(Broken::Connection(Reason::FrameSize))?;
            depends_on_itself = depends_on(*priority) == head.stream;
            fragment = rest;
        }
        let ends = head.has(frame::END_STREAM);
        if head.has(frame::END_HEADERS) {
            return self.whole_block(head.stream, ends, depends_on_itself, fragment);
        }
        let bytes = fragment.to_vec();
        self.block = Some(Unfinished { stream: head.stream, ends, depends_on_itself, bytes });
        Ok(None)
    }

    /// RFC 9113 6.10. A block without end is cut where no good one can be longer.
    fn continuation(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> Outcome {
        let Some(mut block) = self.block.take() else { return Err(Broken::Connection(Reason::Protocol)) };
        if payload.len() < SMALL_CONTINUATION {
            self.patience.spend(COST_OF_NOTHING, now).map_err(Broken::Connection)?;
        }
        if block.bytes.len() + payload.len() > BLOCK_BYTES_MAX {
            return Err(Broken::Connection(Reason::EnhanceYourCalm));
        }
        block.bytes.extend_from_slice(payload);
        if head.has(frame::END_HEADERS) {
            return self.whole_block(block.stream, block.ends, block.depends_on_itself, &block.bytes);
        }
        self.block = Some(block);
        Ok(None)
    }

    /// Every block is decoded, whatever becomes of it: the next one builds on its table.
    fn whole_block(&mut self, stream: u32, ends: bool, depends_on_itself: bool, block: &[u8]) -> Outcome {
        let read = match stream > self.last_stream {
            true => {
                let Bounds { head_bytes_max, fields_max, .. } = self.bounds;
                read_request(&mut self.decoder, block, head_bytes_max, fields_max)
            }
            false => read_trailers(&mut self.decoder, block),
        };
        let read = read.map_err(|_| Broken::Connection(Reason::Compression))?;
        let broken = |reason| Err(Broken::Stream(stream, reason));
        if stream <= self.last_stream {
            let Some(state) = self.streams.get_mut(&stream) else { return self.closed(stream) };
            if state.is_half_closed {
                return broken(Reason::StreamClosed);
            }
            return match (read, ends && !depends_on_itself && state.end().is_ok()) {
                (Block::Trailers, true) => Ok(None),
                _ => broken(Reason::Protocol),
            };
        }
        self.last_stream = stream;
        if matches!(self.leaving, Leaving::After(last) if stream > last) {
            self.let_go(stream);
            return Ok(None);
        }
        let Block::Request(request) = read else { return broken(Reason::Protocol) };
        if depends_on_itself || (ends && request.body_length.is_some_and(|length| length > 0)) {
            return broken(Reason::Protocol);
        }
        if self.streams.len() >= self.bounds.streams_max {
            return broken(Reason::RefusedStream);
        }
        let mut state = Stream::new(self.initial_window, request.body_length);
        state.is_half_closed = ends;
        self.streams.insert(stream, state);
        Ok(Some(Event::Request(stream, request)))
    }

    /// RFC 9113 6.3: priorities mean nothing any more, but the frame has a form.
    fn priority(&mut self, head: FrameHead, payload: &[u8]) -> Outcome {
        if head.stream == 0 {
            return Err(Broken::Connection(Reason::Protocol));
        }
        let reason = match <[u8; 5]>::try_from(payload) {
            Err(_) => Reason::FrameSize,
            Ok(priority) if depends_on(priority) == head.stream => Reason::Protocol,
            Ok(_) => return Ok(None),
        };
        match self.streams.contains_key(&head.stream) {
            true => Err(Broken::Stream(head.stream, reason)),
            // A stream that is not open cannot be reset.
            false => Err(Broken::Connection(reason)),
        }
    }

    /// RFC 9113 6.4.
    fn rst_stream(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> Outcome {
        if payload.len() != 4 {
            return Err(Broken::Connection(Reason::FrameSize));
        }
        if self.is_idle(head.stream) {
            return Err(Broken::Connection(Reason::Protocol));
        }
        if self.streams.remove(&head.stream).is_none() {
            return Ok(None);
        }
        // Requests that are taken back at once cost this side much and the client nothing (CVE-2023-44487).
        self.patience.spend(COST_OF_RESET, now).map_err(Broken::Connection)?;
        Ok(Some(Event::Gone(head.stream)))
    }

    /// RFC 9113 6.5.
    fn settings(&mut self, head: FrameHead, payload: &[u8]) -> Outcome {
        if head.stream != 0 {
            return Err(Broken::Connection(Reason::Protocol));
        }
        if head.has(frame::ACK) {
            return if payload.is_empty() { Ok(None) } else { Err(Broken::Connection(Reason::FrameSize)) };
        }
        if !payload.len().is_multiple_of(6) {
            return Err(Broken::Connection(Reason::FrameSize));
        }
        let window_before = self.initial_window;
        for setting in payload.chunks_exact(6) {
            let name = u16::from_be_bytes([setting[0], setting[1]]);
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            let reason = match name {
                frame::ENABLE_PUSH if value > 1 => Some(Reason::Protocol),
                frame::INITIAL_WINDOW_SIZE if i64::from(value) > frame::WINDOW_MAX => {
                    Some(Reason::FlowControl)
                }
                // Frames of this side are no longer than everybody takes.
                frame::MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => Some(Reason::Protocol),
                _ => None,
            };
            if let Some(reason) = reason {
                return Err(Broken::Connection(reason));
            }
            if name == frame::INITIAL_WINDOW_SIZE {
                self.set_initial_window(i64::from(value))?;
            }
        }
        self.stage = Stage::Open;
        frame::put(&mut self.replies, frame::SETTINGS, frame::ACK, 0, &[]);
        Ok((self.initial_window > window_before).then_some(Event::Room(None)))
    }

    /// RFC 9113 6.9.2.
    fn set_initial_window(&mut self, window: i64) -> Result<(), Broken> {
        let by = window - std::mem::replace(&mut self.initial_window, window);
        match self.streams.values_mut().all(|stream| stream.widen(by)) {
            true => Ok(()),
            false => Err(Broken::Connection(Reason::FlowControl)),
        }
    }

    /// RFC 9113 6.7.
    fn ping(&mut self, head: FrameHead, payload: &[u8]) -> Outcome {
        if head.stream != 0 {
            return Err(Broken::Connection(Reason::Protocol));
        }
        if payload.len() != 8 {
            return Err(Broken::Connection(Reason::FrameSize));
        }
        if !head.has(frame::ACK) {
            frame::put(&mut self.replies, frame::PING, frame::ACK, 0, payload);
        } else if self.leaving == Leaving::Told && payload == LEAVING {
            self.leaving = Leaving::After(self.last_stream);
            self.put_goaway(self.last_stream, Reason::NoError);
        } else {
            tracing::warn!(target: TRACED, "a ping is acknowledged that was never sent");
        }
        Ok(None)
    }

    /// RFC 9113 6.9.
    fn window_update(&mut self, head: FrameHead, payload: &[u8]) -> Outcome {
        let Ok(bytes) = <[u8; 4]>::try_from(payload) else {
            return Err(Broken::Connection(Reason::FrameSize));
        };
        let by = i64::from(u32::from_be_bytes(bytes) & frame::STREAM_MAX);
        if head.stream == 0 {
            self.send_window += by;
            return match (by, self.send_window) {
                (0, _) => Err(Broken::Connection(Reason::Protocol)),
                (_, ..=frame::WINDOW_MAX) => Ok(Some(Event::Room(None))),
                _ => Err(Broken::Connection(Reason::FlowControl)),
            };
        }
        if self.is_idle(head.stream) {
            return Err(Broken::Connection(Reason::Protocol));
        }
        // It may have been on its way when the stream ended.
        let Some(stream) = self.streams.get_mut(&head.stream) else { return Ok(None) };
        match (by, stream.widen(by)) {
            (0, _) => Err(Broken::Stream(head.stream, Reason::Protocol)),
            (_, true) => Ok(Some(Event::Room(Some(head.stream)))),
            (_, false) => Err(Broken::Stream(head.stream, Reason::FlowControl)),
        }
    }
}

/// RFC 9113 6.8: the client opens no more streams, and ends the connection when it likes.
fn goaway(head: FrameHead) -> Outcome {
    match (head.stream, head.len) {
        (0, 8..) => Ok(None),
        (0, _) => Err(Broken::Connection(Reason::FrameSize)),
        _ => Err(Broken::Connection(Reason::Protocol)),
    }
}

/// The payload without its padding (RFC 9113 6.1).
fn unpadded(head: FrameHead, payload: &[u8]) -> Result<&[u8], Broken> {
    if !head.has(frame::PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(Broken::Connection(Reason::FrameSize))?;
    let len = rest.len().checked_sub(usize::from(*padding)).ok_or(Broken::Connection(Reason::Protocol))?;
    Ok(&rest[..len])
}

/// The stream that a priority names.
fn depends_on([a, b, c, d, _]: [u8; 5]) -> u32 {
    u32::from_be_bytes([a, b, c, d]) & frame::STREAM_MAX
}

/// What is told of clients, which by default nobody hears.
const TRACED: &str = "http2";
/// The connection's window is given back when half of it is used.
const GIVEN_BACK_FROM: usize = 32 * 1024;
/// Compressed bytes of one header block, more than any that keeps SETTINGS_MAX_HEADER_LIST_SIZE has.
const BLOCK_BYTES_MAX: usize = 32 * 1024;
/// Streams that are remembered after this side ended them.
const LET_GO_MAX: usize = 256;
/// A continuation below this brings nearly nothing.
const SMALL_CONTINUATION: usize = 256;
const COST_OF_RESET: u32 = 10;
const COST_OF_NOTHING: u32 = 1;
const LEAVING: &[u8; 8] = b"leaving!";

#[cfg(test)]
mod tests;
