//! Takes away what a crash left: files under names of the server's own, which no client sees. A name says which process gave
//! it, so a process leaves its own alone; what another gave is left alone for an hour after it was last touched, for that
//! one may live, on this machine or another. Should it live all the same, its file fails to be published, and it says so.
//! Files that our own clients did not finish go as well (`unfinished.rs`).
//! Room that a killed server had taken beyond the ends of files is given back first.

use std::time::Duration;

use lane::fs::{Dir, DirEntry, DirPart, FileKind, Timestamp};

use crate::name::{Name, RelPathBuf};
use crate::partial_uploads::UploadFate;
use crate::volume::{Volume, WeakVolume};

impl Volume {
    /// Looks through a writable volume for what a crash left, and removes it. That happens once in a process,
    /// whichever lane asks first, and an hour later once more where there was something too young. It takes a fifth of
    /// one helper's time at most, and ends when the lane has the volume open no longer.
    pub fn sweep(&self) -> impl Future<Output = ()> + 'static {
        let volume = self.downgrade();
        let is_due = self.shared().is_some_and(|shared| shared.begin_sweep());
        async move {
            if !is_due {
                return;
            }
            if let Some(volume) = volume.upgrade() {
                volume.release_leftover_room().await;
            }
            if sweep_all(&volume).await == SweepRest::Young {
                lane::time::sleep(AGE_MIN).await;
                sweep_all(&volume).await;
            }
        }
    }

    /// Looks through one part of a directory; what directories are in it are to be looked through too. Where the next
    /// part begins, and whether files were left that may be in use; `None` where it cannot be read.
    async fn sweep_part(
        &self,
        (path, dir): (&RelPathBuf, &Dir),
        position: u64,
        left: &mut Vec<RelPathBuf>,
    ) -> Option<(Option<u64>, SweepRest)> {
        let DirPart { entries, next } = dir.entries_part(position, PART_BYTES).await.ok()?;
        let (shared, peer) = self.shared().zip(self.cache().peer())?;
        let mut young = SweepRest::Nothing;
        for entry in &entries {
            match entry.stat.map(|stat| stat.kind) {
                Some(FileKind::Directory) => {
                    let below = Name::parse(&entry.name).and_then(|name| path.as_path().join(name));
                    match below {
                        Ok(below) if left.len() < PENDING_MAX => left.push(below),
                        _ => self.counters().sweep_skipped.increment(),
                    }
                }
                Some(FileKind::File | FileKind::Symlink) if peer.is_foreign_staged_name(&entry.name) => {
                    if !is_old(entry) {
                        young = SweepRest::Young;
                        continue;
                    }
                    // With the gate closed, no client changes anything in it.
                    let Ok(_pass) = shared.pass(peer.member()) else { return Some((next, SweepRest::Young)) };
                    let name = std::ffi::CString::new(&*entry.name)
                        .expect("the file system's names hold no zero byte");
                    match dir.unlink(&name).await {
                        Ok(()) => self.counters().swept.increment(),
                        Err(_) => self.counters().sweep_skipped.increment(),
                    }
                }
                Some(FileKind::File) if transfer::is_staged(&entry.name) => {
                    let Some(stat) = &entry.stat else { continue };
                    let Ok(name) = Name::parse(&entry.name) else { continue };
                    let Ok(below) = path.as_path().join(name) else { continue };
                    if self.end_unfinished(&below, stat).await == UploadFate::Stays {
                        self.note_unfinished(path.as_path(), name);
                    }
                }
                _ => {}
            }
        }
        Some((next, young))
    }
}

/// Rest of a sweep that is left for another time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SweepRest {
    Nothing,
    /// Files that may be in use.
    Young,
}

async fn sweep_all(volume: &WeakVolume) -> SweepRest {
    let (mut left, mut young) = (vec![RelPathBuf::root()], SweepRest::Nothing);
    while let Some(path) = left.pop() {
        let swept = sweep_directory(volume, &path, &mut left).await;
        let Some(volume) = volume.upgrade() else { return SweepRest::Nothing };
        match swept {
            Some(SweepRest::Young) => young = SweepRest::Young,
            Some(SweepRest::Nothing) => {}
            None => volume.counters().sweep_skipped.increment(),
        }
    }
    young
}

/// Looks through one directory, part by part with rests between them; `None` where it cannot be read to its end, or
/// the lane has the volume open no longer.
async fn sweep_directory(
    volume: &WeakVolume,
    path: &RelPathBuf,
    left: &mut Vec<RelPathBuf>,
) -> Option<SweepRest> {
    let began = lane::time::now();
    let opened = volume.upgrade()?.root().open_real_directory(path.as_path()).await;
    let dir = match opened {
        Ok(dir) => dir,
        // It has gone, or another thing has its name.
        Err(_) => return Some(SweepRest::Nothing),
    };
    let mut took = lane::time::now() - began;
    let (mut position, mut young) = (0, SweepRest::Nothing);
    loop {
        let began = lane::time::now();
        let open = volume.upgrade()?;
        let (next, found) = open.sweep_part((path, &dir), position, left).await?;
        if position == 0 {
            open.counters().sweep_directories.increment();
        }
        drop(open);
        if found == SweepRest::Young {
            young = SweepRest::Young;
        }
        took += lane::time::now() - began;
        lane::time::sleep(took * PAUSES).await;
        took = Duration::ZERO;
        let Some(next) = next else { return Some(young) };
        position = next;
    }
}

/// Returns whether it was not touched for long.
fn is_old(entry: &DirEntry) -> bool {
    let now = lane::time::wall_clock();
    let age = |time: Timestamp| now.duration_since(time.to_system_time()).unwrap_or_default();
    entry.stat.is_some_and(|stat| age(stat.mtime).min(age(stat.ctime)) > AGE_MIN)
}

/// Time for which a file of another process is left alone after it was last touched: longer than any upload
/// pauses.
const AGE_MIN: Duration = Duration::from_secs(3600);
/// Rests in terms of the time that it took to look through a part of a directory.
const PAUSES: u32 = 4;
/// A part of a directory: some 1,600 names.
const PART_BYTES: usize = 64 * 1024;
//@ limit: looking for what a crash left in a volume
//@ section: Writable volumes
//@ unit: directory that is still to be looked at
//@ all: process: {}; a fifth of one helper's time
//@ empty: what is beyond is passed by; others wait for turns in the helpers' queue
//@ counter: vfs_swept, vfs_sweep_directories, vfs_sweep_skipped
//@ attack: none, the server begins it at its start and an hour later
//@ reach: server
/// Directories that are still to be looked through.
const PENDING_MAX: usize = 65_536;
