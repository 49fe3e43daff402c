//! Whether the directories that volumes export are still those that the lanes have open: a path may have been removed,
//! replaced, or be mounted over only now.
//!
//! A thread of its own looks at the paths, for a file system that does not answer holds up who asks. What it sees the
//! control thread acts on; no lane takes part.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use service::volumes::{Identity, VolumeSection, VolumeTable};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Interval, MissedTickBehavior};

/// The exported directory of one volume, as it was when the lanes opened it.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    /// The volume's name.
    pub(crate) name: String,
    path: PathBuf,
    opened: Option<Arc<Opened>>,
}

/// A directory, held so that its inode number goes to no other meanwhile.
#[derive(Debug)]
struct Opened {
    identity: Identity,
    _held: File,
}

/// What was seen at the path of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sighting {
    /// The volume.
    pub(crate) name: String,
    /// Its path.
    pub(crate) path: PathBuf,
    pub(crate) sight: Sight,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The directory that is served, after there was trouble.
    Well,
    /// Another directory.
    Replaced,
    /// Nothing that can be served, for this reason.
    Gone(String),
}

/// The watch over all roots.
#[derive(Debug)]
pub(crate) struct RootWatch {
    shared: Arc<Mutex<Shared>>,
    sightings: Receiver<Sighting>,
    /// Looks at the thread that looks; begins with the first question.
    rounds: Option<Interval>,
}

#[derive(Debug)]
struct Shared {
    roots: Vec<Root>,
    /// The root that is being looked at, and since when.
    looking: Option<(usize, Instant)>,
}

impl Root {
    /// The roots of these volumes as they are now. To be asked before the lanes open them: what changes between
    /// shows as a replacement.
    pub(crate) fn all(volumes: &[VolumeSection]) -> Vec<Self> {
        volumes.iter().map(|volume| Self::new(volume.name.as_str(), &volume.path)).collect()
    }

    /// The table of these volumes, after `before`: those on the same directory as then stay open.
    pub(crate) fn table(roots: &[Self], before: &VolumeTable, volumes: &[VolumeSection]) -> VolumeTable {
        before.followed_by(volumes, |volume| {
            roots.iter().find(|root| root.name == volume.name.as_str()).and_then(Self::identity)
        })
    }

    /// The directory that is held, if there was one.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.opened.as_ref().map(|opened| opened.identity)
    }

    fn new(name: &str, path: &Path) -> Self {
        Self { name: name.to_owned(), path: path.to_owned(), opened: Opened::at(path).ok().map(Arc::new) }
    }

    /// The same volume as it is now.
    pub(crate) fn anew(&self) -> Self {
        Self::new(&self.name, &self.path)
    }

    fn sight(&self) -> Sight {
        match Identity::at(&self.path) {
            Ok(seen) if self.opened.as_ref().is_some_and(|opened| opened.identity == seen) => Sight::Well,
            Ok(_) => Sight::Replaced,
            Err(error) => Sight::Gone(error.to_string()),
        }
    }

    fn sighted(&self, sight: Sight) -> Sighting {
        Sighting { name: self.name.clone(), path: self.path.clone(), sight }
    }
}

impl Opened {
    fn at(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let held = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        Ok(Self { identity: Identity::of(&held.metadata()?), _held: held })
    }
}

impl RootWatch {
    /// Begins to look, until the watch goes.
    ///
    /// # Errors
    /// The system's, when there is no thread to be had.
    pub(crate) fn start(roots: Vec<Root>) -> io::Result<Self> {
        let shared = Arc::new(Mutex::new(Shared { roots, looking: None }));
        let (tell, sightings) = channel(SIGHTINGS_MAX);
        let looked_at = Arc::clone(&shared);
        std::thread::Builder::new().name("volume roots".to_owned()).spawn(move || look(&looked_at, &tell))?;
        Ok(Self { shared, sightings, rounds: None })
    }

    /// What the lanes have open.
    pub(crate) fn roots(&self) -> Vec<Root> {
        lock(&self.shared).roots.clone()
    }

    /// The lanes have opened these.
    pub(crate) fn set(&self, roots: Vec<Root>) {
        lock(&self.shared).roots = roots;
    }

    /// The next thing worth telling; a trouble is told again as long as it lasts.
    pub(crate) async fn next(&mut self) -> Sighting {
        loop {
            let rounds = self.rounds.get_or_insert_with(|| {
                let mut rounds = tokio::time::interval(PERIOD);
                rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
                rounds
            });
            tokio::select! {
                sighting = self.sightings.recv() => match sighting {
                    Some(sighting) => return sighting,
                    None => std::future::pending().await,
                },
                _ = rounds.tick() => if let Some(sighting) = self.unanswered() {
                    return sighting;
                },
            }
        }
    }

    /// A root whose file system keeps the look waiting.
    fn unanswered(&self) -> Option<Sighting> {
        let shared = lock(&self.shared);
        let (index, since) = shared.looking?;
        if since.elapsed() < ANSWER_WITHIN {
            return None;
        }
        let root = shared.roots.get(index)?;
        Some(root.sighted(Sight::Gone(format!("no answer within {} s", ANSWER_WITHIN.as_secs()))))
    }
}

/// Looks at each root once in a period; ends when nobody listens.
fn look(shared: &Mutex<Shared>, tell: &Sender<Sighting>) {
    let mut troubled = std::collections::BTreeSet::new();
    while !tell.is_closed() {
        std::thread::sleep(PERIOD);
        let roots = lock(shared).roots.clone();
        for (index, root) in roots.iter().enumerate() {
            lock(shared).looking = Some((index, Instant::now()));
            let seen_at = Instant::now();
            let sight = root.sight();
            lock(shared).looking = None;
            let was_told = seen_at.elapsed() >= ANSWER_WITHIN || troubled.contains(&root.name);
            let is_well = sight == Sight::Well;
            // One that finds no room is told in the next round.
            if (is_well && !was_told) || tell.try_send(root.sighted(sight)).is_err() {
                continue;
            }
            match is_well {
                true => troubled.remove(&root.name),
                false => troubled.insert(root.name.clone()),
            };
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().expect("nothing panics while it holds the roots")
}

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// A file system that takes longer is in trouble.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Sightings that wait for the control thread.
const SIGHTINGS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_known_again_and_told_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pub");
        std::fs::create_dir(&path).unwrap();
        let root = Root::new("files", &path);
        assert_eq!(root.sight(), Sight::Well);
        std::fs::remove_dir(&path).unwrap();
        assert!(matches!(root.sight(), Sight::Gone(_)));
        // The number of the inode is not given out again while it is held.
        for _ in 0..20 {
            std::fs::create_dir(&path).unwrap();
            assert_eq!(root.sight(), Sight::Replaced);
            std::fs::remove_dir(&path).unwrap();
        }
        std::fs::write(&path, "a file").unwrap();
        assert!(matches!(root.sight(), Sight::Gone(_)));
    }
}
