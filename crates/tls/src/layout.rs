//! Layout of plaintext in a buffer of TLS records, so that a file is read straight into the slots in which it
//! is encrypted.
//!
//! ```text
//! |prefix|   plaintext 16384   |suffix|prefix|   plaintext 16384   |suffix|prefix| rest |suffix|
//! '---------- record ----------------''---------- record ----------------''------ record ------'
//! ```

use std::ops::Range;

/// Most plaintext bytes of a record (RFC 8446 section 5.1).
pub const PLAINTEXT_MAX: usize = 1 << 14;

/// Bytes of a record's header (RFC 8446 section 5.1).
pub const HEADER_LEN: usize = 5;

/// Shape of one direction's records: the bytes before and after each record's plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLayout {
    prefix: u8,
    suffix: u8,
}

impl RecordLayout {
    pub(crate) const fn new(prefix: usize, suffix: usize) -> Self {
        assert!(prefix < 256 && suffix < 256);
        Self { prefix: prefix as u8, suffix: suffix as u8 }
    }

    /// Returns the bytes before each record's plaintext: the header, and TLS 1.2 AES-GCM's explicit nonce.
    pub const fn prefix(self) -> usize {
        self.prefix as usize
    }

    /// Returns the bytes after each record's plaintext: TLS 1.3's content type, and the tag.
    pub const fn suffix(self) -> usize {
        self.suffix as usize
    }

    /// Returns the bytes of a full record; record `i` of a buffer starts at `i * stride()`.
    pub const fn stride(self) -> usize {
        self.prefix() + PLAINTEXT_MAX + self.suffix()
    }

    /// Returns how many records `plain_len` bytes of plaintext take.
    pub const fn records(self, plain_len: usize) -> usize {
        plain_len.div_ceil(PLAINTEXT_MAX)
    }

    /// Returns how many bytes `plain_len` bytes of plaintext take once sealed.
    pub const fn sealed_len(self, plain_len: usize) -> usize {
        plain_len + self.records(plain_len) * (self.prefix() + self.suffix())
    }

    /// Returns the most plaintext bytes whose records fit in a buffer of `buf_len` bytes.
    pub const fn plain_capacity(self, buf_len: usize) -> usize {
        let full = buf_len / self.stride();
        let rest = (buf_len % self.stride()).saturating_sub(self.prefix() + self.suffix());
        full * PLAINTEXT_MAX + rest
    }

    /// Returns the ranges of the buffer in which the plaintext bytes `plain` lie, in order.
    ///
    /// A response head of 300 bytes and a body of 1 MiB take `slots(0..300)` and
    /// `slots(300..300 + (1 << 20))` of the same buffer.
    pub fn slots(self, plain: Range<usize>) -> Slots {
        Slots { layout: self, plain }
    }

    /// Copies `src` into the slots, from plaintext offset `at` on.
    ///
    /// # Panics
    /// When the buffer is too short for `at + src.len()` bytes of plaintext.
    pub fn copy_in(self, buf: &mut [u8], at: usize, mut src: &[u8]) {
        for slot in self.slots(at..at + src.len()) {
            let (now, later) = src.split_at(slot.len());
            buf[slot].copy_from_slice(now);
            src = later;
        }
    }
}

/// Iterator over ranges of a buffer, one per record touched; see [`RecordLayout::slots`].
#[derive(Clone, Debug)]
pub struct Slots {
    layout: RecordLayout,
    plain: Range<usize>,
}

impl Iterator for Slots {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        if self.plain.is_empty() {
            return None;
        }
        let (record, offset) = (self.plain.start / PLAINTEXT_MAX, self.plain.start % PLAINTEXT_MAX);
        let len = self.plain.len().min(PLAINTEXT_MAX - offset);
        let start = record * self.layout.stride() + self.layout.prefix() + offset;
        self.plain.start += len;
        Some(start..start + len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TLS13: RecordLayout = RecordLayout::new(5, 17);
    const TLS12_GCM: RecordLayout = RecordLayout::new(13, 16);

    #[test]
    fn capacity_is_the_inverse_of_sealed_len() {
        for layout in [TLS13, TLS12_GCM] {
            for plain in [1, 2, 300, 16_383, 16_384, 16_385, 32_768, 262_144, 1 << 20] {
                let sealed = layout.sealed_len(plain);
                assert_eq!(layout.plain_capacity(sealed), plain);
                assert!(layout.plain_capacity(sealed - 1) < plain);
            }
            assert_eq!(layout.plain_capacity(0), 0);
            assert_eq!(layout.plain_capacity(layout.prefix() + layout.suffix()), 0);
        }
    }

    #[test]
    fn slots_of_head_and_body_are_adjacent_and_cover_all_plaintext() {
        let total = 300 + 40_000;
        let mut covered = Vec::new();
        for slot in TLS13.slots(0..300).chain(TLS13.slots(300..total)) {
            covered.extend(slot);
        }
        let whole: Vec<usize> = TLS13.slots(0..total).flatten().collect();
        assert_eq!(covered, whole);
        assert_eq!(covered.len(), total);
        assert_eq!(TLS13.slots(300..total).next(), Some(305..5 + PLAINTEXT_MAX));
    }

    #[test]
    fn copied_bytes_lie_in_the_slots() {
        let plain_len = 2 * PLAINTEXT_MAX + 77;
        let data: Vec<u8> = (0..plain_len).map(|i| (i % 251) as u8).collect();
        let mut buf = vec![0; TLS12_GCM.sealed_len(plain_len)];
        TLS12_GCM.copy_in(&mut buf, 0, &data);
        let seen: Vec<u8> = TLS12_GCM.slots(0..plain_len).flat_map(|slot| buf[slot].to_vec()).collect();
        assert_eq!(seen, data);
    }

    #[test]
    fn empty_plaintext_takes_no_record() {
        assert_eq!(TLS13.sealed_len(0), 0);
        assert_eq!(TLS13.slots(5..5).next(), None);
    }
}
