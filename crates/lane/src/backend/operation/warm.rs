//! Operation that brings file pages into the page cache on the lane's node.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::task::Poll;

use rustix::fs as sys;

use super::{Operation, Start};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::uring::Uring;

/// Brings `len` bytes at `offset` into the page cache.
pub(crate) struct Warm {
    pub(crate) file: Fd,
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

impl Operation for Warm {
    const NAME: &'static str = "warm";
    type Value = ();
    type Output = io::Result<()>;

    fn descriptor(&self) -> Fd {
        self.file
    }

    /// Begins the call on a helper thread, as the ring's own threads run on any node.
    fn prepare(&mut self, _: &Uring) -> Start {
        let (offset, len) = (self.offset, self.len);
        Start::on_helper::<Self>(self.file, move |file| warm(file, offset, len))
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<()>> {
        let at = step.file()?;
        Poll::Ready(at.disk.warm(at.inode, self.offset, self.len, at.engine))
    }

    fn finish(self, result: io::Result<()>) -> io::Result<()> {
        result
    }
}

/// Asks for the whole range, then waits for each page by its first byte. This thread touches the pages first,
/// so they are on its node.
fn warm(file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<()> {
    // Where it is not taken, the reads below ask.
    let _ = sys::fadvise(file, offset, NonZeroU64::new(len as u64), sys::Advice::WillNeed);
    let mut at = offset;
    while at < offset + len as u64 {
        if rustix::io::pread(file, &mut [0; 1], at)? == 0 {
            break;
        }
        at = (at / PAGE_BYTES + 1) * PAGE_BYTES;
    }
    Ok(())
}

/// Smallest page size, in bytes.
const PAGE_BYTES: u64 = 4096;
