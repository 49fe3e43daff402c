//! Operation that lists a directory (getdents64(2), and for each entry fstatat(2), and name_to_handle_at(2)
//! on request).

use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::task::Poll;

use rustix::fs::{self as sys, AtFlags};

use super::handle_of::handle_at;
use super::{Operation, Start};
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::uring::{Uring, files};
use crate::backend::{DirEntry, Fd};

/// Lists every entry of `dir` with its attributes; `EFBIG` when there are more than `max`.
pub(crate) struct List {
    pub(crate) dir: Fd,
    pub(crate) max: usize,
    /// True to ask for the handle of each entry.
    pub(crate) handles: bool,
}

impl Operation for List {
    const NAME: &'static str = "list";
    /// Entries without `.` and `..`, in the file system's order.
    type Value = Vec<DirEntry>;
    type Output = io::Result<Vec<DirEntry>>;

    fn descriptor(&self) -> Fd {
        self.dir
    }

    fn prepare(&mut self, _: &Uring) -> Start {
        let (max, handles) = (self.max, self.handles);
        Start::on_helper::<Self>(self.dir, move |dir| list(dir, max, handles))
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<Vec<DirEntry>>> {
        let at = step.file()?;
        Poll::Ready(at.disk.entries(at.inode, self.max, self.handles, at.engine))
    }

    fn finish(self, result: io::Result<Vec<DirEntry>>) -> io::Result<Vec<DirEntry>> {
        result
    }
}

fn list(dir: BorrowedFd<'_>, max: usize, handles: bool) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    // A description of its own: the position of a shared one would be shared too.
    for entry in sys::Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_itself_or_above(name) {
            continue;
        }
        if entries.len() == max {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        entries.push(entry_of(dir, name, handles));
    }
    Ok(entries)
}

/// Returns whether a name of a directory is `.` or `..`, which are no entries.
pub(super) fn is_itself_or_above(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

pub(super) fn entry_of(dir: BorrowedFd<'_>, name: &CStr, has_handle: bool) -> DirEntry {
    let stat = sys::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let handle = if has_handle { handle_at(dir, name).ok() } else { None };
    DirEntry { name: name.to_bytes().to_vec(), stat: stat.as_ref().map(files::convert), handle }
}
