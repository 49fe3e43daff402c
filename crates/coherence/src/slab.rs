//! A slab: values in numbered slots, in pieces. It grows without a copy, and takes at most one piece beyond the most
//! it has held.

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Values by number. A number is reused when its value is removed.
pub(crate) struct Slab<T> {
    pieces: Vec<Box<[SlabSlot<T>]>>,
    free: u32,
    used: usize,
}

enum SlabSlot<T> {
    /// A free entry, and the next free one.
    Free(u32),
    Used(T),
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let number = self.free;
        let slot = self.slot_mut(number).expect("what is free is there");
        let SlabSlot::Free(next) = std::mem::replace(slot, SlabSlot::Used(value)) else {
            unreachable!("what is in the line of the free is free")
        };
        self.free = next;
        self.used += 1;
        number
    }

    /// Removes and returns the value of this number.
    ///
    /// # Panics
    /// When there is none of this number.
    pub(crate) fn remove(&mut self, number: u32) -> T {
        let free = self.free;
        let slot = self.slot_mut(number).expect("it was given out");
        let SlabSlot::Used(value) = std::mem::replace(slot, SlabSlot::Free(free)) else {
            unreachable!("it is taken away once")
        };
        self.free = number;
        debug_assert!(self.used > 0, "a value that is removed was counted");
        self.used -= 1;
        value
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let (piece, at) = (number as usize / PIECE, number as usize % PIECE);
        match self.pieces.get(piece)?.get(at)? {
            SlabSlot::Used(value) => Some(value),
            SlabSlot::Free(_) => None,
        }
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        match self.slot_mut(number)? {
            SlabSlot::Used(value) => Some(value),
            SlabSlot::Free(_) => None,
        }
    }

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Returns a number above all that were given out.
    pub(crate) fn end(&self) -> u32 {
        u32::try_from(self.pieces.len() * PIECE).expect("fewer than 2^32 slots")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..self.end()).filter_map(|number| Some((number, self.get(number)?)))
    }

    fn slot_mut(&mut self, number: u32) -> Option<&mut SlabSlot<T>> {
        self.pieces.get_mut(number as usize / PIECE)?.get_mut(number as usize % PIECE)
    }

    fn grow(&mut self) {
        let first = self.end();
        let last = PIECE as u32 - 1;
        let next = |at: u32| if at == last { NONE } else { first + at + 1 };
        self.pieces.push((0..=last).map(|at| SlabSlot::Free(next(at))).collect());
        self.free = first;
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), free: NONE, used: 0 }
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        self.get(number).expect("it was given out")
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        self.get_mut(number).expect("it was given out")
    }
}

/// Slots made at a time.
const PIECE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_out_again_and_values_stay_where_they_are() {
        let mut store = Slab::default();
        let numbers: Vec<u32> = (0..3000).map(|value| store.insert(value)).collect();
        assert!(numbers.iter().zip(0..).all(|(&number, value)| store[number] == value));
        assert_eq!(store.remove(numbers[7]), 7);
        assert!(store.get(numbers[7]).is_none());
        assert_eq!(store.insert(9000), numbers[7]);
        assert_eq!((store.len(), store.end()), (3000, 3072));
        assert_eq!(store.iter().count(), 3000);
    }
}
