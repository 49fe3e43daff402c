//! What a server sets of a file beside its content: owner, mode, times and extended attributes.

use std::io;
use std::rc::Rc;

use super::names::look_up;
use super::{Disk, Inode, Node, READ, WRITE, errno};
use crate::backend::file::{SetTime, SystemStat, XattrHow};
use crate::backend::sim::engine::Engine;

impl Disk {
    /// What has this name, a link itself.
    pub(crate) fn child(&self, dir: &Rc<Inode>, name: &[u8], engine: &mut Engine) -> io::Result<Rc<Inode>> {
        self.may_fail(self.config.name_error, engine)?;
        look_up(dir, name)?.get().ok_or_else(|| errno(libc::ENOENT))
    }

    pub(crate) fn chmod(&mut self, inode: &Rc<Inode>, mode: u32, engine: &mut Engine) -> io::Result<()> {
        inode.mode.set(mode & 0o7777);
        self.changed(inode, engine);
        Ok(())
    }

    pub(crate) fn chown(
        &mut self,
        inode: &Rc<Inode>,
        uid: Option<u32>,
        gid: Option<u32>,
        engine: &mut Engine,
    ) -> io::Result<()> {
        inode.uid.set(uid.unwrap_or(inode.uid.get()));
        inode.gid.set(gid.unwrap_or(inode.gid.get()));
        if inode.content().is_ok() {
            let mode = inode.mode.get();
            // A set-group-id bit without the group's execution is none.
            let group = if mode & 0o010 == 0 { 0 } else { 0o2000 };
            inode.mode.set(mode & !(0o4000 | group));
        }
        self.changed(inode, engine);
        Ok(())
    }

    pub(crate) fn utimens(
        &mut self,
        inode: &Rc<Inode>,
        _accessed: SetTime,
        modified: SetTime,
        engine: &mut Engine,
    ) -> io::Result<()> {
        match modified {
            SetTime::Keep => {}
            SetTime::Now => inode.mtime.set(self.stamp(engine)),
            SetTime::At(time) if time.nanos < 1_000_000_000 => inode.mtime.set(time),
            SetTime::At(_) => return Err(errno(libc::EINVAL)),
        }
        self.changed(inode, engine);
        Ok(())
    }

    pub(crate) fn xattr_get(&self, inode: &Inode, name: &[u8], engine: &mut Engine) -> io::Result<Vec<u8>> {
        self.may_fail(self.config.name_error, engine)?;
        check_name(name)?;
        check_kind(inode, libc::ENODATA)?;
        inode.check_access(READ)?;
        inode.xattrs.borrow().get(name).cloned().ok_or_else(|| errno(libc::ENODATA))
    }

    pub(crate) fn xattr_list(&self, inode: &Inode, engine: &mut Engine) -> io::Result<Vec<Vec<u8>>> {
        self.may_fail(self.config.name_error, engine)?;
        Ok(inode.xattrs.borrow().keys().cloned().collect())
    }

    pub(crate) fn xattr_set(
        &mut self,
        inode: &Rc<Inode>,
        name: &[u8],
        value: &[u8],
        how: XattrHow,
        engine: &mut Engine,
    ) -> io::Result<()> {
        self.may_fail(self.config.name_error, engine)?;
        if name.is_empty() || name.len() > XATTR_NAME_MAX {
            return Err(errno(libc::ERANGE));
        }
        if value.len() > XATTR_BYTES_MAX {
            return Err(errno(libc::E2BIG));
        }
        check_name(name)?;
        check_kind(inode, libc::EPERM)?;
        inode.check_access(WRITE)?;
        let is_there = inode.xattrs.borrow().contains_key(name);
        match how {
            XattrHow::Create if is_there => return Err(errno(libc::EEXIST)),
            XattrHow::Replace if !is_there => return Err(errno(libc::ENODATA)),
            _ => {}
        }
        inode.xattrs.borrow_mut().insert(name.to_vec(), value.to_vec());
        self.changed(inode, engine);
        Ok(())
    }

    pub(crate) fn xattr_remove(
        &mut self,
        inode: &Rc<Inode>,
        name: &[u8],
        engine: &mut Engine,
    ) -> io::Result<()> {
        self.may_fail(self.config.name_error, engine)?;
        check_name(name)?;
        check_kind(inode, libc::EPERM)?;
        inode.check_access(WRITE)?;
        inode.xattrs.borrow_mut().remove(name).ok_or_else(|| errno(libc::ENODATA))?;
        self.changed(inode, engine);
        Ok(())
    }

    /// The room there is.
    pub(crate) fn statfs(&self) -> SystemStat {
        let (blocks, files) = (1 << 24, 1 << 20);
        SystemStat { block_bytes: 4096, blocks, blocks_free: blocks, files, files_free: files, name_max: 255 }
    }

    /// Attributes have changed: watchers of all its names learn.
    fn changed(&mut self, inode: &Rc<Inode>, engine: &mut Engine) {
        inode.ctime.set(self.stamp(engine));
        self.notify_names(inode, engine);
    }
}

/// A name that users may set.
fn check_name(name: &[u8]) -> io::Result<()> {
    if name.is_empty() || name.len() > XATTR_NAME_MAX {
        return Err(errno(libc::ERANGE));
    }
    match name.strip_prefix(b"user.") {
        Some(b"") => Err(errno(libc::EINVAL)),
        Some(_) => Ok(()),
        None => Err(errno(libc::EOPNOTSUPP)),
    }
}

/// Links and special files have none.
fn check_kind(inode: &Inode, number: i32) -> io::Result<()> {
    match inode.node {
        Node::File(_) | Node::Directory(_) => Ok(()),
        Node::Symlink(_) | Node::Special => Err(errno(number)),
    }
}

/// Linux's limits: XATTR_NAME_MAX, XATTR_SIZE_MAX.
const XATTR_NAME_MAX: usize = 255;
const XATTR_BYTES_MAX: usize = 65_536;
