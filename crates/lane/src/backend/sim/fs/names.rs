//! What a server does to names: one component in a directory that it has open, by the rules of the system calls, errors
//! in their order.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use super::content::Content;
use super::edit::Place;
use super::{Disk, Inode, NAME_MAX, Node, PATH_MAX, READ, SEARCH, WRITE, errno};
use crate::backend::sim::engine::Engine;
use crate::backend::{FileHandle, RenameHow};

impl Disk {
    /// Makes a file, or opens the one that has the name (`openat(2)`, `O_CREAT | O_NOFOLLOW`).
    pub(crate) fn create_at(
        &mut self,
        dir: &Rc<Inode>,
        name: &[u8],
        mode: u32,
        exclusive: bool,
        engine: &mut Engine,
    ) -> io::Result<Rc<Inode>> {
        self.may_fail(self.config.name_error, engine)?;
        let place = look_up(dir, name)?;
        match place.get() {
            Some(_) if exclusive => Err(errno(libc::EEXIST)),
            Some(there) => match &there.node {
                Node::Symlink(_) => Err(errno(libc::ELOOP)),
                Node::Directory(_) => Err(errno(libc::EISDIR)),
                Node::Special => Err(errno(libc::ENXIO)),
                Node::File(_) => there.check_access(READ | WRITE).map(|()| there.clone()),
            },
            None => {
                let file = Node::File(RefCell::new(Content::synced(Vec::new())));
                self.add(&place, file, mode & 0o7777, engine)
            }
        }
    }

    /// Makes a directory (`mkdirat(2)`).
    pub(crate) fn mkdir_at(
        &mut self,
        dir: &Rc<Inode>,
        name: &[u8],
        mode: u32,
        engine: &mut Engine,
    ) -> io::Result<()> {
        let place = self.vacant(dir, name, engine)?;
        self.add(&place, Node::Directory(RefCell::default()), mode & 0o1777, engine).map(drop)
    }

    /// Takes the name of anything but a directory away (`unlinkat(2)`).
    pub(crate) fn unlink_at(&mut self, dir: &Rc<Inode>, name: &[u8], engine: &mut Engine) -> io::Result<()> {
        self.may_fail(self.config.name_error, engine)?;
        let place = look_up(dir, name)?;
        let there = place.get().ok_or_else(|| errno(libc::ENOENT))?;
        check_change(dir)?;
        if there.directory().is_ok() {
            return Err(errno(libc::EISDIR));
        }
        self.drop_name(&place, engine)
    }

    /// Takes the name of an empty directory away (`unlinkat(2)`, `AT_REMOVEDIR`).
    pub(crate) fn rmdir_at(&mut self, dir: &Rc<Inode>, name: &[u8], engine: &mut Engine) -> io::Result<()> {
        self.may_fail(self.config.name_error, engine)?;
        let place = look_up(dir, name)?;
        let there = place.get().ok_or_else(|| errno(libc::ENOENT))?;
        check_change(dir)?;
        if !there.directory()?.borrow().is_empty() {
            return Err(errno(libc::ENOTEMPTY));
        }
        self.drop_name(&place, engine)
    }

    /// Moves a name (`renameat2(2)`).
    pub(crate) fn rename_at(
        &mut self,
        (from_dir, from): (&Rc<Inode>, &[u8]),
        (to_dir, to): (&Rc<Inode>, &[u8]),
        how: RenameHow,
        engine: &mut Engine,
    ) -> io::Result<()> {
        self.may_fail(self.config.name_error, engine)?;
        let from = look_up(from_dir, from)?;
        from.get().ok_or_else(|| errno(libc::ENOENT))?;
        let to = look_up(to_dir, to)?;
        self.move_name(&from, &to, how, engine)
    }

