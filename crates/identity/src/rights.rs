//! Rights over a directory and its content: AFS's seven letters, and eight letters for users' own purposes.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};
use std::str::FromStr;

/// Set of rights. The bits are those of AFS's protocols (RXAFS_FetchStatus, `CallerAccess`), but for
/// [`TRAVERSE`](Self::TRAVERSE), which exists inside this server alone.
///
/// Text is as AFS's `fs` takes and prints it: letters in the order `rlidwkaABCDEFGH`, or one of the words `read` (`rl`),
/// `write` (`rlidwk`), `all` (`rlidwka`) and `none`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rights(u32);

impl Rights {
    /// Set without any right.
    pub const NONE: Self = Self(0);
    /// `r`: read files of the directory.
    pub const READ: Self = Self(1);
    /// `w`: change files of the directory.
    pub const WRITE: Self = Self(1 << 1);
    /// `i`: add names to the directory.
    pub const INSERT: Self = Self(1 << 2);
    /// `l`: list the directory, and see the attributes of what is in it.
    pub const LOOKUP: Self = Self(1 << 3);
    /// `d`: take names away.
    pub const DELETE: Self = Self(1 << 4);
    /// `k`: lock files of the directory.
    pub const LOCK: Self = Self(1 << 5);
    /// `a`: of a directory, change its access list; of a file, its owner's mark.
    pub const ADMINISTER: Self = Self(1 << 6);
    /// Right to pass through the directory to a known name, without listing it. A user with `l` has it; alone
    /// it comes from mode bits (`x` without `r`). No letter stands for it, and no access list holds it.
    pub const TRAVERSE: Self = Self(1 << 16);
    /// Right to append to a file. A user with `w` of a security descriptor mostly has it; no letter stands
    /// for it, no access list holds it, and only SMB can express it.
    pub const APPEND: Self = Self(1 << 17);
    /// Right to add files but not directories to a directory, which only security descriptors give, as
    /// [`APPEND`](Self::APPEND).
    pub const INSERT_FILE: Self = Self(1 << 18);
    /// Right to add directories but not files to a directory, which only security descriptors give.
    pub const INSERT_DIRECTORY: Self = Self(1 << 19);
    /// Right to remove and move one's own objects: what a sticky directory leaves of `d` to users other than
    /// its owner. No letter stands for it, and no access list holds it.
    pub const DELETE_OWN: Self = Self(1 << 20);
    /// Rights of the word `read`: `rl`.
    pub const READER: Self = Self::READ.or(Self::LOOKUP);
    /// Rights that change something other than access lists: `idwk`.
    pub const CHANGES: Self = Self::INSERT.or(Self::DELETE).or(Self::WRITE).or(Self::LOCK);
    /// Rights of the word `write`: `rlidwk`.
    pub const WRITER: Self = Self::READER.or(Self::CHANGES);
    /// Rights of the word `all`: every right that means something to a server.
    pub const ALL: Self = Self::WRITER.or(Self::ADMINISTER);
    /// Rights `A` to `H`, which the server stores but never checks.
    pub const AUXILIARY: Self = Self(0xff00_0000);
    /// Rights that an access list can hold.
    pub const LISTED: Self = Self::ALL.or(Self::AUXILIARY);

    /// Returns the union of both sets, also in constants.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns this set without the rights of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether the set has all of `wanted`.
    pub const fn contains(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// Returns whether the set has any of `wanted`.
    pub const fn intersects(self, wanted: Self) -> bool {
        self.0 & wanted.0 != 0
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the bits of AFS's protocols, where [`DELETE_OWN`](Self::DELETE_OWN) becomes `d`: the server
    /// decides what may be removed.
    pub const fn bits(self) -> u32 {
        let deletes = if self.contains(Self::DELETE_OWN) { Self::DELETE.0 } else { 0 };
        (self.0 | deletes) & Self::LISTED.0
    }

    /// Converts AFS's bits; `None` if one has no letter.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits & !Self::LISTED.0 == 0 { Some(Self(bits)) } else { None }
    }
}

impl BitOr for Rights {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}

impl BitOrAssign for Rights {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.or(other);
    }
}

impl BitAnd for Rights {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// Writes the letters, or `none`.
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters: String =
            LETTERS.iter().filter(|(_, right)| self.contains(*right)).map(|(letter, _)| *letter).collect();
        f.pad(if letters.is_empty() { "none" } else { &letters })
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passes = self.contains(Self::TRAVERSE) && !self.contains(Self::LOOKUP);
        write!(f, "{self}{}", if passes { "+pass" } else { "" })
    }
}

impl FromStr for Rights {
    type Err = UnknownRight;

    fn from_str(text: &str) -> Result<Self, UnknownRight> {
        match text {
            "read" => return Ok(Self::READER),
            "write" => return Ok(Self::WRITER),
            "all" => return Ok(Self::ALL),
            "none" => return Ok(Self::NONE),
            "" => return Err(UnknownRight(String::new())),
            _ => {}
        }
        let right = |letter| LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, right)| *right);
        text.chars().try_fold(Self::NONE, |rights, letter| {
            right(letter).map(|right| rights | right).ok_or_else(|| UnknownRight(text.to_owned()))
        })
    }
}

/// Error of a text that has no letters or word of rights.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} are no rights: give letters of rlidwka and A to H, or read, write, all or none")]
pub struct UnknownRight(String);

const LETTERS: [(char, Rights); 15] = [
    ('r', Rights::READ),
    ('l', Rights::LOOKUP),
    ('i', Rights::INSERT),
    ('d', Rights::DELETE),
    ('w', Rights::WRITE),
    ('k', Rights::LOCK),
    ('a', Rights::ADMINISTER),
    ('A', Rights(1 << 24)),
    ('B', Rights(1 << 25)),
    ('C', Rights(1 << 26)),
    ('D', Rights(1 << 27)),
    ('E', Rights(1 << 28)),
    ('F', Rights(1 << 29)),
    ('G', Rights(1 << 30)),
    ('H', Rights(1 << 31)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_letters_are_those_of_fs() {
        for (text, shown, bits) in [
            ("read", "rl", 9),
            ("write", "rlidwk", 63),
            ("all", "rlidwka", 127),
            ("none", "none", 0),
            ("kwr", "rwk", 35),
            ("rrAH", "rAH", 0x8100_0001),
        ] {
            let rights: Rights = text.parse().unwrap();
            assert_eq!((rights.to_string().as_str(), rights.bits()), (shown, bits), "{text}");
            assert_eq!(shown.parse(), Ok(rights));
        }
        for text in ["", "x", "rw x", "reader", "I"] {
            assert!(text.parse::<Rights>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn passing_through_is_no_right_that_anybody_sees() {
        let rights = Rights::READ | Rights::TRAVERSE;
        assert_eq!((rights.to_string().as_str(), rights.bits()), ("r", 1));
        assert_eq!(Rights::from_bits(1 << 16), None);
        assert_eq!(Rights::from_bits(127), Some(Rights::ALL));
    }
}
