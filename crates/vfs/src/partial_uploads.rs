//! Partial uploads: files of `linerate put`, under names that no other program gives ([`transfer::is_staged`]) until
//! they are whole. One that no client has open and that did not change for ten minutes is removed; one from before
//! the server's start at once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use identity::Rights;
use lane::fs::Stat;

use crate::caller::Caller;
use crate::error::Error;
use crate::name::{Name, RelPath, RelPathBuf};
use crate::object::SharedVolume;
use crate::volume::{Resolved, Volume, WeakVolume};

/// The partial uploads that a volume is known to hold.
#[derive(Debug)]
pub(crate) struct PartialUploads {
    known: Mutex<KnownUploads>,
    /// Time when the volume was opened: what was changed before is no client's any more.
    opened: SystemTime,
}

#[derive(Debug, Default)]
struct KnownUploads {
    paths: BTreeSet<RelPathBuf>,
    /// A lane looks at them from time to time.
    is_looked_after: bool,
}

/// Fate of a partial upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UploadFate {
    /// The upload stays, and may be resumed.
    Stays,
    /// The upload is gone, or is none any more.
    Gone,
}

impl PartialUploads {
    /// Makes the empty set of a volume that is opened at this time.
    pub(crate) fn new(opened: SystemTime) -> Self {
        Self { known: Mutex::default(), opened }
    }

    fn lock(&self) -> MutexGuard<'_, KnownUploads> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a task to look after them has to be spawned.
    fn note(&self, path: RelPathBuf) -> bool {
        let mut known = self.lock();
        debug_assert!(known.paths.len() <= KNOWN_MAX, "so many are known at most");
        // What is beyond is found by the sweep of the next start.
        if known.paths.len() < KNOWN_MAX {
            known.paths.insert(path);
        }
        !std::mem::replace(&mut known.is_looked_after, true)
    }
}

impl Volume {
    /// Notes that a file was made under this name: it is looked after if the name is that of a partial upload.
    pub(crate) fn note_unfinished(&self, directory: RelPath<'_>, name: Name<'_>) {
        if !transfer::is_staged(name.as_bytes()) {
            return;
        }
        let (Some(shared), Ok(path)) = (self.shared(), directory.join(name)) else { return };
        if shared.unfinished().note(path) {
            let (volume, shared) = (self.downgrade(), Arc::downgrade(shared));
            lane::spawn(look_after(volume, shared)).detach();
        }
    }

    /// Notes that no file has this name any more.
    pub(crate) fn note_finished(&self, directory: RelPath<'_>, name: Name<'_>) {
        if !transfer::is_staged(name.as_bytes()) {
            return;
        }
        if let (Some(shared), Ok(path)) = (self.shared(), directory.join(name)) {
            shared.unfinished().lock().paths.remove(&path);
        }
    }

    /// Takes away a file that goes up, where no client resumes it.
    pub(crate) async fn end_unfinished(&self, path: &RelPathBuf, stat: &Stat) -> UploadFate {
        if !self.is_given_up(stat) {
            return UploadFate::Stays;
        }
        match self.remove_unfinished(path.as_path()).await {
            Ok(()) => {
                self.counters().swept.increment();
                UploadFate::Gone
            }
            Err(Error::NotFound | Error::Unexpected | Error::NotADirectory | Error::IsADirectory) => {
                UploadFate::Gone
            }
            Err(_) => UploadFate::Stays,
        }
    }

    async fn remove_unfinished(&self, path: RelPath<'_>) -> Result<(), Error> {
        let (above, name) = path.parent().zip(path.file_name()).ok_or(Error::NotFound)?;
        let caller = Caller::operator();
        let Resolved::File(file, _) = self.look_as(&caller, path, Rights::READ).await?.resolved else {
            return Err(Error::IsADirectory);
        };
        let object = file.object().ok_or(Error::NotFound)?;
        if object.grants().is_open() {
            return Err(Error::Busy);
        }
        let (directory, _) = self.look_as(&caller, above, Rights::NONE).await?.resolved.into_directory()?;
        let number = object.number();
        drop(file);
        directory.remove_which(&caller, number, name, false).await
    }

    /// Returns whether it was not changed for long, or by no client of this server.
    fn is_given_up(&self, stat: &Stat) -> bool {
        let changed = stat.ctime.to_system_time();
        let age = lane::time::wall_clock().duration_since(changed).unwrap_or_default();
        let opened = self.shared().map(|shared| shared.unfinished().opened);
        age > GIVEN_UP_AFTER || opened.is_some_and(|opened| changed + CLOCK_STEP < opened)
    }

    /// Looks at each that is known.
    async fn look_at_unfinished(&self, shared: &SharedVolume) {
        let paths: Vec<_> = shared.unfinished().lock().paths.iter().cloned().collect();
        for path in paths {
            let found = self.root().open_real(path.as_path()).await;
            let fate = match found.and_then(|file| Ok(file.stat()?)) {
                Ok(stat) => self.end_unfinished(&path, &stat).await,
                Err(Error::NotFound | Error::NotADirectory) => UploadFate::Gone,
                Err(_) => UploadFate::Stays,
            };
            if fate == UploadFate::Gone {
                shared.unfinished().lock().paths.remove(&path);
            }
        }
    }
}

/// Looks at all from time to time, until there are none, or the lane has the volume open no more.
async fn look_after(volume: WeakVolume, shared: Weak<SharedVolume>) {
    loop {
        lane::time::sleep(LOOK_PERIOD).await;
        let Some(shared) = shared.upgrade() else { return };
        let open = volume.upgrade();
        if let Some(volume) = &open {
            volume.look_at_unfinished(&shared).await;
        }
        let mut known = shared.unfinished().lock();
        if open.is_none() || known.paths.is_empty() {
            known.is_looked_after = false;
            return;
        }
    }
}

/// Time without a change after which a partial upload is removed, unless it is open.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(600);
/// Time between two looks at the partial uploads.
const LOOK_PERIOD: Duration = Duration::from_secs(60);
/// Precision of change times: they are as of the kernel's last tick.
const CLOCK_STEP: Duration = Duration::from_millis(20);
//@ limit: files that go up and are looked after
//@ section: Writable volumes
//@ unit: file
//@ all: process: {} of a volume
//@ empty: further ones that a killed client leaves stay until the server's next start
//@ counter: vfs_swept
//@ attack: none, only names that `linerate put` gives are looked after
//@ reach: server
/// Largest number of partial uploads of a volume that are looked after.
const KNOWN_MAX: usize = 4_096;
