//! A connection as the server has it (RFC 9113 3.4, 5 and 6): what the client may send, what it asks for, what it is
//! answered beside the bodies, and how much of them it takes.
//!
//! `handle` takes what came, one frame a call. `head`, `data` and `reset` answer. What must be sent waits in `replies`,
//! in its order before any data that follows.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Instant;

use super::frame::{self, FrameHead, Reason};
use super::hpack::{BlockWriter, Decoder, Encoder};
use super::patience::Patience;
use super::request::Request;
use super::stream::Stream;

mod control;
mod requests;

/// The rules of one connection.
#[derive(Debug)]
pub(crate) struct Connection {
    bounds: Bounds,
    stage: ConnectionStage,
    decoder: Decoder,
    encoder: Encoder,
    /// A header block whose end has not come.
    block: Option<Unfinished>,
    /// Time since which the rest of a frame, but one of a body, or of a header block has been awaited.
    cut_since: Option<Instant>,
    streams: BTreeMap<u32, Stream>,
    /// The highest stream that the client has opened.
    last_stream: u32,
    /// Streams that this side ended before the client had: what was on its way for them means nothing.
    let_go: VecDeque<u32>,
    send_window: i64,
    /// Send window of streams to come (SETTINGS_INITIAL_WINDOW_SIZE).
    initial_window: i64,
    /// DATA that came and whose room was not given back, and the part of it that no stream has any more.
    received: usize,
    taken: usize,
    /// Bytes of DATA that may be on their way or untaken.
    receive_window: i64,
    patience: Patience,
    leaving: Leaving,
    replies: Vec<u8>,
    /// Streams that were reset for what the client did, since the last question.
    refused: u64,
    answered_early: Vec<u32>,
    broken: Option<Reason>,
}

/// Bounds of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Requests at a time.
    pub(crate) streams_max: usize,
    /// Bytes of one request's fields, as SETTINGS_MAX_HEADER_LIST_SIZE counts them.
    pub(crate) head_bytes_max: usize,
    /// Fields of one request.
    pub(crate) fields_max: usize,
}

