//! Changes of a tree, as other programs of the host make them while a server serves it. Names are as safe as
//! on a journalled disk: only the bytes of files can be torn.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use super::content::Content;
use super::names::check_change;
use super::resolve::{Rules, resolve, split_last};
use super::{Disk, Inode, Node, errno};
use crate::backend::RenameHow;
use crate::backend::file::Timestamp;
use crate::backend::sim::engine::Engine;

/// A name in a directory.
pub(super) struct Place {
    pub(super) parent: Rc<Inode>,
    pub(super) name: Vec<u8>,
}

impl Disk {
    /// Where `path` has its name; the directory must exist.
    pub(super) fn place(&self, path: &[u8]) -> io::Result<Place> {
        let (parent, name) = split_last(path);
        if matches!(name, b"" | b"." | b"..") || name.contains(&0) {
            return Err(errno(libc::EINVAL));
        }
        let rules = Rules { follow: true, keep_last: false, absolute: true };
        let parent = resolve(&self.root, parent, rules)?;
        parent.directory()?;
        Ok(Place { parent, name: name.to_vec() })
    }

    /// What `path` names; a link at its end is followed when `follow`.
    pub(super) fn find(&self, path: &[u8], follow: bool) -> io::Result<Rc<Inode>> {
        resolve(&self.root, path, Rules { follow: true, keep_last: !follow, absolute: true })
    }

    /// Makes `path` and every directory above it.
    pub(super) fn make_directories(&mut self, path: &[u8], engine: &mut Engine) -> io::Result<()> {
        let mut done = vec![b'/'];
        for component in path.split(|&b| b == b'/').filter(|c| !c.is_empty()) {
            done.extend_from_slice(component);
            match self.find(&done, true) {
                Ok(inode) => drop(inode.directory()?),
                Err(_) => self.make_directory(&done, engine)?,
            }
            done.push(b'/');
        }
        Ok(())
    }

    /// Puts a file, link or special file at `path`; `EEXIST` when something has the name.
    pub(super) fn create(&mut self, path: &[u8], node: Node, engine: &mut Engine) -> io::Result<Rc<Inode>> {
        let place = self.place(path)?;
        if place.get().is_some() {
            return Err(errno(libc::EEXIST));
        }
        let inode = self.new_inode(node, engine);
        self.put(&place, Rc::clone(&inode), engine);
        Ok(inode)
    }

    /// Puts a new file at `path` in one step, in place of what had the name: write aside and rename.
    pub(super) fn replace(&mut self, path: &[u8], bytes: Vec<u8>, engine: &mut Engine) -> io::Result<()> {
        let place = self.place(path)?;
        if let Some(before) = place.get() {
            before.content()?;
            before.unlink(self.stamp(engine));
        }
        let file = self.new_inode(Node::File(RefCell::new(Content::synced(bytes))), engine);
        self.put(&place, file, engine);
        Ok(())
    }

    /// Changes the bytes of the file at `path` in place.
    pub(super) fn modify<R>(
        &mut self,
        path: &[u8],
        engine: &mut Engine,
        change: impl FnOnce(&mut Content) -> R,
    ) -> io::Result<R> {
        let inode = self.find(path, true)?;
        let result = change(&mut inode.content()?.borrow_mut());
        let stamp = self.stamp(engine);
        inode.mtime.set(stamp);
        inode.ctime.set(stamp);
        self.notify(path, engine);
        Ok(result)
    }

    /// Changes attributes of what `path` names.
    pub(super) fn set_attributes(
        &mut self,
        path: &[u8],
        mode: Option<u32>,
        mtime: Option<Timestamp>,
        engine: &mut Engine,
    ) -> io::Result<()> {
        let inode = self.find(path, false)?;
        if let Some(mode) = mode {
            inode.mode.set(mode & 0o7777);
        }
        if let Some(mtime) = mtime {
            inode.mtime.set(mtime);
        }
        inode.ctime.set(self.stamp(engine));
        self.notify(path, engine);
        Ok(())
    }

    /// Takes a name away, with all beneath it.
    pub(super) fn remove(&mut self, path: &[u8], engine: &mut Engine) -> io::Result<()> {
        let place = self.place(path)?;
        self.drop_name(&place, engine)
    }

