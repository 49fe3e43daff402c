//! Locks that keep two servers from writing to one tree, also where the directory of one lies beneath that of
//! the other.
//!
//! A server's own directory is locked by flock(2) for it alone. There, and on each directory above, it leaves
//! a mark besides: a shared lock of one byte (fcntl(2), F_OFD_SETLK), whose place says which process it is
//! and what the mark means. A server that starts looks for such marks after it has left its own, so that of
//! two that come at once none misses the other. Marks are in the way of no other lock: what locks directories
//! by flock(2), as systemd-tmpfiles does before it clears one, is not kept from those above.
//!
//! Directories that the process may not read are not marked, and file systems without such locks exclude no
//! other server.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use rustix::fs::{self as sys, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::backend::LockKind;
use crate::backend::operation::{find_lock, set_lock};

/// A lock on the directory of a tree that is written to, with marks on that directory and those above. The
/// lock ends when this is dropped, also where the directory stays open.
#[derive(Debug)]
pub struct TreeLock {
    root: OwnedFd,
    /// Marks of the directory itself and of those above.
    _marks: Vec<Arc<Marked>>,
}

/// Reason why a tree cannot be locked: another server writes to the tree, or to part of it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeInUse {
    /// Another server has the same directory; the text names the process where it can be seen.
    #[error("another server writes to this tree{0}")]
    Same(String),
    /// Another server has a directory above, at this path; the text names the process where it can be seen.
    #[error("another server writes to {0}, in which this tree lies{1}")]
    Above(PathBuf, String),
    /// Another server has a directory beneath; the text names the process where it can be seen.
    #[error("another server writes to a directory beneath this tree{0}")]
    Beneath(String),
}

/// An open directory with a mark of this process.
#[derive(Debug)]
struct Marked {
    dir: File,
    key: (u64, u64, u64),
}

/// Locks a directory; returns `None` where the directory's file system has no locks.
///
/// # Errors
/// `EWOULDBLOCK` with a [`TreeInUse`] where another server is in the way; the system's.
pub(crate) fn lock_tree(dir: BorrowedFd<'_>) -> io::Result<Option<TreeLock>> {
    let root = dir.try_clone_to_owned()?;
    match sys::flock(&root, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        // As NFS, where such a lock is one to write, for which no directory is opened.
        Err(Errno::BADF | Errno::OPNOTSUPP | Errno::NOLCK | Errno::INVAL | Errno::NOSYS) => return Ok(None),
        Err(Errno::WOULDBLOCK) => {
            return Err(in_use(TreeInUse::Same(shown(other_in(dir, ROOTS)))));
        }
        Err(error) => return Err(error.into()),
    }
    // Unlocked where one of the next steps fails.
    let mut lock = TreeLock { root, _marks: Vec::new() };
    let own = id();
    let at_root = opened(dir, c".")?.and_then(|file| marked(file, ROOTS.0 + own));
    let above = directories_above(dir)?;
    let marks = above.into_iter().filter_map(|file| marked(file, BENEATH.0 + own)).collect::<Vec<_>>();
    if let Some(other) = at_root.as_ref().and_then(|mark| other_in(mark.dir.as_fd(), BENEATH)) {
        return Err(in_use(TreeInUse::Beneath(shown(Some(other)))));
    }
    for mark in &marks {
        if let Some(other) = other_in(mark.dir.as_fd(), ROOTS) {
            return Err(in_use(TreeInUse::Above(path_of(&mark.dir), shown(Some(other)))));
        }
    }
    lock._marks = at_root.into_iter().chain(marks).collect();
    Ok(Some(lock))
}

impl Drop for TreeLock {
    fn drop(&mut self) {
        // A duplicate of the descriptor may be open. What could not be unlocked is when the last of them is closed.
        let _ = sys::flock(&self.root, FlockOperation::Unlock);
    }
}

/// Leaves a mark, or shares the mark that the process has left there for another volume; `None` where there
/// can be none.
fn marked(dir: File, place: u64) -> Option<Arc<Marked>> {
    let stat = dir.metadata().ok()?;
    let key = (stat.st_dev(), stat.st_ino(), place);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|mark| mark.strong_count() > 0);
    if let Some(mark) = known.iter().filter_map(Weak::upgrade).find(|mark| mark.key == key) {
        return Some(mark);
    }
    set_lock(dir.as_fd(), place, 1, Some(LockKind::Shared)).ok()?;
    let mark = Arc::new(Marked { dir, key });
    known.push(Arc::downgrade(&mark));
    Some(mark)
}

