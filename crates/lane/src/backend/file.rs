//! Types of files and names, for every backend.

use std::ffi::CStr;
use std::time::{Duration, SystemTime};

use super::Watch;

/// Options of opening a name: always beneath the directory given, without magic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHow {
    /// Kind that the name must have.
    pub kind: OpenKind,
    /// Whether symbolic links that stay beneath the directory are followed.
    pub symlinks: bool,
    /// For writing as well as reading: `EISDIR` for a directory.
    pub write: bool,
}

/// Kind that an opened name must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenKind {
    /// A file or a directory; the caller looks at [`Stat::kind`]. Devices, sockets and pipes are refused
    /// with `ENXIO`.
    Any,
    /// A directory, else `ENOTDIR`.
    Directory,
}

/// Attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Regular file, directory, ….
    pub kind: FileKind,
    /// Device of the file system.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes that it takes on disk: fewer than the size where there are holes, more where room is set aside.
    pub allocated: u64,
    /// Last reading, as far as the file system keeps it: most move it only where the last change is no older, or a day after
    /// (`relatime`), some never (`noatime`).
    pub atime: Timestamp,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// Last change of content or attributes.
    pub ctime: Timestamp,
    /// Permission bits.
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Seconds and nanoseconds since 1970, as the file system keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Whole seconds; negative before 1970.
    pub secs: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Device, socket or pipe: never served.
    Other,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, as bytes of the file system.
    pub name: Vec<u8>,
    /// Attributes of what it names (of the link itself for a symbolic link); `None` if it vanished meanwhile.
    pub stat: Option<Stat>,
    /// The handle of that, where handles were asked for and it has one that is kept.
    pub handle: Option<FileHandle>,
}

/// A part of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirPart {
    /// The entries of the part: without `.` and `..`, in the file system's order.
    pub entries: Vec<DirEntry>,
    /// The position behind it, which the file system alone understands; `None` at the end, where there are no entries.
    pub next: Option<u64>,
}

/// The names of a part of a directory, without what they name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamesPart {
    /// Each with a zero byte behind it.
    bytes: Vec<u8>,
    /// The position behind it, which the file system alone understands; `None` at the end, where there are no names.
    pub next: Option<u64>,
}

impl NamesPart {
    /// Room for names and their zero bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), next: None }
    }

    pub(crate) fn push(&mut self, name: &CStr) {
        self.bytes.extend_from_slice(name.to_bytes_with_nul());
    }

    /// The names: without `.` and `..`, in the file system's order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.split_inclusive(|byte| *byte == 0).map(|name| &name[..name.len() - 1])
    }
}

/// Attributes of a directory's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameStat {
    /// Attributes of what it names, of the link itself for a symbolic link.
    pub stat: Stat,
    /// Attributes of the file that only statx(2) returns.
    pub statx_extra: StatxExtra,
    /// The extended attribute that was asked for; `None` where it has none.
    pub xattr: Option<Vec<u8>>,
}

/// A change in a watched directory, or of a watched file by whichever of its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// The entry `name` was created, removed, renamed, written or had its attributes changed.
    Entry {
        /// The directory.
        watch: Watch,
        /// The entry's name.
        name: Vec<u8>,
        /// Change of the entry.
        what: EntryChange,
        /// Set if the entry names, or named, a directory.
        is_directory: bool,
    },
    /// The directory itself has other attributes: mode, owner, times or extended ones. A watched file has
    /// other ones, or other content, or was closed by a descriptor that could write it, or has one name more
    /// or less.
    Itself(Watch),
    /// The watched directory was removed, moved or unmounted itself; the watch is gone.
    Gone(Watch),
    /// Something was mounted beneath a watched directory, or is no more: a name may lead elsewhere, and no watch tells of it. Not
    /// simulated.
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
    /// The name is gone: moved away. Within one directory the name that it has now is told next.
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
    /// `EEXIST` when something has it.
    NoReplace,
    /// A file with the target name gets the other name, in the same step; `ENOENT` when nothing has it.
    Exchange,
}

/// Operation of fallocate(2) on a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Takes room for it, and lets the file reach to its end.
    Extend,
    /// Takes room for it and leaves the size as it is.
    KeepSize,
    /// Gives its room back: it reads as zeros.
    Punch,
    /// Makes it read as zeros, with room for it, and lets the file reach to its end.
    Zero,
}

/// Changes of a file's attributes, made in this order; the rest stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeChange {
    /// Owner. A change of it, or of the group, takes the set-user-id and set-group-id bits away.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Permission bits, with set-user-id, set-group-id and sticky.
    pub mode: Option<u32>,
    /// Last access.
    pub atime: SetTime,
    /// Last change of the content.
    pub mtime: SetTime,
}

/// Whether an extended attribute must be there when it is set (setxattr(2)).
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
    /// The file system's time now.
    Now,
    /// This time.
    At(Timestamp),
    /// Leaves the value as it is.
    Keep,
}

/// A kernel's handle of a file, independent of its names (name_to_handle_at(2)): the same for as long as the
/// file lives, and never another's after that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileHandle {
    /// The file system's kind of handle.
    pub kind: i32,
    /// Bytes of the handle, at most 128.
    pub bytes: Box<[u8]>,
}

/// Attributes of a file that statx(2) alone gives: its birth time, and whether it is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatxExtra {
    /// Time of the file's creation, where the file system keeps that.
    pub born: Option<Timestamp>,
    /// The file system compresses what is written to it; of a directory, to what is made in it.
    pub is_compressed: bool,
}

/// A file system's room (fstatfs(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemStat {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Blocks there are.
    pub blocks: u64,
    /// Blocks the caller may still fill.
    pub blocks_free: u64,
    /// Inodes there are.
    pub files: u64,
    /// Inodes still to be had.
    pub files_free: u64,
    /// Bytes of the longest name.
    pub name_max: u64,
    /// The file system compresses the files of which that is [asked](crate::fs::File::set_compressed): btrfs.
    /// Others take the flag, and no notice of it (ext4).
    pub compresses: bool,
}

/// A lock on a range of a file (fcntl(2), F_OFD_SETLK).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// A read lock: other owners may hold one of the same bytes.
    Shared,
    /// A write lock: no other owner may hold a lock of the same bytes.
    Exclusive,
}

/// A lock that keeps another from being had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// Shared or not.
    pub kind: LockKind,
    /// Offset of the first byte of the range.
    pub offset: u64,
    /// Number of bytes; 0 to the end, however far that moves.
    pub len: u64,
}

/// Target of a search in a file with holes (lseek(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// The next written bytes.
    Data,
    /// The next hole; the end of the file is one.
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
    /// Nothing.
    pub const NONE: Self =
        Self { uid: None, gid: None, mode: None, atime: SetTime::Keep, mtime: SetTime::Keep };
}

impl OpenHow {
    /// A file or directory, following symbolic links that stay beneath.
    pub const FOLLOW: Self = Self { kind: OpenKind::Any, symlinks: true, write: false };
    /// A file or directory, refusing symbolic links.
    pub const NO_SYMLINKS: Self = Self { kind: OpenKind::Any, symlinks: false, write: false };
    /// A file to read and write, following symbolic links that stay beneath.
    pub const WRITE: Self = Self { kind: OpenKind::Any, symlinks: true, write: true };
}
