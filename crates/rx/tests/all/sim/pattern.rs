//! Bytes that a receiver can check without the sender's copy.

/// Endless byte string named by a seed, of which any part can be made or checked by offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(pub(crate) u64);

impl Pattern {
    /// Writes the bytes from `offset` on.
    pub(crate) fn fill(self, offset: u64, out: &mut [u8]) {
        let skip = (offset & 7) as usize;
        let mut word_index = offset >> 3;
        let head = out.len().min((8 - skip) & 7);
        let (head, rest) = out.split_at_mut(head);
        if !head.is_empty() {
            head.copy_from_slice(&self.word(word_index)[skip..skip + head.len()]);
            word_index += 1;
        }
        for (chunk, index) in rest.chunks_mut(8).zip(word_index..) {
            chunk.copy_from_slice(&self.word(index)[..chunk.len()]);
        }
    }

    /// Panics with the place of the first byte of `data` that is not the pattern's at `offset`.
    pub(crate) fn check(self, offset: u64, data: &[u8]) {
        let mut expected = [0; 2048];
        for (part, at) in data.chunks(expected.len()).zip((offset..).step_by(expected.len())) {
            let expected = &mut expected[..part.len()];
            self.fill(at, expected);
            if let Some(i) = (0..part.len()).find(|&i| part[i] != expected[i]) {
                panic!("byte {} of {self:?} is {:#04x}, not {:#04x}", at + i as u64, part[i], expected[i]);
            }
        }
    }

    fn word(self, index: u64) -> [u8; 8] {
        (self.0 ^ index).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).to_le_bytes()
    }
}

#[test]
fn parts_agree_with_the_whole_and_seeds_differ() {
    let mut whole = [0; 1000];
    Pattern(5).fill(0, &mut whole);
    let mut part = [0; 100];
    Pattern(5).fill(333, &mut part);
    assert_eq!(part, whole[333..433]);
    Pattern(5).check(333, &part);
    Pattern(6).fill(333, &mut part);
    assert_ne!(part, whole[333..433]);
}

#[test]
#[should_panic(expected = "byte 340 of")]
fn wrong_byte_is_named_by_its_place() {
    let mut part = [0; 100];
    Pattern(5).fill(333, &mut part);
    part[7] ^= 0x80;
    Pattern(5).check(333, &part);
}
