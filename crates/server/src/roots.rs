//! Watch on volumes' directories: whether they are still those that the lanes have open, as a path may be
//! removed, replaced, or be mounted over only later.
//!
//! A thread of its own looks at the paths, for a file system that does not answer holds up the caller. One
//! that it is kept waiting by is left to it, and another thread looks at the others. What they see the
//! control thread acts on; no lane takes part.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use identity::Writable;
use rustix::fs::{Mode, OFlags};
use service::volumes::{Identity, VolumeSection, VolumeTable};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Interval, MissedTickBehavior};
use vfs::{FileId, Objects};

use crate::{lists, writers};

/// Exported directory of one volume, as it was when the lanes opened it.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    /// Name of the volume.
    pub(crate) name: String,
    path: PathBuf,
    opened: Option<Arc<OpenedRoot>>,
    /// Set if some client may change the volume: a look then writes too.
    is_writable: bool,
}

/// Directory, held open so that its inode number goes to no other meanwhile.
#[derive(Debug)]
struct OpenedRoot {
    identity: Identity,
    _held: File,
}

/// Observation of the directory at a volume's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RootObservation {
    /// Name of the volume.
    pub(crate) name: String,
    /// Path of the volume.
    pub(crate) path: PathBuf,
    pub(crate) root_state: RootState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RootState {
    /// The served directory is at the path again, after some trouble.
    Well,
    /// The served directory is at the path, but cannot be written to, for this reason.
    NotWritable(String),
    /// The path leads to another directory.
    Replaced,
    /// The path has no directory that can be served, for this reason.
    Gone(String),
    /// The volume's file system has kept a look waiting since this time.
    Hangs(SystemTime),
}

/// Monitor of all volumes' directories on a thread of its own, which reports those that were replaced or are
/// gone.
pub(crate) struct VolumeRootMonitor {
    shared: Arc<Mutex<MonitorShared>>,
    observations: Receiver<RootObservation>,
    tell: Sender<RootObservation>,
    /// Function that looks at a root.
    look: Arc<dyn Fn(&Root) -> RootState + Send + Sync>,
    /// Observations of this round that were not returned yet.
    unreported: Vec<RootObservation>,
    /// Interval of checks on the looking thread, which begins with the first question.
    rounds: Option<Interval>,
}

struct MonitorShared {
    roots: Vec<Root>,
    /// Number of the thread that looks; earlier ones are kept waiting, and end.
    current: u64,
    /// Root that the thread looks at, and the times since which it does.
    looking: Option<(Root, Instant, SystemTime)>,
    /// Volumes that keep a thread waiting.
    hanging: BTreeMap<String, (Root, SystemTime)>,
    /// Volumes of which trouble was reported.
    troubled: BTreeSet<String>,
}

impl Root {
    /// Returns the roots of `volumes` as they are now. Call this before the lanes open them: a change between
    /// shows as a replacement.
    pub(crate) fn all(volumes: &[VolumeSection]) -> Vec<Self> {
        let new = |volume: &VolumeSection| {
            Self::new(volume.name.as_str(), &volume.path, volume.writable != Writable::Nobody)
        };
        volumes.iter().map(new).collect()
    }

    /// Returns the table of `roots` that follows `before`: those on the same directory stay open.
    pub(crate) fn table(roots: &[Self], before: &VolumeTable, volumes: &[VolumeSection]) -> VolumeTable {
        before.followed_by(volumes, |volume| {
            roots.iter().find(|root| root.name == volume.name.as_str()).and_then(Self::identity)
        })
    }

