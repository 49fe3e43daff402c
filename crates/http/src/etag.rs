//! Entity tags (RFC 9110 8.8.3) from what the file system says of a file's content: its size and the time of
//! its last change, to the nanosecond.
//!
//! Both survive a restart and a remount, and mirrors that keep time stamps (`rsync -t`, `cp -p`) give the same
//! tag. Device and inode numbers do neither, and the time of the last status change (ctime) differs on every
//! mirror and with every `chmod`. What is left cannot tell two contents of one size and one time stamp
//! apart, so while another write might still get the same stamp the tag is [unsettled](ETag::unsettled).

use crate::encoding::Coding;

/// A validator of one version of one representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ETag {
    /// `W/` and the quoted hash; a strong tag leaves the first two out.
    text: [u8; WEAK_LEN],
    strength: Strength,
}

/// What a tag vouches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Strength {
    /// That every byte is the same.
    Strong,
    /// That the content is, as far as the time stamp tells that a client gave the file.
    Weak,
    /// Nothing yet.
    Unsettled,
}

impl ETag {
    /// Strong tag of a file version in a coding. Any change of an argument gives another tag.
    pub fn strong(size: u64, mtime_ns: i128, coding: Option<Coding>) -> Self {
        Self::new(size, mtime_ns, coding, Strength::Strong)
    }

    /// Weak tag of a version whose time stamp was set, to before 1970 or to the future: If-None-Match finds it again
    /// (RFC 9110 13.1.2), and nobody joins parts by it.
    pub fn weak(size: u64, mtime_ns: i128, coding: Option<Coding>) -> Self {
        Self::new(size, mtime_ns, coding, Strength::Weak)
    }

    /// Weak tag of a version that may yet be overwritten under the same time stamp. It matches nothing, not
    /// even itself, and never becomes the strong tag: who asks again after the change gets the new content.
    /// Clients have it to keep them from asking by date, which is coarser still.
    pub fn unsettled(size: u64, mtime_ns: i128, coding: Option<Coding>) -> Self {
        Self::new(size, mtime_ns, coding, Strength::Unsettled)
    }

    fn new(size: u64, mtime_ns: i128, coding: Option<Coding>, strength: Strength) -> Self {
        // Siblings may share size and time stamp with their file.
        let kind = coding.map_or(0, |coding| 1 + coding as u64) << 1;
        let kind = match strength {
            Strength::Strong => kind,
            Strength::Unsettled => kind | 1,
            Strength::Weak => kind | 1 << 63,
        };
        let words = [kind, size, mtime_ns as u64, (mtime_ns >> 64) as u64];
        let hash = words.into_iter().fold(SEED, |hash, word| mix(hash ^ word));
        let mut text = *b"W/\"................\"";
        for (position, digit) in text[3..WEAK_LEN - 1].iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(hash >> (60 - 4 * position)) as usize & 15];
        }
        Self { text, strength }
    }

    /// The field value, with its quotes.
    pub fn as_bytes(&self) -> &[u8] {
        if self.strength == Strength::Strong { &self.text[2..] } else { &self.text }
    }

    /// If-Match and If-Range compare strongly: a weak tag never matches (RFC 9110 8.8.3.2).
    pub fn matches_strongly(&self, tag: &[u8]) -> bool {
        self.strength == Strength::Strong && tag == &self.text[2..]
    }

    /// If-None-Match compares weakly: `W/` is ignored. An unsettled tag vouches for nothing.
    pub fn matches_weakly(&self, tag: &[u8]) -> bool {
        self.strength != Strength::Unsettled && tag.strip_prefix(b"W/").unwrap_or(tag) == &self.text[2..]
    }
}

/// A bijection of 64-bit words (the finaliser of SplitMix64), so equal hashes need equal words or luck.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Length of a weak tag, quotes included; a strong one is two shorter.
const WEAK_LEN: usize = 20;
/// Changing it changes every tag: clients would fetch everything anew.
const SEED: u64 = 0x4c69_6e65_7261_7465;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_is_stable_across_versions_of_the_server() {
        let tag = ETag::strong(3, 1_700_000_000_123_456_789, None);
        assert_eq!(tag.as_bytes().escape_ascii().to_string(), "\\\"1796989121d6ab46\\\"");
    }

    #[test]
    fn every_argument_changes_the_tag() {
        let base = ETag::strong(3, 4, None);
        let mut tags =
            vec![base, ETag::strong(9, 4, None), ETag::strong(3, 5, None), ETag::strong(4, 3, None)];
        tags.extend(Coding::ALL.map(|coding| ETag::strong(3, 4, Some(coding))));
        tags.extend([ETag::unsettled(3, 4, None), ETag::weak(3, 4, None)]);
        let distinct: std::collections::HashSet<_> = tags.iter().map(|tag| &tag.text).collect();
        assert_eq!(distinct.len(), tags.len());
    }

    #[test]
    fn weak_tags_match_only_weakly() {
        let tag = ETag::strong(3, 4, None);
        let weak = [b"W/", tag.as_bytes()].concat();
        assert!(tag.matches_weakly(&weak) && !tag.matches_strongly(&weak));
        assert!(tag.matches_strongly(tag.as_bytes()) && tag.matches_weakly(tag.as_bytes()));
    }

    #[test]
    fn tags_of_stamps_that_were_set_are_found_again_and_join_nothing() {
        let tag = ETag::weak(3, -4, None);
        assert!(tag.as_bytes().starts_with(b"W/\""));
        assert!(tag.matches_weakly(tag.as_bytes()) && tag.matches_weakly(&tag.as_bytes()[2..]));
        assert!(!tag.matches_strongly(tag.as_bytes()) && !tag.matches_strongly(&tag.as_bytes()[2..]));
        assert!(!ETag::weak(3, -5, None).matches_weakly(tag.as_bytes()));
    }

    #[test]
    fn unsettled_tags_are_weak_and_match_nothing() {
        let tag = ETag::unsettled(3, 4, None);
        assert!(tag.as_bytes().starts_with(b"W/\""));
        assert!(!tag.matches_weakly(tag.as_bytes()) && !tag.matches_strongly(&tag.as_bytes()[2..]));
        assert!(!ETag::strong(3, 4, None).matches_weakly(tag.as_bytes()));
    }
}
