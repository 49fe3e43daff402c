//! Strong entity tags (RFC 9110 8.8.3) from what the file system says of a file, stable over restarts.

/// Length of the text, quotes included.
pub const LEN: usize = 18;

/// A strong validator of one version of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ETag {
    text: [u8; LEN],
}

impl ETag {
    /// Tag of a file version. Any change of an argument gives another tag; the arguments cannot be
    /// read back from it, since inode numbers are nobody's business (CVE-2003-1418).
    pub fn new(dev: u64, ino: u64, size: u64, mtime_ns: i128) -> Self {
        let words = [dev, ino, size, mtime_ns as u64, (mtime_ns >> 64) as u64];
        let hash = words.into_iter().fold(SEED, |hash, word| mix(hash ^ word));
        let mut text = [b'"'; LEN];
        for (position, digit) in text[1..LEN - 1].iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(hash >> (60 - 4 * position)) as usize & 15];
        }
        Self { text }
    }

    /// The field value, with its quotes.
    pub fn as_bytes(&self) -> &[u8; LEN] {
        &self.text
    }

    /// If-Match and If-Range compare strongly: a weak tag never matches (RFC 9110 8.8.3.2).
    pub fn matches_strongly(&self, tag: &[u8]) -> bool {
        tag == self.text
    }

    /// If-None-Match compares weakly: `W/` is ignored.
    pub fn matches_weakly(&self, tag: &[u8]) -> bool {
        tag.strip_prefix(b"W/").unwrap_or(tag) == self.text
    }
}

/// A bijection of 64-bit words (the finaliser of SplitMix64), so equal hashes need equal words or luck.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Changing it changes every tag: clients would fetch everything anew.
const SEED: u64 = 0x4c69_6e65_7261_7465;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_is_stable_across_versions_of_the_server() {
        assert_eq!(ETag::new(1, 2, 3, 1_700_000_000_123_456_789).as_bytes(), b"\"0a04166fc64f85dc\"");
    }

    #[test]
    fn every_argument_changes_the_tag() {
        let base = ETag::new(1, 2, 3, 4);
        for other in
            [ETag::new(9, 2, 3, 4), ETag::new(1, 9, 3, 4), ETag::new(1, 2, 9, 4), ETag::new(1, 2, 3, 5)]
        {
            assert_ne!(base, other);
        }
        assert_ne!(ETag::new(1, 2, 3, 4), ETag::new(2, 1, 3, 4));
    }

    #[test]
    fn weak_tags_match_only_weakly() {
        let tag = ETag::new(1, 2, 3, 4);
        let weak = [b"W/", &tag.as_bytes()[..]].concat();
        assert!(tag.matches_weakly(&weak) && !tag.matches_strongly(&weak));
        assert!(tag.matches_strongly(tag.as_bytes()));
    }
}
