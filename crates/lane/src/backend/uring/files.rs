//! Operations of the file system, on names and attributes, that are plain calls, inline or on a helper
//! thread.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{
    self as sys, AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, XattrFlags,
};

use crate::backend::file::{FileKind, OpenHow, OpenKind, Stat, StatxExtra, Timestamp};

/// Opens the root of a volume, following symbolic links in the path that the operator gave.
pub(crate) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(sys::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Returns the value of an extended attribute, of at most `max` bytes.
pub(crate) fn xattr(file: BorrowedFd<'_>, name: &CString, max: usize) -> io::Result<Vec<u8>> {
    let mut value = vec![0; max.max(1)];
    let len = sys::fgetxattr(file, name, &mut value[..])?;
    value.truncate(len);
    Ok(value)
}

/// Sets an extended attribute and waits until the file is safe (fsync(2)).
pub(crate) fn set_xattr_synced(file: BorrowedFd<'_>, name: &CString, value: &[u8]) -> io::Result<()> {
    sys::fsetxattr(file, name, value, XattrFlags::empty())?;
    Ok(sys::fsync(file)?)
}

/// Returns the flags and resolution rules of a look beneath a directory. It opens what is to be a directory,
/// which the kernel sees before it opens anything. All else is found only, as the open of a pipe or of a
/// device by itself does something to it: see [`found`].
pub(crate) fn open_rules(how: OpenHow) -> (OFlags, ResolveFlags) {
    let flags = match how.kind {
        OpenKind::Directory => access_flags(how.write) | OFlags::DIRECTORY,
        OpenKind::Any => OFlags::PATH | OFlags::CLOEXEC,
    };
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if !how.symlinks {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    (flags, resolve)
}

fn access_flags(write: bool) -> OFlags {
    let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
    // NONBLOCK keeps the open of what another program has a lease of from waiting; `settle` takes it off again.
    access | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK
}

/// Opens without waiting for the disk; `None` when the name is not in the kernel's cache.
pub(crate) fn try_open(dir: BorrowedFd<'_>, path: &CString, how: OpenHow) -> io::Result<Option<OwnedFd>> {
    let (flags, resolve) = open_rules(how);
    let look = |flags| match sys::openat2(dir, path, flags, Mode::empty(), resolve | ResolveFlags::CACHED) {
        Ok(fd) => Ok(Some(fd)),
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(io::Error::from(error)),
    };
    let Some(fd) = look(flags)? else { return Ok(None) };
    if how.kind == OpenKind::Directory {
        return settle(fd).map(Some);
    }
    match found(fd.as_fd())? {
        Found::File => match sys::open(found_path(&fd), access_flags(how.write), Mode::empty()) {
            Ok(fd) => settle(fd).map(Some),
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        },
        // By its name again, by which the kernel mounts what is mounted on demand.
        Found::Directory => match look(access_flags(how.write) | OFlags::DIRECTORY) {
            Ok(fd) => fd.map(settle).transpose(),
            Err(error) => Err(replaced(error)),
        },
    }
}

/// Kind of a file that may be opened.
pub(crate) enum Found {
    File,
    Directory,
}

/// Returns the kind of a file that was found and is not opened yet.
///
/// # Errors
/// `ENXIO` for a device, a pipe or a socket, `ELOOP` for a symbolic link.
pub(crate) fn found(fd: BorrowedFd<'_>) -> io::Result<Found> {
    let refused = match FileType::from_raw_mode(sys::fstat(fd)?.st_mode) {
        FileType::RegularFile => return Ok(Found::File),
        FileType::Directory => return Ok(Found::Directory),
        FileType::Symlink => libc::ELOOP,
        _ => libc::ENXIO,
    };
    Err(io::Error::from_raw_os_error(refused))
}

/// Opens a file that was found, whatever has its name by now.
pub(crate) fn open_found(fd: BorrowedFd<'_>, write: bool) -> io::Result<OwnedFd> {
    found(fd)?;
    settle(sys::open(found_path(fd), access_flags(write), Mode::empty())?)
}

/// Returns the path and the flags by which the ring opens a file that was found.
pub(crate) fn open_found_rules(fd: RawFd, write: bool) -> (CString, OFlags) {
    (found_path_of(fd), access_flags(write))
}

fn found_path(fd: impl AsFd) -> CString {
    found_path_of(fd.as_fd().as_raw_fd())
}

fn found_path_of(fd: RawFd) -> CString {
    CString::new(format!("/proc/self/fd/{fd}")).expect("a number holds no zero byte")
}

/// Turns the error of a directory that was found, and replaced before it was opened, into one worth another
/// try.
pub(crate) fn replaced(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOTDIR) => io::Error::from_raw_os_error(libc::EAGAIN),
        _ => error,
    }
}

/// Makes later reads of a file or directory wait for the disk again.
pub(crate) fn settle(fd: OwnedFd) -> io::Result<OwnedFd> {
    sys::fcntl_setfl(&fd, OFlags::empty())?;
    Ok(fd)
}