    /// Returns the identity of the held directory, if there was one.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.opened.as_ref().map(|opened| opened.identity)
    }

    fn new(name: &str, path: &Path, is_writable: bool) -> Self {
        let opened = OpenedRoot::at(path).ok().map(Arc::new);
        Self { name: name.to_owned(), path: path.to_owned(), opened, is_writable }
    }

    /// Returns the root of the same volume as it is now.
    pub(crate) fn anew(&self) -> Self {
        Self::new(&self.name, &self.path, self.is_writable)
    }

    fn root_state(&self) -> RootState {
        if self.is_writable {
            self.write();
        }
        match Identity::at(&self.path) {
            Ok(seen) if self.opened.as_ref().is_some_and(|opened| opened.identity == seen) => {
                let hindrance = self.is_writable.then(|| writers::hindrance(&self.path)).flatten();
                hindrance.map_or(RootState::Well, RootState::NotWritable)
            }
            Ok(_) => RootState::Replaced,
            Err(error) => RootState::Gone(error.to_string()),
        }
    }

    /// Makes a file without a name, which is gone again at once: a file system that answers readers may keep
    /// all writers waiting. The result is not checked, and clients see nothing of it.
    fn write(&self) {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(rustix::fs::open(&self.path, flags, Mode::RUSR | Mode::WUSR));
    }

    /// Makes the volume check whether its mark is gone. An unreadable mark has no effect.
    fn look_at_mark(&self, objects: &Objects) {
        let marks = || {
            let dir = File::open(&self.path).ok()?;
            let stat = dir.metadata().ok()?;
            let found = FileId { dev: stat.dev(), ino: stat.ino() };
            Some((found, lists::marks(&dir).ok()?))
        };
        let Some((root, marks)) = marks() else { return };
        for volume in objects.all_volumes().iter().filter(|volume| volume.root() == root) {
            volume.look_at_mark(marks.clone());
        }
    }

    fn observed(&self, root_state: RootState) -> RootObservation {
        RootObservation { name: self.name.clone(), path: self.path.clone(), root_state }
    }
}

impl OpenedRoot {
    fn at(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let held = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        Ok(Self { identity: Identity::of(&held.metadata()?), _held: held })
    }
}

impl VolumeRootMonitor {
    /// Starts the watch, until this is dropped; a volume that has lost its mark is reported to `objects`.
    ///
    /// # Errors
    /// The system's, when there is no thread to be had.
    pub(crate) fn start(roots: Vec<Root>, objects: Option<Objects>) -> io::Result<Self> {
        Self::looking_by(roots, move |root| {
            let root_state = root.root_state();
            if matches!(root_state, RootState::Well | RootState::NotWritable(_)) {
                objects.iter().for_each(|objects| root.look_at_mark(objects));
            }
            root_state
        })
    }

    fn looking_by(
        roots: Vec<Root>,
        look: impl Fn(&Root) -> RootState + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (looking, hanging, troubled) = Default::default();
        let shared = MonitorShared { roots, current: 0, looking, hanging, troubled };
        let shared = Arc::new(Mutex::new(shared));
        let (tell, observations) = channel(OBSERVATIONS_MAX);
        let watch =
            Self { shared, observations, tell, look: Arc::new(look), unreported: Vec::new(), rounds: None };
        watch.begin(0)?;
        Ok(watch)
    }

    /// Starts the looking thread of this number.
    fn begin(&self, number: u64) -> io::Result<()> {
        let (shared, tell, look) = (Arc::clone(&self.shared), self.tell.clone(), Arc::clone(&self.look));
        let looks = move || look_round(&shared, &tell, number, &*look);
        std::thread::Builder::new().name("volume roots".to_owned()).spawn(looks).map(drop)
    }

    /// Returns the roots that the lanes have open.
    pub(crate) fn roots(&self) -> Vec<Root> {
        lock(&self.shared).roots.clone()
    }

    /// Sets the roots, which the lanes have opened.
    pub(crate) fn set(&self, roots: Vec<Root>) {
        lock(&self.shared).roots = roots;
    }

    /// Waits for the next observation to report; trouble is reported again as long as it lasts.
    pub(crate) async fn next(&mut self) -> RootObservation {
        loop {
            let rounds = self.rounds.get_or_insert_with(|| {
                let mut rounds = tokio::time::interval(PERIOD);
                rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
                rounds
            });
            if let Some(observation) = self.unreported.pop() {
                return observation;
            }
            tokio::select! {
                observation = self.observations.recv() => match observation {
                    Some(observation) => return observation,
                    None => std::future::pending().await,
                },
                _ = rounds.tick() => self.unreported = self.unanswered(),
            }
        }
    }

    /// Returns the roots whose file systems keep looks waiting. From the first moment of that on the other
    /// roots are looked at by another thread.
    fn unanswered(&self) -> Vec<RootObservation> {
        let mut shared = lock(&self.shared);
        if let Some((root, at, since)) = shared.looking.take_if(|(_, at, _)| at.elapsed() >= ANSWER_WITHIN) {
            if self.begin(shared.current + 1).is_ok() {
                shared.current += 1;
                shared.troubled.insert(root.name.clone());
                shared.hanging.insert(root.name.clone(), (root, since));
            } else {
                shared.looking = Some((root, at, since));
            }
        }
        let hanging = shared.hanging.values();
        hanging.map(|(root, since)| root.observed(RootState::Hangs(*since))).collect()
    }
}

