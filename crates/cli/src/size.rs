//! Numbers of bytes as people write them.

/// The most bytes that are asked for at once: stock peers of Rx keep them in a signed 32-bit integer.
const MAX_BYTES: u32 = i32::MAX as u32;

/// Parses a number of bytes with an optional suffix k, M or G (powers of 1024).
pub fn size(text: &str) -> Result<u32, String> {
    let (digits, shift) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 10),
        Some('m' | 'M') => (&text[..text.len() - 1], 20),
        Some('g' | 'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text} is not a number of bytes"))?;
    let bytes = number.checked_mul(1 << shift).filter(|&bytes| bytes <= MAX_BYTES.into());
    bytes.map(|bytes| bytes as u32).ok_or_else(|| format!("{text} is more than a call's {MAX_BYTES} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes_and_a_limit() {
        assert_eq!((size("32"), size("4k"), size("1M")), (Ok(32), Ok(4096), Ok(1 << 20)));
        assert!(size("2G").is_err() && size("").is_err() && size("-1").is_err() && size("1x").is_err());
    }
}
