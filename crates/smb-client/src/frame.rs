//! Received frames: memory that is used again, as a new page costs more than a copy of it. The connections of
//! a lane share it, so that the next to receive gets what the caches of the CPU still have.

use std::cell::RefCell;
use std::rc::Rc;

/// The free frames of a lane, to be used again.
#[derive(Debug, Default)]
pub(crate) struct FramePool {
    kept: RefCell<FreeFrames>,
}

#[derive(Debug, Default)]
struct FreeFrames {
    /// Frames by the power of two that they have room for.
    small: [Vec<Vec<u8>>; SMALL_CLASSES],
    /// Long frames, and therefore few.
    large: Vec<Vec<u8>>,
    bytes: usize,
}

/// A frame without its prefix. Its memory goes back when its last reader is done.
#[derive(Debug)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    pool: Rc<FramePool>,
}

thread_local! {
    static OF_LANE: Rc<FramePool> = Rc::default();
}

impl FramePool {
    /// Returns the pool of this lane.
    pub(crate) fn of_lane() -> Rc<Self> {
        OF_LANE.with(Rc::clone)
    }

    /// Returns empty memory for at least `len` bytes.
    pub(crate) fn take(&self, len: usize) -> Vec<u8> {
        let mut kept = self.kept.borrow_mut();
        let (found, room) = if len <= SMALL_BYTES {
            let room = len.next_power_of_two();
            (kept.small[room.ilog2() as usize].pop(), room)
        } else {
            let at = kept.large.iter().rposition(|bytes| bytes.capacity() >= len);
            (at.map(|at| kept.large.swap_remove(at)), len)
        };
        match found {
            Some(bytes) => {
                kept.bytes -= bytes.capacity();
                bytes
            }
            None => Vec::with_capacity(room),
        }
    }

    pub(crate) fn put(&self, mut bytes: Vec<u8>) {
        let mut kept = self.kept.borrow_mut();
        let capacity = bytes.capacity();
        if capacity > 0 && kept.bytes + capacity <= KEPT_BYTES_MAX {
            bytes.clear();
            kept.bytes += capacity;
            let shelf = if capacity <= SMALL_BYTES {
                &mut kept.small[capacity.ilog2() as usize]
            } else {
                &mut kept.large
            };
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

const SMALL_BYTES: usize = 1 << (SMALL_CLASSES - 1);
/// 1 byte to 8 KiB.
const SMALL_CLASSES: usize = 14;
/// Bytes that one lane keeps. Clients that read with more under way make new memory.
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

    #[test]
    fn a_short_frame_has_room_among_those_of_any_length() {
        let pool = FramePool::default();
        for len in [0, 1, 73, 128, 129, 4096 + 80, SMALL_BYTES, SMALL_BYTES + 1] {
            let bytes = pool.take(len);
            assert!(bytes.capacity() >= len);
            pool.put(bytes);
            (0..20).for_each(|shift| pool.put(Vec::with_capacity(1 << shift)));
            let again = pool.take(len);
            assert!(again.is_empty() && again.capacity() >= len, "{len}");
        }
    }
}
