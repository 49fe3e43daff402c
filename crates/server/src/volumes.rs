//! Volumes of the index, for the command line: read while no server holds it, and as a server shows it.

use std::ffi::CStr;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use index::{
    FileStorage, Index, Looking, Mark, Options, PreviousShutdown, RightsIn, Tree, VolumeId, VolumeRecord,
};
use lane::runtime::{RuntimeOptions, run_here};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
pub use vfs::{CheckProgress, CheckReport, Problem, VolumeName};

use vfs::{CheckError, CheckOptions};

use crate::overlap::MountedDirectories;
pub use crate::volume_shown::{UsageShown, UsageState, VolumeShown};
use crate::{index_file, lists, objects, tree_use};

/// Result of a volume's check.
#[derive(Debug)]
pub struct VolumeChecked {
    /// Findings of index and tree.
    pub report: CheckReport,
    /// Other volumes whose directories lie inside this one's, or enclose it: one file would be in both.
    pub overlaps: Vec<String>,
}

/// Index of volumes, held by a tool.
pub struct Volumes {
    index: Arc<Index>,
}

/// Reason why a tool could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum VolumesError {
    /// A server has the index open, or another command for a moment.
    #[error(
        "a server holds the index: stop it first; where none runs, another command such as `linerate volume check` does: try again when \
         it has ended"
    )]
    InUse,
    /// A server writes to the tree by another index: files it uses would pass for what a crash left.
    #[error(
        "a server that runs writes to {}, with another state directory than this: what it has in use would be taken for leftovers, so \
         nothing was compared; stop it, or give --state its state directory",
        .0.display()
    )]
    TreeInUse(PathBuf),
    /// The index returned an error.
    #[error("{}", index_file::told(.0))]
    Index(index::Error),
    /// The directory is a volume already.
    #[error("{} is volume {known} already: linerate volume status {known}", path.display())]
    IsVolume {
        /// Path of the directory.
        path: PathBuf,
        /// Name of the known volume.
        known: String,
    },
    /// The directory overlaps that of another volume: one file would be in both.
    #[error("{} and {} of volume {name} lie one inside the other", path.display(), other.display())]
    Overlaps {
        /// Path of the directory.
        path: PathBuf,
        /// Name of the other volume.
        name: String,
        /// Directory of the other volume.
        other: PathBuf,
    },
    /// The volume has lost its rights: if removed, its tree would be served to every client.
    #[error(
        "access lists lay in volume {name}, and {} bears no mark any more, as after a copy that leaves extended attributes out: restore \
         them, or look at what there is by `linerate acl list {}` and then say so by `linerate acl accept {}`",
        path.display(), path.display(), path.display()
    )]
    RightsLost {
        /// Name of the volume.
        name: String,
        /// Directory of the volume.
        path: PathBuf,
    },
    /// The volume's directory has a problem.
    #[error("{}: {problem}", path.display())]
    Root {
        /// Path of the directory.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
}

impl From<index::Error> for VolumesError {
    fn from(error: index::Error) -> Self {
        match error {
            index::Error::InUse => Self::InUse,
            error => Self::Index(error),
        }
    }
}

impl Volumes {
    /// Opens the index in the state directory `state` to look at it; `None` without one. No change of it
    /// lasts.
    ///
    /// # Errors
    /// [`VolumesError::InUse`] while a server holds it.
    pub fn look(state: &Path) -> Result<Option<Self>, VolumesError> {
        let file = FileStorage::in_directory(state);
        if !file.exists() {
            return Ok(None);
        }
        Ok(Some(Self { index: Arc::new(Index::open(Looking::at(file), options())?) }))
    }

    /// Opens the index to look at it ([`look`](Self::look)), and waits a moment for other commands.
    ///
    /// # Errors
    /// As [`look`](Self::look).
    pub fn look_patiently(state: &Path) -> Result<Option<Self>, VolumesError> {
        patiently(|| Self::look(state))
    }

