//! Memory that a lender outside the lane lends for an operation of the ring. Packet buffers of a transport
//! are lent, so that a file is read straight into packets and written straight from them.

use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;

use super::{Buf, Memory};

/// Lender of memory that becomes [`Buf`]s and returns to the lender after use.
pub trait Lender {
    /// Takes back the buffer lent as `key`, when nothing uses it any more, not even an operation that was
    /// given up. May come from any place of the lane's loop.
    fn take_back(&self, key: usize, bytes: Box<[u8]>);
}

/// A buffer lent, of which a part is used.
pub(super) struct Lent {
    /// Memory from `Box::into_raw`, in a box again when dropped; no box meanwhile, as the kernel writes there
    /// while the owner moves.
    memory: NonNull<[u8]>,
    part: Range<usize>,
    key: usize,
    lender: Rc<dyn Lender>,
}

impl Buf {
    /// Makes a buffer of lent memory: `part` of `bytes`, of which the first `len` are written. Dropped, it
    /// goes back to its lender, which knows it by `key`.
    ///
    /// # Panics
    /// When the part is not within the bytes, or shorter than what is written.
    pub fn lent(
        bytes: Box<[u8]>,
        part: Range<usize>,
        len: usize,
        key: usize,
        lender: Rc<dyn Lender>,
    ) -> Self {
        assert!(
            part.start <= part.end && part.end <= bytes.len() && len <= part.len(),
            "a part of the bytes"
        );
        let memory = NonNull::new(Box::into_raw(bytes)).expect("a box is never null");
        Self { memory: Memory::Lent(Lent { memory, part, key, lender }), len }
    }
}

impl Lent {
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the memory came from a box and is owned by this value alone until it is dropped; `&self` keeps writers
        // out.
        let memory = unsafe { self.memory.as_ref() };
        &memory[self.part.clone()]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; `&mut self` excludes every other access.
        let memory = unsafe { self.memory.as_mut() };
        &mut memory[self.part.clone()]
    }

    pub(super) fn key(&self) -> usize {
        self.key
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::into_raw` and is made a box again here only, once.
        let bytes = unsafe { Box::from_raw(self.memory.as_ptr()) };
        self.lender.take_back(self.key, bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[derive(Default)]
    struct Shelf(RefCell<Vec<(usize, Box<[u8]>)>>);

    impl Lender for Shelf {
        fn take_back(&self, key: usize, bytes: Box<[u8]>) {
            self.0.borrow_mut().push((key, bytes));
        }
    }

    #[test]
    fn lent_buffer_is_filled_within_its_part_and_goes_back_to_its_lender() {
        let shelf = Rc::new(Shelf::default());
        let bytes: Box<[u8]> = Box::from(*b"0123456789");
        let mut buf = Buf::lent(bytes, 2..6, 1, 7, Rc::clone(&shelf) as _);
        assert_eq!((&*buf, buf.capacity(), buf.spare()), (&b"2"[..], 4, 3));
        assert_eq!(buf.append(b"abcdef"), 3);
        assert_eq!(&*buf, b"2abc");
        let mut moved = vec![buf];
        moved[0][0] = b'x';
        assert!(shelf.0.borrow().is_empty());
        drop(moved);
        assert_eq!(*shelf.0.borrow(), [(7, Box::from(*b"01xabc6789"))]);
    }
}
