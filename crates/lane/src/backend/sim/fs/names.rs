//! Operations on names: one component, never a path, in a directory that the caller has open. They follow the
//! rules of the system calls, errors in their order.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use super::content::Content;
use super::inode::{Inode, Name, Node};
use super::journal::{Change, Record};
use super::resolve::NAME_MAX;
use super::{Disk, READ, SEARCH, WRITE, errno};
use crate::backend::file::{EntryChange, FileKind, RenameHow, Timestamp};
use crate::backend::sim::engine::Engine;

/// A directory, and a name in it.
type NameEntry<'a> = (&'a Rc<Inode>, &'a [u8]);

impl Disk {
    /// Makes a file, or opens what is there unless the file must be new (open(2), O_CREAT, O_EXCL).
    ///
    /// # Errors
    /// `EEXIST` where it must be new; `EISDIR`, and `ELOOP` for a symbolic link, where it may be there.
    pub(crate) fn create_at(
        &mut self,
        dir: &Rc<Inode>,
        name: &[u8],
        mode: u32,
        exclusive: bool,
        engine: &mut Engine,
    ) -> io::Result<Rc<Inode>> {
        match self.look_up(dir, name)? {
            Some(_) if exclusive => Err(errno(libc::EEXIST)),
            Some(_) if self.config.read_only => Err(errno(libc::EROFS)),
            Some(found) => match found.kind() {
                FileKind::Directory => Err(errno(libc::EISDIR)),
                FileKind::Symlink => Err(errno(libc::ELOOP)),
                FileKind::Other => Err(errno(libc::ENXIO)),
                FileKind::File => {
                    self.check_access(&found, READ | WRITE)?;
                    Ok(found)
                }
            },
            None => {
                let content = Node::File(RefCell::new(Content::empty(&self.space)));
                self.add(dir, name, content, mode & 0o7777 & !UMASK, engine)
            }
        }
    }

    /// Makes a file without a name (open(2), O_TMPFILE). [`Disk::link_at`] may give it one.
    pub(crate) fn temporary(
        &mut self,
        dir: &Rc<Inode>,
        mode: u32,
        engine: &mut Engine,
    ) -> io::Result<Rc<Inode>> {
        dir.directory()?;
        if !self.config.unnamed {
            return Err(errno(libc::EOPNOTSUPP));
        }
        self.begin(self.config.change_error, engine)?;
        self.check_access(dir, WRITE | SEARCH)?;
        let node = Node::File(RefCell::new(Content::empty(&self.space)));
        let inode = self.new_inode(dir, node, mode & 0o7777 & !UMASK, engine)?;
        inode.is_temporary.set(true);
        Ok(inode)
    }

    pub(crate) fn mkdir_at(
        &mut self,
        dir: &Rc<Inode>,
        name: &[u8],
        mode: u32,
        engine: &mut Engine,
    ) -> io::Result<()> {
        self.check_absent(dir, name)?;
        self.add(dir, name, Node::Directory(RefCell::default()), mode & 0o1777 & !UMASK, engine).map(drop)
    }

