//! Anonymous memory mappings: page aligned, huge pages asked for, placed by first touch.

use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// A zeroed private mapping, unmapped when dropped.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// Maps `len` bytes, at least one page. One that is long enough for huge pages is made of whole ones: the kernel
    /// joins mappings that happen to be neighbours, and a huge page across the border of two lanes would lie on the
    /// node of the one that touches it first.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        if len < HUGE_PAGE {
            let len = len.max(1).next_multiple_of(4096);
            return Ok(Self { base: map(len)?, len });
        }
        let len = len.next_multiple_of(HUGE_PAGE);
        let roomy = Self { base: map(len + HUGE_PAGE)?, len: len + HUGE_PAGE };
        let mapping = roomy.trim(len);
        // Best effort: without transparent huge pages the mapping works as it is.
        // SAFETY: the range is the mapping just made; the advice changes no content.
        let _ = unsafe { madvise(mapping.base.as_ptr().cast(), len, Advice::LinuxHugepage) };
        Ok(mapping)
    }

    /// Keeps the first `len` bytes that start at a huge page, and gives the rest back.
    fn trim(self, len: usize) -> Self {
        let all = ManuallyDrop::new(self);
        let before = all.base.as_ptr().align_offset(HUGE_PAGE);
        let after = all.len.checked_sub(before + len).expect("there is room for one huge page more");
        // SAFETY: both offsets are within the mapping.
        let (base, end) = unsafe { (all.base.byte_add(before), all.base.byte_add(before + len)) };
        for (start, len) in [(all.base, before), (end, after)].into_iter().filter(|(_, len)| *len > 0) {
            // SAFETY: this part is ours, nothing refers to it, and what is kept does not overlap it.
            let _ = unsafe { munmap(start.as_ptr().cast(), len) };
        }
        Self { base, len }
    }

    /// Returns the start, aligned to a page.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Returns the addresses of the mapping, for questions to the kernel about its pages.
    pub(crate) fn addresses(&self) -> std::ops::Range<usize> {
        let start = self.base.as_ptr() as usize;
        start..start + self.len
    }

    /// Returns a range of the mapping for reading.
    ///
    /// # Safety
    /// Nothing may write the range while the slice lives.
    pub(crate) unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        assert!(offset + len <= self.len);
        // SAFETY: in bounds by the assertion, initialised by the kernel with zeros; aliasing is the caller's.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset), len) }
    }

    /// Returns a range of the mapping for writing.
    ///
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

fn map(len: usize) -> io::Result<NonNull<u8>> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh anonymous mapping at an address the kernel chooses aliases nothing.
    let base =
        unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)? };
    Ok(NonNull::new(base.cast()).expect("mmap never returns null"))
}

/// Size of a huge page in bytes; below that huge pages only waste memory.
const HUGE_PAGE: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_huge_page_belongs_to_two_mappings() {
        let mappings: Vec<Mapping> =
            [HUGE_PAGE, 5_000_000, HUGE_PAGE + 1].map(|len| Mapping::new(len).unwrap()).into();
        for (mapping, wanted) in mappings.iter().zip([1, 3, 2]) {
            let addresses = mapping.addresses();
            assert!(
                addresses.start % HUGE_PAGE == 0 && addresses.len() == wanted * HUGE_PAGE,
                "{addresses:?}"
            );
            // SAFETY: the only references into it, one after the other.
            unsafe {
                mapping.slice_mut(0, 1)[0] = 1;
                mapping.slice_mut(addresses.len() - 1, 1)[0] = 1;
            }
        }
    }
}
