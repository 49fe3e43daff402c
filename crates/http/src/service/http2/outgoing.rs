//! Output that a connection is about to send: plaintext that gathers where its records will be, then the
//! sealed records.

use std::io;

use tls::{PLAINTEXT_MAX, RecordLayout, TlsError, TlsSession};

use crate::http2::frame::{FRAME_BYTES, HEAD_BYTES};

/// Plaintext on its way to being sealed, or sealed bytes on their way to the socket, never both.
#[derive(Debug)]
pub(super) struct OutgoingBytes {
    layout: Option<RecordLayout>,
    /// Laid out as [`RecordLayout`] says, except that the last record's end is missing while plaintext gathers.
    bytes: Vec<u8>,
    plain_len: usize,
    is_sealed: bool,
    sent: usize,
}

impl OutgoingBytes {
    /// Creates an empty queue; without a layout bytes go out as they are.
    pub(super) fn new(layout: Option<RecordLayout>) -> Self {
        Self { layout, bytes: Vec::new(), plain_len: 0, is_sealed: false, sent: 0 }
    }

    /// Returns whether [`OutgoingBytes::append`] takes anything.
    pub(super) fn has_room(&self) -> bool {
        !self.is_sealed && self.plain_len < GATHERED_MAX
    }

    /// Returns how many of `wanted` bytes of a body a frame had better have: all, or so many that it ends
    /// where a record does. 0 where it had better wait for a send.
    pub(super) fn frame_room(&self, wanted: usize) -> usize {
        if !self.has_room() {
            return 0;
        }
        let all = (GATHERED_MAX - self.plain_len).saturating_sub(HEAD_BYTES);
        if all < wanted.min(SMALL_FRAME) {
            return 0;
        }
        let of_record = PLAINTEXT_MAX - self.plain_len % PLAINTEXT_MAX;
        let of_record = if of_record >= SMALL_FRAME { of_record } else { of_record + PLAINTEXT_MAX };
        wanted.min(all).min(of_record - HEAD_BYTES).min(FRAME_BYTES)
    }

    /// Takes as much plaintext as there is room for; says how much.
    pub(super) fn append(&mut self, plain: &[u8]) -> usize {
        if !self.has_room() {
            return 0;
        }
        let taken = plain.len().min(GATHERED_MAX - self.plain_len);
        let mut rest = &plain[..taken];
        while !rest.is_empty() {
            let (part, later) = rest.split_at(self.begin_part(rest.len()));
            self.bytes.extend_from_slice(part);
            self.plain_len += part.len();
            rest = later;
        }
        taken
    }