impl Drop for VolumeRootMonitor {
    fn drop(&mut self) {
        // The thread that looks ends.
        lock(&self.shared).current = u64::MAX;
    }
}

/// Looks at each root once in a period, until another thread does.
fn look_round(
    shared: &Mutex<MonitorShared>,
    tell: &Sender<RootObservation>,
    number: u64,
    look: &dyn Fn(&Root) -> RootState,
) {
    loop {
        std::thread::sleep(PERIOD);
        let roots = lock(shared).roots.clone();
        for root in roots {
            {
                let mut shared = lock(shared);
                if shared.current != number {
                    return;
                }
                if shared.hanging.contains_key(&root.name) {
                    continue;
                }
                shared.looking = Some((root.clone(), Instant::now(), SystemTime::now()));
            }
            let root_state = look(&root);
            let mut shared = lock(shared);
            if shared.current != number {
                // It was kept waiting, and others are looked at by another, which looks at this one again from now on.
                shared.hanging.remove(&root.name);
                return;
            }
            shared.looking = None;
            let is_well = root_state == RootState::Well;
            // One that finds no room is told in the next round.
            if (is_well && !shared.troubled.contains(&root.name))
                || tell.try_send(root.observed(root_state)).is_err()
            {
                continue;
            }
            match is_well {
                true => shared.troubled.remove(&root.name),
                false => shared.troubled.insert(root.name.clone()),
            };
        }
    }
}

fn lock(shared: &Mutex<MonitorShared>) -> MutexGuard<'_, MonitorShared> {
    shared.lock().expect("nothing panics while it holds the roots")
}

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(500);
/// Longest time of a look: a file system that takes longer is in trouble.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
//@ limit: looks at volumes' directories
//@ section: Logs, control and descriptors
//@ unit: sighting that waits
//@ all: process: {}; two looks at each a second, {ANSWER_WITHIN} for an answer
//@ empty: told at the next look; a file system that does not answer is named in `/health`, and others are looked at by another
//@ thread
//@ counter: server_volumes_lost, server_volumes_hung, server_volumes_reopened
//@ attack: none, the server looks by itself
//@ reach: server
/// Most observations that wait for the control thread.
const OBSERVATIONS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_known_again_and_told_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pub");
        std::fs::create_dir(&path).unwrap();
        let root = Root::new("files", &path, true);
        assert_eq!(root.root_state(), RootState::Well);
        std::fs::remove_dir(&path).unwrap();
        assert!(matches!(root.root_state(), RootState::Gone(_)));
        // The number of the inode is not given out again while it is held.
        for _ in 0..20 {
            std::fs::create_dir(&path).unwrap();
            assert_eq!(root.root_state(), RootState::Replaced);
            std::fs::remove_dir(&path).unwrap();
        }
        std::fs::write(&path, "a file").unwrap();
        assert!(matches!(root.root_state(), RootState::Gone(_)));
    }

    #[test]
    fn a_root_that_hangs_is_named_with_its_time_and_the_others_are_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let [hung, other] = ["hung", "other"].map(|name| Root::new(name, dir.path(), false));
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let (wait, is_gone) = (Mutex::new(Some(wait)), Arc::new(Mutex::new(false)));
        let gone = Arc::clone(&is_gone);
        let look = move |root: &Root| match &*root.name {
            "hung" => {
                if let Some(wait) = wait.lock().unwrap().take() {
                    let _ = wait.recv();
                }
                RootState::Well
            }
            _ if *gone.lock().unwrap() => RootState::Gone("away".to_owned()),
            _ => RootState::Well,
        };
        let began = SystemTime::now();
        let mut watch = VolumeRootMonitor::looking_by(vec![hung, other], look).unwrap();
        let housekeeping = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        housekeeping.block_on(async {
            let RootObservation { name, root_state: RootState::Hangs(since), .. } = watch.next().await else {
                panic!("it hangs")
            };
            assert!(name == "hung" && since.duration_since(began).unwrap() < ANSWER_WITHIN);
            *is_gone.lock().unwrap() = true;
            let (mut still_hangs, mut other_is_told) = (false, false);
            while !(still_hangs && other_is_told) {
                let seen = watch.next().await;
                still_hangs |= seen.root_state == RootState::Hangs(since);
                other_is_told |=
                    seen.name == "other" && seen.root_state == RootState::Gone("away".to_owned());
            }
            drop(release);
            loop {
                let seen = watch.next().await;
                if seen.name == "hung" && seen.root_state == RootState::Well {
                    break;
                }
            }
        });
    }
}
