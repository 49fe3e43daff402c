//! What a server does to the content of files beside writing: its length, room, holes, and copies on the disk.

use std::io;
use std::rc::Rc;

use super::write::SIZE_MAX;
use super::{Disk, Inode, errno};
use crate::backend::file::{Allocate, SeekTo};
use crate::backend::sim::engine::Engine;

impl Disk {
    /// Sets the length (`ftruncate(2)`). Watchers of all its names learn.
    pub(crate) fn truncate(&mut self, inode: &Rc<Inode>, len: u64, engine: &mut Engine) -> io::Result<()> {
        if i64::try_from(len).is_err() {
            return Err(errno(libc::EINVAL));
        }
        // A descriptor of a directory is never one to write to.
        let content = inode.content().map_err(|_| errno(libc::EINVAL))?;
        let len = in_memory(len)?;
        content.borrow_mut().resize(len);
        self.content_changed(inode, engine);
        Ok(())
    }

    /// Takes room, or gives it back (`fallocate(2)`).
    pub(crate) fn allocate(
        &mut self,
        inode: &Rc<Inode>,
        how: Allocate,
        offset: u64,
        len: u64,
        engine: &mut Engine,
    ) -> io::Result<()> {
        let end = offset.saturating_add(len);
        if i64::try_from(end).is_err() {
            return Err(errno(libc::EFBIG));
        }
        let mut content = inode.content()?.borrow_mut();
        let size = content.bytes().len();
        if how != Allocate::Punch || offset < size as u64 {
            let (start, end) = (in_memory(offset)?, in_memory(end)?);
            if matches!(how, Allocate::Punch | Allocate::Zero) && start < size {
                content.write_at(start, &vec![0; end.min(size) - start]);
            }
            if matches!(how, Allocate::Extend | Allocate::Zero) && end > size {
                content.resize(end);
            }
        }
        drop(content);
        self.content_changed(inode, engine);
        Ok(())
    }

    /// Copies within the disk (`copy_file_range(2)`); less than asked for at random.
    pub(crate) fn copy_range(
        &mut self,
        (from, from_offset): (&Rc<Inode>, u64),
        (to, to_offset): (&Rc<Inode>, u64),
        len: u64,
        engine: &mut Engine,
    ) -> io::Result<u64> {
        let bytes = {
            let content = from.content()?.borrow();
            let start = usize::try_from(from_offset).unwrap_or(usize::MAX).min(content.bytes().len());
            let rest = &content.bytes()[start..];
            rest[..rest.len().min(usize::try_from(len).unwrap_or(usize::MAX))].to_vec()
        };
        let is_overlap = from_offset.abs_diff(to_offset) < bytes.len() as u64;
        if Rc::ptr_eq(from, to) && is_overlap {
            return Err(errno(libc::EINVAL));
        }
        if bytes.is_empty() {
            to.content()?;
            return Ok(0);
        }
        self.write(to, to_offset, &[io::IoSlice::new(&bytes)], engine).map(|n| n as u64)
    }

    /// Gives a file the content of another (`ioctl_ficlone(2)`).
    pub(crate) fn reflink(
        &mut self,
        from: &Rc<Inode>,
        to: &Rc<Inode>,
        engine: &mut Engine,
    ) -> io::Result<()> {
        let bytes = from.content()?.borrow().bytes().to_vec();
        if !Rc::ptr_eq(from, to) {
            let mut content = to.content()?.borrow_mut();
            content.resize(bytes.len());
            content.write_at(0, &bytes);
        }
        self.content_changed(to, engine);
        Ok(())
    }

    /// The next data or hole (`lseek(2)`). All of a file is data here.
    pub(crate) fn seek(&self, inode: &Inode, offset: u64, to: SeekTo) -> io::Result<u64> {
        let size = inode.content().map_err(|_| errno(libc::EINVAL))?.borrow().bytes().len() as u64;
        match to {
            _ if offset >= size => Err(errno(libc::ENXIO)),
            SeekTo::Data => Ok(offset),
            SeekTo::Hole => Ok(size),
        }
    }

    /// Writes a range back, which makes nothing safe (`sync_file_range(2)`).
    pub(crate) fn sync_range(&mut self, inode: &Rc<Inode>, engine: &mut Engine) -> io::Result<()> {
        inode.content()?;
        self.may_fail(self.config.sync_error, engine)
    }

    /// Makes all safe (`syncfs(2)`).
    pub(crate) fn sync_all(&mut self, engine: &mut Engine) -> io::Result<()> {
        let mut beneath = vec![Rc::clone(&self.root)];
        let mut failed = Ok(());
        while let Some(inode) = beneath.pop() {
            if let Ok(entries) = inode.directory() {
                beneath.extend(entries.borrow().values().cloned());
            }
            failed = failed.and(self.sync(&inode, engine));
        }
        failed
    }

    fn content_changed(&mut self, inode: &Rc<Inode>, engine: &mut Engine) {
        let stamp = self.stamp(engine);
        inode.mtime.set(stamp);
        inode.ctime.set(stamp);
        self.notify_names(inode, engine);
    }
}

/// A file of a world lies in memory.
fn in_memory(len: u64) -> io::Result<usize> {
    usize::try_from(len).ok().filter(|&len| len <= SIZE_MAX).ok_or_else(|| errno(libc::EFBIG))
}
