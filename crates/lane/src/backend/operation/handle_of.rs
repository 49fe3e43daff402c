//! Operation that returns the kernel's handle of a file (name_to_handle_at(2)).

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::Call;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::{Fd, FileHandle};

/// Asks for the handle of `file`, or of `name` in it, not following a symbolic link.
#[derive(Clone)]
pub(crate) struct HandleOf {
    pub(crate) file: Fd,
    pub(crate) name: Option<CString>,
    /// True for a handle that names the directory too, so that the file opened by it has a path: for names
    /// only.
    pub(crate) connectable: bool,
}

impl Call for HandleOf {
    const NAME: &'static str = "handle";
    type Value = FileHandle;

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<FileHandle> {
        let (name, flags) = match &self.name {
            Some(name) => (name.as_c_str(), 0),
            None => (c"", libc::AT_EMPTY_PATH),
        };
        handle(file, name, if self.connectable { flags | AT_HANDLE_CONNECTABLE } else { flags })
    }

    /// Returns whether the handle is of a name, as an open file's inode is in memory.
    fn waits_for_disk(&self) -> bool {
        self.name.is_some()
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<FileHandle> {
        match &self.name {
            Some(_) if self.connectable => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            Some(name) => at.disk.handle_at(at.inode, name.as_bytes(), at.engine),
            None => at.disk.handle_of(at.inode),
        }
    }
}

/// Returns the handle of a name in a directory, links not followed.
pub(crate) fn handle_at(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<FileHandle> {
    handle(dir, name, 0)
}

fn handle(at: BorrowedFd<'_>, name: &CStr, flags: libc::c_int) -> io::Result<FileHandle> {
    let mut handle = RawHandle::new();
    let mut mount = 0;
    // SAFETY: the handle says how much room it has, the name ends with a zero, and both outlive the call.
    let answer = unsafe {
        let handle = (&raw mut handle).cast::<libc::file_handle>();
        libc::name_to_handle_at(at.as_raw_fd(), name.as_ptr(), handle, &raw mut mount, flags)
    };
    match answer {
        0 => Ok(handle.to_handle()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Kernel's `struct file_handle` with all the room that one may need.
#[repr(C)]
pub(super) struct RawHandle {
    len: libc::c_uint,
    kind: libc::c_int,
    bytes: [u8; HANDLE_BYTES_MAX],
}

impl RawHandle {
    fn new() -> Self {
        Self { len: HANDLE_BYTES_MAX as libc::c_uint, kind: 0, bytes: [0; HANDLE_BYTES_MAX] }
    }

    /// Converts a handle; `None` if it is too long.
    pub(super) fn of(handle: &FileHandle) -> Option<Self> {
        let mut raw = Self::new();
        raw.bytes.get_mut(..handle.bytes.len())?.copy_from_slice(&handle.bytes);
        (raw.len, raw.kind) = (handle.bytes.len() as libc::c_uint, handle.kind);
        Some(raw)
    }

    fn to_handle(&self) -> FileHandle {
        let len = (self.len as usize).min(HANDLE_BYTES_MAX);
        FileHandle { kind: self.kind, bytes: self.bytes[..len].into() }
    }
}

/// Flag of linux/fcntl.h, since Linux 6.13.
const AT_HANDLE_CONNECTABLE: libc::c_int = 0x002;
/// Most bytes of a handle, MAX_HANDLE_SZ.
const HANDLE_BYTES_MAX: usize = 128;