    /// Sets aside the index in the state directory `state`, which cannot be opened, and begins a new one.
    /// `None` without one. `None` where there is none.
    ///
    /// # Errors
    /// [`VolumesError::InUse`] while a server holds it; [`index::Error::Sound`] where it can be opened.
    pub fn replace(state: &Path) -> Result<Option<Self>, VolumesError> {
        let file = FileStorage::in_directory(state);
        if !file.exists() {
            return Ok(None);
        }
        let index = patiently(|| Ok(Index::replace(FileStorage::in_directory(state), options())?))?;
        Ok(Some(Self { index: Arc::new(index) }))
    }

    /// Opens the index in the state directory `state`; `None` without one. Waits a moment for other commands.
    ///
    /// # Errors
    /// [`VolumesError::InUse`] while a server holds it.
    pub fn open(state: &Path) -> Result<Option<Self>, VolumesError> {
        if !FileStorage::in_directory(state).exists() {
            return Ok(None);
        }
        Self::open_or_make(state).map(Some)
    }

    /// Opens the index in the state directory `state`, or makes both. Waits a moment for other commands.
    ///
    /// # Errors
    /// [`VolumesError::InUse`] while a server holds it.
    pub fn open_or_make(state: &Path) -> Result<Self, VolumesError> {
        index_file::make_state_dir(state).map_err(|error| at(state, error))?;
        let index = patiently(|| Ok(Index::open(FileStorage::in_directory(state), options())?))?;
        Ok(Self { index: Arc::new(index) })
    }

    /// Returns the path of the index that was [replaced](Self::replace), and the reason.
    pub fn replaced(&self) -> Option<(&Path, &str)> {
        match self.index.previous_shutdown() {
            PreviousShutdown::Replaced(aside, why) => Some((aside, why)),
            _ => None,
        }
    }

    /// Returns all volumes, by number, each with a look at its directory.
    pub fn list(&self) -> Vec<VolumeShown> {
        let volumes = self.index.volumes();
        volumes.into_iter().map(|(id, record)| looked_at(id, &record)).collect()
    }

    /// Creates a volume: gives the tree at `path` a number, and its root the mark; makes a missing directory.
    /// A tree with the mark of a volume that this index does not know keeps its number.
    ///
    /// # Errors
    /// The name is taken, the directory is a volume already or can bear no mark, or what the index says.
    pub fn create(&self, name: &VolumeName, path: &Path) -> Result<VolumeShown, VolumesError> {
        let name = name.as_str();
        if let Some((id, _)) = self.index.volume(name) {
            return Err(index::Error::VolumeExists(format!("{name} (number {id})")).into());
        }
        // Whatever the umask: other users do not write to it unless that was granted.
        let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
        made.map_err(|error| at(path, error))?;
        let path = &path.canonicalize().map_err(|error| at(path, error))?;
        let text = path.to_str().ok_or_else(|| at(path, "a configuration takes paths of UTF-8 only"))?;
        let root = File::open(path).map_err(|error| at(path, error))?;
        let places = MountedDirectories::now();
        let inside =
            self.index.volumes().into_iter().map(|(_, record)| record).find(|record| {
                Path::new(&record.path) != *path && places.overlap(path, Path::new(&record.path))
            });
        if let Some(VolumeRecord { name, path: other, .. }) = inside {
            return Err(VolumesError::Overlaps { path: path.clone(), name, other: other.into() });
        }
        let mark = read_mark(&root).map_err(|error| at(path, error))?;
        if let Some(known) = mark.as_deref().and_then(|mark| self.bearer_of(mark)) {
            return Err(VolumesError::IsVolume { path: path.clone(), known });
        }
        let uuid_if_new = new_uuid().map_err(|error| at(path, error))?;
        let tree = Tree { name, path: text, mark: mark.as_deref(), uuid_if_new };
        let opened = self.index.open_volume(tree, SystemTime::now())?;
        let rights = lists::rights_at(&root).map_err(|error| at(path, error))?;
        if let Err(error) = write_mark(&root, &opened.mark, rights) {
            self.index.remove_volume(name)?;
            return Err(at(
                path,
                format!(
                    "the extended attribute by which the volume is known again cannot be set on it: {error}"
                ),
            ));
        }
        self.index.marked(opened.volume, &opened.mark);
        self.index.close_volume(opened.volume);
        let (id, record) = self.index.volume(name).ok_or_else(|| index::Error::NoVolume(name.to_owned()))?;
        Ok(looked_at(id, &record))
    }

