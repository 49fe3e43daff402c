//! Header blocks, in one frame or several, into requests and trailers (RFC 9113 4.3, 6.2, 6.10 and 8.1).

use std::time::Instant;

use super::{
    COST_OF_NOTHING, Connection, FrameEvent, FrameOutcome, Leaving, ProtocolViolation, Unfinished, unpadded,
};
use crate::http2::connection::Bounds;
use crate::http2::frame::{self, FrameHead, Reason};
use crate::http2::request::{Block, read_request, read_trailers};
use crate::http2::stream::Stream;

impl Connection {
    /// Handles HEADERS (RFC 9113 6.2).
    pub(super) fn headers(&mut self, head: FrameHead, payload: &[u8]) -> FrameOutcome {
        if head.stream.is_multiple_of(2) {
            return Err(ProtocolViolation::Connection(Reason::Protocol));
        }
        let mut fragment = unpadded(head, payload)?;
        let mut depends_on_itself = false;
        if head.has(frame::HAS_PRIORITY) {
            let (priority, rest) =
                fragment.split_first_chunk::<5>().ok_or(ProtocolViolation::Connection(Reason::FrameSize))?;
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

    /// Handles CONTINUATION (RFC 9113 6.10). A block without end is cut where no good one can be longer.
    pub(super) fn continuation(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> FrameOutcome {
        let Some(mut block) = self.block.take() else {
            return Err(ProtocolViolation::Connection(Reason::Protocol));
        };
        if payload.len() < SMALL_CONTINUATION {
            self.patience.spend(COST_OF_NOTHING, now).map_err(ProtocolViolation::Connection)?;
        }
        if block.bytes.len() + payload.len() > BLOCK_BYTES_MAX {
            return Err(ProtocolViolation::Connection(Reason::EnhanceYourCalm));
        }
        block.bytes.extend_from_slice(payload);
        if head.has(frame::END_HEADERS) {
            return self.whole_block(block.stream, block.ends, block.depends_on_itself, &block.bytes);
        }
        self.block = Some(block);
        Ok(None)
    }

    /// Handles a whole header block. Every block is decoded, whatever becomes of it: the next one builds on its table.
    fn whole_block(
        &mut self,
        stream: u32,
        ends: bool,
        depends_on_itself: bool,
        block: &[u8],
    ) -> FrameOutcome {
        let read = match stream > self.last_stream {
            true => {
                let Bounds { head_bytes_max, fields_max, .. } = self.bounds;
                read_request(&mut self.decoder, block, head_bytes_max, fields_max)
            }
            false => read_trailers(&mut self.decoder, block),
        };
        let read = read.map_err(|_| ProtocolViolation::Connection(Reason::Compression))?;
        let broken = |reason| Err(ProtocolViolation::Stream(stream, reason));
        if stream <= self.last_stream {
            let Some(state) = self.streams.get_mut(&stream) else { return self.closed(stream) };
            if state.is_half_closed {
                return broken(Reason::StreamClosed);
            }
            return match (read, ends && !depends_on_itself && state.end().is_ok()) {
                (Block::Trailers, true) if state.is_kept => {
                    Ok(Some(FrameEvent::Body { stream, content: 0..0, ends: true }))
                }
                (Block::Trailers, true) => {
                    if state.is_answered {
                        self.forget(stream);
                    }
                    Ok(None)
                }
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
        Ok(Some(FrameEvent::Request(stream, request)))
    }
}

/// Returns the stream that a priority names.
pub(super) fn depends_on([a, b, c, d, _]: [u8; 5]) -> u32 {
    u32::from_be_bytes([a, b, c, d]) & frame::STREAM_MAX
}

//@ limit: an HTTP/2 request's header block
//@ section: HTTP
//@ unit: byte, compressed
//@ connection: {:b}, as many continuations as points allow; fields as those of HTTP/1.1 (431)
//@ empty: GOAWAY (ENHANCE_YOUR_CALM); others feel nothing
//@ counter: http_closed{reason="http2_flood"}, http_closed{reason="http2_error"}
//@ attack: http-edges
/// Compressed bytes of one header block, more than any that keeps SETTINGS_MAX_HEADER_LIST_SIZE has.
const BLOCK_BYTES_MAX: usize = 32 * 1024;
/// A continuation below this brings nearly nothing.
const SMALL_CONTINUATION: usize = 256;
