//! A set of lanes that any lane may change without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use lane::mesh::Member;

/// A bit for each of 256 lanes.
#[derive(Debug, Default)]
pub struct LaneBits {
    words: [AtomicU64; WORDS],
}

impl LaneBits {
    //@ limit: questions to a lane about what is to change
    //@ section: Writable volumes
    //@ unit: question
    //@ all: lane: one for each object under a permit
    //@ empty: the change waits until the lane has answered, or is gone
    //@ counter: vfs_invalidations_sent, vfs_invalidations_acked
    //@ attack: none, lanes ask each other
    //@ reach: server
    /// Number of lanes that there is room for.
    pub const LANES_MAX: usize = WORDS * 64;

    /// Sets a lane's bit. The lane may cache what it looks at afterwards.
    pub fn set(&self, lane: Member) {
        let (word, bit) = place(lane);
        self.words[word].fetch_or(bit, Ordering::SeqCst);
    }

    /// Clears a lane's bit.
    pub fn clear(&self, lane: Member) {
        let (word, bit) = place(lane);
        self.words[word].fetch_and(!bit, Ordering::SeqCst);
    }

    /// Returns whether a lane's bit is set.
    pub fn has(&self, lane: Member) -> bool {
        let (word, bit) = place(lane);
        self.words[word].load(Ordering::SeqCst) & bit != 0
    }

    /// Returns the lanes whose bits are set.
    pub fn iter(&self) -> impl Iterator<Item = Member> + '_ {
        self.words.iter().enumerate().flat_map(|(word, bits)| {
            let mut bits = bits.load(Ordering::SeqCst);
            std::iter::from_fn(move || {
                let lowest = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(Member::from(word * 64 + lowest))
            })
        })
    }
}

fn place(lane: Member) -> (usize, u64) {
    (lane.index() / 64, 1 << (lane.index() % 64))
}

const WORDS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_has_a_bit_of_its_own() {
        let bits = LaneBits::default();
        let lanes = [0, 1, 63, 64, 200, LaneBits::LANES_MAX - 1].map(Member::from);
        lanes.iter().for_each(|&lane| bits.set(lane));
        assert_eq!(bits.iter().collect::<Vec<_>>(), lanes);
        bits.clear(lanes[2]);
        bits.set(lanes[0]);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [lanes[0], lanes[1], lanes[3], lanes[4], lanes[5]]);
    }
}
