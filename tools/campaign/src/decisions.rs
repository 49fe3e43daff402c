//! Decisions of a case: a string of bytes. Where it is at its end every answer is 0, which is always the
//! plainest.

/// A string of bytes, taken from its start on.
pub struct Decisions<'a> {
    rest: &'a [u8],
}

impl<'a> Decisions<'a> {
    /// Takes all of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns whether nothing is left.
    pub fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns how many bytes are left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Returns the next byte; 0 at the end.
    pub fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *byte
    }

    /// Returns a number below `n`, which is 256 at most.
    pub fn below(&mut self, n: usize) -> usize {
        if n < 2 { 0 } else { usize::from(self.byte()) % n }
    }

    /// Returns whether what happens once in `n` times happens now.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    /// Chooses one of these.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Returns the number of the next two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Returns the number of the next four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    /// Returns the number of the next eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    /// Returns a number at which something changes, or any.
    pub fn edge(&mut self) -> u64 {
        match self.below(EDGES.len() + 8) {
            at if at < EDGES.len() => EDGES[at],
            _ => self.u16().into(),
        }
    }

    /// Returns a number that is mostly small.
    pub fn small(&mut self) -> u64 {
        match self.below(16) {
            15 => self.edge(),
            14 => self.u16().into(),
            _ => self.byte().into(),
        }
    }

    /// Returns the next `n` bytes; zeros past the end.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.byte()).collect()
    }
}

const EDGES: [u64; 32] = [
    0,
    1,
    2,
    3,
    7,
    8,
    15,
    16,
    63,
    64,
    65,
    255,
    256,
    1024,
    4095,
    4096,
    4097,
    65_535,
    65_536,
    65_537,
    1 << 20,
    (8 << 20) + 1,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fff8,
    0xffff_ffff,
    1 << 32,
    0xfff_ffff_0000,
    i64::MAX as u64 - 1,
    i64::MAX as u64,
    u64::MAX - 1,
    u64::MAX,
];
