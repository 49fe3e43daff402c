//! Members of an exchange, and sets of members.

use smallvec::{SmallVec, smallvec};

/// Member of an exchange: of a [`Mesh`](super::Mesh) the lane of this number, or a thread beside the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(u16);

/// Set of members of an exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    words: SmallVec<[u64; 2]>,
}

impl Member {
    /// Returns the member's place among the members, from 0.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

impl From<usize> for Member {
    /// Returns the member of this index.
    ///
    /// # Panics
    /// Beyond 65,535, more than any process has lanes.
    fn from(index: usize) -> Self {
        Self(u16::try_from(index).expect("exchanges have far fewer members"))
    }
}

impl Members {
    /// Adds a member to the set.
    pub fn insert(&mut self, member: Member) {
        let (word, bit) = place(member.index());
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    /// Takes a member out of the set.
    pub fn remove(&mut self, member: Member) {
        let (word, bit) = place(member.index());
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    /// Returns whether the member is in the set.
    pub fn contains(&self, member: Member) -> bool {
        let (word, bit) = place(member.index());
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Returns the number of members in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether the set has no member.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Returns all members of the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = Member> + '_ {
        (0..self.words.len() * 64).map(Member::from).filter(|&member| self.contains(member))
    }

    /// Returns the first member at or after `index`, else the first of all.
    pub(super) fn next_from(&self, index: usize) -> Option<Member> {
        self.first_from(index).or_else(|| self.first_from(0))
    }

    /// Makes an empty set with room for `members` of them.
    pub(super) fn none_of(members: usize) -> Self {
        Self { words: smallvec![0; members.div_ceil(64)] }
    }

    pub(super) fn add_word(&mut self, word: usize, bits: u64) {
        self.words[word] |= bits;
    }

    fn first_from(&self, index: usize) -> Option<Member> {
        let (first, bit) = place(index);
        let mut mask = !(bit - 1);
        for (at, &word) in self.words.iter().enumerate().skip(first) {
            if word & mask != 0 {
                return Some(Member::from(at * 64 + (word & mask).trailing_zeros() as usize));
            }
            mask = u64::MAX;
        }
        None
    }
}

impl FromIterator<Member> for Members {
    fn from_iter<I: IntoIterator<Item = Member>>(members: I) -> Self {
        let mut set = Self::default();
        members.into_iter().for_each(|member| set.insert(member));
        set
    }
}

/// Returns the word and the bit of a member.
pub(super) fn place(index: usize) -> (usize, u64) {
    (index / 64, 1 << (index % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_one_comes_round_from_the_last_to_the_first() {
        let set: Members = [1, 63, 64, 130].map(Member::from).into_iter().collect();
        assert_eq!(set.len(), 4);
        assert_eq!(set.iter().map(Member::index).collect::<Vec<_>>(), [1, 63, 64, 130]);
        for (from, next) in [(0, 1), (2, 63), (63, 63), (64, 64), (65, 130), (131, 1), (700, 1)] {
            assert_eq!(set.next_from(from), Some(Member::from(next)), "from {from}");
        }
        assert_eq!(Members::none_of(200).next_from(3), None);
    }
}