    /// Removes a volume: its record and, where the root still has it, its mark. Its files stay as they are.
    ///
    /// # Errors
    /// [`index::Error::NoVolume`]; [`VolumesError::RightsLost`]; the directory.
    pub fn remove(&self, name: &str) -> Result<VolumeShown, VolumesError> {
        let (id, record) = self.index.volume(name).ok_or_else(|| index::Error::NoVolume(name.to_owned()))?;
        let shown = looked_at(id, &record);
        if record.has_rights && lists::are_lost(&shown.path) {
            return Err(VolumesError::RightsLost { name: name.to_owned(), path: shown.path });
        }
        // A mark without a record is a volume that another server may know; a record without a mark would be a tree that was
        // exchanged.
        self.index.remove_volume(name)?;
        if shown.trouble.is_none() {
            let path = &shown.path;
            let removed = File::open(path).and_then(|root| remove_mark(&root));
            removed.map_err(|error| at(path, format!("the volume is forgotten, its mark stays: {error}")))?;
        }
        Ok(shown)
    }

    /// Compares the index's records of a volume with its tree, and repairs them with `repair`.
    ///
    /// Overlapping volumes, inside of this one or around it, are reported too.
    ///
    /// # Errors
    ///
    /// [`index::Error::NoVolume`]; what keeps it from being compared.
    pub fn check(
        &self,
        name: &str,
        repair: bool,
        progress: &Arc<CheckProgress>,
    ) -> Result<VolumeChecked, VolumesError> {
        let (id, record) = self.index.volume(name).ok_or_else(|| index::Error::NoVolume(name.to_owned()))?;
        let (index, progress) = (Arc::clone(&self.index), Arc::clone(progress));
        let options = CheckOptions { repair, trusted_attributes: objects::writes_trusted_attributes() };
        let path = Path::new(&record.path);
        let held = tree_use::hold(path, repair).map_err(|error| at(path, error))?;
        let _held = held.ok_or_else(|| VolumesError::TreeInUse(path.to_owned()))?;
        let checked =
            run_here(
                RuntimeOptions::default(),
                async move { vfs::check(&index, id, options, progress).await },
            );
        let report = checked.map_err(|error| at(path, error))?.map_err(|error| match error {
            CheckError::Index(error) => error.into(),
            error => at(path, error),
        })?;
        let others = self.index.volumes().into_iter().filter(|(other, _)| *other != id);
        let others: Vec<_> = others.map(|(_, other)| (other.name, PathBuf::from(other.path))).collect();
        let places = MountedDirectories::now();
        let overlaps = others.iter().filter(|(_, other)| places.overlap(path, other));
        Ok(VolumeChecked { report, overlaps: overlaps.map(|(name, _)| name.clone()).collect() })
    }

    /// Returns the name of the volume that this index knows by the mark.
    fn bearer_of(&self, mark: &[u8]) -> Option<String> {
        let mark = Mark::parse(mark)?;
        let volumes = self.index.volumes();
        let known = volumes.into_iter().find(|(id, record)| (*id, record.uuid) == (mark.volume, mark.uuid));
        known.map(|(_, record)| record.name)
    }

    /// Closes the index, and leaves the last server's kind of stop as it was.
    ///
    /// # Errors
    /// When the index could not be written.
    pub fn close(self) -> Result<(), VolumesError> {
        Ok(self.index.put_back()?)
    }
}

