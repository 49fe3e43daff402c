//! Modes, owners, times and extended attributes of a simulated disk.

use std::io;
use std::rc::Rc;

use super::inode::{Attributes, Inode, OWNER};
use super::journal::{Change, Record};
use super::{Disk, READ, WRITE, errno};
use crate::backend::file::{FileKind, SetTime, Timestamp, XattrHow};
use crate::backend::sim::engine::Engine;

impl Disk {
    /// Sets permission bits (fchmod(2)).
    pub(crate) fn chmod(&mut self, inode: &Rc<Inode>, mode: u32, engine: &mut Engine) -> io::Result<()> {
        self.begin(self.config.change_error, engine)?;
        self.check_owner(inode)?;
        self.set_attributes(inode, |attributes| attributes.mode = mode & 0o7777, engine);
        Ok(())
    }

    /// Sets the owner (fchown(2)).
    ///
    /// # Errors
    /// `EPERM` for another owner than it has, where the server is not privileged; `EDQUOT` for an owner that
    /// may have no more.
    pub(crate) fn chown(
        &mut self,
        inode: &Rc<Inode>,
        uid: Option<u32>,
        gid: Option<u32>,
        engine: &mut Engine,
    ) -> io::Result<()> {
        self.begin(self.config.change_error, engine)?;
        let now = inode.attributes.get();
        let (uid, gid) = (uid.unwrap_or(now.uid), gid.unwrap_or(now.gid));
        if !self.is_privileged() && (now.uid != OWNER || uid != now.uid || ![now.gid, OWNER].contains(&gid)) {
            return Err(errno(libc::EPERM));
        }
        if uid != now.uid && self.config.full_user == Some(uid) {
            return Err(errno(libc::EDQUOT));
        }
        let is_file = inode.kind() == FileKind::File;
        let change = |attributes: &mut Attributes| {
            (attributes.uid, attributes.gid) = (uid, gid);
            if is_file {
                // A set-group-id bit without the group's execution is none.
                let group = if attributes.mode & 0o010 == 0 { 0 } else { 0o2000 };
                attributes.mode &= !(0o4000 | group);
            }
        };
        self.set_attributes(inode, change, engine);
        Ok(())
    }

    /// Sets the times of the last reading and of the last change (futimens(3)).
    pub(crate) fn utimens(
        &mut self,
        inode: &Rc<Inode>,
        accessed: SetTime,
        modified: SetTime,
        engine: &mut Engine,
    ) -> io::Result<()> {
        if (accessed, modified) == (SetTime::Keep, SetTime::Keep) {
            return Ok(());
        }
        self.begin(self.config.change_error, engine)?;
        self.check_owner(inode)?;
        let set = |to, now| match to {
            SetTime::Now => Ok(self.stamp(engine)),
            SetTime::At(time) if time.nanos >= 1_000_000_000 => Err(errno(libc::EINVAL)),
            SetTime::At(time) => Ok(time),
            SetTime::Keep => Ok(now),
        };
        let now = inode.attributes.get();
        let (atime, mtime) = (set(accessed, now.atime)?, set(modified, now.mtime)?);
        self.set_attributes(
            inode,
            |attributes| (attributes.atime, attributes.mtime) = (atime, mtime),
            engine,
        );
        Ok(())
    }

    /// Notes a read: the access time moves where Linux's does by default (mount(8), `relatime`). It comes to
    /// the disk with the next change of another attribute.
    pub(super) fn accessed(&self, inode: &Inode, engine: &Engine) {
        let now = self.stamp(engine);
        let attributes = inode.attributes.get();
        let is_due = attributes.atime <= attributes.mtime
            || attributes.atime <= attributes.ctime
            || now.secs - attributes.atime.secs >= ATIME_AGE_MAX_S;
        if is_due && !self.config.read_only {
            inode.attributes.set(Attributes { atime: now, ..attributes });
        }
    }

    /// Returns the value of an extended attribute (fgetxattr(2)); `ENODATA` without one.
    pub(crate) fn xattr_get(&self, inode: &Inode, name: &[u8], engine: &mut Engine) -> io::Result<Vec<u8>> {
        self.may_fail(self.config.name_error, engine)?;
        self.check_xattr(inode, name, READ)?;
        inode.xattrs.borrow().get(name).cloned().ok_or_else(|| errno(libc::ENODATA))
    }

    /// Returns the names of all extended attributes (flistxattr(2)).
    pub(crate) fn xattr_list(&self, inode: &Inode, engine: &mut Engine) -> io::Result<Vec<Vec<u8>>> {
        self.may_fail(self.config.name_error, engine)?;
        let may_see = |name: &Vec<u8>| self.is_privileged() || !name.starts_with(b"trusted.");
        Ok(inode.xattrs.borrow().keys().filter(|name| may_see(name)).cloned().collect())
    }

