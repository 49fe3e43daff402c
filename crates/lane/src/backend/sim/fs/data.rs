//! Changes of a file's bytes, and how they are made safe. Written bytes show at once; what of them a loss of
//! power leaves is the affair of [`super::content`].

use std::io::{self, IoSlice};
use std::ops::Range;
use std::rc::Rc;

use super::journal::{Change, Record};
use super::pages::PAGE;
use super::{Disk, Inode, OpenFile, errno};
use crate::backend::file::{Allocate, EntryChange, SeekTo};
use crate::backend::sim::config::JournalKind;
use crate::backend::sim::engine::Engine;

impl Disk {
    /// Writes at `offset`; takes fewer bytes than given at random, and where room ends.
    pub(crate) fn write(
        &mut self,
        inode: &Rc<Inode>,
        offset: u64,
        parts: &[IoSlice<'_>],
        engine: &mut Engine,
    ) -> io::Result<usize> {
        let content = inode.content()?;
        self.begin(0.0, engine)?;
        if engine.chance(self.config.write_error) {
            return Err(errno(if engine.chance(0.5) { libc::EIO } else { libc::ENOSPC }));
        }
        let bytes = parts.iter().map(|part| &**part).collect::<Vec<_>>().concat();
        let range = range_of(offset, bytes.len() as u64)?;
        let n = engine.cut_short(bytes.len(), self.config.short_write);
        let n = self.room_for(&content.borrow(), range.start..range.start + n)?;
        if n > 0 {
            content.borrow_mut().write(range.start, &bytes[..n]);
            self.written(inode, Record::new(), engine);
        }
        Ok(n)
    }

    /// Sets the size (ftruncate(2)).
    pub(crate) fn truncate(&mut self, inode: &Rc<Inode>, len: u64, engine: &mut Engine) -> io::Result<()> {
        // A descriptor of a directory is never one to write to.
        let content = inode.content().map_err(|_| errno(libc::EINVAL))?;
        let len = signed(len)?;
        self.begin(self.config.change_error, engine)?;
        let len = range_of(0, len)?.end;
        let resized = self.resize(inode, content.borrow_mut().resize(len));
        self.written(inode, resized, engine);
        Ok(())
    }

    /// Takes or gives back room (fallocate(2)).
    pub(crate) fn allocate(
        &mut self,
        inode: &Rc<Inode>,
        how: Allocate,
        offset: u64,
        len: u64,
        engine: &mut Engine,
    ) -> io::Result<()> {
        let content = inode.content()?;
        self.begin(self.config.change_error, engine)?;
        let range = range_of(offset, len)?;
        if how != Allocate::Punch {
            self.room_for_all(&content.borrow(), range.clone())?;
        }
        let (mut content, mut record) = (content.borrow_mut(), Record::new());
        if matches!(how, Allocate::Punch | Allocate::Zero) {
            content.punch(range.clone());
        }
        if how != Allocate::Punch {
            content.allocate(range.clone());
        }
        if matches!(how, Allocate::Extend | Allocate::Zero) && range.end > content.len() {
            let event = content.grow(range.end);
            record = self.resize(inode, event);
        }
        drop(content);
        self.written(inode, record, engine);
        Ok(())
    }

    /// Copies up to `len` bytes from one file to another, or within one (copy_file_range(2)); returns how
    /// many.
    ///
    /// # Errors
    /// `EINVAL` where the ranges overlap in one file.
    pub(crate) fn copy_range(
        &mut self,
        (from, from_offset): (&Rc<Inode>, u64),
        (to, to_offset): (&Rc<Inode>, u64),
        len: u64,
        engine: &mut Engine,
    ) -> io::Result<u64> {
        let content = from.content()?.borrow();
        to.content()?;
        let len = len.min((content.len() as u64).saturating_sub(from_offset));
        let overlaps = from_offset < to_offset.saturating_add(len) && to_offset < from_offset + len;
        if Rc::ptr_eq(from, to) && overlaps {
            return Err(errno(libc::EINVAL));
        }
        if len == 0 {
            return Ok(0);
        }
        self.may_fail(self.config.read_error, engine)?;
        let source = range_of(from_offset, len.min(COPY_MAX))?;
        let mut bytes = vec![0; source.len()];
        content.read(source.start, &mut bytes);
        drop(content);
        self.write(to, to_offset, &[IoSlice::new(&bytes)], engine).map(|n| n as u64)
    }

    /// Gives one file the content of another, which the two share until either changes (ioctl FICLONE).
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the file system has no such thing.
    pub(crate) fn reflink(
        &mut self,
        from: &Rc<Inode>,
        to: &Rc<Inode>,
        engine: &mut Engine,
    ) -> io::Result<()> {
        let (source, target) = (from.content()?, to.content()?);
        self.begin(self.config.change_error, engine)?;
        if !self.config.reflinks {
            return Err(errno(libc::EOPNOTSUPP));
        }
        if Rc::ptr_eq(from, to) {
            return Ok(());
        }
        let event = target.borrow_mut().reflink(&source.borrow());
        let record = self.resize(to, event);
        self.written(to, record, engine);
        Ok(())
    }

    /// Returns the next place of data or of a hole (lseek(2)).
    ///
    /// # Errors
    /// `ENXIO` where there is none before the end of the file.
    pub(crate) fn seek(&self, inode: &Inode, offset: u64, to: SeekTo) -> io::Result<u64> {
        let content = inode.content().map_err(|_| errno(libc::EINVAL))?.borrow();
        let offset = usize::try_from(offset).map_err(|_| errno(libc::ENXIO))?;
        content.seek(offset, to).map(|at| at as u64).ok_or_else(|| errno(libc::ENXIO))
    }

    /// Makes an open file safe: a file's content, size and attributes, a directory's names. Whether the
    /// file's own name is safe then, as on journalled file systems, is a matter of chance, as POSIX does not
    /// promise it.
    ///
    /// # Errors
    /// `EIO` when the disk refuses, to every description that was open then: what was written since the last sync is torn
    /// and not written again.
    pub(crate) fn sync(&mut self, file: &OpenFile, data_only: bool, engine: &mut Engine) -> io::Result<()> {
        if self.config.read_only {
            return Ok(());
        }
        self.begin(0.0, engine)?;
        let inode = &file.inode;
        let refused = engine.chance(self.config.sync_error);
        match inode.content() {
            Ok(content) if refused => {
                // Its sizes first, as a sector cannot be refused that is no more.
                self.journal.commit_to(&inode.stored);
                content.borrow_mut().fail_sync(engine);
                inode.fail();
            }
            Ok(content) => {
                content.borrow_mut().sync();
                self.sync_inode(inode, data_only, engine);
            }
            Err(_) if refused => return Err(errno(libc::EIO)),
            Err(_) => self.sync_inode(inode, data_only, engine),
        }
        file.check_failures()
    }

    /// Makes everything safe (syncfs(2)).
    pub(crate) fn sync_all(&mut self, engine: &mut Engine) -> io::Result<()> {
        if self.config.read_only {
            return Ok(());
        }
        self.begin(self.config.sync_error, engine)?;
        self.journal.commit_all();
        let files: Vec<_> = self.by_number.values().filter_map(std::rc::Weak::upgrade).collect();
        for content in files.iter().filter_map(|inode| inode.content().ok()) {
            content.borrow_mut().sync();
        }
        Ok(())
    }

    /// Writes a range back, which makes nothing safe (sync_file_range(2)).
    pub(crate) fn sync_range(&mut self, inode: &Rc<Inode>, engine: &mut Engine) -> io::Result<()> {
        inode.content()?;
        self.may_fail(self.config.sync_error, engine)
    }

    fn sync_inode(&mut self, inode: &Rc<Inode>, data_only: bool, engine: &mut Engine) {
        let is_directory = inode.is_directory();
        let ordered = self.config.journal == JournalKind::Ordered;
        let with_names = engine.chance(self.config.sync_names);
        match (ordered, is_directory || with_names) {
            (true, true) => self.journal.commit_to(&inode.stored),
            (false, true) if !is_directory => {
                self.journal.settle(&inode.stored);
                self.journal.settle_name(&inode.stored);
            }
            // What reading the content back needs is its size, and that is with the content.
            _ if data_only && !is_directory => {}
            _ => self.journal.settle(&inode.stored),
        }
    }

    /// Concludes a change of a file's bytes: moves the file's times, tells watchers, adds `record` to the
    /// journal.
    pub(super) fn written(&mut self, inode: &Rc<Inode>, mut record: Record, engine: &mut Engine) {
        inode.modified(self.stamp(engine), &mut record);
        if !record.is_empty() {
            self.journal.push(record);
        }
        self.notify(inode, engine);
        let Ok(content) = inode.content() else { return };
        if content.borrow().is_overdue() {
            self.journal.commit_all();
            content.borrow_mut().sync();
        }
    }

    /// Returns the journal's record of a size that was set.
    pub(super) fn resize(&self, inode: &Rc<Inode>, event: u64) -> Record {
        vec![Change::Resize { of: Rc::clone(&inode.stored), event }]
    }

    /// Notifies watchers of the directory in which the inode was found of a change, and those of the inode itself.
    /// Watchers of its other names learn nothing. It may have lost the name meanwhile: that is reported too.
    pub(super) fn notify(&mut self, inode: &Inode, engine: &mut Engine) {
        self.notify_above(inode, engine);
        self.watches.itself_changed(inode.serial(), engine);
    }

    fn notify_above(&mut self, inode: &Inode, engine: &mut Engine) {
        let Some(name) = &*inode.found_by.borrow() else { return };
        if let Some(dir) = name.dir.borrow().upgrade() {
            let entry = (&*dir, &name.called.borrow()[..]);
            self.watches.entry_changed(entry, inode.is_directory(), EntryChange::Modified, engine);
        }
    }
}

/// Converts a number of bytes as the kernel does: `EINVAL` where the number would be negative.
fn signed(n: u64) -> io::Result<u64> {
    i64::try_from(n).map(|_| n).map_err(|_| errno(libc::EINVAL))
}

/// Returns a range of a file.
///
/// # Errors
/// `EFBIG` where no file reaches.
fn range_of(offset: u64, len: u64) -> io::Result<Range<usize>> {
    let end = offset.checked_add(len).filter(|&end| end <= SIZE_MAX).ok_or_else(|| errno(libc::EFBIG))?;
    let place = |at| usize::try_from(at).map_err(|_| errno(libc::EFBIG));
    Ok(place(offset)?..place(end)?)
}

/// Largest size of a file in bytes: that of ext4 with blocks of 4 KiB.
const SIZE_MAX: u64 = (1 << 44) - PAGE as u64;
/// Most bytes that one copy moves.
const COPY_MAX: u64 = 1 << 20;