    /// Makes a symbolic link with any target.
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
        if target.len() >= super::resolve::PATH_MAX {
            return Err(errno(libc::ENAMETOOLONG));
        }
        self.check_absent(dir, name)?;
        self.add(dir, name, Node::Symlink(target.to_vec()), 0o777, engine).map(drop)
    }

    /// Gives a file one more name (linkat(2)).
    pub(crate) fn link_at(
        &mut self,
        inode: &Rc<Inode>,
        dir: &Rc<Inode>,
        name: &[u8],
        engine: &mut Engine,
    ) -> io::Result<()> {
        self.check_absent(dir, name)?;
        self.begin(self.config.change_error, engine)?;
        self.check_place(dir)?;
        if inode.is_directory() {
            return Err(errno(libc::EPERM));
        }
        if inode.nlink.get() == 0 && !inode.is_temporary.get() {
            return Err(errno(libc::ENOENT));
        }
        if inode.nlink.get() >= self.config.links_max {
            return Err(errno(libc::EMLINK));
        }
        let (stamp, mut record) = (self.stamp(engine), Record::new());
        inode.nlink.set(inode.nlink.get() + 1);
        inode.is_temporary.set(false);
        inode.changed(stamp, &mut record);
        self.watches.itself_changed(inode.serial(), engine);
        inode.put_at(dir, name, None, &mut record);
        self.entry_changed((dir, name), inode.is_directory(), EntryChange::Added, stamp, &mut record, engine);
        self.journal.push(record);
        Ok(())
    }

    /// Takes away a name that is no directory's.
    pub(crate) fn unlink_at(&mut self, dir: &Rc<Inode>, name: &[u8], engine: &mut Engine) -> io::Result<()> {
        let inode = self.look_up_to_change(dir, name, engine)?;
        if inode.is_directory() {
            return Err(errno(libc::EISDIR));
        }
        self.take(dir, name, engine);
        Ok(())
    }

    /// Takes an empty directory away.
    pub(crate) fn rmdir_at(&mut self, dir: &Rc<Inode>, name: &[u8], engine: &mut Engine) -> io::Result<()> {
        let inode = self.look_up_to_change(dir, name, engine)?;
        if !inode.directory()?.borrow().is_empty() {
            return Err(errno(libc::ENOTEMPTY));
        }
        self.take(dir, name, engine);
        Ok(())
    }

    /// Moves a name between directories (renameat2(2)).
    pub(crate) fn rename_at(
        &mut self,
        (from_dir, from): NameEntry<'_>,
        (to_dir, to): NameEntry<'_>,
        how: RenameHow,
        engine: &mut Engine,
    ) -> io::Result<()> {
        self.begin(self.config.change_error, engine)?;
        let moved = self.look_up(from_dir, from)?.ok_or_else(|| errno(libc::ENOENT))?;
        let before = self.look_up(to_dir, to)?;
        match (how, &before) {
            (RenameHow::NoReplace, Some(_)) => return Err(errno(libc::EEXIST)),
            (RenameHow::Exchange, None) => return Err(errno(libc::ENOENT)),
            _ => {}
        }
        if to_dir.is_within(&moved) {
            return Err(errno(libc::EINVAL));
        }
        if before.as_ref().is_some_and(|before| from_dir.is_within(before)) {
            let is_exchange = how == RenameHow::Exchange;
            return Err(errno(if is_exchange { libc::EINVAL } else { libc::ENOTEMPTY }));
        }
        let before = match before {
            Some(before) if Rc::ptr_eq(&before, &moved) => return Ok(()),
            before => before,
        };
        self.check_access(from_dir, WRITE | SEARCH)?;
        self.check_place(to_dir)?;
        let places = ((from_dir, from), (to_dir, to));
        match (how, before) {
            (RenameHow::Exchange, Some(before)) => self.exchange(places, &moved, &before, engine),
            (_, before) => {
                self.check_replace(&moved, before.as_ref())?;
                self.check_leaves(&moved, from_dir, to_dir)?;
                self.move_name(places, &moved, before, engine);
                Ok(())
            }
        }
    }

    /// Checks whether the inode `moved` may take the place of `before`.
    fn check_replace(&self, moved: &Inode, before: Option<&Rc<Inode>>) -> io::Result<()> {
        let Some(before) = before else { return Ok(()) };
        match (moved.is_directory(), before.directory()) {
            (true, Ok(entries)) if !entries.borrow().is_empty() => Err(errno(libc::ENOTEMPTY)),
            (true, Err(_)) => Err(errno(libc::ENOTDIR)),
            (false, Ok(_)) => Err(errno(libc::EISDIR)),
            _ => Ok(()),
        }
    }

    /// Checks whether a directory may get another parent: the directory is written to, and the parent has one
    /// more link.
    fn check_leaves(&self, moved: &Inode, from: &Rc<Inode>, to: &Rc<Inode>) -> io::Result<()> {
        if !moved.is_directory() || Rc::ptr_eq(from, to) {
            return Ok(());
        }
        self.check_access(moved, WRITE)?;
        if to.nlink.get() >= self.config.links_max { Err(errno(libc::EMLINK)) } else { Ok(()) }
    }

    fn move_name(
        &mut self,
        ((from_dir, from), (to_dir, to)): (NameEntry<'_>, NameEntry<'_>),
        moved: &Rc<Inode>,
        before: Option<Rc<Inode>>,
        engine: &mut Engine,
    ) {
        let (stamp, mut record) = (self.stamp(engine), Record::new());
        let replaced = before.as_ref().map(|before| before.serial());
        if let Some(before) = before {
            self.drop_link(&before, to_dir, to, stamp, &mut record);
        }
        let name = moved.take_from(from_dir, from);
        record.push(no_name(from_dir, from));
        moved.put_at(to_dir, to, name, &mut record);
        moved.changed(stamp, &mut record);
        let (removed, added) = (EntryChange::MovedAway, EntryChange::MovedHere);
        self.entry_changed((from_dir, from), moved.is_directory(), removed, stamp, &mut record, engine);
        self.entry_changed((to_dir, to), moved.is_directory(), added, stamp, &mut record, engine);
        // What was replaced has lost a link, which is an attribute.
        replaced.into_iter().for_each(|serial| self.watches.itself_changed(serial, engine));
        self.watches.moved(moved.serial(), engine);
        self.journal.push(record);
        self.sweep(engine);
    }

    fn exchange(
        &mut self,
        ((from_dir, from), (to_dir, to)): (NameEntry<'_>, NameEntry<'_>),
        one: &Rc<Inode>,
        other: &Rc<Inode>,
        engine: &mut Engine,
    ) -> io::Result<()> {
        self.check_leaves(one, from_dir, to_dir)?;
        self.check_leaves(other, to_dir, from_dir)?;
        let (stamp, mut record) = (self.stamp(engine), Record::new());
        let (one_name, other_name) = (one.take_from(from_dir, from), other.take_from(to_dir, to));
        one.put_at(to_dir, to, one_name, &mut record);
        other.put_at(from_dir, from, other_name, &mut record);
        // Reported as two moves, one after the other.
        for (moved, (dir, name), (other_dir, other_name)) in
            [(one, (from_dir, from), (to_dir, to)), (other, (to_dir, to), (from_dir, from))]
        {
            moved.changed(stamp, &mut record);
            let (removed, added) = (EntryChange::MovedAway, EntryChange::MovedHere);
            self.entry_changed((dir, name), moved.is_directory(), removed, stamp, &mut record, engine);
            self.entry_changed(
                (other_dir, other_name),
                moved.is_directory(),
                added,
                stamp,
                &mut record,
                engine,
            );
            self.watches.moved(moved.serial(), engine);
        }
        self.journal.push(record);
        Ok(())
    }

    /// Puts something new at a name that is free.
    pub(super) fn add(
        &mut self,
        dir: &Rc<Inode>,
        name: &[u8],
        node: Node,
        mode: u32,
        engine: &mut Engine,
    ) -> io::Result<Rc<Inode>> {
        self.begin(self.config.change_error, engine)?;
        self.check_place(dir)?;
        if matches!(node, Node::Directory(_)) && dir.nlink.get() >= self.config.links_max {
            return Err(errno(libc::EMLINK));
        }
        let inode = self.new_inode(dir, node, mode, engine)?;
        let (stamp, mut record) = (self.stamp(engine), Record::new());
        inode.nlink.set(if inode.is_directory() { 2 } else { 1 });
        inode.put_at(dir, name, None, &mut record);
        self.entry_changed((dir, name), inode.is_directory(), EntryChange::Added, stamp, &mut record, engine);
        self.journal.push(record);
        Ok(inode)
    }

    /// Takes away a name that is there.
    pub(super) fn take(&mut self, dir: &Rc<Inode>, name: &[u8], engine: &mut Engine) {
        let found = dir.directory().ok().and_then(|entries| entries.borrow().get(name).cloned());
        let Some(inode) = found else { return };
        let (stamp, mut record) = (self.stamp(engine), Record::new());
        self.drop_link(&inode, dir, name, stamp, &mut record);
        record.push(no_name(dir, name));
        let is_directory = inode.is_directory();
        if !is_directory {
            self.watches.itself_changed(inode.serial(), engine);
        }
        drop(inode);
        if is_directory {
            self.sweep(engine);
        }
        self.entry_changed((dir, name), is_directory, EntryChange::Removed, stamp, &mut record, engine);
        self.sweep(engine);
        self.journal.push(record);
    }

    /// Takes a name from an inode, and writes to `record` what becomes of that.
    pub(super) fn drop_link(
        &mut self,
        inode: &Rc<Inode>,
        dir: &Rc<Inode>,
        name: &[u8],
        stamp: Timestamp,
        record: &mut Record,
    ) {
        inode.take_from(dir, name);
        match inode.is_directory() {
            true => {
                inode.nlink.set(0);
                self.removed.push((inode.serial(), Rc::downgrade(inode)));
            }
            false => inode.nlink.set(inode.nlink.get() - 1),
        }
        if inode.nlink.get() == 0 && !inode.is_directory() && self.watches.are_of(inode.serial()) {
            self.removed.push((inode.serial(), Rc::downgrade(inode)));
        }
        inode.changed(stamp, record);
    }

    /// Concludes a change of a directory's entry: moves the directory's time and tells its watchers.
    pub(super) fn entry_changed(
        &mut self,
        (dir, name): (&Rc<Inode>, &[u8]),
        is_directory: bool,
        what: EntryChange,
        stamp: Timestamp,
        record: &mut Record,
        engine: &mut Engine,
    ) {
        dir.modified(stamp, record);
        self.watches.entry_changed((dir, name), is_directory, what, engine);
    }

    /// Returns the inode with this name, a link itself.
    pub(crate) fn child(&self, dir: &Rc<Inode>, name: &[u8], engine: &mut Engine) -> io::Result<Rc<Inode>> {
        self.may_fail(self.config.name_error, engine)?;
        self.look_up(dir, name)?.ok_or_else(|| errno(libc::ENOENT))
    }

    /// Returns the inode that a name stands for, or `None`.
    fn look_up(&self, dir: &Rc<Inode>, name: &[u8]) -> io::Result<Option<Rc<Inode>>> {
        let entries = dir.directory()?;
        self.check_access(dir, SEARCH)?;
        if name.len() > NAME_MAX {
            return Err(errno(libc::ENAMETOOLONG));
        }
        let found = entries.borrow().get(name).cloned();
        if let Some(found) = &found {
            found.found_in(dir, name);
        }
        Ok(found)
    }

    fn check_absent(&self, dir: &Rc<Inode>, name: &[u8]) -> io::Result<()> {
        match self.look_up(dir, name)? {
            Some(_) => Err(errno(libc::EEXIST)),
            None => Ok(()),
        }
    }

    /// Returns the inode that is about to lose its name.
    fn look_up_to_change(
        &mut self,
        dir: &Rc<Inode>,
        name: &[u8],
        engine: &mut Engine,
    ) -> io::Result<Rc<Inode>> {
        self.begin(self.config.change_error, engine)?;
        let inode = self.look_up(dir, name)?.ok_or_else(|| errno(libc::ENOENT))?;
        self.check_access(dir, WRITE | SEARCH)?;
        Ok(inode)
    }

    /// Checks whether a directory takes new names; `ENOENT` for a directory that was removed.
    fn check_place(&self, dir: &Inode) -> io::Result<()> {
        if dir.nlink.get() == 0 {
            return Err(errno(libc::ENOENT));
        }
        self.check_access(dir, WRITE | SEARCH)
    }
}

