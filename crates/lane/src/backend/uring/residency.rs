//! Parts of a file in the page cache, found out without waiting for the disk.
//!
//! cachestat(2) (Linux 6.5) counts the pages of a range in one call. It counts those as well that are still
//! being read, so the last page is read besides: reads come in order. Later kernels (6.14) tell it only to a
//! process that owns or may write the file; for all others a byte is read here and there, as far apart as the
//! kernel reads ahead. A hole between two of them stays unseen, and costs the lane the wait for that one
//! read.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Returns how many of `len` bytes from `offset` on are in memory, all from the first: 0 when the first is
/// not. `has` says whether the byte at an offset is, or lies beyond the file's end.
pub(super) fn resident(
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
    mut has: impl FnMut(u64) -> io::Result<bool>,
) -> io::Result<usize> {
    let mut part = len;
    loop {
        match cached_pages(file, offset, part) {
            Ok(cached) if cached == pages(offset, part) => {
                return Ok(if has(offset + part as u64 - 1)? { part } else { 0 });
            }
            Ok(0) => return Ok(0),
            // Some are not: perhaps the first of them are.
            Ok(_) if part / NARROWER >= PAGE => part /= NARROWER,
            Ok(_) => return Ok(0),
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOSYS | libc::EPERM | libc::EACCES | libc::EOPNOTSUPP) => break,
                _ => return Err(error),
            },
        }
    }
    probe(offset, len, has)
}

/// Returns the same as [`resident`] without cachestat(2), by looking at bytes here and there.
fn probe(offset: u64, len: usize, mut has: impl FnMut(u64) -> io::Result<bool>) -> io::Result<usize> {
    let mut found = 0;
    while found < len {
        let step = STRIDE.min(len - found);
        // Both ends: what was read ahead begins and ends where it likes.
        if !has(offset + found as u64)? || !has(offset + (found + step) as u64 - 1)? {
            break;
        }
        found += step;
    }
    Ok(found)
}

fn cached_pages(file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<u64> {
    // `struct cachestat_range` and `struct cachestat` of linux/mman.h.
    let range = [offset, len as u64];
    let mut counts = [0u64; 5];
    // SAFETY: the descriptor is open for as long as it is borrowed; the kernel reads two numbers from `range` and
    // writes five to `counts`, which are as long and live until it returns.
    let done = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0 as libc::c_uint)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(counts[0]) }
}

fn pages(offset: u64, len: usize) -> u64 {
    let page = PAGE as u64;
    (offset + len as u64).div_ceil(page) - offset / page
}

/// Number of cachestat(2), the same on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;
const PAGE: usize = 4096;
/// Divisor of the length of a range that is not all in memory, for the next try.
const NARROWER: usize = 4;
/// Distance between bytes looked at, in bytes: the kernel's default readahead.
const STRIDE: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_find_all_up_to_the_first_hole() {
        let hole = 700_000..900_000u64;
        let has = |at: u64| Ok(!hole.contains(&at));
        assert_eq!(probe(0, 1 << 20, |_| Ok(true)).unwrap(), 1 << 20);
        let found = probe(0, 1 << 20, has).unwrap() as u64;
        assert!(found <= hole.start && found >= hole.start - 2 * STRIDE as u64, "{found}");
        assert_eq!(probe(700_000, 4096, has).unwrap(), 0);
        assert_eq!(probe(900_000, 10, has).unwrap(), 10);
    }

    #[test]
    fn pages_are_those_that_a_range_touches() {
        assert_eq!((pages(0, 1), pages(4095, 2), pages(4096, 4096), pages(1, 8192)), (1, 2, 1, 3));
    }
}