pub(crate) fn stat(file: BorrowedFd<'_>) -> io::Result<Stat> {
    Ok(convert(&sys::fstat(file)?))
}

pub(crate) fn stat_at(dir: BorrowedFd<'_>, path: &CString) -> io::Result<Stat> {
    let bytes = path.as_bytes();
    if !bytes.contains(&b'/') && bytes != b".." {
        return Ok(convert(&sys::statat(dir, path, AtFlags::SYMLINK_NOFOLLOW)?));
    }
    Ok(convert(&sys::fstat(&find_at(dir, path)?)?))
}

/// Returns whether a name is no large file's, so that its removal takes little time.
pub(crate) fn is_small(dir: BorrowedFd<'_>, name: &CString) -> bool {
    match sys::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat.st_size.cast_unsigned() <= SMALL_BYTES,
        Err(_) => true,
    }
}

/// Returns the inode that a path names, a link at the path's end itself. `..` and links in the middle do not
/// lead out of `dir`.
pub(crate) fn find_at(dir: BorrowedFd<'_>, path: &CString) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(sys::openat2(dir, path, flags, Mode::empty(), resolve)?)
}

/// File system on which a file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSystem {
    /// Number that tells the file system from others; some share it with others of their kind.
    pub(crate) id: u64,
    /// True where reads never wait for a disk: tmpfs and ramfs. Their pages may be in swap; a server of
    /// swapped memory waits for it anyway.
    pub(crate) is_memory: bool,
}

/// Returns the file system on which a file lies; `None` where the kernel does not say.
pub(crate) fn file_system(file: impl AsFd) -> Option<FileSystem> {
    let found = sys::fstatfs(file).ok()?;
    let kind = found.f_type as u64;
    // SAFETY: an fsid_t is two words (statfs(2)), of any value, which its type here keeps to itself.
    let [high, low]: [u32; 2] = unsafe { std::mem::transmute(found.f_fsid) };
    // Some kinds have no number: all of such a kind are one.
    let id = (u64::from(high) << 32 | u64::from(low)) ^ kind.rotate_left(32);
    Some(FileSystem { id, is_memory: [TMPFS_MAGIC, RAMFS_MAGIC].contains(&kind) })
}

/// Returns whether a file has no name left, as the kernel knows without asking a disk or a server.
pub(crate) fn is_nameless(file: impl AsFd) -> bool {
    let flags = sys::AtFlags::EMPTY_PATH | sys::AtFlags::STATX_DONT_SYNC;
    sys::statx(file, c"", flags, sys::StatxFlags::NLINK).is_ok_and(|found| found.stx_nlink == 0)
}

pub(crate) fn convert(stat: &sys::Stat) -> Stat {
    Stat {
        kind: kind_of(stat.st_mode),
        dev: stat.st_dev,
        ino: stat.st_ino,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        allocated: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(BLOCK_BYTES),
        atime: timestamp(stat.st_atime, stat.st_atime_nsec),
        mtime: timestamp(stat.st_mtime, stat.st_mtime_nsec),
        ctime: timestamp(stat.st_ctime, stat.st_ctime_nsec),
        mode: stat.st_mode & 0o7777,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
    }
}

/// Converts what statx(2) returned ([`convert`]).
pub(crate) fn convert_statx(stat: &sys::Statx) -> Stat {
    Stat {
        kind: kind_of(stat.stx_mode.into()),
        dev: sys::makedev(stat.stx_dev_major, stat.stx_dev_minor),
        ino: stat.stx_ino,
        size: stat.stx_size,
        allocated: stat.stx_blocks.saturating_mul(BLOCK_BYTES),
        atime: timestamp_of(stat.stx_atime),
        mtime: timestamp_of(stat.stx_mtime),
        ctime: timestamp_of(stat.stx_ctime),
        mode: u32::from(stat.stx_mode) & 0o7777,
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
    }
}

/// Returns the attributes that statx(2) alone tells, where the time of birth was asked for.
pub(crate) fn statx_extra_of(stat: &sys::Statx) -> StatxExtra {
    let has_birth = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
    StatxExtra {
        born: has_birth.then(|| timestamp_of(stat.stx_btime)),
        is_compressed: stat.stx_attributes.contains(StatxAttributes::COMPRESSED),
    }
}

fn kind_of(mode: u32) -> FileKind {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

fn timestamp_of(stamp: sys::StatxTimestamp) -> Timestamp {
    Timestamp { secs: stamp.tv_sec, nanos: stamp.tv_nsec }
}

fn timestamp(secs: i64, nanos: u64) -> Timestamp {
    Timestamp { secs, nanos: u32::try_from(nanos).unwrap_or(0) }
}

/// Largest size in bytes of a small file, whose pages are freed in a few tens of microseconds.
pub(crate) const SMALL_BYTES: u64 = 1 << 20;
/// Unit in which stat(2) and statx(2) count allocated blocks, in bytes.
const BLOCK_BYTES: u64 = 512;
/// Number of tmpfs in statfs(2), from linux/magic.h.
const TMPFS_MAGIC: u64 = 0x0102_1994;
const RAMFS_MAGIC: u64 = 0x8584_58f6;