    /// Sets an extended attribute (fsetxattr(2)).
    ///
    /// # Errors
    /// `ENOSPC` where an inode has no room for as much, `E2BIG` where nothing has.
    pub(crate) fn xattr_set(
        &mut self,
        inode: &Rc<Inode>,
        name: &[u8],
        value: &[u8],
        how: XattrHow,
        engine: &mut Engine,
    ) -> io::Result<()> {
        if name.is_empty() || name.len() > XATTR_NAME_MAX {
            return Err(errno(libc::ERANGE));
        }
        if value.len() > XATTR_VALUE_MAX {
            return Err(errno(libc::E2BIG));
        }
        self.begin(self.config.change_error, engine)?;
        self.check_xattr(inode, name, WRITE)?;
        let xattrs = inode.xattrs.borrow();
        match how {
            XattrHow::Create if xattrs.contains_key(name) => return Err(errno(libc::EEXIST)),
            XattrHow::Replace if !xattrs.contains_key(name) => return Err(errno(libc::ENODATA)),
            _ => {}
        }
        let others = xattrs.iter().filter(|(other, _)| *other != name);
        let held: usize = others.map(|(name, value)| XATTR_OVERHEAD + name.len() + value.len()).sum();
        if held + XATTR_OVERHEAD + name.len() + value.len() > self.config.xattr_bytes_max {
            return Err(errno(libc::ENOSPC));
        }
        drop(xattrs);
        inode.xattrs.borrow_mut().insert(name.to_vec(), value.to_vec());
        self.xattr_changed(inode, name, Some(value.to_vec()), engine);
        Ok(())
    }

    /// Removes an extended attribute (fremovexattr(2)); `ENODATA` without one.
    pub(crate) fn xattr_remove(
        &mut self,
        inode: &Rc<Inode>,
        name: &[u8],
        engine: &mut Engine,
    ) -> io::Result<()> {
        self.begin(self.config.change_error, engine)?;
        self.check_xattr(inode, name, WRITE)?;
        if inode.xattrs.borrow_mut().remove(name).is_none() {
            return Err(errno(libc::ENODATA));
        }
        self.xattr_changed(inode, name, None, engine);
        Ok(())
    }

    fn xattr_changed(&mut self, inode: &Rc<Inode>, name: &[u8], to: Option<Vec<u8>>, engine: &mut Engine) {
        let mut record = vec![Change::Xattr { of: Rc::clone(&inode.stored), name: name.to_vec(), to }];
        inode.changed(self.stamp(engine), &mut record);
        self.journal.push(record);
        self.notify(inode, engine);
    }

    /// Changes attributes, and the change time.
    fn set_attributes(
        &mut self,
        inode: &Rc<Inode>,
        change: impl FnOnce(&mut Attributes),
        engine: &mut Engine,
    ) {
        let mut attributes = inode.attributes.get();
        change(&mut attributes);
        attributes.ctime = self.stamp(engine);
        let mut record = Record::new();
        inode.set(attributes, &mut record);
        self.journal.push(record);
        self.notify(inode, engine);
    }

    fn check_owner(&self, inode: &Inode) -> io::Result<()> {
        let may = self.is_privileged() || inode.attributes.get().uid == OWNER;
        if may { Ok(()) } else { Err(errno(libc::EPERM)) }
    }

    /// Checks which attribute names the kernel allows on which files (xattr(7)).
    fn check_xattr(&self, inode: &Inode, name: &[u8], bits: u32) -> io::Result<()> {
        let changes = bits == WRITE;
        if name.is_empty() || name.len() > XATTR_NAME_MAX {
            return Err(errno(libc::ERANGE));
        }
        let Some(dot) = name.iter().position(|&byte| byte == b'.') else {
            return Err(errno(libc::EOPNOTSUPP));
        };
        match &name[..=dot] {
            b"trusted." if !self.is_privileged() => {
                return Err(errno(if changes { libc::EPERM } else { libc::ENODATA }));
            }
            b"user." if !matches!(inode.kind(), FileKind::File | FileKind::Directory) => {
                return Err(errno(if changes { libc::EPERM } else { libc::ENODATA }));
            }
            b"user." => self.check_access(inode, bits)?,
            b"trusted." => {}
            // Kept as they are given, without a look at mode bits: what lanes make of them is their own.
            b"system." if name.starts_with(b"system.posix_acl_") => self.check_owner(inode)?,
            _ => return Err(errno(libc::EOPNOTSUPP)),
        }
        if dot + 1 == name.len() { Err(errno(libc::EINVAL)) } else { Ok(()) }
    }
}

impl Inode {
    /// Notes that the content has changed: both times move.
    pub(super) fn modified(&self, stamp: Timestamp, record: &mut Record) {
        self.set(Attributes { mtime: stamp, ctime: stamp, ..self.attributes.get() }, record);
    }

    /// Notes another change of the inode: the change time moves.
    pub(super) fn changed(&self, stamp: Timestamp, record: &mut Record) {
        self.set(Attributes { ctime: stamp, ..self.attributes.get() }, record);
    }

    fn set(&self, to: Attributes, record: &mut Record) {
        if self.attributes.replace(to) != to {
            record.push(Change::Attributes { of: Rc::clone(&self.stored), to });
        }
    }
}

/// Age of an access time, in seconds, from which the next read moves it in any case.
const ATIME_AGE_MAX_S: i64 = 24 * 60 * 60;
/// Longest name of an attribute, in bytes, as on Linux.
const XATTR_NAME_MAX: usize = 255;
const XATTR_VALUE_MAX: usize = 65_536;
/// Bytes that each attribute costs beside its own, as in ext4.
const XATTR_OVERHEAD: usize = 16;
