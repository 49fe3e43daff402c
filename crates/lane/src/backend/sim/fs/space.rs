//! Room on a disk, and errors when the disk is full.

use std::io;
use std::ops::Range;

use super::content::Content;
use super::pages::PAGE;
use super::{Disk, errno};
use crate::backend::file::SystemStat;

impl Disk {
    /// Returns how full the whole file system is, whatever the quota (fstatfs(2)).
    pub(crate) fn statfs(&self) -> SystemStat {
        let blocks = self.config.capacity_bytes / PAGE as u64;
        SystemStat {
            block_bytes: PAGE as u64,
            blocks,
            blocks_free: (blocks - self.config.reserved_bytes / PAGE as u64)
                .saturating_sub(self.space.pages()),
            files: self.config.capacity_inodes,
            files_free: self.config.capacity_inodes.saturating_sub(self.space.inodes()),
            name_max: super::resolve::NAME_MAX as u64,
            compresses: false,
        }
    }

    /// Returns how many bytes of a range, from its start on, have room.
    ///
    /// # Errors
    /// `ENOSPC` or `EDQUOT` where there is room for none.
    pub(super) fn room_for(&self, content: &Content, range: Range<usize>) -> io::Result<usize> {
        if self.by_test {
            return Ok(range.len());
        }
        let first_without =
            content.needs(range.clone()).nth(usize::try_from(self.pages_left()).unwrap_or(usize::MAX));
        let n = first_without.map_or(range.len(), |page| (page * PAGE).saturating_sub(range.start));
        if n == 0 && !range.is_empty() { Err(self.no_room()) } else { Ok(n) }
    }

    /// Checks whether a whole range has room ([`Disk::room_for`]).
    pub(super) fn room_for_all(&self, content: &Content, range: Range<usize>) -> io::Result<()> {
        if self.room_for(content, range.clone())? == range.len() { Ok(()) } else { Err(self.no_room()) }
    }

    pub(super) fn check_inodes(&self) -> io::Result<()> {
        let used = self.space.inodes();
        match self.by_test {
            true => Ok(()),
            false if used >= self.config.quota_inodes => Err(errno(libc::EDQUOT)),
            false if used >= self.config.capacity_inodes => Err(errno(libc::ENOSPC)),
            false => Ok(()),
        }
    }

    fn pages_left(&self) -> u64 {
        let max = self.config.capacity_bytes.min(self.config.quota_bytes) / PAGE as u64;
        max.saturating_sub(self.space.pages())
    }

    fn no_room(&self) -> io::Error {
        let is_quota = self.config.quota_bytes < self.config.capacity_bytes;
        errno(if is_quota { libc::EDQUOT } else { libc::ENOSPC })
    }
}