/// Returns the number of another process that has left a mark between two places, if any has.
fn other_in(dir: BorrowedFd<'_>, (from, to): (u64, u64)) -> Option<u64> {
    let mut ranges = vec![(from, to)];
    while let Some((from, to)) = ranges.pop().filter(|(from, to)| from < to) {
        let Ok(Some(found)) = find_lock(dir, from, to - from, LockKind::Exclusive) else { continue };
        let other = found.offset.max(from) & ID_MASK;
        if other != id() {
            return Some(other);
        }
        // What is found first need not lie first.
        ranges.push((found.offset + 1, to));
        ranges.push((from, found.offset));
    }
    None
}

/// Returns the directories above, as far as the process may read them.
fn directories_above(dir: BorrowedFd<'_>) -> io::Result<Vec<File>> {
    let mut above: Vec<File> = Vec::new();
    let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = sys::openat(dir, c".", way, Mode::empty())?;
    for _ in 0..ABOVE_MAX {
        let upper = match sys::openat(&at, c"..", way, Mode::empty()) {
            Ok(upper) => upper,
            // Nothing is known of what lies beyond.
            Err(Errno::ACCESS) => break,
            Err(error) => return Err(error.into()),
        };
        let (here, there) = (sys::fstat(&at)?, sys::fstat(&upper)?);
        if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino) {
            break;
        }
        above.extend(opened(upper.as_fd(), c".")?);
        at = upper;
    }
    Ok(above)
}

/// Opens a directory to be marked; returns `None` where the process may not read the directory.
fn opened(dir: BorrowedFd<'_>, name: &std::ffi::CStr) -> io::Result<Option<File>> {
    match sys::openat(dir, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::ACCESS | Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn in_use(why: TreeInUse) -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, why)
}

fn path_of(dir: &File) -> PathBuf {
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(dir));
    fs::read_link(link).unwrap_or_else(|_| PathBuf::from("a directory above"))
}

/// Returns a process in words, if the number is of a server of this machine that can be seen from here; else
/// the empty text.
fn shown(id: Option<u64>) -> String {
    let Some(process) = id.map(|id| id >> RANDOM_BITS) else { return String::new() };
    let read = |pid: &str, file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let pid = process.to_string();
    // In a container processes have numbers of their own.
    if read(&pid, "comm") != read("self", "comm") {
        return String::new();
    }
    let mut words = read(&pid, "cmdline");
    words.truncate(WORDS_MAX);
    let words: Vec<String> = words
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| word.escape_ascii().to_string())
        .collect();
    format!(" (process {pid}: {})", words.join(" "))
}

/// Returns the number of this process in marks: its process number, and random bits, as containers may share
/// process numbers.
fn id() -> u64 {
    static ID: OnceLock<u64> = OnceLock::new();
    *ID.get_or_init(|| {
        let random = RandomState::new().hash_one(0) & ((1 << RANDOM_BITS) - 1);
        (u64::from(std::process::id()) << RANDOM_BITS | random) & ID_MASK
    })
}

/// Marks that this process has left.
static KNOWN: Mutex<Vec<Weak<Marked>>> = Mutex::new(Vec::new());
/// Places of marks that say "a tree that is written to lies beneath".
const BENEATH: (u64, u64) = (0, 1 << 61);
/// Places of marks that say "this is the directory of a tree that is written to".
const ROOTS: (u64, u64) = (1 << 61, 1 << 62);
const ID_MASK: u64 = (1 << 61) - 1;
/// Random bits of a process in a mark; process numbers have at most 22 bits.
const RANDOM_BITS: u32 = 38;
/// Most directories above that are marked, more than any path has.
const ABOVE_MAX: usize = 2048;
const WORDS_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_another_process_are_found_among_ones_own_whatever_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let open = || File::open(dir.path()).unwrap();
        let mine = [open(), open()];
        set_lock(mine[0].as_fd(), BENEATH.0 + id(), 1, Some(LockKind::Shared)).unwrap();
        set_lock(mine[1].as_fd(), BENEATH.0 + id(), 1, Some(LockKind::Shared)).unwrap();
        let asks = open();
        assert_eq!(other_in(asks.as_fd(), BENEATH), None);
        for other in [1, id() - 1, id() + 1, ID_MASK] {
            let theirs = open();
            set_lock(theirs.as_fd(), BENEATH.0 + other, 1, Some(LockKind::Shared)).unwrap();
            assert_eq!(other_in(asks.as_fd(), BENEATH), Some(other));
            assert_eq!(other_in(asks.as_fd(), ROOTS), None);
        }
    }

    #[test]
    fn volumes_of_one_process_may_lie_in_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let [outer, inner] = [dir.path(), &inner].map(|path| File::open(path).unwrap());
        let first = lock_tree(inner.as_fd()).unwrap().unwrap();
        let second = lock_tree(outer.as_fd()).unwrap().unwrap();
        drop(first);
        assert!(lock_tree(inner.as_fd()).unwrap().is_some());
        drop(second);
        assert_eq!(KNOWN.lock().unwrap().iter().filter(|mark| mark.strong_count() > 0).count(), 0);
    }
}
