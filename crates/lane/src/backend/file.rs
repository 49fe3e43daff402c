//! Types of files and names, for every backend.

use std::ffi::CStr;
use std::time::{Duration, SystemTime};

use super::Watch;

/// Options of opening a name: always beneath the given directory, without magic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHow {
    /// Kind that the name must have.
    pub kind: OpenKind,
    /// True when symbolic links that stay beneath the directory are followed.
    pub symlinks: bool,
    /// True to open for writing as well as reading: `EISDIR` for a directory.
    pub write: bool,
}

/// Kind that an opened name must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenKind {
    /// Any file or directory; the caller checks [`Stat::kind`]. Devices, sockets and pipes are refused with
    /// `ENXIO`.
    Any,
    /// Directory; `ENOTDIR` for anything else.
    Directory,
}

/// Attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Type of the file.
    pub kind: FileKind,
    /// Device number of the file system.
    pub dev: u64,
    /// Inode number of the file.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Bytes that the file takes on disk: fewer than the size where there are holes, more where room is set
    /// aside.
    pub allocated: u64,
    /// Time of the last read, as far as the file system keeps it. Most file systems move it only where the
    /// last change is no older, or a day after (`relatime`), some never (`noatime`).
    pub atime: Timestamp,
    /// Time of the last change of the content.
    pub mtime: Timestamp,
    /// Time of the last change of content or attributes.
    pub ctime: Timestamp,
    /// Permission bits, with set-user-id, set-group-id and sticky.
    pub mode: u32,
    /// Number of hard links.
    pub nlink: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the owner.
    pub gid: u32,
}

/// Time since 1970 as the file system keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Whole seconds; negative before 1970.
    pub secs: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

/// Type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Regular file, with data.
    File,
    /// Directory of names.
    Directory,
    /// Symbolic link itself.
    Symlink,
    /// Device, socket or pipe: never served.
    Other,
}

/// Entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Name of the entry, as bytes of the file system.
    pub name: Vec<u8>,
    /// Attributes of the named file (of the link itself for a symbolic link); `None` if it vanished
    /// meanwhile.
    pub stat: Option<Stat>,
    /// Handle of the named file, where handles were asked for and the file has one.
    pub handle: Option<FileHandle>,
}

/// Entries of a part of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirPart {
    /// Entries of the part: without `.` and `..`, in the file system's order.
    pub entries: Vec<DirEntry>,
    /// Position behind the part, which only the file system understands; `None` at the end, where there are
    /// no entries.
    pub next: Option<u64>,
}

/// Names of a part of a directory, without attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamesPart {
    /// Names, each with a zero byte behind it.
    bytes: Vec<u8>,
    /// Position behind the part, which only the file system understands; `None` at the end, where there are
    /// no names.
    pub next: Option<u64>,
}

impl NamesPart {
    /// Makes room for names and their zero bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), next: None }
    }

    pub(crate) fn push(&mut self, name: &CStr) {
        self.bytes.extend_from_slice(name.to_bytes_with_nul());
    }

    /// Returns the names: without `.` and `..`, in the file system's order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.split_inclusive(|byte| *byte == 0).map(|name| &name[..name.len() - 1])
    }
}

/// Attributes of a directory's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameStat {
    /// Attributes of the named file; of the link itself for a symbolic link.
    pub stat: Stat,
    /// Attributes of the file that only statx(2) returns.
    pub statx_extra: StatxExtra,
    /// Value of the extended attribute that was asked for; `None` for a file without it.
    pub xattr: Option<Vec<u8>>,
}

/// Change in a watched directory, or of a watched file under any of its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// The entry `name` was created, removed, renamed, written or had its attributes changed.
    Entry {
        /// Watch of the directory.
        watch: Watch,
        /// Name of the entry.
        name: Vec<u8>,
        /// Change of the entry.
        what: EntryChange,
        /// True if the entry names, or named, a directory.
        is_directory: bool,
    },
    /// The directory itself has other attributes: mode, owner, times or extended ones. A watched file has
    /// other ones, or other content, or was closed by a descriptor that could write it, or has one name more
    /// or less.
    Itself(Watch),
    /// The watched directory was removed, moved or unmounted itself; the watch is gone.
    Gone(Watch),
    /// A mount beneath a watched directory came or went: a name may lead elsewhere, and no watch tells of it.
    /// Not simulated.
    Mounts,
    /// Events were lost: anything may have changed.
    Overflow,
}

/// Change of an entry of a watched directory (inotify(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryChange {
    /// The name is new: made or linked here.
    Added,
    /// The name is gone: removed.
    Removed,
    /// The name is gone: moved away. Within one directory the name that it has now is reported next.
    MovedAway,
    /// The name is new: moved here, in place of another perhaps.
    MovedHere,
    /// The entry's file was written to, closed after that, or has other attributes.
    Modified,
}

