//! Changes of a tree by path, as other programs of the host make them while a server serves the tree.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use super::content::Content;
use super::inode::{Inode, Node};
use super::journal::Record;
use super::resolve::{Rules, resolve, split_last};
use super::{Disk, errno};
use crate::backend::file::{EntryChange, RenameHow};
use crate::backend::sim::engine::Engine;

/// A name in a directory.
pub(super) struct NamePlace {
    pub(super) parent: Rc<Inode>,
    pub(super) name: Vec<u8>,
}

impl Disk {
    /// Returns the place of `path`'s last name, in a directory that must exist.
    pub(super) fn place(&self, path: &[u8]) -> io::Result<NamePlace> {
        let (parent, name) = split_last(path);
        if matches!(name, b"" | b"." | b"..") || name.contains(&0) {
            return Err(errno(libc::EINVAL));
        }
        let parent = resolve(&self.root, parent, BY_TEST)?;
        parent.directory()?;
        Ok(NamePlace { parent, name: name.to_vec() })
    }

    /// Returns the inode that `path` names; follows a link at the path's end when `follow`.
    pub(super) fn find(&self, path: &[u8], follow: bool) -> io::Result<Rc<Inode>> {
        resolve(&self.root, path, Rules { keep_last: !follow, ..BY_TEST })
    }

    /// Makes `path` and every directory above it.
    pub(super) fn make_directories(&mut self, path: &[u8], engine: &mut Engine) -> io::Result<()> {
        let mut done = vec![b'/'];
        for component in path.split(|&b| b == b'/').filter(|c| !c.is_empty()) {
            done.extend_from_slice(component);
            match self.find(&done, true) {
                Ok(inode) => drop(inode.directory()?),
                Err(_) => {
                    let place = self.place(&done)?;
                    self.mkdir_at(&place.parent, &place.name, 0o755, engine)?;
                }
            }
            done.push(b'/');
        }
        Ok(())
    }

    /// Puts a link or special file at `path`, and makes the directories above; `EEXIST` when something has
    /// the name.
    pub(super) fn make(&mut self, path: &[u8], node: Node, engine: &mut Engine) -> io::Result<()> {
        let place = self.place_in_made(path, engine)?;
        if place.get().is_some() {
            return Err(errno(libc::EEXIST));
        }
        let mode = if matches!(node, Node::Symlink(_)) { 0o777 } else { 0o644 };
        self.add(&place.parent, &place.name, node, mode, engine).map(drop)
    }

    /// Returns the file at `path`, made with the directories above if none is there.
    pub(super) fn file_at(&mut self, path: &[u8], engine: &mut Engine) -> io::Result<Rc<Inode>> {
        if let Ok(found) = self.find(path, true) {
            found.content()?;
            return Ok(found);
        }
        let place = self.place_in_made(path, engine)?;
        self.create_at(&place.parent, &place.name, 0o644, true, engine)
    }

    /// Puts a new file at `path` in one step, in place of what had the name: writes aside and renames.
    pub(super) fn replace(
        &mut self,
        path: &[u8],
        bytes: &[u8],
        synced: bool,
        engine: &mut Engine,
    ) -> io::Result<()> {
        let place = self.place(path)?;
        let before = place.get();
        if let Some(before) = &before {
            before.content()?;
        }
        let mut content = Content::empty(&self.space);
        match synced {
            true => content.replace(bytes),
            false => content.write(0, bytes),
        }
        let file = self.new_inode(&place.parent, Node::File(RefCell::new(content)), 0o644, engine)?;
        let (stamp, mut record) = (self.stamp(engine), Record::new());
        file.nlink.set(1);
        if let Some(before) = before {
            self.drop_link(&before, &place.parent, &place.name, stamp, &mut record);
        }
        file.put_at(&place.parent, &place.name, None, &mut record);
        let entry = (&place.parent, &place.name[..]);
        self.entry_changed(entry, false, EntryChange::Added, stamp, &mut record, engine);
        self.journal.push(record);
        Ok(())
    }

    /// Takes a name away, with all beneath.
    pub(super) fn remove(&mut self, path: &[u8], engine: &mut Engine) -> io::Result<()> {
        let place = self.place(path)?;
        let found = place.get().ok_or_else(|| errno(libc::ENOENT))?;
        self.empty(&found, engine);
        drop(found);
        self.take(&place.parent, &place.name, engine);
        Ok(())
    }

    /// Moves the name `from` to `to` ([`Disk::rename_at`]).
    pub(super) fn rename_path(
        &mut self,
        from: &[u8],
        to: &[u8],
        how: RenameHow,
        engine: &mut Engine,
    ) -> io::Result<()> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        self.rename_at((&from.parent, &from.name), (&to.parent, &to.name), how, engine)
    }

    /// Gives the file at `from` one more name.
    pub(super) fn link_path(&mut self, from: &[u8], to: &[u8], engine: &mut Engine) -> io::Result<()> {
        let inode = self.find(from, false)?;
        let place = self.place(to)?;
        self.link_at(&inode, &place.parent, &place.name, engine)
    }

    fn place_in_made(&mut self, path: &[u8], engine: &mut Engine) -> io::Result<NamePlace> {
        self.make_directories(split_last(path).0, engine)?;
        self.place(path)
    }

    /// Empties a directory, as is needed before a removal: a descriptor that is still open sees no entries.
    fn empty(&mut self, inode: &Rc<Inode>, engine: &mut Engine) {
        let Ok(entries) = inode.directory() else { return };
        let names: Vec<_> = entries.borrow().keys().cloned().collect();
        for name in names {
            let entry = entries.borrow().get(&name).cloned();
            if let Some(entry) = entry {
                self.empty(&entry, engine);
            }
            self.take(inode, &name, engine);
        }
    }
}

impl NamePlace {
    pub(super) fn get(&self) -> Option<Rc<Inode>> {
        self.parent.directory().ok()?.borrow().get(&self.name).cloned()
    }
}

/// Rules of a walk from the world's root, whatever the permission bits say.
const BY_TEST: Rules = Rules { follow: true, keep_last: false, absolute: true, privileged: true };