    /// Has `read` fill the next `len` bytes, for which there must be room: it gets slots and where they lie among those
    /// bytes, and says how much it put there, `None` if it would have to wait. Gives the bytes that were put behind each
    /// other.
    pub(super) fn fill(
        &mut self,
        len: usize,
        mut read: impl FnMut(usize, &mut [u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<Option<usize>> {
        if len >= SMALL_FRAME {
            // More of it follows.
            let whole = self.layout.map_or(GATHERED_MAX, |layout| layout.sealed_len(GATHERED_MAX));
            self.bytes.reserve_exact(whole.saturating_sub(self.bytes.len()));
        }
        let mut done = 0;
        while done < len {
            let before = self.bytes.len();
            let part = self.begin_part(len - done);
            let start = self.bytes.len();
            self.bytes.resize(start + part, 0);
            let got = read(done, &mut self.bytes[start..]);
            let kept = *got.as_ref().ok().and_then(|got| got.as_ref()).unwrap_or(&0);
            // A record that gets nothing does not begin.
            self.bytes.truncate(if kept > 0 { start + kept } else { before });
            self.plain_len += kept;
            done += kept;
            match got? {
                Some(_) if kept == part => {}
                None if done == 0 => return Ok(None),
                _ => break,
            }
        }
        Ok(Some(done))
    }

    /// Writes over plaintext that has gathered, from a byte on.
    pub(super) fn patch(&mut self, at: usize, plain: &[u8]) {
        match self.layout {
            Some(layout) => layout.copy_in(&mut self.bytes, at, plain),
            None => self.bytes[at..at + plain.len()].copy_from_slice(plain),
        }
    }

    /// Returns a place to come back to with [`OutgoingBytes::rewind`] before anything is sealed.
    pub(super) fn mark(&self) -> (usize, usize) {
        (self.bytes.len(), self.plain_len)
    }

    /// Forgets what was put in since.
    pub(super) fn rewind(&mut self, (bytes, plain_len): (usize, usize)) {
        debug_assert!(!self.is_sealed);
        self.bytes.truncate(bytes);
        self.plain_len = plain_len;
    }

    /// Makes the next plaintext byte's place the end of what is there; says how many of `len` bytes lie behind each other.
    fn begin_part(&mut self, len: usize) -> usize {
        let Some(layout) = self.layout else { return len };
        let filled = self.plain_len % PLAINTEXT_MAX;
        let part = len.min(PLAINTEXT_MAX - filled);
        if self.bytes.is_empty() {
            self.bytes.reserve(layout.sealed_len(part).max(FIRST_CAPACITY));
        }
        if filled == 0 {
            let before = if self.plain_len > 0 { layout.suffix() } else { 0 } + layout.prefix();
            self.bytes.extend_from_slice(&NOTHING[..before]);
        }
        part
    }

    /// Seals what has gathered, with what the session has to say before it; nothing may be left of what was sealed
    /// earlier. Gives the bytes that this added.
    pub(super) fn seal(&mut self, tls: Option<&mut TlsSession>) -> Result<usize, TlsError> {
        debug_assert!(!self.is_sealed, "what is sealed is sent first");
        let plain_len = std::mem::take(&mut self.plain_len);
        if let Some(tls) = tls {
            let before = match self.layout {
                Some(layout) if plain_len > 0 => {
                    self.bytes.extend_from_slice(&NOTHING[..layout.suffix()]);
                    tls.seal(&mut self.bytes, plain_len)?
                }
                _ => tls.take_output(),
            };
            if !before.is_empty() {
                self.bytes.splice(..0, before);
            }
        }
        self.is_sealed = !self.bytes.is_empty();
        Ok(self.bytes.len() - plain_len)
    }

    /// Forgets what has gathered: the session that would have sealed it is over.
    pub(super) fn forget(&mut self) {
        if !self.is_sealed {
            self.bytes.clear();
            self.plain_len = 0;
        }
    }

    /// Returns what the socket is to get.
    pub(super) fn sealed(&self) -> &[u8] {
        if self.is_sealed { &self.bytes[self.sent..] } else { &[] }
    }

    /// Drops the first `n` bytes of [`OutgoingBytes::sealed`], which the socket has got.
    pub(super) fn consume(&mut self, n: usize) {
        self.sent += n;
        if self.sent == self.bytes.len() {
            self.bytes = Vec::new();
            (self.is_sealed, self.sent) = (false, 0);
        }
    }

    /// Takes little more memory than what waits.
    pub(super) fn shrink(&mut self) {
        if self.bytes.capacity() > 2 * (self.bytes.len() - self.sent) {
            self.bytes.drain(..self.sent);
            self.bytes.shrink_to_fit();
            self.sent = 0;
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Plaintext of one send: eight full records. Half of it costs a tenth more of processor time a byte, twice of it saves
/// little.
const GATHERED_MAX: usize = 8 * PLAINTEXT_MAX;
/// Shortest frame of a longer body that is worth its head.
const SMALL_FRAME: usize = 1024;
/// Most turns have a few short answers.
const FIRST_CAPACITY: usize = 4 * 1024;
/// Zeros in place of headers, nonces, types and tags.
const NOTHING: [u8; 64] = [0; 64];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tls_bytes_leave_in_the_order_they_came_and_no_more_than_fit() {
        let mut outgoing = OutgoingBytes::new(None);
        assert_eq!(outgoing.append(b"one "), 4);
        assert_eq!(outgoing.append(b"two"), 3);
        assert!(outgoing.sealed().is_empty());
        assert_eq!(outgoing.seal(None).unwrap(), 0);
        assert!(!outgoing.has_room());
        outgoing.consume(4);
        outgoing.shrink();
        assert_eq!(outgoing.sealed(), b"two");
        outgoing.consume(3);
        assert_eq!((outgoing.capacity(), outgoing.has_room()), (0, true), "an idle connection holds nothing");
        assert_eq!(outgoing.append(&vec![1; 2 * GATHERED_MAX]), GATHERED_MAX);
        assert!(!outgoing.has_room());
        assert_eq!(outgoing.append(b"more"), 0);
    }

    #[test]
    fn frames_end_where_records_do_and_what_failed_leaves_no_trace() {
        let mut outgoing = OutgoingBytes::new(None);
        outgoing.append(b"some answer's head");
        let head = outgoing.mark();
        let room = outgoing.frame_room(1 << 20);
        assert_eq!((head.1 + HEAD_BYTES + room) % PLAINTEXT_MAX, 0);
        for outcome in [None, Some(0), Some(room - 1)] {
            outgoing.append(&[0; HEAD_BYTES]);
            assert_eq!(outgoing.fill(room, |_, _| Ok(outcome)).unwrap(), outcome);
            outgoing.rewind(head);
        }
        outgoing.fill(8, |_, _| Err(io::ErrorKind::Other.into())).unwrap_err();
        outgoing.patch(5, b"reader");
        outgoing.seal(None).unwrap();
        assert_eq!(outgoing.sealed(), b"some reader's head");
        assert_eq!(outgoing.frame_room(1), 0, "what is sealed is sent first");
    }
}