impl VolumeChecked {
    /// Returns whether there was nothing to do.
    pub fn is_clean(&self) -> bool {
        self.report.is_clean() && self.overlaps.is_empty()
    }

    /// Returns whether nothing is left to do.
    pub fn is_mended(&self) -> bool {
        self.report.is_mended() && self.overlaps.is_empty()
    }
}

fn options() -> Options {
    Options { boot: index::boot(), ..Options::default() }
}

/// Repeats `open` for as long as another command may hold the index.
fn patiently<T>(open: impl Fn() -> Result<T, VolumesError>) -> Result<T, VolumesError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match open() {
            Err(VolumesError::InUse) if Instant::now() < until => std::thread::sleep(TRY_AGAIN),
            done => return done,
        }
    }
}

/// Returns the record of a volume with the trouble of its directory's mark, if any.
fn looked_at(id: VolumeId, record: &VolumeRecord) -> VolumeShown {
    let shown = VolumeShown::of(id, record);
    let mark = File::open(&shown.path).and_then(|root| read_mark(&root));
    let trouble = match mark.map(|mark| mark.map(|bytes| Mark::parse(&bytes))) {
        Err(error) => Some(error.to_string()),
        Ok(None) => Some("its directory bears no mark".to_owned()),
        Ok(Some(None)) => Some("the mark on its directory cannot be understood".to_owned()),
        Ok(Some(Some(mark))) if (mark.volume, mark.uuid) != (id, record.uuid) => {
            Some("its directory bears the mark of another volume".to_owned())
        }
        Ok(Some(Some(_))) => None,
    };
    VolumeShown { trouble, ..shown }
}

/// Reads the later of the marks that a directory may have, by its generation.
fn read_mark(root: &File) -> std::io::Result<Option<Vec<u8>>> {
    let generation = |bytes: &Vec<u8>| Mark::parse(bytes).map(|mark| mark.generation);
    Ok(lists::marks(root)?.into_iter().flatten().max_by_key(generation))
}

/// Writes the mark. The storage of rights stays the volume's for ever; a new one's is out of others' reach
/// where the process has the privilege. The unprivileged attribute has the mark too, for servers without the
/// privilege.
fn write_mark(root: &File, mark: &Mark, rights: Option<RightsIn>) -> std::io::Result<()> {
    let [user, trusted] = vfs::MARK_ATTRIBUTES;
    let set = |name: &CStr, rights| {
        let mark = Mark { rights: Some(rights), ..*mark }.encode();
        rustix::fs::fsetxattr(root, name, &mark, XattrFlags::empty())
    };
    match rights {
        Some(RightsIn::User) => set(user, RightsIn::User)?,
        _ => match set(trusted, RightsIn::Trusted) {
            Err(Errno::PERM | Errno::OPNOTSUPP) => set(user, rights.unwrap_or(RightsIn::User))?,
            written => {
                written?;
                let _ = set(user, RightsIn::Trusted);
            }
        },
    }
    root.sync_all()
}

fn remove_mark(root: &File) -> std::io::Result<()> {
    let [user, trusted] = vfs::MARK_ATTRIBUTES;
    for name in [user, trusted] {
        match rustix::fs::fremovexattr(root, name) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            // A user that may not have it does not see it either.
            Err(Errno::PERM) if name == trusted => {}
            Err(error) => return Err(error.into()),
        }
    }
    root.sync_all()
}

fn new_uuid() -> std::io::Result<[u8; 16]> {
    let mut uuid = [0; 16];
    std::io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut uuid)?;
    Ok(uuid)
}

fn at(path: &Path, problem: impl ToString) -> VolumesError {
    VolumesError::Root { path: path.to_owned(), problem: problem.to_string() }
}

/// Longest wait for other commands, which hold the index for milliseconds, but for checks.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two attempts.
const TRY_AGAIN: Duration = Duration::from_millis(20);
