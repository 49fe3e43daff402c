//! Words of a file in memory, which outlive the process that writes: a file of tmpfs, mapped for all lanes.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapped file that only grows. It must not be truncated while mapped: what is touched beyond its end ends
/// the process.
#[derive(Debug)]
pub struct WordFile {
    file: File,
    base: NonNull<AtomicU64>,
    words_max: usize,
    /// Number of words that have memory, so that touching them cannot fail.
    words: AtomicUsize,
}

// SAFETY: the mapping belongs to no thread, and all that is reached through it is atomic.
unsafe impl Send for WordFile {}
// SAFETY: as above.
unsafe impl Sync for WordFile {}

impl WordFile {
    /// Maps a file that may grow to `words_max` words. There are `words` from the beginning, those that the
    /// file has among them.
    ///
    /// # Errors
    /// Where there is no memory for so many, or the file cannot be mapped.
    pub fn map(file: File, words_max: usize, words: usize) -> io::Result<Self> {
        let len = words_max.checked_mul(WORD).ok_or(io::ErrorKind::OutOfMemory)?;
        if words > words_max {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a fresh mapping at an address the kernel chooses aliases nothing of this process.
        let base = unsafe { mmap(std::ptr::null_mut(), len, flags.0, flags.1, &file, 0)? };
        let base = NonNull::new(base.cast()).expect("mmap never returns null");
        let mapped = Self { file, base, words_max, words: AtomicUsize::new(0) };
        if mapped.grow(words) { Ok(mapped) } else { Err(io::ErrorKind::OutOfMemory.into()) }
    }

    /// Returns the words that have memory now.
    pub fn words(&self) -> &[AtomicU64] {
        let words = self.words.load(Ordering::Acquire);
        // SAFETY: the mapping is page aligned and as long as that at least, its pages are there (`grow`), every bit pattern is a word,
        // and it lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), words) }
    }

    /// Grows the file to at least `words` words; returns whether there is memory for so many.
    pub fn grow(&self, words: usize) -> bool {
        if words > self.words_max {
            return false;
        }
        if words > self.words.load(Ordering::Acquire) {
            // Else a page that there is no room for would be missed when it is touched.
            if fallocate(&self.file, FallocateFlags::empty(), 0, (words * WORD) as u64).is_err() {
                return false;
            }
            self.words.fetch_max(words, Ordering::AcqRel);
        }
        true
    }
}

impl Drop for WordFile {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every reference into it borrowed `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.words_max * WORD) };
    }
}

const WORD: usize = size_of::<u64>();

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn words_are_in_the_file_as_they_are_stored_and_grow_to_the_limit() {
        let mut file = tempfile::tempfile().unwrap();
        let words = WordFile::map(file.try_clone().unwrap(), 1_024, 2).unwrap();
        assert_eq!(words.words().len(), 2);
        words.words()[1].store(u64::from_le_bytes(*b"lanelane"), Ordering::Release);
        let mut bytes = [0; 16];
        file.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes[8..], b"lanelane");
        assert!(words.grow(1_024) && !words.grow(1_025));
        assert!(words.grow(1), "it does not shrink");
        assert_eq!(words.words().len(), 1_024);
        words.words()[1_023].store(7, Ordering::Release);
        assert_eq!(file.metadata().unwrap().len(), 8_192);
    }

    #[test]
    fn what_is_in_the_file_before_is_there() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &7_u64.to_le_bytes()).unwrap();
        let words = WordFile::map(file, 8, 1).unwrap();
        assert_eq!(words.words()[0].load(Ordering::Acquire), u64::from_le_bytes(7_u64.to_le_bytes()));
        let file = tempfile::tempfile().unwrap();
        assert!(WordFile::map(file, 8, 9).is_err(), "more than there may be");
    }
}
