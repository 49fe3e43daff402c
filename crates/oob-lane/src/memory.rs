//! Memory that a connection receives into, used again for each piece.

use std::cell::RefCell;
use std::rc::Rc;

use lane::buffer::{Buf, Lender};

/// Piece of memory, allocated at its first use. It is lent to the task that writes the bytes on, and comes
/// back when that is done.
#[derive(Clone, Debug, Default)]
pub struct Memory(Rc<Shelf>);

#[derive(Debug, Default)]
struct Shelf(RefCell<Option<Box<[u8]>>>);

impl Memory {
    /// Takes an empty buffer for `capacity` bytes.
    pub(crate) fn take(&self, capacity: usize) -> Vec<u8> {
        let kept = self.0.0.take().filter(|kept| kept.len() == capacity);
        let mut bytes = kept.map_or_else(|| Vec::with_capacity(capacity), Vec::from);
        bytes.clear();
        bytes
    }

    /// Lends the first `len` bytes to the task that writes them.
    pub(crate) fn lend(&self, mut bytes: Vec<u8>, len: usize) -> Buf {
        // Its capacity is its length from here on, which makes it a box without a copy.
        bytes.resize(bytes.capacity(), 0);
        Buf::lent(bytes.into_boxed_slice(), 0..len, len, 0, Rc::clone(&self.0) as _)
    }
}

impl Lender for Shelf {
    fn take_back(&self, _: usize, bytes: Box<[u8]>) {
        *self.0.borrow_mut() = Some(bytes);
    }
}
