//! Frames that ask for nothing: how the client wants to be answered, and whether the peer is there (RFC 9113
//! 6.3 and 6.5 to 6.9).

use super::requests::depends_on;
use super::{
    Connection, ConnectionStage, FrameEvent, FrameOutcome, LEAVING, Leaving, ProtocolViolation, TRACED,
};
use crate::http2::frame::{self, FrameHead, Reason};

impl Connection {
    /// Handles PRIORITY (RFC 9113 6.3): priorities mean nothing any more, but the frame has a form.
    pub(super) fn priority(&mut self, head: FrameHead, payload: &[u8]) -> FrameOutcome {
        if head.stream == 0 {
            return Err(ProtocolViolation::Connection(Reason::Protocol));
        }
        let reason = match <[u8; 5]>::try_from(payload) {
            Err(_) => Reason::FrameSize,
            Ok(priority) if depends_on(priority) == head.stream => Reason::Protocol,
            Ok(_) => return Ok(None),
        };
        match self.streams.contains_key(&head.stream) {
            true => Err(ProtocolViolation::Stream(head.stream, reason)),
            // A stream that is not open cannot be reset.
            false => Err(ProtocolViolation::Connection(reason)),
        }
    }

    /// Handles SETTINGS (RFC 9113 6.5).
    pub(super) fn settings(&mut self, head: FrameHead, payload: &[u8]) -> FrameOutcome {
        if head.stream != 0 {
            return Err(ProtocolViolation::Connection(Reason::Protocol));
        }
        if head.has(frame::ACK) {
            return if payload.is_empty() {
                Ok(None)
            } else {
                Err(ProtocolViolation::Connection(Reason::FrameSize))
            };
        }
        if !payload.len().is_multiple_of(6) {
            return Err(ProtocolViolation::Connection(Reason::FrameSize));
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
                // Frames of this side are no longer than every peer takes.
                frame::MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => Some(Reason::Protocol),
                _ => None,
            };
            if let Some(reason) = reason {
                return Err(ProtocolViolation::Connection(reason));
            }
            match name {
                frame::INITIAL_WINDOW_SIZE => self.set_initial_window(i64::from(value))?,
                frame::HEADER_TABLE_SIZE => self.encoder.set_table_max(value as usize),
                _ => {}
            }
        }
        self.stage = ConnectionStage::Open;
        frame::put(&mut self.replies, frame::SETTINGS, frame::ACK, 0, &[]);
        Ok((self.initial_window > window_before).then_some(FrameEvent::Room(None)))
    }

    /// Sets the initial window of streams (RFC 9113 6.9.2).
    fn set_initial_window(&mut self, window: i64) -> Result<(), ProtocolViolation> {
        let by = window - std::mem::replace(&mut self.initial_window, window);
        match self.streams.values_mut().all(|stream| stream.widen(by)) {
            true => Ok(()),
            false => Err(ProtocolViolation::Connection(Reason::FlowControl)),
        }
    }

    /// Handles PING (RFC 9113 6.7).
    pub(super) fn ping(&mut self, head: FrameHead, payload: &[u8]) -> FrameOutcome {
        if head.stream != 0 {
            return Err(ProtocolViolation::Connection(Reason::Protocol));
        }
        if payload.len() != 8 {
            return Err(ProtocolViolation::Connection(Reason::FrameSize));
        }
        if !head.has(frame::ACK) {
            frame::put(&mut self.replies, frame::PING, frame::ACK, 0, payload);
        } else if self.leaving == Leaving::Told && payload == LEAVING {
            self.leaving = Leaving::After(self.last_stream);
            self.put_goaway(self.last_stream, Reason::NoError);
        } else {
            //@ cause: A client of HTTP/2 has acknowledged a ping that the server did not send. The line is logged only where
            //@ `LINERATE_LOG` asks for `http2`.
            //@ remedy: None is needed: the frame is ignored.
            tracing::warn!(target: TRACED, "HTTP/2: a client acknowledged a ping that was not sent; it is ignored [http-ping-unasked]");
        }
        Ok(None)
    }

    /// Handles WINDOW_UPDATE (RFC 9113 6.9).
    pub(super) fn window_update(&mut self, head: FrameHead, payload: &[u8]) -> FrameOutcome {
        let Ok(bytes) = <[u8; 4]>::try_from(payload) else {
            return Err(ProtocolViolation::Connection(Reason::FrameSize));
        };
        let by = i64::from(u32::from_be_bytes(bytes) & frame::STREAM_MAX);
        if head.stream == 0 {
            self.send_window += by;
            return match (by, self.send_window) {
                (0, _) => Err(ProtocolViolation::Connection(Reason::Protocol)),
                (_, ..=frame::WINDOW_MAX) => Ok(Some(FrameEvent::Room(None))),
                _ => Err(ProtocolViolation::Connection(Reason::FlowControl)),
            };
        }
        if self.is_idle(head.stream) {
            return Err(ProtocolViolation::Connection(Reason::Protocol));
        }
        // It may have been on its way when the stream ended.
        let Some(stream) = self.streams.get_mut(&head.stream) else { return Ok(None) };
        match (by, stream.widen(by)) {
            (0, _) => Err(ProtocolViolation::Stream(head.stream, Reason::Protocol)),
            (_, true) => Ok(Some(FrameEvent::Room(Some(head.stream)))),
            (_, false) => Err(ProtocolViolation::Stream(head.stream, Reason::FlowControl)),
        }
    }
}

/// Handles GOAWAY (RFC 9113 6.8): the client opens no more streams, and ends the connection when it likes.
pub(super) fn goaway(head: FrameHead) -> FrameOutcome {
    match (head.stream, head.len) {
        (0, 8..) => Ok(None),
        (0, _) => Err(ProtocolViolation::Connection(Reason::FrameSize)),
        _ => Err(ProtocolViolation::Connection(Reason::Protocol)),
    }
}
