//! Entity tags (RFC 9110 8.8.3) from the [name of a version](VersionName): a file's size, the time of its last change, and that
//! of its last status change, to the nanosecond.
//!
//! All survive a restart and a remount; device and inode numbers do not. Nobody can set the last of them, so that other
//! content has another tag whatever it is stamped with; so has the file after a `chmod`, and on a mirror. What is older than a loss
//! of power of the volume ([`vfs::Volume::distrusts_before`]) has other tags after it. While another write might still
//! get the same name the tag is [unsettled](ETag::unsettled).

use vfs::VersionName;

use crate::encoding::Coding;

/// A validator of one version of one representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ETag {
    /// `W/` and the quoted hash; a strong tag leaves the first two out.
    text: [u8; WEAK_LEN],
    is_strong: bool,
}

impl ETag {
    /// Returns the strong tag of a version in a coding. Any change of an argument gives another tag.
    pub fn strong(version: &VersionName, coding: Option<Coding>) -> Self {
        Self::new(version, coding, true)
    }

    /// Returns the weak tag of a version that may yet be overwritten under the same name. It matches nothing, not even
    /// itself, and never becomes the strong tag: a client that asks again after the change gets the new content.
    /// Clients have it to keep them from asking by date, which is coarser still.
    pub fn unsettled(version: &VersionName, coding: Option<Coding>) -> Self {
        Self::new(version, coding, false)
    }

    fn new(version: &VersionName, coding: Option<Coding>, is_strong: bool) -> Self {
        // Siblings may share size and time stamp with their file.
        let kind = coding.map_or(0, |coding| 1 + coding as u64) << 1 | u64::from(!is_strong);
        let kind = kind | u64::from(version.distrusted != 0) << 62;
        let VersionName { size, mtime, ctime, .. } = *version;
        let nanos = u64::from(mtime.nanos) << 32 | u64::from(ctime.nanos);
        let (modified, changed) = (mtime.secs.cast_unsigned(), ctime.secs.cast_unsigned());
        let mut hash = hashed(SEED, [kind, size, modified, changed, nanos]);
        if version.distrusted != 0 {
            hash = hashed(hash, [version.distrusted.into()]);
        }
        let mut text = *b"W/\"................\"";
        for (position, digit) in text[3..WEAK_LEN - 1].iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(hash >> (60 - 4 * position)) as usize & 15];
        }
        Self { text, is_strong }
    }

    /// Returns whether equal tags vouch for equal bytes.
    pub fn is_strong(&self) -> bool {
        self.is_strong
    }

    /// Returns the field value, with its quotes.
    pub fn as_bytes(&self) -> &[u8] {
        if self.is_strong { &self.text[2..] } else { &self.text }
    }

    /// Compares strongly, as If-Match and If-Range do: a weak tag never matches (RFC 9110 8.8.3.2).
    pub fn matches_strongly(&self, tag: &[u8]) -> bool {
        self.is_strong && tag == &self.text[2..]
    }

    /// Compares weakly, as If-None-Match does: `W/` is ignored. An unsettled tag matches nothing.
    pub fn matches_weakly(&self, tag: &[u8]) -> bool {
        self.is_strong && tag.strip_prefix(b"W/").unwrap_or(tag) == &self.text[2..]
    }
}

fn hashed<const N: usize>(hash: u64, words: [u64; N]) -> u64 {
    words.into_iter().fold(hash, |hash, word| mix(hash ^ word))
}

/// Applies a bijection of 64-bit words (the finaliser of SplitMix64), so equal hashes need equal words or luck.
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
pub(crate) mod tests {
    use lane::fs::Timestamp;

    use super::*;

    /// The version of this size and time of change, in nanoseconds since 1970.
    pub(crate) fn version(size: u64, mtime_ns: u64) -> VersionName {
        VersionName { size, mtime: stamp(mtime_ns), ctime: stamp(mtime_ns), distrusted: 0 }
    }

    fn stamp(ns: u64) -> Timestamp {
        Timestamp { secs: (ns / 1_000_000_000) as i64, nanos: (ns % 1_000_000_000) as u32 }
    }

    fn strong(size: u64, mtime_ns: u64) -> ETag {
        ETag::strong(&version(size, mtime_ns), None)
    }

    #[test]
    fn tag_is_stable_across_versions_of_the_server() {
        let tag = strong(3, 1_700_000_000_123_456_789);
        assert_eq!(tag.as_bytes().escape_ascii().to_string(), "\\\"42c9fb7052ddcecc\\\"");
    }

    #[test]
    fn every_argument_changes_the_tag() {
        let mut tags = vec![strong(3, 4), strong(9, 4), strong(3, 5), strong(4, 3)];
        tags.extend(Coding::ALL.map(|coding| ETag::strong(&version(3, 4), Some(coding))));
        tags.push(ETag::unsettled(&version(3, 4), None));
        for ns in [5, 6, 1_000_000_004] {
            for version in [
                VersionName { ctime: stamp(ns), ..version(3, 4) },
                VersionName { mtime: stamp(ns), ..version(3, 4) },
            ] {
                tags.extend([ETag::strong(&version, None), ETag::unsettled(&version, None)]);
            }
        }
        for distrusted in [4, 5] {
            tags.push(ETag::strong(&VersionName { distrusted, ..version(3, 4) }, None));
        }
        let distinct: std::collections::HashSet<_> = tags.iter().map(|tag| &tag.text).collect();
        assert_eq!(distinct.len(), tags.len());
    }

    #[test]
    fn weak_tags_match_only_weakly() {
        let tag = strong(3, 4);
        let weak = [b"W/", tag.as_bytes()].concat();
        assert!(tag.matches_weakly(&weak) && !tag.matches_strongly(&weak));
        assert!(tag.matches_strongly(tag.as_bytes()) && tag.matches_weakly(tag.as_bytes()));
    }

    #[test]
    fn unsettled_tags_are_weak_and_match_nothing() {
        let tag = ETag::unsettled(&version(3, 4), None);
        assert!(tag.as_bytes().starts_with(b"W/\""));
        assert!(!tag.matches_weakly(tag.as_bytes()) && !tag.matches_strongly(&tag.as_bytes()[2..]));
        assert!(!strong(3, 4).matches_weakly(tag.as_bytes()));
    }
}
