//! Operations of tests on a host's files while the world runs.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use super::content::Content;
use super::image::Image;
use super::inode::{Inode, Node};
use super::journal::Record;
use super::locks::ForeignLock;
use super::tree::{Found, Unnamed};
use super::{Cut, Disk, OpenFile};
use crate::backend::file::{Allocate, LockKind, RenameHow, SetTime, Stat, SystemStat, Timestamp, XattrHow};
use crate::backend::sim::config::FsConfig;
use crate::backend::sim::core::{Access, Core};
use crate::backend::sim::engine::Engine;
use crate::backend::sim::net::HostId;

/// A handle on the files of one host. Clones act on the same files; futures may hold one. Paths are absolute.
/// Changes take no time, no configured fault strikes them and no permission is asked; they fail as the system call would
/// otherwise. Every change is synced unless said otherwise, and with it all changes of names and attributes before it.
#[derive(Clone)]
pub struct Fs {
    core: Rc<Core>,
    host: HostId,
    synced: bool,
}

/// Writes to one file without syncing: what is not synced when the host loses power is torn.
#[derive(Clone)]
pub struct Writer {
    fs: Fs,
    path: Vec<u8>,
}

impl Fs {
    pub(in crate::backend::sim) fn new(core: Rc<Core>, host: HostId) -> Self {
        Self { core, host, synced: true }
    }

    /// Returns a handle to the same files, with changes that are not synced: a loss of power may undo any
    /// since the last [`Fs::sync`].
    pub fn unsynced(&self) -> Self {
        Self { synced: false, ..self.clone() }
    }

    /// Makes a directory, and every directory above that is not there.
    pub fn create_dir_all(&self, path: &str) -> io::Result<()> {
        self.act(|disk, engine| disk.make_directories(path.as_bytes(), engine))
    }

    /// Writes a file in place, as truncating and writing do; makes the file, and the directories above, if
    /// none is there.
    pub fn write(&self, path: &str, bytes: impl Into<Vec<u8>>) -> io::Result<()> {
        let bytes = bytes.into();
        self.act(|disk, engine| {
            let file = disk.file_at(path.as_bytes(), engine)?;
            let mut content = file.content()?.borrow_mut();
            let record = match self.synced {
                true => {
                    content.replace(&bytes);
                    Record::new()
                }
                false => {
                    let resized = disk.resize(&file, content.resize(0));
                    content.write(0, &bytes);
                    resized
                }
            };
            drop(content);
            disk.written(&file, record, engine);
            Ok(())
        })
    }

    /// Puts a new file in place of what has the name, as writing aside and renaming do. Descriptors that have
    /// the old one open keep it.
    pub fn replace(&self, path: &str, bytes: impl Into<Vec<u8>>) -> io::Result<()> {
        let bytes = bytes.into();
        self.act(|disk, engine| disk.replace(path.as_bytes(), &bytes, self.synced, engine))
    }

    /// Appends bytes to a file.
    pub fn append(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.modify(path.as_bytes(), |content| {
            let end = content.len();
            content.write(end, bytes);
        })
    }

    /// Writes bytes into a file at an offset.
    pub fn write_at(&self, path: &str, offset: usize, bytes: &[u8]) -> io::Result<()> {
        self.modify(path.as_bytes(), |content| content.write(offset, bytes))
    }

    /// Sets a file's length, in bytes.
    pub fn truncate(&self, path: &str, len: usize) -> io::Result<()> {
        self.act_on(path, true, |disk, inode, engine| disk.truncate(inode, len as u64, engine))
    }

    /// Takes or gives back room for a range of a file.
    pub fn allocate(&self, path: &str, how: Allocate, range: Range<u64>) -> io::Result<()> {
        let len = range.end.saturating_sub(range.start);
        self.act_on(path, true, |disk, inode, engine| disk.allocate(inode, how, range.start, len, engine))
    }

    /// Gives the file at `to` the content of the file at `from`, which the two share until either changes.
    pub fn reflink(&self, from: &str, to: &str) -> io::Result<()> {
        self.act(|disk, engine| {
            let (from, to) = (disk.find(from.as_bytes(), true)?, disk.file_at(to.as_bytes(), engine)?);
            disk.reflink(&from, &to, engine)?;
            self.settle(&to)
        })
    }

    /// Takes a name away; a directory goes with all beneath.
    pub fn remove(&self, path: &str) -> io::Result<()> {
        self.act(|disk, engine| disk.remove(path.as_bytes(), engine))
    }