    /// Moves a name, over a file that has the new one.
    pub(super) fn rename(&mut self, from: &[u8], to: &[u8], engine: &mut Engine) -> io::Result<()> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        self.move_name(&from, &to, RenameHow::Replace, engine)
    }

    /// Moves a name to another place.
    pub(super) fn move_name(
        &mut self,
        from: &Place,
        to: &Place,
        how: RenameHow,
        engine: &mut Engine,
    ) -> io::Result<()> {
        let moved = from.get().ok_or_else(|| errno(libc::ENOENT))?;
        let before = to.get();
        match (&before, how) {
            (Some(_), RenameHow::NoReplace) => return Err(errno(libc::EEXIST)),
            (None, RenameHow::Exchange) => return Err(errno(libc::ENOENT)),
            _ => {}
        }
        if contains(&moved, &to.parent) {
            return Err(errno(libc::EINVAL));
        }
        if let Some(before) = &before {
            if contains(before, &from.parent) {
                let exchange = how == RenameHow::Exchange;
                return Err(errno(if exchange { libc::EINVAL } else { libc::ENOTEMPTY }));
            }
            if Rc::ptr_eq(before, &moved) {
                return Ok(());
            }
        }
        check_change(&from.parent)?;
        check_change(&to.parent)?;
        if let (Some(before), RenameHow::Replace) = (&before, how) {
            match (&before.node, &moved.node) {
                (Node::Directory(entries), Node::Directory(_)) if entries.borrow().is_empty() => {}
                (Node::Directory(_), Node::Directory(_)) => return Err(errno(libc::ENOTEMPTY)),
                (Node::Directory(_), _) => return Err(errno(libc::EISDIR)),
                (_, Node::Directory(_)) => return Err(errno(libc::ENOTDIR)),
                _ => {}
            }
        }
        from.take()?;
        self.touch(from, engine);
        self.relocated(&moved, engine);
        if let Some(before) = before {
            to.take()?;
            if how == RenameHow::Exchange {
                self.relocated(&before, engine);
                self.put(from, before, engine);
            } else {
                self.forget_tree(before, engine);
                self.sweep(engine);
            }
        }
        self.put(to, moved, engine);
        Ok(())
    }

    /// Takes the name of a file, or of an empty directory, away.
    pub(super) fn drop_name(&mut self, place: &Place, engine: &mut Engine) -> io::Result<()> {
        self.forget_tree(place.take()?, engine);
        self.sweep(engine);
        self.touch(place, engine);
        Ok(())
    }

    /// Something is about to have its name elsewhere.
    fn relocated(&mut self, inode: &Inode, engine: &mut Engine) {
        inode.ctime.set(self.stamp(engine));
        self.watches.gone(inode.ino(), engine);
    }

    /// Gives the file at `from` one more name.
    pub(super) fn link(&mut self, from: &[u8], to: &[u8], engine: &mut Engine) -> io::Result<()> {
        let inode = self.find(from, false)?;
        inode.content()?;
        let place = self.place(to)?;
        if place.get().is_some() {
            return Err(errno(libc::EEXIST));
        }
        inode.nlink.set(inode.nlink.get() + 1);
        inode.ctime.set(self.stamp(engine));
        self.put(&place, inode, engine);
        Ok(())
    }

    fn make_directory(&mut self, path: &[u8], engine: &mut Engine) -> io::Result<()> {
        self.create(path, Node::Directory(RefCell::default()), engine).map(drop)
    }

    pub(super) fn put(&mut self, place: &Place, inode: Rc<Inode>, engine: &mut Engine) {
        if inode.directory().is_ok() {
            place.parent.nlink.set(place.parent.nlink.get() + 1);
        }
        let entries = place.parent.directory().expect("places are in directories");
        entries.borrow_mut().insert(place.name.clone(), inode);
        self.touch(place, engine);
    }

    /// A directory's entry has changed: its time moves and its watchers learn.
    fn touch(&mut self, place: &Place, engine: &mut Engine) {
        let stamp = self.stamp(engine);
        place.parent.mtime.set(stamp);
        place.parent.ctime.set(stamp);
        self.watches.entry_changed(&place.parent, &place.name, engine);
    }

    /// What a name stands for has changed, not the name.
    fn notify(&mut self, path: &[u8], engine: &mut Engine) {
        if let Ok(place) = self.place(path) {
            self.watches.entry_changed(&place.parent, &place.name, engine);
        }
    }

    fn forget_tree(&mut self, inode: Rc<Inode>, engine: &mut Engine) {
        inode.unlink(self.stamp(engine));
        if let Node::Directory(entries) = &inode.node {
            // Emptied, as it must be before it can go: who holds it open sees no entries.
            let entries = std::mem::take(&mut *entries.borrow_mut());
            for (name, entry) in entries {
                self.forget_tree(entry, engine);
                self.watches.entry_changed(&inode, &name, engine);
            }
            self.removed.push((inode.ino(), Rc::downgrade(&inode)));
        }
    }
}

impl Place {
    pub(super) fn get(&self) -> Option<Rc<Inode>> {
        self.parent.directory().ok()?.borrow().get(&self.name).cloned()
    }

    fn take(&self) -> io::Result<Rc<Inode>> {
        let entries = self.parent.directory()?;
        let taken = entries.borrow_mut().remove(&self.name).ok_or_else(|| errno(libc::ENOENT))?;
        if taken.directory().is_ok() {
            self.parent.nlink.set(self.parent.nlink.get() - 1);
        }
        Ok(taken)
    }
}

impl Inode {
    fn unlink(&self, stamp: Timestamp) {
        let left = if self.directory().is_ok() { 0 } else { self.nlink.get().saturating_sub(1) };
        self.nlink.set(left);
        self.ctime.set(stamp);
    }
}

/// Whether `inner` is `outer` or lies beneath it.
fn contains(outer: &Rc<Inode>, inner: &Rc<Inode>) -> bool {
    Rc::ptr_eq(outer, inner)
        || match &outer.node {
            Node::Directory(entries) => entries.borrow().values().any(|entry| contains(entry, inner)),
            _ => false,
        }
}
