//! Bytes that a load stores: bytes that say where they are, without being made anew.

/// Bytes of a file of the load; another's are others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    pub(crate) seed: u64,
}

impl Pattern {
    fn at(self, offset: u64) -> usize {
        ((offset + self.seed * 7919) % TABLE.len() as u64) as usize
    }

    pub(crate) fn fill(self, offset: u64, room: &mut [u8]) {
        let mut at = self.at(offset);
        let mut room = room;
        while !room.is_empty() {
            let part = &TABLE[at..(at + room.len()).min(TABLE.len())];
            let (now, rest) = room.split_at_mut(part.len());
            now.copy_from_slice(part);
            (room, at) = (rest, 0);
        }
    }

    pub(crate) fn is(self, offset: u64, bytes: &[u8]) -> bool {
        let mut at = self.at(offset);
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let part = &TABLE[at..(at + bytes.len()).min(TABLE.len())];
            let (now, rest) = bytes.split_at(part.len());
            if now != part {
                return false;
            }
            (bytes, at) = (rest, 0);
        }
        true
    }
}

/// A prime number of bytes, so that pieces of usual lengths begin elsewhere each.
static TABLE: [u8; 65_521] = table();

const fn table() -> [u8; 65_521] {
    let mut bytes = [0; 65_521];
    let (mut at, mut state) = (0, 1u64);
    while at < bytes.len() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes[at] = (state >> 56) as u8;
        at += 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_told_from_the_same_bytes_elsewhere() {
        let pattern = Pattern { seed: 3 };
        let mut bytes = vec![0; 200_000];
        pattern.fill(70_000, &mut bytes);
        assert!(pattern.is(70_000, &bytes) && pattern.is(70_123, &bytes[123..]));
        assert!(!pattern.is(70_001, &bytes) && !Pattern { seed: 4 }.is(70_000, &bytes));
        bytes[199_999] ^= 1;
        assert!(!pattern.is(70_000, &bytes));
    }
}