/// Treatment of an existing target of a rename (renameat2(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameHow {
    /// A file with the target name loses it, in the same step.
    Replace,
    /// A file with the target name stays: `EEXIST`.
    NoReplace,
    /// A file with the target name gets the other name, in the same step; `ENOENT` without one.
    Exchange,
}

/// Operation of fallocate(2) on a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Room for the range is allocated, and the file reaches at least to its end.
    Extend,
    /// Room for the range is allocated, and the size stays.
    KeepSize,
    /// Room of the range is freed, which then reads as zeros.
    Punch,
    /// The range reads as zeros, with room allocated, and the file reaches at least to its end.
    Zero,
}

/// Changes of a file's attributes, made in the order of the fields; the rest stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeChange {
    /// User id of the owner. A change of it, or of the group, clears the set-user-id and set-group-id bits.
    pub uid: Option<u32>,
    /// Group id of the owner.
    pub gid: Option<u32>,
    /// Permission bits, with set-user-id, set-group-id and sticky.
    pub mode: Option<u32>,
    /// Time of the last access.
    pub atime: SetTime,
    /// Time of the last change of the content.
    pub mtime: SetTime,
}

/// Condition on an extended attribute that is set (setxattr(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrHow {
    /// The attribute may exist already, or not.
    Any,
    /// The attribute must not exist: `EEXIST`.
    Create,
    /// The attribute must exist: `ENODATA`.
    Replace,
}

/// Value that a time of a file is set to (utimensat(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// Present time of the file system.
    Now,
    /// Given time.
    At(Timestamp),
    /// Present value, unchanged.
    Keep,
}

/// Kernel's handle of a file, independent of its names (name_to_handle_at(2)): the same for as long as the
/// file lives, and never another's after that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileHandle {
    /// Type of the handle, by the file system.
    pub kind: i32,
    /// Bytes of the handle, at most 128.
    pub bytes: Box<[u8]>,
}

/// Attributes of a file that only statx(2) gives: birth time and compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatxExtra {
    /// Time of the file's creation, where the file system keeps that.
    pub born: Option<Timestamp>,
    /// True when the file system compresses the file's data; for a directory, the data of files made in it.
    pub is_compressed: bool,
}

/// Room of a file system (fstatfs(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemStat {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Number of blocks in all.
    pub blocks: u64,
    /// Number of blocks that the caller may still fill.
    pub blocks_free: u64,
    /// Number of inodes in all.
    pub files: u64,
    /// Number of free inodes.
    pub files_free: u64,
    /// Bytes of the longest name.
    pub name_max: u64,
    /// True when the file system compresses files on [request](crate::fs::File::set_compressed): btrfs.
    /// Others take the flag, and no notice of it (ext4).
    pub compresses: bool,
}

/// Kind of a lock on a range of a file (fcntl(2), F_OFD_SETLK).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Read lock: other owners may hold one of the same bytes.
    Shared,
    /// Write lock: no other owner may hold a lock of the same bytes.
    Exclusive,
}

/// Lock that keeps another from being granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// Kind of the lock.
    pub kind: LockKind,
    /// Offset of the first byte of the range.
    pub offset: u64,
    /// Number of bytes; 0 to the end, however far that moves.
    pub len: u64,
}

/// Target of a search in a file with holes (lseek(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// Start of the next written bytes.
    Data,
    /// Start of the next hole; the end of the file is one.
    Hole,
}

impl Timestamp {
    /// Converts to a time of day; times before 1970 become 1970.
    pub fn to_system_time(self) -> SystemTime {
        SystemTime::UNIX_EPOCH
            + u64::try_from(self.secs).map_or(Duration::ZERO, |s| Duration::new(s, self.nanos))
    }
}

impl AttributeChange {
    /// No change of any attribute.
    pub const NONE: Self =
        Self { uid: None, gid: None, mode: None, atime: SetTime::Keep, mtime: SetTime::Keep };
}

impl OpenHow {
    /// Options for a file or directory, following symbolic links that stay beneath.
    pub const FOLLOW: Self = Self { kind: OpenKind::Any, symlinks: true, write: false };
    /// Options for a file or directory, refusing symbolic links.
    pub const NO_SYMLINKS: Self = Self { kind: OpenKind::Any, symlinks: false, write: false };
    /// Options for a file to read and write, following symbolic links that stay beneath.
    pub const WRITE: Self = Self { kind: OpenKind::Any, symlinks: true, write: true };
}
