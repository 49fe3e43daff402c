//! Allocator of the system, with counts for tests of what each thread takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Allocator for a test binary (`#[global_allocator]`): the system's, with counts by thread that
/// [`Taken::here`] returns.
#[derive(Debug)]
pub struct Counting;

/// Bytes that a thread has taken from [`Counting`] less those given back, as glibc rounds them. It rounds
/// with a word before each piece, in steps of 16 bytes, 32 at least. What one thread takes and another gives
/// back counts on both.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// Bytes taken at present.
    pub now: isize,
    /// Largest number of bytes taken at any time.
    pub most: isize,
}

impl Taken {
    /// Returns the counts of this thread so far.
    pub fn here() -> Self {
        TAKEN.get()
    }

    /// Begins [`Taken::most`] of this thread anew; returns the counts as they stand.
    pub fn forget_most() -> Self {
        let Self { now, .. } = TAKEN.get();
        TAKEN.set(Self { now, most: now });
        TAKEN.get()
    }

    fn add(bytes: isize) {
        let Self { now, most } = TAKEN.get();
        let now = now + bytes;
        TAKEN.set(Self { now, most: most.max(now) });
    }
}

thread_local! {
    static TAKEN: Cell<Taken> = const { Cell::new(Taken { now: 0, most: 0 }) };
}

fn piece(size: usize) -> isize {
    (size + size_of::<usize>()).next_multiple_of(16).max(32) as isize
}

// SAFETY: all is handed on to the system's allocator as it came. Counting neither allocates nor unwinds: its cell needs no
// setting up and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Taken::add(piece(layout.size()));
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Taken::add(piece(layout.size()));
        // SAFETY: as the caller says.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        Taken::add(-piece(layout.size()));
        // SAFETY: as the caller says.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Taken::add(piece(size) - piece(layout.size()));
        // SAFETY: as the caller says.
        unsafe { System.realloc(at, layout, size) }
    }
}
