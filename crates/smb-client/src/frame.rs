//! Received frames: memory that is used again, as a new page costs more than a copy of it.

use std::cell::RefCell;
use std::rc::Rc;

/// Frames of a connection that nobody holds.
#[derive(Debug, Default)]
pub(crate) struct FramePool {
    kept: RefCell<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
    bytes: usize,
}

/// A frame without its prefix. Its memory goes back when the last who reads it is done.
#[derive(Debug)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    pool: Rc<FramePool>,
}

impl FramePool {
    /// Empty memory for at least `len` bytes.
    pub(crate) fn take(&self, len: usize) -> Vec<u8> {
        let mut kept = self.kept.borrow_mut();
        let shelf = if len <= SMALL_BYTES { &mut kept.small } else { &mut kept.large };
        match shelf.iter().rposition(|bytes| bytes.capacity() >= len) {
            Some(at) => {
                let bytes = shelf.swap_remove(at);
                kept.bytes -= bytes.capacity();
                bytes
            }
            None => Vec::with_capacity(len.max(SMALL_BYTES.min(len.next_power_of_two()))),
        }
    }

    pub(crate) fn put(&self, mut bytes: Vec<u8>) {
        let mut kept = self.kept.borrow_mut();
        if kept.bytes + bytes.capacity() <= KEPT_BYTES_MAX {
            bytes.clear();
            kept.bytes += bytes.capacity();
            let shelf = if bytes.capacity() <= SMALL_BYTES { &mut kept.small } else { &mut kept.large };
            shelf.push(bytes);
        }
    }
}

impl Frame {
    pub(crate) fn new(bytes: Vec<u8>, pool: Rc<FramePool>) -> Self {
        Self { bytes, pool }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.pool.put(std::mem::take(&mut self.bytes));
    }
}

const SMALL_BYTES: usize = 8 << 10;
/// Of one connection. A client that reads with more under way makes new memory.
const KEPT_BYTES_MAX: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_with_the_last_reader_and_no_more_than_a_bound() {
        let pool = Rc::new(FramePool::default());
        let mut bytes = pool.take(1 << 20);
        bytes.extend([1; 100]);
        let at = bytes.as_ptr();
        let frame = Rc::new(Frame::new(bytes, Rc::clone(&pool)));
        let other = Rc::clone(&frame);
        drop(frame);
        assert_eq!((pool.kept.borrow().bytes, other.bytes().len()), (0, 100));
        drop(other);
        let again = pool.take(1 << 20);
        assert_eq!((again.as_ptr(), again.len(), pool.kept.borrow().bytes), (at, 0, 0));
        (0..100).for_each(|_| pool.put(Vec::with_capacity(1 << 20)));
        assert!(pool.kept.borrow().bytes <= KEPT_BYTES_MAX);
    }
}
