//! What a server changes: the bytes of open files. What is written shows at once; what of it a loss of power leaves is
//! `content.rs`'s affair.

use std::io::{self, IoSlice};
use std::rc::Rc;

use super::{Disk, Inode, Node, errno};
use crate::backend::sim::engine::Engine;

impl Disk {
    /// Writes at `offset`; takes less than given at random. Watchers of all its names learn.
    pub(crate) fn write(
        &mut self,
        inode: &Rc<Inode>,
        offset: u64,
        parts: &[IoSlice<'_>],
        engine: &mut Engine,
    ) -> io::Result<usize> {
        let content = inode.content()?;
        if engine.chance(self.config.write_error) {
            return Err(errno(if engine.chance(0.5) { libc::EIO } else { libc::ENOSPC }));
        }
        let bytes = parts.iter().map(|part| &**part).collect::<Vec<_>>().concat();
        let offset = usize::try_from(offset)
            .ok()
            .filter(|at| at.checked_add(bytes.len()).is_some_and(|end| end <= SIZE_MAX));
        let offset = offset.ok_or_else(|| errno(libc::EFBIG))?;
        let n = engine.cut_short(bytes.len(), self.config.short_write);
        if n > 0 {
            content.borrow_mut().write_at(offset, &bytes[..n]);
            let stamp = self.stamp(engine);
            inode.mtime.set(stamp);
            inode.ctime.set(stamp);
            self.notify_names(inode, engine);
        }
        Ok(n)
    }

    /// Makes what was written safe.
    pub(crate) fn sync(&mut self, inode: &Rc<Inode>, engine: &mut Engine) -> io::Result<()> {
        let Node::File(content) = &inode.node else { return Ok(()) };
        if engine.chance(self.config.sync_error) {
            content.borrow_mut().fail_sync(engine);
            return Err(errno(libc::EIO));
        }
        content.borrow_mut().sync();
        Ok(())
    }

    pub(super) fn notify_names(&mut self, inode: &Rc<Inode>, engine: &mut Engine) {
        let mut beneath = vec![Rc::clone(&self.root)];
        while let Some(dir) = beneath.pop() {
            let Ok(entries) = dir.directory() else { continue };
            for (name, entry) in &*entries.borrow() {
                if Rc::ptr_eq(entry, inode) {
                    self.watches.entry_changed(&dir, name, engine);
                }
                if entry.directory().is_ok() {
                    beneath.push(Rc::clone(entry));
                }
            }
        }
    }
}

/// A file of a world lies in memory.
pub(super) const SIZE_MAX: usize = 1 << 30;
