//! Access lists on the way to the disk. The index remembers over a loss of power only lists that the disk is known to have: some time
//! after one was told of, a task of a lane syncs its directory and the one above, and tells the index.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak as ArcWeak};
use std::time::Duration;

use index::{Index, RecordedList, VolumeId};
use lane::fs::{Dir, OpenHow, OpenKind};
use lane::offload::offload;

use super::SharedVolume;
use super::remembered_lists::milliseconds;
use crate::error::Error;

/// Rest of a pass over the noted access lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SyncRest {
    Nothing,
    /// Lists that could not be synced.
    Failed,
    /// Lists that were recorded just now.
    Young,
}

impl SharedVolume {
    /// Begins to sync lists: one was recorded that the disk may not have, or has by another name. A task of this lane
    /// does it, as long as the lane has `root`, the volume's directory, open.
    pub(super) fn begin_to_sync_lists(self: &Arc<Self>, root: &Rc<Dir>) {
        let is_syncing = &self.remembered.is_syncing;
        if !is_syncing.load(Ordering::Relaxed) && !is_syncing.swap(true, Ordering::Relaxed) {
            lane::spawn(see_to(Arc::downgrade(self), Rc::downgrade(root))).detach();
        }
    }

    async fn sync_lists(&self, root: &Dir) -> Result<SyncRest, Error> {
        let Some((index, volume)) = self.remembered.records() else { return Ok(SyncRest::Nothing) };
        let (mut left, mut behind) = (SyncRest::Nothing, None);
        loop {
            let (at, volume) = (Arc::clone(index), *volume);
            let found = offload(None, move || at.unsynced_lists(volume, behind.as_deref(), BATCH));
            let found =
                found.await.map_err(|_| Error::Overloaded)?.map_err(|error| self.report_failure(&error))?;
            let Some((last, _)) = found.last() else { return Ok(left) };
            (behind, left) = (Some(last.clone()), left.max(sync_batch(root, index, volume, found).await?));
            lane::time::sleep(BETWEEN_BATCHES).await;
        }
    }
}

async fn see_to(shared: ArcWeak<SharedVolume>, root: Weak<Dir>) {
    let (mut wait, mut failures) = (SYNC_AFTER, 0);
    loop {
        lane::time::sleep(wait).await;
        let Some(shared) = shared.upgrade() else { return };
        let is_syncing = &shared.remembered.is_syncing;
        // What is told of from here on has another task begin, where this one ends.
        is_syncing.store(false, Ordering::Relaxed);
        let Some(root) = root.upgrade() else { return };
        (wait, failures) = match shared.sync_lists(&root).await {
            Ok(SyncRest::Nothing) => return,
            Ok(SyncRest::Young) => (SYNC_AFTER, 0),
            Ok(SyncRest::Failed) | Err(_) if failures == FAILURES_MAX => return,
            Ok(SyncRest::Failed) | Err(_) => (2 * wait, failures + 1),
        };
        if is_syncing.swap(true, Ordering::Relaxed) {
            return;
        }
    }
}

async fn sync_batch(
    root: &Dir,
    index: &Arc<Index>,
    volume: VolumeId,
    found: Vec<RecordedList>,
) -> Result<SyncRest, Error> {
    let (mut left, mut synced) = (SyncRest::Nothing, Vec::new());
    // Their names lie in these.
    let mut above: BTreeMap<Box<[u8]>, bool> = BTreeMap::new();
    for (path, record) in found {
        let age_ms = milliseconds(lane::time::wall_clock()).abs_diff(record.seen_ms);
        if u128::from(age_ms) < SYNC_AFTER.as_millis() {
            left = left.max(SyncRest::Young);
            continue;
        }
        let parent = path.iter().rposition(|byte| *byte == b'/').map_or(&[][..], |at| &path[..at]);
        let is_parent_synced = match above.get(parent) {
            Some(is_synced) => *is_synced,
            None => {
                let is_synced = sync(root, parent).await.is_ok();
                above.insert(parent.into(), is_synced);
                is_synced
            }
        };
        match sync(root, &path).await {
            Ok(()) if is_parent_synced => synced.push((path, record)),
            // It is no longer there: if another is put there that is told then.
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP)) => {}
            _ => left = left.max(SyncRest::Failed),
        }
    }
    let index = Arc::clone(index);
    let noted = offload(None, move || {
        synced.into_iter().try_for_each(|(path, record)| index.note_synced_list(volume, &path, record))
    });
    let noted = noted.await.map_err(|_| Error::Overloaded)?;
    Ok(if noted.is_ok() { left } else { left.max(SyncRest::Failed) })
}

async fn sync(root: &Dir, path: &[u8]) -> io::Result<()> {
    let how = OpenHow { kind: OpenKind::Directory, symlinks: false, write: false };
    let at = if path.is_empty() { b"." } else { path };
    let at = CString::new(at).expect("a path holds no zero byte");
    root.open(&at, how).await?.into_dir()?.sync().await
}

/// Time for which a list waits for that: by then most file systems have written it of themselves.
const SYNC_AFTER: Duration = Duration::from_secs(30);
/// Records looked at in a row.
const BATCH: usize = 64;
const BETWEEN_BATCHES: Duration = Duration::from_millis(100);
/// Passes in a row in which some could not be synced: then the task waits for the next list that is recorded.
const FAILURES_MAX: u32 = 5;
