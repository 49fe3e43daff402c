//! Lists whose entries begin with the distance to the next one: create contexts, directory entries, streams,
//! extended attributes, notifications, network interfaces.

use crate::malformed::Malformed;

/// Walks such a list. Each step is forward, so none loops; after a refusal it ends.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
    /// Alignment: a distance must be a multiple of it.
    align: usize,
    /// Fewest bytes of an entry.
    len_min: usize,
}

impl<'a> Entries<'a> {
    /// Creates an iterator over the list `bytes`, which may be empty.
    pub fn new(bytes: &'a [u8], align: usize, len_min: usize) -> Self {
        debug_assert!(len_min >= 4, "the distance is part of the entry");
        Self { rest: bytes, align, len_min }
    }

    fn take(&mut self) -> Result<&'a [u8], Malformed> {
        let all = std::mem::take(&mut self.rest);
        if all.len() < self.len_min {
            return Err(Malformed::Short);
        }
        let next = u32::from_le_bytes(*all.first_chunk().expect("at least len_min bytes")) as usize;
        if next == 0 {
            return Ok(all);
        }
        if !next.is_multiple_of(self.align) {
            return Err(Malformed::Alignment);
        }
        if next < self.len_min {
            return Err(Malformed::Offset);
        }
        let (entry, rest) = all.split_at_checked(next).ok_or(Malformed::Offset)?;
        if rest.is_empty() {
            return Err(Malformed::Offset);
        }
        self.rest = rest;
        Ok(entry)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<&'a [u8], Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.take())
    }
}

/// Appends such a list to a buffer, never beyond a length that the asker gave.
#[derive(Debug)]
pub struct EntryWriter<'a> {
    out: &'a mut Vec<u8>,
    base: usize,
    last: Option<usize>,
    align: usize,
    len_max: usize,
}

impl<'a> EntryWriter<'a> {
    /// Appends to `out`; entries begin at multiples of `align` from its present end, and end at most `len_max` behind it.
    pub fn new(out: &'a mut Vec<u8>, align: usize, len_max: usize) -> Self {
        let base = out.len();
        Self { out, base, last: None, align, len_max }
    }

    /// Returns the number of bytes that are left.
    pub fn room(&self) -> usize {
        self.len_max.saturating_sub(self.out.len() - self.base)
    }

    /// Appends an entry that `fill` writes, which begins with four bytes for the distance. `false`, and nothing is
    /// changed, if it does not fit.
    pub fn push(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> bool {
        let before = self.out.len();
        let at = self.base + (before - self.base).next_multiple_of(self.align);
        self.out.resize(at, 0);
        fill(self.out);
        debug_assert!(self.out.len() >= at + 4);
        if self.out.len() - self.base > self.len_max {
            self.out.truncate(before);
            return false;
        }
        self.out[at..at + 4].fill(0);
        if let Some(last) = self.last {
            let next = u32::try_from(at - last).expect("a list is shorter than 4 GiB");
            self.out[last..last + 4].copy_from_slice(&next.to_le_bytes());
        }
        self.last = Some(at);
        true
    }

    /// Returns whether nothing was appended yet.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(lens: &[usize]) -> Vec<u8> {
        let mut out = vec![0xaa];
        let mut writer = EntryWriter::new(&mut out, 8, usize::MAX);
        for len in lens {
            assert!(writer.push(|out| {
                out.extend([0xff; 4]);
                out.extend(vec![*len as u8; *len]);
            }));
        }
        out.split_off(1)
    }

    #[test]
    fn entries_come_apart_as_they_were_put_together() {
        let list = list(&[1, 4, 7]);
        let entries: Vec<_> = Entries::new(&list, 8, 5).map(Result::unwrap).collect();
        assert_eq!(entries, [&[8, 0, 0, 0, 1, 0, 0, 0][..], &[8, 0, 0, 0, 4, 4, 4, 4], &list[16..]]);
        assert_eq!(list.len(), 27, "the last is not padded");
        assert_eq!(Entries::new(&[], 8, 5).count(), 0);
    }

    #[test]
    fn what_does_not_fit_leaves_no_trace() {
        let mut out = Vec::new();
        let mut writer = EntryWriter::new(&mut out, 8, 13);
        assert!(writer.is_empty() && writer.push(|out| out.extend([0; 5])));
        assert!(!writer.push(|out| out.extend([0; 6])));
        assert!(writer.push(|out| out.extend([0; 5])));
        assert_eq!(out, [8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn distances_that_lie_are_refused_and_end_the_list() {
        let whole = list(&[4, 4]);
        let with = |next: u32| [&next.to_le_bytes()[..], &whole[4..]].concat();
        for (next, why) in [
            (4, Malformed::Alignment),
            (12, Malformed::Alignment),
            (16, Malformed::Offset),
            (24, Malformed::Offset),
            (0xffff_fff8, Malformed::Offset),
        ] {
            let list = with(next);
            let mut entries = Entries::new(&list, 8, 8);
            assert_eq!(entries.next(), Some(Err(why)), "{next}");
            assert_eq!(entries.next(), None);
        }
        assert_eq!(Entries::new(&whole[..7], 8, 8).next(), Some(Err(Malformed::Short)));
        assert_eq!(Entries::new(&whole[..9], 8, 8).last(), Some(Err(Malformed::Short)));
    }
}
