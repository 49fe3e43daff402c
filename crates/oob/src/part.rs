//! Part of a transfer that one connection moves.

/// A run of bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Number of bytes, at least one.
    pub len: u64,
}

impl Part {
    /// Returns the offset behind the last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// Splits `len` bytes from `offset` on into at most `streams` parts of about the same size, each at least
/// `least` bytes unless there is only one. No parts when `len` is 0.
pub fn split(offset: u64, len: u64, streams: usize, least: u64) -> impl Iterator<Item = Part> {
    let most = usize::try_from(len / least.max(1)).unwrap_or(usize::MAX).max(1);
    let count = if len == 0 { 0 } else { streams.clamp(1, most) as u64 };
    let border = move |number: u64| (u128::from(len) * u128::from(number) / u128::from(count.max(1))) as u64;
    (0..count).map(move |number| {
        let from = border(number);
        Part { offset: offset + from, len: border(number + 1) - from }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_without_gap_or_overlap() {
        for (offset, len, streams, least, count) in [
            (0, 0, 4, 1, 0),
            (7, 1, 4, 1, 1),
            (0, 1 << 20, 4, 1 << 20, 1),
            (5, (4 << 20) - 1, 4, 1 << 20, 3),
            (1 << 40, u64::MAX >> 1, 8, 1 << 18, 8),
            (0, 10, 0, 1, 1),
        ] {
            let parts: Vec<_> = split(offset, len, streams, least).collect();
            assert_eq!(parts.len(), count);
            let mut at = offset;
            for part in parts {
                assert_eq!(part.offset, at);
                assert!(part.len > 0);
                at = part.end();
            }
            assert_eq!(at, offset + len);
        }
    }
}
