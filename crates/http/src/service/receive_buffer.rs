//! Received plaintext on its way to the parsers.

/// Received plaintext that is not used yet. Holds no memory while empty.
#[derive(Debug, Default)]
pub(super) struct ReceiveBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl ReceiveBuffer {
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(super) fn consume(&mut self, n: usize) {
        self.start += n;
        debug_assert!(self.start <= self.bytes.len());
        if self.start == self.bytes.len() {
            self.start = 0;
            self.bytes.clear();
            // A long head leaves no long buffer behind for the idle time after it.
            if self.bytes.capacity() > RECEIVE_BUFFER_KEPT_MAX {
                self.bytes = Vec::new();
            }
        }
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }
}

/// Capacity that an idle connection may keep for its next request.
const RECEIVE_BUFFER_KEPT_MAX: usize = 1024;
