//! The room that a file system keeps for its own user (ext4: 5 % for root, as it is made). A server of root
//! would be given of it, and so would clients that write by the server: here every client has what common
//! users have.
//!
//! A lane looks how much that is, takes half of its part of it as an allowance, and looks again when that is used or old. So a write costs a
//! subtraction, and a look a second at most as long as there is room.

use std::cell::Cell;
use std::time::{Duration, Instant};

use lane::fs::{Dir, File, SeekTo, SystemStat};
use lane::time;

use crate::error::Error;
use crate::volume::Volume;

/// Amount that one lane may write of a volume before it looks again.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    bytes: Cell<u64>,
    until: Cell<Option<Instant>>,
}

impl Volume {
    /// Makes sure that `len` bytes of `file` from `offset` on take nothing that the file system keeps for its own
    /// user. What they replace has its room already.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; those of looking at the file system.
    pub(crate) async fn spare(&self, file: &File, offset: u64, len: u64) -> Result<(), Error> {
        match self.spare_room(file, len).await {
            Err(Error::NoSpace) if is_there(file, offset, len).await => Ok(()),
            spared => spared,
        }
    }

    /// Checks the room for what is new in the file system of `file`: a name, an attribute.
    ///
    /// # Errors
    /// As [`Volume::spare`].
    pub(crate) async fn spare_room(&self, file: &File, len: u64) -> Result<(), Error> {
        let Some((allowance, lanes)) = self.root().allowance() else { return Ok(()) };
        if allowance.take(len) {
            return Ok(());
        }
        let room = file.stat_system().await?;
        if allowance.renew(&room, lanes, len) { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Checks the room for one name more in a directory.
    ///
    /// # Errors
    /// As [`Volume::spare`].
    pub(crate) async fn spare_name(&self, dir: &Dir) -> Result<(), Error> {
        self.spare_room(dir.as_file(), NAME_BYTES).await
    }
}

impl Allowance {
    fn take(&self, len: u64) -> bool {
        let is_current = self.until.get().is_some_and(|until| time::now() < until);
        let left = self.bytes.get().checked_sub(len).filter(|_| is_current);
        left.inspect(|left| self.bytes.set(*left)).is_some()
    }

    /// Returns whether there are `len` bytes of so much room. Half of what is left is shared by the lanes:
    /// the rest is for what each has written that is not on the disk, and counts as free.
    fn renew(&self, room: &SystemStat, lanes: usize, len: u64) -> bool {
        let free = room.blocks_free.saturating_mul(room.block_bytes);
        let left = free.checked_sub(len);
        self.bytes.set(left.unwrap_or(0) / 2 / lanes.max(1) as u64);
        self.until.set(Some(time::now() + ALLOWED));
        left.is_some()
    }
}

/// Returns whether a range of a file is inside of it, without a hole.
async fn is_there(file: &File, offset: u64, len: u64) -> bool {
    let end = offset.saturating_add(len);
    let Ok(stat) = file.stat() else { return false };
    end <= stat.size && file.seek(offset, SeekTo::Hole).await.is_ok_and(|hole| hole >= end)
}

/// Time for which a look at the free space counts: others cannot have written much meanwhile.
const ALLOWED: Duration = Duration::from_secs(1);
/// Bytes that a name may take at most: a block of the directory, and of a new directory or a long link one of
/// its own.
const NAME_BYTES: u64 = 8192;
