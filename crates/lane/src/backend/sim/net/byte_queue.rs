//! A queue of bytes, in order.

/// A queue of bytes in one piece of memory: what leaves is copied once and moved rarely.
#[derive(Default)]
pub(super) struct ByteQueue {
    bytes: Vec<u8>,
    /// Position of the queue's beginning; bytes before have left.
    head: usize,
}

impl ByteQueue {
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.head
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.head > self.bytes.len() / 2 {
            self.bytes.drain(..self.head);
            self.head = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Removes and returns the first `n` bytes.
    ///
    /// # Panics
    /// When there are fewer.
    pub(super) fn pop(&mut self, n: usize) -> Vec<u8> {
        let first = self.bytes[self.head..self.head + n].to_vec();
        self.head += n;
        first
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
