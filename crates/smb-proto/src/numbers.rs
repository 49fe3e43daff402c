//! Tables by numbers of our own making: ids of sessions, trees and opens, and of the messages that a client
//! sends. A look-up may name any number, but only the server chooses which numbers a table holds: so their
//! hash needs no secret, and is two multiplications.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by such numbers.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Spreads numbers that follow one another, whatever their stride, over a whole word.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(size_of::<u64>()) {
            let mut word = [0; size_of::<u64>()];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = folded(self.0 ^ number, SPREAD);
    }

    /// Returns the hash. With one multiplication alone, some strides would leave two thirds of the places of a table
    /// empty.
    fn finish(&self) -> u64 {
        folded(self.0, SPREAD_AGAIN)
    }
}

/// Returns both halves of the product in one.
fn folded(number: u64, by: u64) -> u64 {
    let product = u128::from(number) * u128::from(by);
    (product as u64) ^ (product >> 64) as u64
}

/// 2^64 divided by the golden ratio, odd.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// The first digits of pi behind the point, odd.
const SPREAD_AGAIN: u64 = 0x243f_6a88_85a3_08d3;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, Hash};

    use super::*;

    /// Returns how many of 256 places are taken by `numbers`, by the lowest bits of their hashes and by the
    /// highest.
    fn places<T: Hash>(numbers: impl Iterator<Item = T>) -> (usize, usize) {
        let state = BuildHasherDefault::<NumberHasher>::default();
        let hashes: Vec<u64> = numbers.map(|number| state.hash_one(number)).collect();
        let taken = |place: fn(&u64) -> u64| hashes.iter().map(place).collect::<HashSet<_>>().len();
        (taken(|hash| hash & 0xff), taken(|hash| hash >> 56))
    }

    #[test]
    fn numbers_of_any_stride_are_spread_over_low_and_high_bits() {
        for shift in 0..48 {
            // Thrown at random, 256 balls leave 94 of 256 places empty.
            let (low, high) = places((1..=256_u64).map(|number| number << shift));
            assert!(low > 128 && high > 128, "{low} and {high} of 256 by a stride of 2^{shift}");
        }
        let (low, high) = places(1..=256_u32);
        assert!(low > 128 && high > 128, "{low} and {high} of 256");
    }

    #[test]
    fn what_is_put_in_is_found_by_its_number() {
        let mut map = NumberMap::default();
        (0..1000_u64).for_each(|number| assert_eq!(map.insert(number * 16, number), None));
        assert!((0..1000).all(|number| map.get(&(number * 16)) == Some(&number)));
        assert_eq!((map.remove(&16), map.get(&16), map.len()), (Some(1), None, 999));
    }
}
