//! Ranges of a file: FSCTL_SET_SPARSE, FSCTL_SET_ZERO_DATA and FSCTL_QUERY_ALLOCATED_RANGES (MS-FSCC 2.3.51, 2.3.83,
//! 2.3.85).

use zerocopy::FromBytes;
use zerocopy::little_endian::U64;

use crate::fixed::{prefix, wire};
use crate::malformed::Malformed;

wire! {
    /// The range that is to be zero.
    pub struct ZeroData {
        file_offset: U64,
        /// The first byte that is not.
        beyond_final_zero: U64,
    }
}

wire! {
    /// A range that is asked about, or that holds data.
    pub struct AllocatedRange {
        file_offset: U64,
        length: U64,
    }
}

/// Returns what a request to make a file sparse says: without input it is "yes".
pub fn parse_sparse(input: &[u8]) -> bool {
    input.first() != Some(&0)
}

/// Parses the range that is to be zero: first byte and length.
pub fn parse_zero(input: &[u8]) -> Result<(u64, u64), Malformed> {
    let (range, _) = prefix::<ZeroData>(input)?;
    let (from, to) = (range.file_offset.get(), range.beyond_final_zero.get());
    //= MS-FSCC 2.3.85
    //# Offsets are not negative, and the end not before the beginning.
    if from > i64::MAX as u64 || to > i64::MAX as u64 {
        return Err(Malformed::Value);
    }
    Ok((from, to.checked_sub(from).ok_or(Malformed::Value)?))
}

/// Parses the range that is asked about: first byte and length.
pub fn parse_query(input: &[u8]) -> Result<(u64, u64), Malformed> {
    let (range, _) = prefix::<AllocatedRange>(input)?;
    let (from, len) = (range.file_offset.get(), range.length.get());
    match from.checked_add(len) {
        Some(end) if end <= i64::MAX as u64 => Ok((from, len)),
        _ => Err(Malformed::Value),
    }
}

/// Parses the ranges that an answer holds.
pub fn parse_allocated(output: &[u8]) -> Result<&[AllocatedRange], Malformed> {
    <[AllocatedRange]>::ref_from_bytes(output).map_err(|_| Malformed::Short)
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn ranges_that_wrap_are_refused() {
        let pair = |a: u64, b: u64| [a.to_le_bytes(), b.to_le_bytes()].concat();
        assert_eq!(parse_zero(&pair(5, 9)), Ok((5, 4)));
        assert_eq!(parse_zero(&pair(5, 5)), Ok((5, 0)));
        for (from, to) in [(5, 4), (1 << 63, u64::MAX), (0, 1 << 63)] {
            assert_eq!(parse_zero(&pair(from, to)), Err(Malformed::Value));
        }
        assert_eq!(parse_query(&pair(5, 9)), Ok((5, 9)));
        assert_eq!(parse_query(&pair(u64::MAX, 2)), Err(Malformed::Value));
        assert_eq!(parse_query(&pair(1, i64::MAX as u64)), Err(Malformed::Value));
        assert_eq!(parse_query(&[0; 15]), Err(Malformed::Short));
        assert!(parse_sparse(&[]) && parse_sparse(&[1]) && !parse_sparse(&[0]));
        let ranges = [AllocatedRange { file_offset: 1.into(), length: 2.into() }; 2];
        assert_eq!(parse_allocated(ranges.as_bytes()).unwrap(), ranges);
        assert!(parse_allocated(&[0; 17]).is_err());
    }
}
