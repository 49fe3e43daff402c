//! Names and attributes: what of the file system is a plain call, inline or on a helper thread.

use std::ffi::CString;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{self as sys, AtFlags, FileType, Mode, OFlags, ResolveFlags};

use crate::backend::file::{DirEntry, FileKind, OpenHow, OpenKind, Stat, Timestamp};

/// Opens the root of a volume; symbolic links in the path the operator gave are followed.
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(sys::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Flags and resolution rules of an open beneath a directory.
pub(super) fn open_rules(how: OpenHow) -> (OFlags, ResolveFlags) {
    // NONBLOCK keeps the open of a pipe from waiting; `settle` takes it off again.
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    if how.kind == OpenKind::Directory {
        flags |= OFlags::DIRECTORY;
    }
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if !how.symlinks {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    (flags, resolve)
}

/// Opens without waiting for the disk; `None` when the name is not in the kernel's cache.
pub(super) fn try_open(dir: BorrowedFd<'_>, path: &CString, how: OpenHow) -> io::Result<Option<OwnedFd>> {
    let (flags, resolve) = open_rules(how);
    match sys::openat2(dir, path, flags, Mode::empty(), resolve | ResolveFlags::CACHED) {
        Ok(fd) => settle(fd).map(Some),
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Refuses what is neither file nor directory (`ENXIO`), and makes later reads wait for the disk again.
pub(super) fn settle(fd: OwnedFd) -> io::Result<OwnedFd> {
    match FileType::from_raw_mode(sys::fstat(&fd)?.st_mode) {
        FileType::RegularFile | FileType::Directory => {
            sys::fcntl_setfl(&fd, OFlags::empty())?;
            Ok(fd)
        }
        _ => Err(io::Error::from_raw_os_error(libc::ENXIO)),
    }
}

pub(super) fn stat(file: BorrowedFd<'_>) -> io::Result<Stat> {
    Ok(convert(&sys::fstat(file)?))
}

pub(super) fn stat_at(dir: BorrowedFd<'_>, path: &CString) -> io::Result<Stat> {
    let bytes = path.as_bytes();
    if !bytes.contains(&b'/') && bytes != b".." {
        return Ok(convert(&sys::statat(dir, path, AtFlags::SYMLINK_NOFOLLOW)?));
    }
    Ok(convert(&sys::fstat(&find_at(dir, path)?)?))
}

/// Where a symbolic link points; `EINVAL` for what is none.
pub(super) fn read_link_at(dir: BorrowedFd<'_>, path: &CString) -> io::Result<Vec<u8>> {
    let found = find_at(dir, path)?;
    if FileType::from_raw_mode(sys::fstat(&found)?.st_mode) != FileType::Symlink {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    Ok(sys::readlinkat(&found, c"", Vec::new())?.into_bytes())
}

/// What a path names, a link at its end itself. `..` and links in the middle do not lead out of `dir`.
fn find_at(dir: BorrowedFd<'_>, path: &CString) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(sys::openat2(dir, path, flags, Mode::empty(), resolve)?)
}

pub(super) fn read_dir(dir: BorrowedFd<'_>, max: usize) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    // A description of its own: the position of a shared one would be shared too.
    for entry in sys::Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if entries.len() == max {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let stat = sys::statat(dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW).ok();
        entries.push(DirEntry { name: name.to_vec(), stat: stat.as_ref().map(convert) });
    }
    Ok(entries)
}

/// Brings a range into memory: asks for all of it, then waits for each page by its first byte. This thread touches
/// the pages first, so they are on its node.
pub(super) fn warm(file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<()> {
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

/// Which open files lie on file systems that are all memory, by descriptor.
#[derive(Default)]
pub(super) struct InMemory {
    files: Vec<bool>,
}

impl InMemory {
    pub(super) fn set(&mut self, fd: RawFd, in_memory: bool) {
        let index = usize::try_from(fd).expect("descriptors are not negative");
        if index >= self.files.len() {
            self.files.resize(index + 1, false);
        }
        self.files[index] = in_memory;
    }

    pub(super) fn get(&self, fd: RawFd) -> bool {
        usize::try_from(fd).ok().and_then(|index| self.files.get(index)).is_some_and(|in_memory| *in_memory)
    }
}

/// Whether reads never wait for a disk: tmpfs and ramfs. Their pages may be in swap; who serves from swapped
/// memory waits for it anyway.
pub(super) fn is_in_memory(file: impl AsFd) -> bool {
    sys::fstatfs(file).is_ok_and(|system| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&(system.f_type as u64)))
}

fn convert(stat: &sys::Stat) -> Stat {
    Stat {
        kind: match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Symlink,
            _ => FileKind::Other,
        },
        dev: stat.st_dev,
        ino: stat.st_ino,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime: Timestamp { secs: stat.st_mtime, nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0) },
        ctime: Timestamp { secs: stat.st_ctime, nanos: u32::try_from(stat.st_ctime_nsec).unwrap_or(0) },
        mode: stat.st_mode & 0o7777,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
    }
}

/// The smallest there are.
const PAGE_BYTES: u64 = 4096;
/// linux/magic.h.
const TMPFS_MAGIC: u64 = 0x0102_1994;
const RAMFS_MAGIC: u64 = 0x8584_58f6;