/// The event that a frame leads to.
#[derive(Debug)]
pub(crate) enum FrameEvent {
    /// A request, to be answered on this stream.
    Request(u32, Box<Request>),
    /// The stream is over: nothing can be sent on it.
    Gone(u32),
    /// The send window grew: more may be sent, on all streams or on this one.
    Room(Option<u32>),
    /// Part of a body that is kept, where in the input its content lies, and whether the body ends there.
    Body { stream: u32, content: Range<usize>, ends: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionStage {
    /// The client's preface has not come.
    Preface,
    /// The client's first frame, which must be SETTINGS, has not come.
    Settings,
    Open,
    /// Nothing more is read.
    Over,
}

/// Progress of this side in ending the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// GOAWAY was sent; what the client had sent by then is still to come.
    Told,
    /// Requests up to this stream are answered.
    After(u32),
}

/// The rule of RFC 9113 that a frame breaks.
#[derive(Clone, Copy, Debug)]
enum ProtocolViolation {
    Connection(Reason),
    Stream(u32, Reason),
}

type FrameOutcome = Result<Option<FrameEvent>, ProtocolViolation>;

impl Connection {
    /// Waits for a client; SETTINGS are the first of the replies.
    pub(crate) fn new(bounds: Bounds, now: Instant) -> Self {
        let mut connection = Self {
            bounds,
            stage: ConnectionStage::Preface,
            decoder: Decoder::new(),
            encoder: Encoder::new(),
            block: None,
            cut_since: None,
            streams: BTreeMap::new(),
            last_stream: 0,
            let_go: VecDeque::new(),
            send_window: frame::WINDOW_INITIAL,
            initial_window: frame::WINDOW_INITIAL,
            received: 0,
            taken: 0,
            receive_window: frame::WINDOW_INITIAL,
            patience: Patience::new(now),
            leaving: Leaving::No,
            replies: Vec::new(),
            refused: 0,
            answered_early: Vec::new(),
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
    pub(crate) fn handle(&mut self, input: &[u8], now: Instant) -> (usize, Option<FrameEvent>) {
        let (consumed, outcome) = match self.stage {
            ConnectionStage::Over => (input.len(), Ok(None)),
            ConnectionStage::Preface => self.preface(input),
            ConnectionStage::Settings | ConnectionStage::Open => self.next_frame(input, now),
        };
        // A body's bytes have a patience of their own.
        let is_data = || input.get(frame::KIND_AT) == Some(&frame::DATA);
        let is_cut = self.block.is_some() || (consumed == 0 && !input.is_empty() && !is_data());
        self.cut_since = if is_cut { self.cut_since.or(Some(now)) } else { None };
        let outcome = match outcome {
            Err(ProtocolViolation::Stream(stream, reason)) => self.refuse(stream, reason, now),
            other => other,
        };
        match outcome {
            Ok(event) => (consumed, event),
            Err(ProtocolViolation::Connection(reason) | ProtocolViolation::Stream(_, reason)) => {
                self.end(reason);
                (input.len(), None)
            }
        }
    }

    /// Returns whether the client has introduced itself.
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(self.stage, ConnectionStage::Preface | ConnectionStage::Settings)
    }

    /// Returns whether nothing more is to be read or answered.
    pub(crate) fn is_over(&self) -> bool {
        match self.leaving {
            Leaving::After(_) => self.streams.is_empty() || self.stage == ConnectionStage::Over,
            _ => self.stage == ConnectionStage::Over,
        }
    }

    /// Returns why the connection had to end, if its client broke the protocol.
    pub(crate) fn broken(&self) -> Option<Reason> {
        self.broken
    }

    /// Returns since when the client has owed the rest of a frame that is none of a body, or of a header block.
    pub(crate) fn cut_since(&self) -> Option<Instant> {
        self.cut_since
    }

    /// Ends the connection of a client that is too slow.
    pub(crate) fn give_up(&mut self) {
        self.end(Reason::EnhanceYourCalm);
    }

    /// Returns how many streams were reset for what the client did, since this was last asked.
    pub(crate) fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }

    /// Returns what must be sent, before any data; the caller takes from its front.
    pub(crate) fn replies(&mut self) -> &mut Vec<u8> {
        &mut self.replies
    }

    /// Returns the number of bytes of a body that the client takes on this stream now.
    pub(crate) fn room(&self, stream: u32) -> usize {
        let window = self.streams.get(&stream).map_or(0, |stream| stream.send_window);
        usize::try_from(window.min(self.send_window)).unwrap_or(0)
    }

