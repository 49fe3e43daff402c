//! What a connection is about to send: plaintext that gathers where its records will be, then the sealed records.

use tls::{PLAINTEXT_MAX, RecordLayout, TlsError, TlsSession};

/// Plaintext on its way to being sealed, or sealed bytes on their way to the socket, never both.
#[derive(Debug)]
pub(super) struct Outgoing {
    layout: Option<RecordLayout>,
    /// Laid out as [`RecordLayout`] says, except that the last record's end is missing while plaintext gathers.
    bytes: Vec<u8>,
    plain_len: usize,
    is_sealed: bool,
    sent: usize,
}

impl Outgoing {
    /// Without a layout bytes go out as they are.
    pub(super) fn new(layout: Option<RecordLayout>) -> Self {
        Self { layout, bytes: Vec::new(), plain_len: 0, is_sealed: false, sent: 0 }
    }

    /// Whether [`Outgoing::append`] takes anything.
    pub(super) fn has_room(&self) -> bool {
        !self.is_sealed && self.plain_len < GATHERED_MAX
    }

    /// Takes as much plaintext as there is room for; says how much.
    pub(super) fn append(&mut self, plain: &[u8]) -> usize {
        debug_assert!(!self.is_sealed, "what is sealed is sent first");
        let taken = plain.len().min(GATHERED_MAX - self.plain_len);
        let Some(layout) = self.layout else {
            self.bytes.extend_from_slice(&plain[..taken]);
            self.plain_len += taken;
            return taken;
        };
        if self.bytes.is_empty() {
            self.bytes.reserve(layout.sealed_len(taken).max(FIRST_CAPACITY));
        }
        let mut rest = &plain[..taken];
        while !rest.is_empty() {
            let filled = self.plain_len % PLAINTEXT_MAX;
            if filled == 0 {
                let before = if self.plain_len > 0 { layout.suffix() } else { 0 } + layout.prefix();
                self.bytes.extend_from_slice(&NOTHING[..before]);
            }
            let (part, later) = rest.split_at(rest.len().min(PLAINTEXT_MAX - filled));
            self.bytes.extend_from_slice(part);
            self.plain_len += part.len();
            rest = later;
        }
        taken
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

    /// What the socket is to get.
    pub(super) fn sealed(&self) -> &[u8] {
        if self.is_sealed { &self.bytes[self.sent..] } else { &[] }
    }

    /// The socket has got the first `n` bytes of [`Outgoing::sealed`].
    pub(super) fn consume(&mut self, n: usize) {
        self.sent += n;
        if self.sent == self.bytes.len() {
            self.bytes = Vec::new();
            (self.is_sealed, self.sent) = (false, 0);
        }
    }

    /// Takes no more memory than what waits.
    pub(super) fn shrink(&mut self) {
        self.bytes.drain(..self.sent);
        self.bytes.shrink_to_fit();
        self.sent = 0;
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Plaintext of one send: three full records.
const GATHERED_MAX: usize = 3 * PLAINTEXT_MAX;
/// Most turns have a few short answers.
const FIRST_CAPACITY: usize = 4 * 1024;
/// Where headers, nonces, types and tags will be.
const NOTHING: [u8; 64] = [0; 64];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tls_bytes_leave_in_the_order_they_came_and_no_more_than_fit() {
        let mut outgoing = Outgoing::new(None);
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
}
