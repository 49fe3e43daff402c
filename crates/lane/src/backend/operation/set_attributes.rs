//! Operation that sets a file's owner, mode and times (fchownat(2), fchmod(2), utimensat(2)).

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{self as sys, AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};

use super::Call;
#[cfg(feature = "sim")]
use crate::backend::sim::AtFile;
use crate::backend::{AttributeChange, Fd, SetTime};

/// Applies `change` to `file`, or to `name` in it, not following a symbolic link. In the order of the fields:
/// when one fails those before it are done.
#[derive(Clone)]
pub(crate) struct SetAttributes {
    pub(crate) file: Fd,
    pub(crate) name: Option<CString>,
    pub(crate) change: AttributeChange,
}

impl Call for SetAttributes {
    const NAME: &'static str = "set attributes";
    type Value = ();

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn call(&self, file: BorrowedFd<'_>, _: BorrowedFd<'_>) -> io::Result<()> {
        let AttributeChange { uid, gid, mode, atime, mtime } = self.change;
        let (name, flags) = match &self.name {
            Some(name) => (name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW),
            None => (c"", AtFlags::EMPTY_PATH),
        };
        if uid.is_some() || gid.is_some() {
            sys::chownat(file, name, uid.map(Uid::from_raw), gid.map(Gid::from_raw), flags)?;
        }
        match (mode, &self.name) {
            (Some(mode), None) => sys::fchmod(file, Mode::from_raw_mode(mode & 0o7777))?,
            // A link has no mode, and what it points to is not asked.
            (Some(_), Some(_)) => return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            (None, _) => {}
        }
        if (atime, mtime) != (SetTime::Keep, SetTime::Keep) {
            let times = Timestamps { last_access: timespec(atime), last_modification: timespec(mtime) };
            match &self.name {
                Some(name) => sys::utimensat(file, name, &times, AtFlags::SYMLINK_NOFOLLOW)?,
                None => sys::futimens(file, &times)?,
            }
        }
        Ok(())
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<()> {
        let AttributeChange { uid, gid, mode, atime, mtime } = self.change;
        let inode = match &self.name {
            Some(name) => at.disk.child(at.inode, name.as_bytes(), at.engine)?,
            None => at.inode.clone(),
        };
        if uid.is_some() || gid.is_some() {
            at.disk.chown(&inode, uid, gid, at.engine)?;
        }
        match (mode, &self.name) {
            (Some(mode), None) => at.disk.chmod(&inode, mode, at.engine)?,
            (Some(_), Some(_)) => return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            (None, _) => {}
        }
        if (atime, mtime) != (SetTime::Keep, SetTime::Keep) {
            at.disk.utimens(&inode, atime, mtime, at.engine)?;
        }
        Ok(())
    }
}

fn timespec(time: SetTime) -> Timespec {
    match time {
        SetTime::Keep => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        SetTime::Now => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        SetTime::At(time) => Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() },
    }
}
