//! The Range field (RFC 9110 14): which bytes of a representation a request asks for.

use smallvec::SmallVec;

/// Bytes `start..end` of a representation; never empty, never past its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl ByteRange {
    /// Returns the number of bytes, at least one.
    #[expect(clippy::len_without_is_empty, reason = "a range is never empty")]
    pub fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// Part of a file that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The whole representation with 200: no range asked for, or one that must or may be ignored.
    Whole,
    /// Serves these bytes with 206; at least one range, none overlapping another.
    Parts(SmallVec<[ByteRange; 4]>),
    /// 416: no range lies inside the representation.
    Unsatisfiable,
}

/// Reads a Range field for a representation of `size` bytes.
///
/// A malformed field, an unknown unit, and more than `ranges_max` ranges are ignored, as RFC 9110 14.2
/// lets a server do. Overlapping and adjoining ranges are merged (and then sorted), so that a request
/// never makes the answer longer than the representation by asking for bytes twice (CVE-2011-3192).
pub fn select(field: &[u8], size: u64, ranges_max: usize) -> Selection {
    let Some(set) = byte_range_set(field) else { return Selection::Whole };
    let mut parts = SmallVec::<[ByteRange; 4]>::new();
    let mut specs = 0;
    let mut wants_all_of_nothing = false;
    for text in set.split(|byte| *byte == b',').map(trim_ows).filter(|text| !text.is_empty()) {
        let Some(spec) = Spec::parse(text) else { return Selection::Whole };
        specs += 1;
        if specs > ranges_max {
            return Selection::Whole;
        }
        // All that an empty file has was asked for, but no Content-Range can say so. Proxies that ask for parts begin with 0-.
        wants_all_of_nothing |= size == 0 && matches!(spec, Spec::Suffix(_) | Spec::From { first: 0, .. });
        parts.extend(spec.within(size));
    }
    if specs == 0 || wants_all_of_nothing {
        return Selection::Whole;
    }
    if parts.is_empty() {
        return Selection::Unsatisfiable;
    }
    coalesce(&mut parts);
    Selection::Parts(parts)
}

/// One range-spec. Numbers beyond `u64` are as good as `u64::MAX`: no file reaches there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spec {
    From { first: u64, last: u64 },
    Suffix(u64),
}

impl Spec {
    fn parse(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|byte| *byte == b'-')?;
        let (first, last) = (&text[..dash], &text[dash + 1..]);
        match (first.is_empty(), last.is_empty()) {
            (true, true) => None,
            (true, false) => Some(Self::Suffix(saturating_decimal(last)?)),
            (false, true) => Some(Self::From { first: saturating_decimal(first)?, last: u64::MAX }),
            (false, false) => {
                let (first, last) = (saturating_decimal(first)?, saturating_decimal(last)?);
                (first <= last).then_some(Self::From { first, last })
            }
        }
    }

    fn within(self, size: u64) -> Option<ByteRange> {
        let range = match self {
            Self::From { first, last } => ByteRange { start: first, end: last.saturating_add(1).min(size) },
            Self::Suffix(length) => ByteRange { start: size.saturating_sub(length), end: size },
        };
        (range.start < range.end).then_some(range)
    }
}

/// Merges ranges that overlap or touch. The order asked for is kept (14.2 asks for that) unless merging is needed.
fn coalesce(parts: &mut SmallVec<[ByteRange; 4]>) {
    let mut sorted = parts.clone();
    sorted.sort_unstable();
    let mut merged = SmallVec::<[ByteRange; 4]>::new();
    for part in sorted {
        match merged.last_mut() {
            Some(previous) if part.start <= previous.end => previous.end = previous.end.max(part.end),
            _ => merged.push(part),
        }
    }
    if merged.len() != parts.len() {
        *parts = merged;
    }
}