impl Inode {
    /// Gives the inode a name, with the record of an earlier name if moved. Another inode with that name
    /// loses it.
    pub(super) fn put_at(
        self: &Rc<Self>,
        dir: &Rc<Self>,
        name: &[u8],
        moved: Option<Rc<Name>>,
        record: &mut Record,
    ) {
        let kept = moved.unwrap_or_else(|| Name::new(dir, name));
        kept.dir.replace(Rc::downgrade(dir));
        kept.called.replace(name.to_vec());
        self.found_by.replace(Some(Rc::clone(&kept)));
        self.names.borrow_mut().push(kept);
        let entries = dir.directory().expect("names are in directories");
        entries.borrow_mut().insert(name.to_vec(), Rc::clone(self));
        if self.is_directory() {
            dir.nlink.set(dir.nlink.get() + 1);
        }
        let to = Some(Rc::clone(&self.stored));
        record.push(Change::Name { dir: Rc::clone(&dir.stored), name: name.to_vec(), to });
    }

    /// Takes a name from the inode and returns the name's record, if it had the name.
    fn take_from(&self, dir: &Rc<Self>, name: &[u8]) -> Option<Rc<Name>> {
        let mut names = self.names.borrow_mut();
        let index = names.iter().position(|kept| kept.is(dir, name));
        let lost = index.map(|index| names.swap_remove(index));
        let entries = dir.directory().expect("names are in directories");
        let taken = entries.borrow_mut().remove(name);
        if self.is_directory() {
            dir.nlink.set(dir.nlink.get() - 1);
        }
        drop(taken);
        lost
    }

    /// Returns whether the inode is `outer` or lies beneath it.
    fn is_within(self: &Rc<Self>, outer: &Rc<Self>) -> bool {
        let mut at = Some(Rc::clone(self));
        while let Some(here) = at {
            if Rc::ptr_eq(&here, outer) {
                return true;
            }
            at = here.parent();
        }
        false
    }
}

/// Returns the change after which a name stands for nothing.
fn no_name(dir: &Rc<Inode>, name: &[u8]) -> Change {
    Change::Name { dir: Rc::clone(&dir.stored), name: name.to_vec(), to: None }
}

/// Mode bits that the process withholds (umask(2)).
const UMASK: u32 = 0o022;
