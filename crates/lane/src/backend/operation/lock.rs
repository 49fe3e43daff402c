//! Operations on locks of ranges that other processes see (fcntl(2), F_OFD_SETLK and F_OFD_GETLK).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::Call;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::{Fd, HeldLock, LockKind};

/// Locks `len` bytes of `file` from `offset` on for this open, or unlocks them without a kind.
///
/// A `len` of 0 goes to the end, however far that moves.
#[derive(Clone)]
pub(crate) struct Lock {
    pub(crate) file: Fd,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) kind: Option<LockKind>,
}

impl Call for Lock {
    const NAME: &'static str = "lock";
    type Value = ();

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
        set_lock(file, self.offset, self.len, self.kind)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<()> {
        at.lock(self.offset, self.len, self.kind)
    }
}

/// Asks for a lock of another owner that conflicts with this one.
#[derive(Clone)]
pub(crate) struct FindLock {
    pub(crate) file: Fd,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) kind: LockKind,
}

impl Call for FindLock {
    const NAME: &'static str = "find a lock";
    type Value = Option<HeldLock>;

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<Option<HeldLock>> {
        find_lock(file, self.offset, self.len, self.kind)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<Option<HeldLock>> {
        at.find_lock(self.offset, self.len, self.kind)
    }
}

/// Locks bytes for this open of a file, or unlocks them, without waiting.
pub(crate) fn set_lock(
    file: BorrowedFd<'_>,
    offset: u64,
    len: u64,
    kind: Option<LockKind>,
) -> io::Result<()> {
    let mut wanted = described(offset, len, kind)?;
    ask(file, libc::F_OFD_SETLK, &mut wanted)
}

/// Returns a lock by another open of the file that conflicts with this one.
pub(crate) fn find_lock(
    file: BorrowedFd<'_>,
    offset: u64,
    len: u64,
    kind: LockKind,
) -> io::Result<Option<HeldLock>> {
    let mut found = described(offset, len, Some(kind))?;
    ask(file, libc::F_OFD_GETLK, &mut found)?;
    let kind = match i32::from(found.l_type) {
        libc::F_RDLCK => LockKind::Shared,
        libc::F_WRLCK => LockKind::Exclusive,
        _ => return Ok(None),
    };
    Ok(Some(HeldLock { kind, offset: found.l_start.cast_unsigned(), len: found.l_len.cast_unsigned() }))
}

fn described(offset: u64, len: u64, kind: Option<LockKind>) -> io::Result<libc::flock> {
    let signed = |n: u64| i64::try_from(n).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL));
    let kind = match kind {
        Some(LockKind::Shared) => libc::F_RDLCK,
        Some(LockKind::Exclusive) => libc::F_WRLCK,
        None => libc::F_UNLCK,
    };
    Ok(libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: signed(offset)?,
        l_len: signed(len)?,
        l_pid: 0,
    })
}

fn ask(file: BorrowedFd<'_>, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: both commands read one flock, and the second writes to it.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(lock)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