    /// Moves a name, over what has the new name.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename_with(from, to, RenameHow::Replace)
    }

    /// Moves a name as renameat2(2) with the flags of `how` does.
    pub fn rename_with(&self, from: &str, to: &str, how: RenameHow) -> io::Result<()> {
        self.act(|disk, engine| disk.rename_path(from.as_bytes(), to.as_bytes(), how, engine))
    }

    /// Makes a symbolic link at `path`.
    pub fn symlink(&self, target: &str, path: &str) -> io::Result<()> {
        self.act(|disk, engine| disk.make(path.as_bytes(), Node::Symlink(target.into()), engine))
    }

    /// Gives a file one more name.
    pub fn hard_link(&self, from: &str, to: &str) -> io::Result<()> {
        self.act(|disk, engine| disk.link_path(from.as_bytes(), to.as_bytes(), engine))
    }

    /// Makes a pipe: something that must never be opened.
    pub fn pipe(&self, path: &str) -> io::Result<()> {
        self.act(|disk, engine| disk.make(path.as_bytes(), Node::Special, engine))
    }

    /// Sets permission bits, not following a link at the path's end.
    pub fn set_mode(&self, path: &str, mode: u32) -> io::Result<()> {
        self.act_on(path, false, |disk, inode, engine| disk.chmod(inode, mode, engine))
    }

    /// Sets owner and group.
    pub fn set_owner(&self, path: &str, uid: u32, gid: u32) -> io::Result<()> {
        self.act_on(path, false, |disk, inode, engine| disk.chown(inode, Some(uid), Some(gid), engine))
    }

    /// Sets the time of the last change of a file's content.
    pub fn set_mtime(&self, path: &str, mtime: Timestamp) -> io::Result<()> {
        let mtime = SetTime::At(mtime);
        self.act_on(path, false, |disk, inode, engine| disk.utimens(inode, SetTime::Keep, mtime, engine))
    }

    /// Sets an extended attribute to `value`.
    pub fn set_xattr(&self, path: &str, name: &str, value: &[u8]) -> io::Result<()> {
        self.act_on(path, false, |disk, inode, engine| {
            disk.xattr_set(inode, name.as_bytes(), value, XattrHow::Any, engine)
        })
    }

    /// Takes an extended attribute away.
    pub fn remove_xattr(&self, path: &str, name: &str) -> io::Result<()> {
        self.act_on(path, false, |disk, inode, engine| disk.xattr_remove(inode, name.as_bytes(), engine))
    }

    /// Puts a range of a file out of the page cache.
    pub fn evict(&self, path: &str, range: Range<u64>) -> io::Result<()> {
        self.act(|disk, _| {
            disk.find(path.as_bytes(), true)?.evict(range);
            Ok(())
        })
    }

    /// Makes what `path` names safe: a file's content and attributes, a directory's names (fsync(2)). Whether
    /// a file's name is safe with it, the dice say.
    pub fn sync(&self, path: &str) -> io::Result<()> {
        self.only_act(|disk, engine| {
            let inode = disk.find(path.as_bytes(), true)?;
            disk.sync(&OpenFile::new(inode, Access::Read, NOBODY), false, engine)
        })
    }

    /// Makes everything safe (syncfs(2)).
    pub fn sync_all(&self) -> io::Result<()> {
        self.only_act(Disk::sync_all)
    }

    /// Returns how often a send of file pages has kept a lane waiting for the disk.
    pub fn blocked_sends(&self) -> u64 {
        self.core.with(|state| state.disks[self.host.0].blocked.get())
    }

    /// Returns the bytes of a file as readers see them.
    pub fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.only_act(|disk, _| Ok(disk.find(path.as_bytes(), true)?.content()?.borrow().to_vec()))
    }

    /// Returns the attributes of what `path` names, not following a link at the path's end.
    pub fn stat(&self, path: &str) -> io::Result<Stat> {
        self.only_act(|disk, _| Ok(disk.find(path.as_bytes(), false)?.stat()))
    }

    /// Returns how full the file system is (fstatfs(2)).
    pub fn system(&self) -> SystemStat {
        self.core.with(|state| state.disks[self.host.0].statfs())
    }

    /// Returns the whole tree by path, but for the root, as processes see it.
    pub fn tree(&self) -> BTreeMap<String, Found> {
        self.core.with(|state| state.disks[self.host.0].tree())
    }

    /// Returns counts of what takes room though no name leads there.
    pub fn unnamed(&self) -> Unnamed {
        self.core.with(|state| state.disks[self.host.0].unnamed())
    }

    /// Returns all that is safe, by path: what a loss of power now leaves if nothing more has come to the
    /// disk.
    pub fn tree_on_disk(&self) -> BTreeMap<String, Found> {
        self.core.with(|state| state.disks[self.host.0].tree_on_disk())
    }

    /// Returns an image of the whole disk as processes see it, to be [set back](Fs::set_back) to.
    pub fn image(&self) -> Image {
        self.core.with(|state| state.disks[self.host.0].image())
    }

    /// Sets the whole disk, safely, to what it was when the image was made. Given out again is what was given
    /// out since: inode numbers with their generations. For a host without a process
    /// ([`Host::kill`](super::super::Host::kill), [`Host::lose_power`](super::super::Host::lose_power)).
    pub fn set_back(&self, image: &Image) {
        self.core.with(|state| state.disks[self.host.0].set_back(image));
    }

    /// Returns a writer with writes that are not synced; makes the file, and the directories above, if none
    /// is there.
    pub fn writer(&self, path: &str) -> io::Result<Writer> {
        self.act(|disk, engine| disk.file_at(path.as_bytes(), engine).map(drop))?;
        Ok(Writer { fs: self.unsynced(), path: path.into() })
    }

    /// Locks a range of a file as another process of the host does, until the returned lock is dropped.
    ///
    /// # Errors
    /// `EAGAIN` while the server has a lock that it cannot share.
    pub fn lock(&self, path: &str, range: Range<u64>, kind: LockKind) -> io::Result<ForeignLock> {
        self.only_act(|disk, _| {
            let inode = disk.find(path.as_bytes(), true)?;
            let owner = FOREIGN + disk.next_serial();
            ForeignLock::set(inode, owner, range, kind)
        })
    }

    /// Drops the change events queued for every lane, and tells each lane only that events are lost.
    pub fn overflow_watches(&self) {
        self.core.with(|state| state.disks[self.host.0].watches.overflow(&mut state.engine));
    }

    /// Changes delays and fault rates.
    pub fn configure(&self, change: impl FnOnce(&mut FsConfig)) {
        self.core.with(|state| {
            let disk = state.disk(self.host);
            change(&mut disk.config);
            disk.configured();
        });
    }

    /// Returns the changes, writes and syncs that the host's server has begun so far.
    pub fn steps(&self) -> u64 {
        self.core.with(|state| state.disks[self.host.0].steps)
    }

    /// Cuts the host's power just before the server begins the change, write or sync after `steps` more.
    /// Works as [`Host::lose_power`](crate::backend::sim::Host::lose_power); nothing after that is done. What
    /// the server waits for then never comes.
    pub fn lose_power_after(&self, steps: u64) {
        self.cut_after(steps, Cut::Power);
    }

    /// Kills only the process after `steps` more changes, as [`Host::kill`](crate::backend::sim::Host::kill)
    /// does ([`Fs::lose_power_after`]).
    pub fn kill_after(&self, steps: u64) {
        self.cut_after(steps, Cut::Process);
    }

    fn cut_after(&self, steps: u64, cut: Cut) {
        self.core.with(|state| {
            let disk = state.disk(self.host);
            disk.cut = Some((disk.steps + steps, cut));
        });
    }

    /// Changes bytes of a file in place.
    fn modify(&self, path: &[u8], change: impl FnOnce(&mut Content)) -> io::Result<()> {
        self.act(|disk, engine| {
            let inode = disk.find(path, true)?;
            change(&mut inode.content()?.borrow_mut());
            disk.written(&inode, Record::new(), engine);
            self.settle(&inode)
        })
    }

    /// Acts on what `path` names.
    fn act_on(
        &self,
        path: &str,
        follow: bool,
        act: impl FnOnce(&mut Disk, &Rc<Inode>, &mut Engine) -> io::Result<()>,
    ) -> io::Result<()> {
        self.act(|disk, engine| {
            let inode = disk.find(path.as_bytes(), follow)?;
            act(disk, &inode, engine)?;
            self.settle(&inode)
        })
    }

    /// Makes a file's content safe, if this handle's changes are safe.
    fn settle(&self, inode: &Inode) -> io::Result<()> {
        if let (true, Ok(content)) = (self.synced, inode.content()) {
            content.borrow_mut().sync();
        }
        Ok(())
    }

    /// Runs `act`, and makes names and attributes safe if this handle's changes are safe.
    fn act<R>(&self, act: impl FnOnce(&mut Disk, &mut Engine) -> io::Result<R>) -> io::Result<R> {
        self.only_act(|disk, engine| {
            let result = act(disk, engine);
            if self.synced {
                disk.journal.commit_all();
            }
            result
        })
    }

    fn only_act<R>(&self, act: impl FnOnce(&mut Disk, &mut Engine) -> io::Result<R>) -> io::Result<R> {
        self.core.with_disk(self.host, |disk, engine| {
            disk.by_test = true;
            let result = act(disk, engine);
            disk.by_test = false;
            result
        })
    }
}

impl Writer {
    /// Writes bytes at an offset, which readers see at once.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        self.fs.modify(&self.path, |content| content.write(offset, bytes))
    }

    /// Sets the file's length, in bytes.
    pub fn truncate(&self, len: usize) -> io::Result<()> {
        self.fs.act(|disk, engine| {
            let inode = disk.find(&self.path, true)?;
            disk.truncate(&inode, len as u64, engine)
        })
    }

    /// Makes all bytes written safe (fsync(2)).
    pub fn sync(&self) -> io::Result<()> {
        self.fs.only_act(|disk, engine| {
            let inode = disk.find(&self.path, true)?;
            disk.sync(&OpenFile::new(inode, Access::Write, NOBODY), false, engine)
        })
    }
}

/// A lock owner that holds no locks.
const NOBODY: u64 = u64::MAX;
/// First owner of locks that is another process.
const FOREIGN: u64 = 1 << 63;
