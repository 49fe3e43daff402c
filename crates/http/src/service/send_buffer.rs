//! Response bytes that wait to be sent: one pooled buffer, laid out so that TLS can seal it in place.

use lane::buffer::Buf;

use crate::response::Writer;
use tls::RecordLayout;

/// The send buffer of a connection. Empty between responses: an idle connection holds no memory here.
#[derive(Default)]
pub(super) struct SendBuffer {
    buf: Option<Buf>,
    /// Bytes written, not counting the space that records take around them.
    plain_len: usize,
    /// Layout that TLS wants; `None` when they go out as they are.
    pub(super) layout: Option<RecordLayout>,
}

impl SendBuffer {
    /// Begins to use a buffer from the pool.
    pub(super) fn open(&mut self, mut buf: Buf) {
        let room = buf.spare();
        buf.grow(room);
        self.buf = Some(buf);
        self.plain_len = 0;
    }

    pub(super) fn has_buffer(&self) -> bool {
        self.buf.is_some()
    }

    /// Returns the number of bytes that can still be written.
    pub(super) fn room(&self) -> usize {
        let Some(buf) = &self.buf else { return 0 };
        let capacity = self.layout.map_or(buf.len(), |layout| layout.plain_capacity(buf.len()));
        capacity - self.plain_len
    }

    /// Returns a mark to come back to with [`SendBuffer::rewind`].
    pub(super) fn mark(&self) -> usize {
        self.plain_len
    }

    /// Forgets what was written after `mark`.
    pub(super) fn rewind(&mut self, mark: usize) {
        self.plain_len = self.plain_len.min(mark);
    }

    /// Appends as much as there is room for; says how much.
    pub(super) fn append(&mut self, mut bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        bytes = &bytes[..taken];
        while !bytes.is_empty() {
            let spare = self.contiguous();
            let now = spare.len().min(bytes.len());
            spare[..now].copy_from_slice(&bytes[..now]);
            bytes = &bytes[now..];
            self.plain_len += now;
        }
        taken
    }

    /// Lets `write` fill at most `max` bytes, for which there must be room.
    pub(super) fn write(&mut self, max: usize, write: impl FnOnce(&mut Writer<'_>)) {
        debug_assert!(max <= self.room(), "the caller makes room first");
        let spare = self.contiguous();
        if spare.len() >= max {
            let mut out = Writer::new(&mut spare[..max]);
            write(&mut out);
            self.plain_len += out.finish().expect("the caller's bound holds");
        } else {
            // The record ends before the text may: write it aside and cut it where the record ends.
            let mut aside = vec![0; max];
            let mut out = Writer::new(&mut aside);
            write(&mut out);
            let len = out.finish().expect("the caller's bound holds");
            self.append(&aside[..len]);
        }
    }

    /// Returns the room up to the end of the buffer or of the current record.
    pub(super) fn contiguous(&mut self) -> &mut [u8] {
        let end = self.plain_len + self.room();
        let start = self.plain_len;
        let Some(buf) = &mut self.buf else { return &mut [] };
        match self.layout {
            None => &mut buf[start..end],
            Some(layout) => match layout.slots(start..end).next() {
                Some(slot) => &mut buf[slot],
                None => &mut [],
            },
        }
    }

    /// Counts `n` bytes of [`SendBuffer::contiguous`] as written.
    pub(super) fn grow(&mut self, n: usize) {
        debug_assert!(n <= self.room());
        self.plain_len += n;
    }

    /// Takes the buffer and the number of bytes in it, leaving the send buffer empty and without one.
    pub(super) fn take(&mut self) -> Option<(Buf, usize)> {
        let plain_len = std::mem::take(&mut self.plain_len);
        self.buf.take().map(|buf| (buf, plain_len))
    }
}
