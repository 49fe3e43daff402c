//! What a test may do to a host's files while the world runs.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use super::content::Content;
use super::{Disk, Node};
use crate::backend::file::{Stat, Timestamp};
use crate::backend::sim::config::FsConfig;
use crate::backend::sim::core::Core;
use crate::backend::sim::engine::Engine;
use crate::backend::sim::net::HostId;

/// A handle on the files of one host. Clones act on the same files; futures may hold one. Paths are absolute.
/// Every change is synced unless said otherwise, takes no time, and fails as the system call would.
#[derive(Clone)]
pub struct Fs {
    core: Rc<Core>,
    host: HostId,
}

/// Writes to one file without syncing: what is not synced when the host loses power is torn.
#[derive(Clone)]
pub struct Writer {
    fs: Fs,
    path: Vec<u8>,
}

impl Fs {
    pub(in crate::backend::sim) fn new(core: Rc<Core>, host: HostId) -> Self {
        Self { core, host }
    }

    /// Makes a directory and all above it.
    pub fn create_dir_all(&self, path: &str) -> io::Result<()> {
        self.act(|disk, engine| disk.make_directories(path.as_bytes(), engine))
    }

    /// Writes a file in place, as truncating and writing do; makes it, and the directories above it, if it
    /// is not there.
    pub fn write(&self, path: &str, bytes: impl Into<Vec<u8>>) -> io::Result<()> {
        let (path, bytes) = (path.as_bytes(), bytes.into());
        self.act(|disk, engine| {
            make_parents(disk, path, engine)?;
            match disk.find(path, true) {
                Ok(_) => disk.modify(path, engine, |content| *content = Content::synced(bytes)),
                Err(_) => disk.create(path, file(bytes), engine).map(drop),
            }
        })
    }

    /// Puts a new file in place of what has the name, as writing aside and renaming do. Who has the old one
    /// open keeps it.
    pub fn replace(&self, path: &str, bytes: impl Into<Vec<u8>>) -> io::Result<()> {
        self.act(|disk, engine| disk.replace(path.as_bytes(), bytes.into(), engine))
    }

    /// Adds to the end of a file.
    pub fn append(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.modify(path, |content| {
            let end = content.bytes().len();
            content.write_at(end, bytes);
            content.sync();
        })
    }

    /// Sets a file's length.
    pub fn truncate(&self, path: &str, len: usize) -> io::Result<()> {
        self.modify(path, |content| {
            content.resize(len);
            content.sync();
        })
    }

    /// Takes a name away; a directory goes with all beneath it.
    pub fn remove(&self, path: &str) -> io::Result<()> {
        self.act(|disk, engine| disk.remove(path.as_bytes(), engine))
    }

    /// Moves a name.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.act(|disk, engine| disk.rename(from.as_bytes(), to.as_bytes(), engine))
    }

    /// Makes a symbolic link at `path`.
    pub fn symlink(&self, target: &str, path: &str) -> io::Result<()> {
        self.create(path, Node::Symlink(target.into()))
    }

    /// Gives a file one more name.
    pub fn hard_link(&self, from: &str, to: &str) -> io::Result<()> {
        self.act(|disk, engine| disk.link(from.as_bytes(), to.as_bytes(), engine))
    }

    /// Makes a pipe: something that must never be opened.
    pub fn pipe(&self, path: &str) -> io::Result<()> {
        self.create(path, Node::Special)
    }

    /// Sets permission bits.
    pub fn set_mode(&self, path: &str, mode: u32) -> io::Result<()> {
        self.act(|disk, engine| disk.set_attributes(path.as_bytes(), Some(mode), None, engine))
    }

    /// Sets the time of the last change of the content.
    pub fn set_mtime(&self, path: &str, mtime: Timestamp) -> io::Result<()> {
        self.act(|disk, engine| disk.set_attributes(path.as_bytes(), None, Some(mtime), engine))
    }

    /// Puts a range of a file out of the page cache.
    pub fn evict(&self, path: &str, range: Range<u64>) -> io::Result<()> {
        self.act(|disk, _| {
            disk.find(path.as_bytes(), true)?.evict(range);
            Ok(())
        })
    }

    /// How often a send of file pages has kept a lane waiting for the disk.
    pub fn blocked_sends(&self) -> u64 {
        self.core.with(|state| state.disks[self.host.0].blocked.get())
    }

    /// The bytes of a file as readers see them.
    pub fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.act(|disk, _| Ok(disk.find(path.as_bytes(), true)?.content()?.borrow().bytes().to_vec()))
    }

    /// Attributes of what `path` names, not following a link at its end.
    pub fn stat(&self, path: &str) -> io::Result<Stat> {
        self.act(|disk, _| Ok(disk.find(path.as_bytes(), false)?.stat()))
    }

    /// A writer whose writes are not synced. Makes the file, and the directories above it, if it is not there.
    pub fn writer(&self, path: &str) -> io::Result<Writer> {
        self.act(|disk, engine| {
            make_parents(disk, path.as_bytes(), engine)?;
            if disk.find(path.as_bytes(), true).is_err() {
                disk.create(path.as_bytes(), file(Vec::new()), engine)?;
            }
            Ok(())
        })?;
        Ok(Writer { fs: self.clone(), path: path.into() })
    }

    /// Loses the change events queued for every lane, which learn only that they are lost.
    pub fn overflow_watches(&self) {
        self.core.with(|state| state.disks[self.host.0].watches.overflow(&mut state.engine));
    }

    /// Changes delays and fault rates.
    pub fn configure(&self, change: impl FnOnce(&mut FsConfig)) {
        self.core.with(|state| change(&mut state.disk(self.host).config));
    }

    fn create(&self, path: &str, node: Node) -> io::Result<()> {
        self.act(|disk, engine| {
            make_parents(disk, path.as_bytes(), engine)?;
            disk.create(path.as_bytes(), node, engine).map(drop)
        })
    }

    fn modify(&self, path: &str, change: impl FnOnce(&mut Content)) -> io::Result<()> {
        self.act(|disk, engine| disk.modify(path.as_bytes(), engine, change))
    }

    fn act<R>(&self, act: impl FnOnce(&mut Disk, &mut Engine) -> io::Result<R>) -> io::Result<R> {
        self.core.with_disk(self.host, act)
    }
}

impl Writer {
    /// Writes at an offset; readers see it at once.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        self.modify(|content| content.write_at(offset, bytes))
    }

    /// Sets the length.
    pub fn truncate(&self, len: usize) -> io::Result<()> {
        self.modify(|content| content.resize(len))
    }

    /// Makes all that was written safe.
    pub fn sync(&self) -> io::Result<()> {
        self.fs.act(|disk, _| {
            disk.find(&self.path, true)?.content()?.borrow_mut().sync();
            Ok(())
        })
    }

    fn modify(&self, change: impl FnOnce(&mut Content)) -> io::Result<()> {
        self.fs.act(|disk, engine| disk.modify(&self.path, engine, change))
    }
}

fn file(bytes: Vec<u8>) -> Node {
    Node::File(RefCell::new(Content::synced(bytes)))
}

fn make_parents(disk: &mut Disk, path: &[u8], engine: &mut Engine) -> io::Result<()> {
    let (parent, _) = super::resolve::split_last(path);
    disk.make_directories(parent, engine)
}
