//! Operations on files and directories that change neither: open, read, look up, list.

use std::ffi::CString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::ops::Range;
use std::rc::Rc;

use rand::Rng;
use rand::seq::SliceRandom;

use super::resolve::{Rules, canonical, resolve};
use super::{Disk, Inode, READ, WRITE, errno};
use crate::backend::file::{DirEntry, DirPart, FileKind, NamesPart, OpenHow, OpenKind, Stat};
use crate::backend::sim::engine::Engine;

impl Disk {
    /// Reads if the page cache has the bytes; `None` is a miss.
    pub(crate) fn try_read(
        &self,
        inode: &Inode,
        offset: u64,
        into: &mut [u8],
        engine: &mut Engine,
    ) -> io::Result<Option<usize>> {
        if engine.chance(self.config.cold_read) || inode.cold_from(offset, into.len()).is_some() {
            inode.content()?;
            return Ok(None);
        }
        self.read(inode, offset, into, engine).map(Some)
    }

    /// Reads bytes; gives fewer than asked for at the end of the file, and at random.
    pub(crate) fn read(
        &self,
        inode: &Inode,
        offset: u64,
        into: &mut [u8],
        engine: &mut Engine,
    ) -> io::Result<usize> {
        let content = inode.content()?.borrow();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let n = into.len().min(content.len() - start);
        if n > 0 && engine.chance(self.config.read_error) {
            return Err(errno(libc::EIO));
        }
        if !into.is_empty() {
            self.accessed(inode, engine);
        }
        let n = engine.cut_short(n, self.config.short_read);
        content.read(start, &mut into[..n]);
        Ok(n)
    }