    /// Begins an answer, whose fields `put_fields` gives, and ends it if it has no body.
    pub(crate) fn head(
        &mut self,
        stream: u32,
        ends: bool,
        status: u16,
        put_fields: impl FnOnce(&mut BlockWriter<'_>),
    ) {
        // A block that is made is sent: the next one builds on its table.
        if !self.streams.contains_key(&stream) {
            return;
        }
        let start = self.replies.len();
        self.replies.extend_from_slice(&[0; frame::HEAD_BYTES]);
        put_fields(&mut self.encoder.begin(status, &mut self.replies));
        frame::end_block(&mut self.replies, start, stream, ends);
        if ends {
            self.answered(stream);
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

    /// Keeps the request's body for its handler. False if there is none.
    pub(crate) fn keep_body(&mut self, stream: u32) -> bool {
        match self.streams.get_mut(&stream) {
            Some(state) if !state.is_half_closed => {
                state.is_kept = true;
                true
            }
            _ => false,
        }
    }

    /// Lets the client send a body that is kept as fast as it is taken, and tells it so if it `waits` for that.
    pub(crate) fn want_body(&mut self, stream: u32, waits: bool) {
        let Some(state) = self.streams.get_mut(&stream).filter(|state| state.is_kept) else { return };
        if state.is_half_closed {
            return;
        }
        state.widen_receiving(BODY_WINDOW - frame::WINDOW_INITIAL as usize);
        if waits {
            self.head(stream, false, CONTINUE, |_| {});
        }
        self.put_window(stream, BODY_WINDOW - frame::WINDOW_INITIAL as usize);
        if self.receive_window == frame::WINDOW_INITIAL {
            let more = BODIES_WINDOW - frame::WINDOW_INITIAL as usize;
            self.receive_window += more as i64;
            self.put_window(0, more);
        }
    }

    /// Notes that so much of a kept body was used.
    pub(crate) fn take_body(&mut self, stream: u32, bytes: usize) {
        // Of one that is over all was given back.
        let Some(state) = self.streams.get_mut(&stream).filter(|state| state.is_kept) else { return };
        if let Some(room) = state.take(bytes, GIVEN_BACK_FROM) {
            self.put_window(stream, room);
        }
        self.give_back(bytes);
    }

    /// Drops the rest of the body, as no handler wants it any more.
    pub(crate) fn drop_body(&mut self, stream: u32) {
        let Some(state) = self.streams.get_mut(&stream) else { return };
        state.is_kept = false;
        let untaken = std::mem::take(&mut state.untaken);
        self.give_back(untaken);
    }

    /// Ends a stream in the middle.
    pub(crate) fn reset(&mut self, stream: u32, reason: Reason) {
        if let Some(state) = self.forget(stream) {
            self.put_reset(stream, reason);
            if !state.is_half_closed {
                self.let_go(stream);
            }
        }
    }

    /// Takes no more requests than those on their way (RFC 9113 6.8); the connection is over when they are answered.
    pub(crate) fn leave(&mut self) {
        if self.leaving == Leaving::No && self.stage != ConnectionStage::Over {
            self.leaving = Leaving::Told;
            self.put_goaway(frame::STREAM_MAX, Reason::NoError);
            // Its answer tells that the client has heard of it.
            frame::put(&mut self.replies, frame::PING, 0, 0, LEAVING);
        }
    }

    /// Ends a stream whose answer has ended. Where the client still sends its request the stream is reset (RFC 9113
    /// 8.1), whatever the method. That happens a moment later, by [`Connection::end_upload`], as some clients pass over
    /// an answer which comes with a reset (curl before 8).
    fn answered(&mut self, stream: u32) {
        if let Some(state) = self.streams.get_mut(&stream)
            && !state.is_half_closed
        {
            state.is_answered = true;
            self.answered_early.push(stream);
            return;
        }
        self.forget(stream);
    }

    /// Requests that were answered before their end, since this was last asked.
    pub(crate) fn take_answered_early(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.answered_early)
    }

    /// Tells the client of a request that was answered before its end to stop, if it has not ended it by itself.
    pub(crate) fn end_upload(&mut self, stream: u32) {
        if self.streams.get(&stream).is_some_and(|state| state.is_answered) {
            self.forget(stream);
            self.put_reset(stream, Reason::NoError);
            self.let_go(stream);
        }
    }

    /// Takes a stream away. What was not taken of its body is lost.
    fn forget(&mut self, stream: u32) -> Option<Stream> {
        let state = self.streams.remove(&stream)?;
        self.give_back(state.untaken);
        Some(state)
    }

    /// Gives the connection's window back when that is worth a frame.
    fn give_back(&mut self, bytes: usize) {
        self.taken += bytes;
        if self.taken >= GIVEN_BACK_FROM {
            let taken = std::mem::take(&mut self.taken);
            self.received -= taken;
            self.put_window(0, taken);
        }
    }

    fn put_window(&mut self, stream: u32, bytes: usize) {
        frame::put(&mut self.replies, frame::WINDOW_UPDATE, 0, stream, &(bytes as u32).to_be_bytes());
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
        self.stage = ConnectionStage::Over;
    }

    fn put_goaway(&mut self, last_stream: u32, reason: Reason) {
        let [a, b, c, d] = last_stream.to_be_bytes();
        let [e, f, g, h] = (reason as u32).to_be_bytes();
        frame::put(&mut self.replies, frame::GOAWAY, 0, 0, &[a, b, c, d, e, f, g, h]);
    }

    fn put_reset(&mut self, stream: u32, reason: Reason) {
        frame::put(&mut self.replies, frame::RST_STREAM, 0, stream, &(reason as u32).to_be_bytes());
    }

    /// Ends a stream by a stream error (RFC 9113 5.4.2). Clients can make this side reset streams as they can do it
    /// themselves, so it costs them as much.
    fn refuse(&mut self, stream: u32, reason: Reason, now: Instant) -> FrameOutcome {
        tracing::debug!(target: TRACED, stream, ?reason, "a stream is reset");
        self.patience.spend(COST_OF_RESET, now).map_err(ProtocolViolation::Connection)?;
        self.refused += 1;
        let state = self.forget(stream);
        self.put_reset(stream, reason);
        if !state.as_ref().is_some_and(|state| state.is_half_closed) {
            self.let_go(stream);
        }
        Ok(state.map(|_| FrameEvent::Gone(stream)))
    }

    fn preface(&mut self, input: &[u8]) -> (usize, FrameOutcome) {
        let len = input.len().min(frame::PREFACE.len());
        if input[..len] != frame::PREFACE[..len] {
            return (0, Err(ProtocolViolation::Connection(Reason::Protocol)));
        }
        if len < frame::PREFACE.len() {
            return (0, Ok(None));
        }
        self.stage = ConnectionStage::Settings;
        (len, Ok(None))
    }

    fn next_frame(&mut self, input: &[u8], now: Instant) -> (usize, FrameOutcome) {
        let Some(head) = input.first_chunk().map(FrameHead::parse) else { return (0, Ok(None)) };
        let broken = |reason| (0, Err(ProtocolViolation::Connection(reason)));
        if head.len > frame::FRAME_BYTES {
            return broken(Reason::FrameSize);
        }
        if self.stage == ConnectionStage::Settings && (head.kind != frame::SETTINGS || head.has(frame::ACK)) {
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
            frame::GOAWAY => control::goaway(head),
            frame::WINDOW_UPDATE => self.window_update(head, payload),
            frame::PUSH_PROMISE => Err(ProtocolViolation::Connection(Reason::Protocol)),
            // RFC 9113 5.5.
            _ => Ok(None),
        };
        (frame::HEAD_BYTES + head.len, outcome)
    }

    fn is_idle(&self, stream: u32) -> bool {
        stream > self.last_stream || stream.is_multiple_of(2)
    }

    /// Returns what a frame on a stream without state means: nothing if this side ended it.
    fn closed(&self, stream: u32) -> FrameOutcome {
        match self.let_go.contains(&stream) {
            true => Ok(None),
            false => Err(ProtocolViolation::Connection(Reason::StreamClosed)),
        }
    }

    /// Handles DATA (RFC 9113 6.1). Of an unwanted body the connection's window is given back, the stream's is not.
    fn data_frame(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> FrameOutcome {
        if self.is_idle(head.stream) {
            return Err(ProtocolViolation::Connection(Reason::Protocol));
        }
        if payload.is_empty() && !head.has(frame::END_STREAM) {
            self.patience.spend(COST_OF_NOTHING, now).map_err(ProtocolViolation::Connection)?;
        }
        let data = unpadded(head, payload)?;
        self.received += payload.len();
        if self.received as i64 > self.receive_window {
            return Err(ProtocolViolation::Connection(Reason::FlowControl));
        }
        let ends = head.has(frame::END_STREAM);
        let (taken, outcome) = match self.streams.get_mut(&head.stream) {
            None => (payload.len(), self.closed(head.stream)),
            Some(stream) if stream.is_half_closed => {
                (payload.len(), Err(ProtocolViolation::Stream(head.stream, Reason::StreamClosed)))
            }
            Some(stream) => {
                let fit = stream.receive(payload.len(), data.len());
                let fit = if ends { fit.and_then(|()| stream.end()) } else { fit };
                match fit {
                    Err(unfit) => {
                        (payload.len(), Err(ProtocolViolation::Stream(head.stream, unfit.reason())))
                    }
                    Ok(()) if !stream.is_kept => (payload.len(), Ok(None)),
                    Ok(()) => {
                        stream.untaken += data.len();
                        stream.skip(payload.len() - data.len());
                        let start = frame::HEAD_BYTES + usize::from(head.has(frame::PADDED));
                        let content = start..start + data.len();
                        let body = FrameEvent::Body { stream: head.stream, content, ends };
                        (payload.len() - data.len(), Ok(Some(body)))
                    }
                }
            }
        };
        self.give_back(taken);
        if ends && self.streams.get(&head.stream).is_some_and(|stream| stream.is_answered) {
            self.forget(head.stream);
        }
        outcome
    }

    /// Handles RST_STREAM (RFC 9113 6.4).
    fn rst_stream(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> FrameOutcome {
        if payload.len() != 4 {
            return Err(ProtocolViolation::Connection(Reason::FrameSize));
        }
        if self.is_idle(head.stream) {
            return Err(ProtocolViolation::Connection(Reason::Protocol));
        }
        if self.forget(head.stream).is_none() {
            return Ok(None);
        }
        // Requests that are taken back at once cost this side much and the client nothing (CVE-2023-44487).
        self.patience.spend(COST_OF_RESET, now).map_err(ProtocolViolation::Connection)?;
        Ok(Some(FrameEvent::Gone(head.stream)))
    }
}

/// Returns the payload without its padding (RFC 9113 6.1).
fn unpadded(head: FrameHead, payload: &[u8]) -> Result<&[u8], ProtocolViolation> {
    if !head.has(frame::PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(ProtocolViolation::Connection(Reason::FrameSize))?;
    let len = rest
        .len()
        .checked_sub(usize::from(*padding))
        .ok_or(ProtocolViolation::Connection(Reason::Protocol))?;
    Ok(&rest[..len])
}

/// Log target of messages about clients, which is off by default.
const TRACED: &str = "http2";
/// The connection's window is given back when half of it is used.
const GIVEN_BACK_FROM: usize = 32 * 1024;
//@ limit: memory of an upload over HTTP/2
//@ section: HTTP
//@ unit: byte not written yet
//@ connection: {:b}, {BODIES_WINDOW:b} for all of a connection
//@ address: on the books of memory of replies
//@ empty: the client waits for its window; others feel nothing
//@ counter: http_reply_memory_bytes
//@ attack: http-edges
/// Bytes that a client may send of one body, and of all, before what came is taken.
const BODY_WINDOW: usize = 256 * 1024;
const BODIES_WINDOW: usize = 1024 * 1024;
/// 100 (RFC 9110 15.2.1).
const CONTINUE: u16 = 100;
/// Streams that are remembered after this side ended them.
const LET_GO_MAX: usize = 256;
const COST_OF_RESET: u32 = 10;
const COST_OF_NOTHING: u32 = 1;
/// Payload of the PING whose answer tells that the client has heard of the end.
const LEAVING: &[u8; 8] = b"leaving!";

/// A header block whose end has not come.
#[derive(Debug)]
struct Unfinished {
    stream: u32,
    ends: bool,
    depends_on_itself: bool,
    bytes: Vec<u8>,
}

#[cfg(test)]
mod tests;
