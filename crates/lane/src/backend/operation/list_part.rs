//! Operation that reads the next part of a directory (lseek(2), one getdents64(2), and for each entry
//! fstatat(2)).

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::task::Poll;

use rustix::fs::{self as sys, RawDir, SeekFrom};

use super::list::{entry_of, is_itself_or_above};
use super::{Operation, Start};
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::uring::Uring;
use crate::backend::{DirPart, Fd};

/// Lists the entries of `dir` from `position` on that fit a buffer of `bytes`. The position of the open
/// directory moves.
pub(crate) struct ListPart {
    pub(crate) dir: Fd,
    pub(crate) position: u64,
    pub(crate) bytes: usize,
}

impl Operation for ListPart {
    const NAME: &'static str = "list a part";
    /// Entries without `.` and `..`, in the file system's order.
    type Value = DirPart;
    type Output = io::Result<DirPart>;

    fn descriptor(&self) -> Fd {
        self.dir
    }

    fn prepare(&mut self, _: &Uring) -> Start {
        let (position, bytes) = (self.position, self.bytes);
        Start::on_helper::<Self>(self.dir, move |dir| list_part(dir, position, bytes))
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<DirPart>> {
        let at = step.file()?;
        Poll::Ready(at.disk.entries_part(at.inode, self.position, at.engine))
    }

    fn finish(self, result: io::Result<DirPart>) -> io::Result<DirPart> {
        result
    }
}

fn list_part(dir: BorrowedFd<'_>, position: u64, bytes: usize) -> io::Result<DirPart> {
    let mut entries = Vec::new();
    let next = each_name(dir, position, bytes, |name| entries.push(entry_of(dir, name, false)))?;
    Ok(DirPart { entries, next })
}

/// Calls `tell` with each name of `dir` from `position` on that fits a buffer of `bytes`, but `.` and `..`;
/// returns the position behind them.
pub(super) fn each_name(
    dir: BorrowedFd<'_>,
    position: u64,
    bytes: usize,
    mut tell: impl FnMut(&CStr),
) -> io::Result<Option<u64>> {
    // Some file systems look for a position name by name: not where it is already there.
    if sys::tell(dir)? != position {
        sys::seek(dir, SeekFrom::Start(position))?;
    }
    let mut buffer = vec![MaybeUninit::uninit(); bytes.clamp(BYTES_LEAST, BYTES_MOST)];
    let mut raw = RawDir::new(dir, &mut buffer);
    let mut next = None;
    while let Some(entry) = raw.next() {
        let entry = entry?;
        next = Some(entry.next_entry_cookie());
        let name = entry.file_name();
        if !is_itself_or_above(name) {
            tell(name);
        }
        if raw.is_buffer_empty() {
            break;
        }
    }
    Ok(next)
}

/// Least bytes of the buffer, in which any name fits.
const BYTES_LEAST: usize = 512;
pub(super) const BYTES_MOST: usize = 64 * 1024;