    /// Returns a copy of up to `len` bytes for a socket.
    pub(crate) fn read_for_socket(
        &self,
        inode: &Inode,
        offset: u64,
        len: usize,
        engine: &mut Engine,
    ) -> io::Result<Vec<u8>> {
        let size = inode.content()?.borrow().len() as u64;
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len.min(left)];
        // A page that is missing keeps the whole lane waiting for the disk.
        if inode.bring_in(offset, bytes.len()) {
            self.blocked.set(self.blocked.get() + 1);
        }
        let n = self.read(inode, offset, &mut bytes, engine)?;
        bytes.truncate(n);
        Ok(bytes)
    }

    /// Brings pages into the page cache; they may be gone again by the next read.
    pub(crate) fn warm(&self, inode: &Inode, offset: u64, len: usize, engine: &mut Engine) -> io::Result<()> {
        inode.content()?;
        self.may_fail(self.config.read_error, engine)?;
        inode.bring_in(offset, len);
        Ok(())
    }

    /// Returns how many of `len` bytes from `offset` on are in memory, all from the first.
    pub(crate) fn resident(
        &self,
        inode: &Inode,
        offset: u64,
        len: usize,
        engine: &mut Engine,
    ) -> io::Result<usize> {
        inode.content()?;
        if engine.chance(self.config.cold_read) {
            return Ok(0);
        }
        let end = inode.cold_from(offset, len).unwrap_or(offset + len as u64);
        Ok(usize::try_from(end.saturating_sub(offset)).expect("no more than was asked about"))
    }

    /// Opens from the name cache: `None` is a miss.
    pub(crate) fn try_open(
        &self,
        dir: &Rc<Inode>,
        path: &[u8],
        how: OpenHow,
        engine: &mut Engine,
    ) -> io::Result<Option<Rc<Inode>>> {
        if engine.chance(self.config.cold_open) {
            return Ok(None);
        }
        self.open(dir, path, how, engine).map(Some)
    }

    /// Opens `path` beneath `dir`.
    pub(crate) fn open(
        &self,
        dir: &Rc<Inode>,
        path: &[u8],
        how: OpenHow,
        engine: &mut Engine,
    ) -> io::Result<Rc<Inode>> {
        self.may_fail(self.config.name_error, engine)?;
        let rules = Rules {
            follow: how.symlinks,
            keep_last: false,
            absolute: false,
            privileged: self.is_privileged(),
        };
        let inode = resolve(dir, path, rules)?;
        if how.kind == OpenKind::Directory {
            inode.directory()?;
        }
        self.check_access(&inode, READ)?;
        if how.write {
            inode.content()?;
            self.check_access(&inode, WRITE)?;
            self.check_writable()?;
        }
        match inode.kind() {
            FileKind::File | FileKind::Directory => Ok(inode),
            FileKind::Symlink | FileKind::Other => Err(errno(libc::ENXIO)),
        }
    }

    /// Opens the directory that a volume exports, from the root of the tree.
    pub(crate) fn open_root(&self, path: &[u8]) -> io::Result<Rc<Inode>> {
        let rules =
            Rules { follow: true, keep_last: false, absolute: true, privileged: self.is_privileged() };
        let inode = resolve(&self.root, path, rules)?;
        inode.directory()?;
        self.check_access(&inode, READ)?;
        Ok(inode)
    }

    /// Returns the path of the same inode without links.
    pub(crate) fn canonical(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        canonical(&self.root, path)
    }

    /// Returns the target of the link `path` beneath `dir`.
    pub(crate) fn read_link_at(
        &self,
        dir: &Rc<Inode>,
        path: &[u8],
        engine: &mut Engine,
    ) -> io::Result<Vec<u8>> {
        self.may_fail(self.config.name_error, engine)?;
        let rules =
            Rules { follow: true, keep_last: true, absolute: false, privileged: self.is_privileged() };
        let found = resolve(dir, path, rules)?;
        let target = found.target().ok_or_else(|| errno(libc::EINVAL))?;
        self.accessed(&found, engine);
        Ok(target.to_vec())
    }

    /// Returns the attributes of `path` beneath `dir`, not following a link at the path's end.
    pub(crate) fn stat_at(&self, dir: &Rc<Inode>, path: &[u8], engine: &mut Engine) -> io::Result<Stat> {
        self.may_fail(self.config.name_error, engine)?;
        let rules =
            Rules { follow: true, keep_last: true, absolute: false, privileged: self.is_privileged() };
        resolve(dir, path, rules).map(|inode| inode.stat())
    }

    /// Returns every entry, in an order that must not be relied on; `EFBIG` when there are more than `max`.
    pub(crate) fn entries(
        &self,
        dir: &Inode,
        max: usize,
        handles: bool,
        engine: &mut Engine,
    ) -> io::Result<Vec<DirEntry>> {
        self.may_fail(self.config.name_error, engine)?;
        let entries = dir.directory()?.borrow();
        if entries.len() > max {
            return Err(errno(libc::EFBIG));
        }
        self.accessed(dir, engine);
        let entry = |(name, inode): (&Vec<u8>, &Rc<Inode>)| {
            let handle = if handles { self.handle_of(inode).ok() } else { None };
            DirEntry { name: name.clone(), stat: Some(inode.stat()), handle }
        };
        let mut listed: Vec<_> = entries.iter().map(entry).collect();
        listed.shuffle(&mut engine.rng);
        Ok(listed)
    }

    /// Returns some of the entries from `position` on, in the order of their names' hashes.
    pub(crate) fn entries_part(
        &self,
        dir: &Inode,
        position: u64,
        engine: &mut Engine,
    ) -> io::Result<DirPart> {
        self.may_fail(self.config.name_error, engine)?;
        let entries = dir.directory()?.borrow();
        if i64::try_from(position).is_err() {
            return Err(errno(libc::EINVAL));
        }
        self.accessed(dir, engine);
        let mut left: Vec<_> = entries.iter().map(|(name, inode)| (place(name), name, inode)).collect();
        left.retain(|(at, ..)| *at >= position);
        left.sort_by_key(|(at, name, _)| (*at, *name));
        let wanted = engine.rng.random_range(1..=PART_ENTRIES_MAX);
        let Some(&(last, ..)) = left.get(wanted - 1).or(left.last()) else { return Ok(DirPart::default()) };
        left.retain(|(at, ..)| *at <= last);
        let entry = |(_, name, inode): (u64, &Vec<u8>, &Rc<Inode>)| DirEntry {
            name: name.clone(),
            stat: Some(inode.stat()),
            handle: None,
        };
        Ok(DirPart { entries: left.into_iter().map(entry).collect(), next: Some(last + 1) })
    }

    /// Returns the names alone of a part of a directory ([`Disk::entries_part`]).
    pub(crate) fn names_part(
        &self,
        dir: &Inode,
        position: u64,
        engine: &mut Engine,
    ) -> io::Result<NamesPart> {
        let part = self.entries_part(dir, position, engine)?;
        let mut names = NamesPart::with_capacity(0);
        names.next = part.next;
        for entry in part.entries {
            names.push(&CString::new(entry.name).expect("a name has no zero"));
        }
        Ok(names)
    }

    /// Checks whether anything can be written; `EROFS` where not.
    fn check_writable(&self) -> io::Result<()> {
        if self.config.read_only { Err(errno(libc::EROFS)) } else { Ok(()) }
    }
}

impl Inode {
    /// Puts a range out of memory. What the disk has refused of it is gone with that.
    pub(super) fn evict(&self, range: Range<u64>) {
        if let Ok(content) = self.content() {
            let place = |offset| usize::try_from(offset).unwrap_or(usize::MAX);
            content.borrow_mut().forget(place(range.start)..place(range.end));
        }
        self.cold.borrow_mut().extend(range.start / PAGE..range.end.div_ceil(PAGE));
    }

    /// Returns the offset of the first byte of a range that is not in memory.
    fn cold_from(&self, offset: u64, len: usize) -> Option<u64> {
        let pages = offset / PAGE..(offset + len as u64).div_ceil(PAGE);
        self.cold.borrow().range(pages).next().map(|page| (page * PAGE).max(offset))
    }

    /// Brings a range into memory; returns whether part of the range was not there.
    pub(crate) fn bring_in(&self, offset: u64, len: usize) -> bool {
        let pages = offset / PAGE..(offset + len as u64).div_ceil(PAGE);
        let mut cold = self.cold.borrow_mut();
        let before = cold.len();
        cold.retain(|page| !pages.contains(page));
        cold.len() < before
    }
}

/// Returns a name's place in the order of its directory: a position of lseek(2), and not that of the start.
fn place(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    (hasher.finish() >> 2) + 1
}

const PAGE: u64 = 4096;
/// Most entries of a part, few so that small directories have several parts.
const PART_ENTRIES_MAX: usize = 40;
