//! Beginnings of names that differ wherever the names do.

use std::borrow::Cow;

/// Returns a name of at most `kept` bytes unchanged, and cuts a longer one to `kept` bytes with a hash of the
/// whole, so that names stay distinct.
pub fn distinct(name: &[u8], kept: usize) -> Cow<'_, [u8]> {
    if name.len() <= kept {
        return Cow::Borrowed(name);
    }
    Cow::Owned([&name[..kept], format!("~{:016x}", fnv_1a([name])).as_bytes()].concat())
}

/// Makes a distinct name of text ([`distinct`]), cut at a character: up to three bytes shorter.
pub(crate) fn distinct_text(name: &str, kept: usize) -> Cow<'_, str> {
    if name.len() <= kept {
        return Cow::Borrowed(name);
    }
    let beginning = &name[..name.floor_char_boundary(kept)];
    Cow::Owned(format!("{beginning}~{:016x}", fnv_1a([name.as_bytes()])))
}

/// Computes the 64-bit FNV-1a hash of byte strings one after another.
pub(crate) fn fnv_1a<const N: usize>(parts: [&[u8]; N]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    parts.into_iter().flatten().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_that_begin_alike_stay_apart() {
        assert_eq!(&*distinct(b"short", 150), b"short");
        let names = (0..500).map(|n| format!("{}{n}", "n".repeat(200)));
        let cut: std::collections::BTreeSet<_> =
            names.map(|name| distinct(name.as_bytes(), 150).into_owned()).collect();
        assert_eq!(cut.len(), 500);
        assert!(cut.iter().all(|name| name.len() == 167), "longer than any name that is kept whole");
    }
}
