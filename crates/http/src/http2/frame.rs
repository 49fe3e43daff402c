//! The frames of HTTP/2 (RFC 9113 4, 6 and 7).

/// A frame's first bytes:
///
/// ```text
/// length (24) | type (8) | flags (8) | 0 (1) stream (31)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) len: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl FrameHead {
    pub(crate) fn parse(bytes: &[u8; HEAD_BYTES]) -> Self {
        let [a, b, c, kind, flags, s0, s1, s2, s3] = *bytes;
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        // The highest bit of the stream means nothing.
        Self { len, kind, flags, stream: u32::from_be_bytes([s0, s1, s2, s3]) & STREAM_MAX }
    }

    /// Returns the bytes of the head. A frame longer than 2^24 - 1 bytes is the caller's mistake.
    pub(crate) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        debug_assert!(self.len < 1 << 24);
        let [_, a, b, c] = (self.len as u32).to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s0, s1, s2, s3]
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame of a few bytes.
pub(crate) fn put(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&FrameHead { len: payload.len(), kind, flags, stream }.to_bytes());
    out.extend_from_slice(payload);
}

/// Appends a header block in as many frames as it takes.
fn put_block(out: &mut Vec<u8>, stream: u32, ends: bool, block: &[u8], frame_max: usize) {
    let mut rest = block;
    let mut kind = HEADERS;
    let mut flags = if ends { END_STREAM } else { 0 };
    loop {
        let (part, later) = rest.split_at(rest.len().min(frame_max));
        if later.is_empty() {
            flags |= END_HEADERS;
        }
        put(out, kind, flags, stream, part);
        if later.is_empty() {
            return;
        }
        (rest, kind, flags) = (later, CONTINUATION, 0);
    }
}

/// Puts what `out` has from `start` on, which begins with room for a frame's head, into as many frames as it takes.
pub(crate) fn end_block(out: &mut Vec<u8>, start: usize, stream: u32, ends: bool) {
    let len = out.len() - start - HEAD_BYTES;
    if len > FRAME_BYTES {
        let block = out.split_off(start + HEAD_BYTES);
        out.truncate(start);
        return put_block(out, stream, ends, &block, FRAME_BYTES);
    }
    let flags = if ends { END_HEADERS | END_STREAM } else { END_HEADERS };
    out[start..start + HEAD_BYTES]
        .copy_from_slice(&FrameHead { len, kind: HEADERS, flags, stream }.to_bytes());
}

/// Returns what stands before `len` bytes of a body.
pub(crate) fn data_head(stream: u32, len: usize, ends: bool) -> [u8; HEAD_BYTES] {
    FrameHead { len, kind: DATA, flags: if ends { END_STREAM } else { 0 }, stream }.to_bytes()
}

/// Error codes (RFC 9113 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    NoError = 0x0,
    Protocol = 0x1,
    Internal = 0x2,
    FlowControl = 0x3,
    StreamClosed = 0x5,
    FrameSize = 0x6,
    RefusedStream = 0x7,
    Compression = 0x9,
    EnhanceYourCalm = 0xb,
}

pub(crate) const HEAD_BYTES: usize = 9;
/// Offset of the type in it.
pub(crate) const KIND_AT: usize = 3;
/// Size of a frame that every peer takes, and what this side takes at most (RFC 9113 4.2).
pub(crate) const FRAME_BYTES: usize = 16 * 1024;
pub(crate) const STREAM_MAX: u32 = (1 << 31) - 1;
pub(crate) const WINDOW_MAX: i64 = (1 << 31) - 1;
/// Windows before they are changed (RFC 9113 6.9.2).
pub(crate) const WINDOW_INITIAL: i64 = 65_535;
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0x0;
pub(crate) const HEADERS: u8 = 0x1;
pub(crate) const PRIORITY: u8 = 0x2;
pub(crate) const RST_STREAM: u8 = 0x3;
pub(crate) const SETTINGS: u8 = 0x4;
pub(crate) const PUSH_PROMISE: u8 = 0x5;
pub(crate) const PING: u8 = 0x6;
pub(crate) const GOAWAY: u8 = 0x7;
pub(crate) const WINDOW_UPDATE: u8 = 0x8;
pub(crate) const CONTINUATION: u8 = 0x9;

pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const HAS_PRIORITY: u8 = 0x20;

/// Settings (RFC 9113 6.5.2).
pub(crate) const HEADER_TABLE_SIZE: u16 = 0x1;
pub(crate) const ENABLE_PUSH: u16 = 0x2;
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 0x3;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 0x4;
pub(crate) const MAX_FRAME_SIZE: u16 = 0x5;
pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 0x6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_blocks_go_on_in_continuations_and_only_the_last_ends_them() {
        let mut out = Vec::new();
        put_block(&mut out, 5, true, &[7; 25], 10);
        let mut frames = Vec::new();
        while let Some(head) = out.first_chunk::<HEAD_BYTES>() {
            let head = FrameHead::parse(head);
            frames.push((head.kind, head.flags, head.stream, head.len));
            out.drain(..HEAD_BYTES + head.len);
        }
        let expected =
            [(HEADERS, END_STREAM, 5, 10), (CONTINUATION, 0, 5, 10), (CONTINUATION, END_HEADERS, 5, 5)];
        assert_eq!(frames, expected);
        let mut block = vec![9; 3 + HEAD_BYTES];
        block.extend_from_slice(&[7; 25]);
        end_block(&mut block, 3, 5, true);
        let mut whole = vec![9; 3];
        put_block(&mut whole, 5, true, &[7; 25], FRAME_BYTES);
        assert_eq!(block, whole);
    }

    #[test]
    fn reserved_bit_of_the_stream_is_nothing() {
        let head = FrameHead::parse(&[0, 1, 2, PING, ACK, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!((head.len, head.kind, head.flags, head.stream), (258, PING, ACK, STREAM_MAX));
        assert_eq!(FrameHead::parse(&head.to_bytes()), head);
    }
}
