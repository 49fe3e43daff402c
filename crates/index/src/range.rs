//! Ranges of numbers that may be given out: reserved ahead, so that a crash or a lost index repeats none.

use crate::{Kind, Number};

/// Range of one counter of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Next counter to give out.
    next: u64,
    /// First counter that may not be given out, as index and root do not cover it.
    end: u64,
}

/// Ranges of both counters of an open volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ranges {
    directories: Range,
    files: Range,
}

impl Ranges {
    /// Makes ranges above earlier reservations, with nothing free yet.
    pub(crate) fn after(directories: u64, files: u64) -> Self {
        // The first counter of directories is the root's.
        let at = |from: u64| Range { next: from, end: from };
        Self { directories: at(directories.max(1)), files: at(files) }
    }

    /// Takes a number that was never given before; `None` when the range is used up.
    pub(crate) fn take(&mut self, kind: Kind) -> Option<Number> {
        let range = match kind {
            Kind::Root => return Some(Number::ROOT),
            Kind::Directory => &mut self.directories,
            Kind::File => &mut self.files,
        };
        assert!(range.next <= range.end, "no number is given out beyond what is reserved");
        (range.next < range.end).then(|| {
            let number = Number::from_counter(kind, range.next);
            range.next += 1;
            number
        })
    }

    /// Returns whether less than half of a range is left, so that it is time to reserve the next.
    pub(crate) fn is_low(&self) -> bool {
        [self.directories, self.files].iter().any(|range| range.end - range.next < RESERVE / 2)
    }

    /// Returns the counters to reserve up to: a whole range above those given out.
    pub(crate) fn wanted(&self) -> (u64, u64) {
        let end = |range: Range| range.end.max(range.next + RESERVE);
        (end(self.directories), end(self.files))
    }

    /// Extends the ranges to counters that index and root cover.
    pub(crate) fn extend(&mut self, directories: u64, files: u64) {
        self.directories.end = self.directories.end.max(directories);
        self.files.end = self.files.end.max(files);
    }
}

/// Counters that are reserved at once.
pub(crate) const RESERVE: u64 = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_given_out_that_was_not_reserved() {
        let mut ranges = Ranges::after(0, 0);
        assert_eq!(ranges.take(Kind::Directory), None);
        ranges.extend(3, 1);
        let vnodes = std::iter::from_fn(|| ranges.take(Kind::Directory)).map(|number| number.vnode);
        assert_eq!(vnodes.collect::<Vec<_>>(), [3, 5], "1 is the root's");
        assert_eq!(ranges.take(Kind::File), Some(Number { vnode: 2, uniquifier: 1 }));
        assert_eq!(ranges.take(Kind::File), None);
    }

    #[test]
    fn the_next_range_is_wanted_before_this_one_ends() {
        let mut ranges = Ranges::after(0, 0);
        assert!(ranges.is_low());
        let (directories, files) = ranges.wanted();
        ranges.extend(directories, files);
        assert!(!ranges.is_low());
        while !ranges.is_low() {
            assert!(ranges.take(Kind::File).is_some());
        }
        assert!(ranges.take(Kind::File).is_some());
    }
}
