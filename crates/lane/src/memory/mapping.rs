//! Anonymous memory mappings: page aligned, huge pages asked for, placed by first touch.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// A zeroed private mapping.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// Maps `len` bytes, at least one page.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let len = len.max(1).next_multiple_of(4096);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address the kernel chooses aliases nothing.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        if len >= HUGE_PAGE {
            // Best effort: without transparent huge pages the mapping works as it is.
            // SAFETY: the range is the mapping just made; the advice changes no content.
            let _ = unsafe { madvise(base, len, Advice::LinuxHugepage) };
        }
        let base = NonNull::new(base.cast()).expect("mmap never returns null");
        Ok(Self { base, len })
    }

    /// The start, aligned to a page.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Its addresses, for who asks the kernel about its pages.
    pub(crate) fn addresses(&self) -> std::ops::Range<usize> {
        let start = self.base.as_ptr() as usize;
        start..start + self.len
    }

    /// # Safety
    /// Nobody may write the range while the slice lives.
    pub(crate) unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        assert!(offset + len <= self.len);
        // SAFETY: in bounds by the assertion, initialised by the kernel with zeros; aliasing is the caller's.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset), len) }
    }

    /// # Safety
    /// No other reference to the range may exist while the slice lives.
    #[allow(clippy::mut_from_ref)] // The caller's promise is exactly what `&mut self` would have given.
    pub(crate) unsafe fn slice_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        assert!(offset + len <= self.len);
        // SAFETY: as in `slice`.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(offset), len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and every reference into it borrowed `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Below this huge pages only waste memory.
const HUGE_PAGE: usize = 2 << 20;
