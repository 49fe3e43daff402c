//! Files and directories of a lane. Reads try the page cache inline before they cost a ring operation.

use std::io;
use std::path::{Path, PathBuf};

use crate::backend::Watch;
use crate::context;

pub use crate::backend::uring::tree_lock::{TreeInUse, TreeLock};
pub use crate::backend::{
    Allocate, AttributeChange, DirEntry, DirPart, EntryChange, FileHandle, FileKind, HeldLock, LockKind,
    NameStat, NamesPart, OpenHow, OpenKind, RenameHow, SeekTo, SetTime, Stat, StatxExtra, SystemStat,
    Timestamp, WatchEvent, XattrHow,
};

pub use self::dir::Dir;
pub use self::file::{File, SyncOf};
pub use self::keeper::LockKeeper;
pub use self::layers::changes_identities;
pub use self::names::CreateHow;

mod attributes;
mod dir;
mod file;
mod handle;
mod keeper;
mod layers;
mod lock;
mod names;
mod room;

/// Returns the absolute path of the same file without symbolic links, `.` and `..`. Blocks: for start-up and
/// configuration.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    context::with(|lane| lane.backend().canonical(path))
}

/// Ends a watch of the current lane; off lanes there is none left.
pub fn unwatch(watch: Watch) {
    context::try_with(|lane| lane.backend().unwatch(watch));
}

/// Waits for changes on this lane's watches. One task per lane calls this.
pub async fn watch_events() -> io::Result<Vec<WatchEvent>> {
    std::future::poll_fn(|cx| context::with(|lane| lane.backend().poll_watch_events(cx))).await
}