    /// Makes a file without a name (`openat(2)`, `O_TMPFILE`).
    pub(crate) fn temporary(
        &mut self,
        dir: &Rc<Inode>,
        mode: u32,
        engine: &mut Engine,
    ) -> io::Result<Rc<Inode>> {
        self.may_fail(self.config.name_error, engine)?;
        dir.directory()?;
        check_change(dir)?;
        let inode = self.new_inode(Node::File(RefCell::new(Content::synced(Vec::new()))), engine);
        inode.mode.set(mode & 0o7777 & !UMASK);
        inode.nlink.set(0);
        inode.linkable.set(true);
        Ok(inode)
    }

    /// Gives an open file one more name (`linkat(2)`).
    pub(crate) fn link_at(
        &mut self,
        inode: &Rc<Inode>,
        dir: &Rc<Inode>,
        name: &[u8],
        engine: &mut Engine,
    ) -> io::Result<()> {
        let place = self.vacant(dir, name, engine)?;
        check_change(dir)?;
        if inode.directory().is_ok() {
            return Err(errno(libc::EPERM));
        }
        if inode.nlink.get() == 0 && !inode.linkable.get() {
            return Err(errno(libc::ENOENT));
        }
        if inode.nlink.get() >= LINKS_MAX {
            return Err(errno(libc::EMLINK));
        }
        inode.linkable.set(false);
        inode.nlink.set(inode.nlink.get() + 1);
        inode.ctime.set(self.stamp(engine));
        self.put(&place, Rc::clone(inode), engine);
        Ok(())
    }

    /// Makes a symbolic link (`symlinkat(2)`).
    pub(crate) fn symlink_at(
        &mut self,
        dir: &Rc<Inode>,
        name: &[u8],
        target: &[u8],
        engine: &mut Engine,
    ) -> io::Result<()> {
        if target.is_empty() {
            return Err(errno(libc::ENOENT));
        }
        if target.len() >= PATH_MAX {
            return Err(errno(libc::ENAMETOOLONG));
        }
        let place = self.vacant(dir, name, engine)?;
        check_change(dir)?;
        let inode = self.new_inode(Node::Symlink(target.to_vec()), engine);
        self.put(&place, inode, engine);
        Ok(())
    }

    /// The handle of what has this name.
    pub(crate) fn handle_at(
        &self,
        dir: &Rc<Inode>,
        name: &[u8],
        engine: &mut Engine,
    ) -> io::Result<FileHandle> {
        let inode = self.child(dir, name, engine)?;
        self.handle_of(&inode)
    }

    /// Where a new name may be put.
    pub(super) fn vacant(&mut self, dir: &Rc<Inode>, name: &[u8], engine: &mut Engine) -> io::Result<Place> {
        self.may_fail(self.config.name_error, engine)?;
        let place = look_up(dir, name)?;
        match place.get() {
            Some(_) => Err(errno(libc::EEXIST)),
            None => Ok(place),
        }
    }

    fn add(&mut self, place: &Place, node: Node, mode: u32, engine: &mut Engine) -> io::Result<Rc<Inode>> {
        check_change(&place.parent)?;
        let inode = self.new_inode(node, engine);
        inode.mode.set(mode & !UMASK);
        self.put(place, Rc::clone(&inode), engine);
        Ok(inode)
    }
}

/// A name in a directory that may be searched.
pub(super) fn look_up(dir: &Rc<Inode>, name: &[u8]) -> io::Result<Place> {
    dir.directory()?;
    dir.check_access(SEARCH)?;
    if name.len() > NAME_MAX {
        return Err(errno(libc::ENAMETOOLONG));
    }
    Ok(Place { parent: Rc::clone(dir), name: name.to_vec() })
}

/// Whether names of a directory may be made and taken: not in one that is gone.
pub(super) fn check_change(dir: &Inode) -> io::Result<()> {
    if dir.nlink.get() == 0 {
        return Err(errno(libc::ENOENT));
    }
    dir.check_access(WRITE | SEARCH)
}

/// As of ext4.
const LINKS_MAX: u32 = 65_000;
/// What the process keeps from others, as most do.
const UMASK: u32 = 0o022;
