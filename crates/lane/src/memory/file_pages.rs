//! Nodes on which the page cache holds what was just served. Nothing is brought into memory for that: pages
//! that are not there are passed over, and no mapped byte is ever read, so a truncated file is no SIGBUS.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::pages::nodes_of;

/// A part of a file that a lane has served.
#[derive(Debug)]
pub(crate) struct ServedRange {
    pub(crate) file: OwnedFd,
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

/// Reason why the nodes of pages are not known.
#[derive(Debug, thiserror::Error)]
pub enum Unsampled {
    /// The kernel or the container forbids the question.
    #[error(
        "the kernel refuses to tell on which node pages lie ({0}); containers need the system call move_pages"
    )]
    Refused(io::Error),
    /// The file system, such as 9p and NFS, cannot tell whether a page is in memory without reading it.
    #[error("the file system cannot tell which pages are in memory")]
    FileSystem,
    /// The file could not be read or mapped.
    #[error("the file could not be looked at: {0}")]
    Failed(io::Error),
}

impl ServedRange {
    /// Returns the nodes of at most `max` pages, spread over the range; `None` for those that are not in
    /// memory.
    pub(super) fn nodes(&self, max: usize) -> Result<Vec<Option<u32>>, Unsampled> {
        let page = rustix::param::page_size() as u64;
        let (first, last) = (self.offset / page, (self.offset + self.len.max(1) as u64 - 1) / page);
        let count = last - first + 1;
        let picked = count.min(max as u64);
        let mut resident = Vec::new();
        for at in (0..picked).map(|n| n * count / picked) {
            if self.is_resident((first + at) * page)? {
                resident.push(usize::try_from(at * page).map_err(|_| Unsampled::FileSystem)?);
            }
        }
        let absent = picked as usize - resident.len();
        if resident.is_empty() {
            return Ok(vec![None; absent]);
        }
        let len = usize::try_from(count * page).map_err(|_| Unsampled::FileSystem)?;
        let view = View::new(&self.file, first * page, len).map_err(Unsampled::Failed)?;
        let mut addresses = Vec::new();
        for at in resident {
            view.enter(at)?;
            addresses.push(view.base.as_ptr() as usize + at);
        }
        let mut nodes = nodes_of(&addresses).map_err(Unsampled::Refused)?;
        nodes.resize(nodes.len() + absent, None);
        Ok(nodes)
    }

    /// Returns whether a page is in memory. A read that must not wait starts no reading either. A page that
    /// marks where readahead goes on counts as absent.
    fn is_resident(&self, at: u64) -> Result<bool, Unsampled> {
        let mut byte = [0];
        match preadv2(&self.file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) {
            Ok(read) => Ok(read > 0),
            Err(Errno::AGAIN) => Ok(false),
            Err(Errno::OPNOTSUPP) => Err(Unsampled::FileSystem),
            Err(error) => Err(Unsampled::Failed(error.into())),
        }
    }
}

/// A mapping of a part of a file that no code reads through.
struct View {
    base: NonNull<libc::c_void>,
    len: usize,
}

impl View {
    fn new(file: &OwnedFd, offset: u64, len: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address the kernel chooses aliases nothing, and no reference is made into it.
        let base =
            unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, offset)? };
        let view = Self { base: NonNull::new(base).expect("mmap never returns null"), len };
        // Else entering a page could start readahead of those after it.
        // SAFETY: the range is the mapping just made; the advice changes no content.
        unsafe { madvise(view.base.as_ptr(), view.len, Advice::Random)? };
        Ok(view)
    }

    /// Puts the page at `offset` into the page tables, where the kernel looks for its node. A page beyond the
    /// end of the file by now is left out.
    fn enter(&self, offset: usize) -> Result<(), Unsampled> {
        assert!(offset < self.len);
        // SAFETY: the page is within the mapping; the advice changes no content.
        let entered = unsafe {
            let page = self.base.as_ptr().byte_add(offset);
            madvise(page, rustix::param::page_size(), Advice::LinuxPopulateRead)
        };
        match entered {
            Ok(()) | Err(Errno::FAULT | Errno::HWPOISON) => Ok(()),
            // Kernels before 5.14.
            Err(error @ Errno::INVAL) => Err(Unsampled::Refused(error.into())),
            Err(error) => Err(Unsampled::Failed(error.into())),
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers into it.
        let _ = unsafe { munmap(self.base.as_ptr(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn file_of(pages: usize) -> std::fs::File {
        // Not in /tmp, which may be all memory.
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        std::io::Write::write_all(&mut file, &vec![7; pages * rustix::param::page_size()]).unwrap();
        file
    }

    fn range(file: &std::fs::File, len: usize) -> ServedRange {
        ServedRange { file: file.as_fd().try_clone_to_owned().unwrap(), offset: 0, len }
    }

    #[test]
    fn pages_in_memory_have_nodes() {
        let file = file_of(64);
        match range(&file, 64 * rustix::param::page_size()).nodes(8) {
            Ok(nodes) => assert!(nodes.len() == 8 && nodes.iter().any(Option::is_some), "{nodes:?}"),
            Err(Unsampled::FileSystem | Unsampled::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_file_that_was_truncated_meanwhile_has_no_pages() {
        let file = file_of(16);
        let range = range(&file, 16 * rustix::param::page_size());
        file.set_len(10).unwrap();
        match range.nodes(16) {
            Ok(nodes) => assert!(nodes.iter().filter(|node| node.is_some()).count() <= 1, "{nodes:?}"),
            Err(Unsampled::FileSystem | Unsampled::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
        // Entered after the end was cut: as if it happened between the two steps.
        let view = View::new(&range.file, 0, range.len).unwrap();
        match view.enter(4 * rustix::param::page_size()) {
            Ok(()) | Err(Unsampled::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
