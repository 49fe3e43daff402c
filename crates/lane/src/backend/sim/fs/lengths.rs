//! What a server does to the length of files.

use std::io;
use std::rc::Rc;

use super::write::SIZE_MAX;
use super::{Disk, Inode, errno};
use crate::backend::sim::engine::Engine;

impl Disk {
    /// Sets the length (`ftruncate(2)`). Watchers of all its names learn.
    pub(crate) fn truncate(&mut self, inode: &Rc<Inode>, len: u64, engine: &mut Engine) -> io::Result<()> {
        if i64::try_from(len).is_err() {
            return Err(errno(libc::EINVAL));
        }
        // A descriptor of a directory is never one to write to.
        let content = inode.content().map_err(|_| errno(libc::EINVAL))?;
        let len = usize::try_from(len).ok().filter(|&len| len <= SIZE_MAX);
        let len = len.ok_or_else(|| errno(libc::EFBIG))?;
        content.borrow_mut().resize(len);
        let stamp = self.stamp(engine);
        inode.mtime.set(stamp);
        inode.ctime.set(stamp);
        self.notify_names(inode, engine);
        Ok(())
    }
}
