//! Numbers of files, as AFS names them.

/// Vnode and uniquifier: AFS's name of a file within its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number {
    /// Vnode number: odd for directories, even for all else.
    pub vnode: u32,
    /// Uniquifier, which differs each time the vnode is used again.
    pub uniquifier: u32,
}

/// Kind of a number: directories are numbered apart, as clients recognize them by odd vnodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Root directory of a volume.
    Root,
    /// Directory other than the root.
    Directory,
    /// File, link or anything else.
    File,
}

impl Number {
    /// Number of a volume's root directory.
    pub const ROOT: Self = Self { vnode: 1, uniquifier: 1 };

    /// Makes the number of a counter. No two counters of a kind make the same one below 2^62.
    pub(crate) fn from_counter(kind: Kind, counter: u64) -> Self {
        let vnode = (counter % VNODES) as u32 * 2;
        let uniquifier =
            u32::try_from(counter / VNODES + 1).expect("fewer than 2^62 files in a volume's life");
        let vnode = match kind {
            Kind::Root | Kind::Directory => vnode + 1,
            Kind::File => vnode + 2,
        };
        Self { vnode, uniquifier }
    }

    /// Returns the counter of the number; `None` for one that no counter makes.
    pub(crate) fn counter(self) -> Option<u64> {
        let half = match self.kind() {
            Kind::Root | Kind::Directory => self.vnode / 2,
            Kind::File => self.vnode.checked_sub(2)? / 2,
        };
        let turns = self.uniquifier.checked_sub(1)?;
        (u64::from(half) < VNODES).then(|| u64::from(turns) * VNODES + u64::from(half))
    }

    /// Returns the kind of file that has the number.
    pub fn kind(self) -> Kind {
        match self {
            Self::ROOT => Kind::Root,
            _ if self.vnode % 2 == 1 => Kind::Directory,
            _ => Kind::File,
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.vnode, self.uniquifier)
    }
}

/// Number of vnodes of one kind.
const VNODES: u64 = (1 << 31) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_the_first_directory() {
        assert_eq!(Number::from_counter(Kind::Directory, 0), Number::ROOT);
    }

    #[test]
    fn counters_make_numbers_that_tell_them() {
        for kind in [Kind::Directory, Kind::File] {
            for counter in [0, 1, 2, VNODES - 1, VNODES, VNODES + 1, 3 * VNODES + 7, VNODES * VNODES] {
                let number = Number::from_counter(kind, counter);
                let kind = if number == Number::ROOT { Kind::Root } else { kind };
                assert_eq!((number.kind(), number.counter()), (kind, Some(counter)), "{number}");
            }
        }
    }

    #[test]
    fn a_vnode_that_comes_again_has_another_uniquifier() {
        let first = Number::from_counter(Kind::File, 5);
        let again = Number::from_counter(Kind::File, 5 + VNODES);
        assert_eq!(first.vnode, again.vnode);
        assert_eq!(again.uniquifier, first.uniquifier + 1);
    }

    #[test]
    fn numbers_that_no_counter_makes_are_told() {
        for (vnode, uniquifier) in [(0, 1), (1, 0), (2, 0), (u32::MAX, 1)] {
            assert_eq!(Number { vnode, uniquifier }.counter(), None);
        }
    }
}
