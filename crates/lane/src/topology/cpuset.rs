//! A set of CPU ids, in the two notations of the kernel: lists (`0-3,8`) and hexadecimal masks
//! (`ff,00000001`).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Set of CPU ids, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuSet(BTreeSet<u32>);

/// Error in a CPU list or mask, as the kernel would not have written it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseCpuSetError {
    /// An item is neither a number nor a range of numbers.
    #[error("{0:?} is neither a CPU number nor a range like 0-3")]
    NotANumber(String),
    /// A range runs backwards.
    #[error("the range {0:?} runs backwards")]
    Backwards(String),
    /// An id is one that no Linux machine has.
    #[error("CPU {0} is above the highest number supported ({CPU_ID_MAX})")]
    TooHigh(u64),
}

impl CpuSet {
    /// Makes a set without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the mask notation of `xps_cpus` and `smp_affinity`: comma-separated 32-bit words, highest
    /// first.
    pub fn parse_mask(text: &str) -> Result<Self, ParseCpuSetError> {
        let mut set = Self::new();
        for (index, word) in text.trim().split(',').rev().enumerate() {
            let bits =
                u32::from_str_radix(word, 16).map_err(|_| ParseCpuSetError::NotANumber(word.to_owned()))?;
            for bit in (0..32).filter(|bit| bits & (1 << bit) != 0) {
                set.0.insert(checked_id(index as u64 * 32 + bit)?);
            }
        }
        Ok(set)
    }

    /// Returns the mask notation, as [`CpuSet::parse_mask`] reads it.
    pub fn to_mask(&self) -> String {
        let words = self.0.last().map_or(1, |last| last / 32 + 1);
        let word = |index: u32| {
            let bits =
                self.iter().filter(|id| id / 32 == index).fold(0_u32, |bits, id| bits | 1 << (id % 32));
            if index + 1 == words { format!("{bits:x}") } else { format!("{bits:08x}") }
        };
        (0..words).rev().map(word).collect::<Vec<_>>().join(",")
    }

    /// Adds an id; returns false when the set had it.
    pub fn insert(&mut self, id: u32) -> bool {
        self.0.insert(id)
    }

    /// Returns whether `id` is a member.
    pub fn contains(&self, id: u32) -> bool {
        self.0.contains(&id)
    }

    /// Returns the members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Returns the lowest id of the set.
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether every member is also in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Returns the members that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// Returns the members of `self` that are not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }
}

/// Parses the list notation of `cpulist` and of users: `0-3,8`. Blank means empty.
impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut set = Self::new();
        let text = text.trim();
        if text.is_empty() {
            return Ok(set);
        }
        for part in text.split(',').map(str::trim) {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (parse_id(first, part)?, parse_id(last, part)?),
                None => (parse_id(part, part)?, parse_id(part, part)?),
            };
            if first > last {
                return Err(ParseCpuSetError::Backwards(part.to_owned()));
            }
            set.0.extend(first..=last);
        }
        Ok(set)
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        Self(ids.into_iter().collect())
    }
}

impl Extend<u32> for CpuSet {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, ids: I) {
        self.0.extend(ids);
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut ids = self.iter().peekable();
        while let Some(first) = ids.next() {
            let mut last = first;
            while let Some(next) = ids.next_if_eq(&(last + 1)) {
                last = next;
            }
            let comma = if text.is_empty() { "" } else { "," };
            text += &if first == last { format!("{comma}{first}") } else { format!("{comma}{first}-{last}") };
        }
        f.pad(&text)
    }
}

fn parse_id(text: &str, part: &str) -> Result<u32, ParseCpuSetError> {
    checked_id(text.trim().parse().map_err(|_| ParseCpuSetError::NotANumber(part.to_owned()))?)
}

/// Checks an id, which bounds the memory for a list such as `0-4000000000`.
fn checked_id(id: u64) -> Result<u32, ParseCpuSetError> {
    if id > u64::from(CPU_ID_MAX) { Err(ParseCpuSetError::TooHigh(id)) } else { Ok(id as u32) }
}

/// Highest CPU id, far above what kernels are built for (8,192 CPUs).
const CPU_ID_MAX: u32 = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_read_and_written_back() {
        for text in ["", "0", "0-3", "0-3,8,10-11", "7,9"] {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), text);
        }
        assert_eq!(" 3 , 1-2\n".parse::<CpuSet>().unwrap().to_string(), "1-3");
    }

    #[test]
    fn masks_are_written_as_they_are_read() {
        for mask in ["0", "1", "c", "ff", "1,00000000", "80000001,0000000f,ffffffff"] {
            assert_eq!(CpuSet::parse_mask(mask).unwrap().to_mask(), mask);
        }
    }

    #[test]
    fn mask_words_count_from_the_right() {
        assert_eq!(CpuSet::parse_mask("1,0000000f\n").unwrap().to_string(), "0-3,32");
        assert_eq!(CpuSet::parse_mask("0").unwrap(), CpuSet::new());
    }

    #[test]
    fn malformed_lists_are_refused_by_name() {
        assert_eq!("0-x".parse::<CpuSet>(), Err(ParseCpuSetError::NotANumber("0-x".into())));
        assert_eq!("3-1".parse::<CpuSet>(), Err(ParseCpuSetError::Backwards("3-1".into())));
        assert_eq!("0-4000000000".parse::<CpuSet>(), Err(ParseCpuSetError::TooHigh(4_000_000_000)));
        assert!("1,,2".parse::<CpuSet>().is_err());
        assert!(CpuSet::parse_mask("zz").is_err());
        assert!(CpuSet::parse_mask("").is_err());
    }
}