fn byte_range_set(field: &[u8]) -> Option<&[u8]> {
    let (unit, set) = field.split_at_checked("bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

fn trim_ows(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

fn saturating_decimal(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(value.saturating_mul(10).saturating_add(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(field: &str, size: u64) -> Vec<(u64, u64)> {
        match select(field.as_bytes(), size, 32) {
            Selection::Parts(parts) => parts.iter().map(|part| (part.start, part.end)).collect(),
            other => panic!("{field} of {size}: {other:?}"),
        }
    }

    fn selection(field: &str, size: u64) -> Selection {
        select(field.as_bytes(), size, 32)
    }

    #[test]
    fn first_middle_open_and_suffix_ranges() {
        assert_eq!(parts("bytes=0-0", 10), [(0, 1)]);
        assert_eq!(parts("bytes=2-5", 10), [(2, 6)]);
        assert_eq!(parts("bytes=5-", 10), [(5, 10)]);
        assert_eq!(parts("bytes=-3", 10), [(7, 10)]);
        assert_eq!(parts("BYTES=0-", 10), [(0, 10)]);
    }

    #[test]
    fn last_byte_past_the_end_is_clamped() {
        assert_eq!(parts("bytes=5-99", 10), [(5, 10)]);
        assert_eq!(parts("bytes=5-99999999999999999999999999", 10), [(5, 10)]);
        assert_eq!(parts("bytes=0-18446744073709551615", u64::MAX), [(0, u64::MAX)]);
    }

    #[test]
    fn suffix_range_longer_than_file_sends_all() {
        assert_eq!(parts("bytes=-2000", 1000), [(0, 1000)]);
        assert_eq!(parts("bytes=-99999999999999999999999999", 1000), [(0, 1000)]);
    }

    #[test]
    fn ranges_outside_the_file_are_unsatisfiable() {
        assert_eq!(selection("bytes=10-", 10), Selection::Unsatisfiable);
        assert_eq!(selection("bytes=-0", 10), Selection::Unsatisfiable);
        assert_eq!(selection("bytes=99999999999999999999999999-", 10), Selection::Unsatisfiable);
        assert_eq!(parts("bytes=10-, 0-1", 10), [(0, 2)]);
    }

    #[test]
    fn empty_file_is_sent_whole_where_its_first_or_last_bytes_are_asked_for() {
        for field in ["0-", "0-0", "0-1048575", "-5", "-0", "0-0,5-9", "7-,-1"] {
            assert_eq!(selection(&format!("bytes={field}"), 0), Selection::Whole, "{field}");
        }
        for field in ["1-", "5-9", "1-,7-8"] {
            assert_eq!(selection(&format!("bytes={field}"), 0), Selection::Unsatisfiable, "{field}");
        }
    }

    #[test]
    fn malformed_fields_are_ignored() {
        for field in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-2",
            "bytes=1-2-3",
            "bytes=+1-2",
            "lines=1-2",
            "bytes = 0-1",
            "bytes=0 - 1",
            "bytes=0-1;2-3",
            "bytes=,",
            "bytes=0x0-1",
            "0-1",
            "bytes=0-1,a",
        ] {
            assert_eq!(selection(field, 10), Selection::Whole, "{field:?}");
        }
    }

    #[test]
    fn empty_list_elements_and_white_space_are_skipped() {
        assert_eq!(parts("bytes=,0-1 ,\t 4-5,,", 10), [(0, 2), (4, 6)]);
    }

    #[test]
    fn disjoint_ranges_keep_the_order_asked_for() {
        assert_eq!(parts("bytes=6-7,0-1,-1", 10), [(6, 8), (0, 2), (9, 10)]);
    }

    #[test]
    fn overlapping_and_adjoining_ranges_become_one() {
        assert_eq!(parts("bytes=4-6,0-4", 10), [(0, 7)]);
        assert_eq!(parts("bytes=0-1,2-3", 10), [(0, 4)]);
        assert_eq!(parts("bytes=0-,0-,0-,5-", 10), [(0, 10)]);
        assert_eq!(parts("bytes=8-9,0-1,1-2", 10), [(0, 3), (8, 10)]);
    }

    #[test]
    fn more_ranges_than_the_cap_send_the_whole_file() {
        let many: Vec<_> = (0..33).map(|at| format!("{}-{}", at * 2, at * 2)).collect();
        assert_eq!(selection(&format!("bytes={}", many[..32].join(",")), 100), {
            Selection::Parts((0..32).map(|at| ByteRange { start: at * 2, end: at * 2 + 1 }).collect())
        });
        assert_eq!(selection(&format!("bytes={}", many.join(",")), 100), Selection::Whole);
    }
}
