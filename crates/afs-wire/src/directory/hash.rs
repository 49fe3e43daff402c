//! Hash function that picks a name's chain.

/// Hash chains of a directory.
pub(super) const BUCKETS: usize = 128;

/// Returns the chain of a name: hash = 173 * hash + byte; its low seven bits, negated where the hash as a
/// signed number is negative.
pub(super) fn bucket(name: &[u8]) -> usize {
    let hash = name.iter().fold(0_u32, |hash, byte| hash.wrapping_mul(173).wrapping_add(u32::from(*byte)));
    let low = hash as usize % BUCKETS;
    if hash >> 31 == 1 { (BUCKETS - low) % BUCKETS } else { low }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks buckets computed by hand from the rule.
    #[test]
    fn a_bucket_follows_from_the_name() {
        assert_eq!(bucket(b"."), 46);
        assert_eq!(bucket(b".."), (46 * 173 + 46) % 128);
        assert_eq!(bucket(b""), 0);
    }

    #[test]
    fn a_hash_with_its_highest_bit_set_counts_from_the_end() {
        let (name, mut hash) = (b"a name that is long", 0_u32);
        for byte in name {
            hash = hash.wrapping_mul(173).wrapping_add(u32::from(*byte));
        }
        let expected = (hash as i32 % 128).rem_euclid(128) as usize;
        assert_eq!(bucket(name), expected);
    }
}
