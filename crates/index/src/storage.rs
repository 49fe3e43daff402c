//! Storage of the index.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use redb::backends::FileBackend;
use redb::{Builder, Database};

use crate::Error;
use crate::clean_shutdown::{FILE_NAME, InMemory, MapWords};
use crate::journal::RecoveredJournal;
use crate::journal_layout::Words;
use crate::marker::CleanShutdownMarker;

/// Storage of the index's file, marker and journal.
pub trait Storage: Send + Sync + 'static {
    /// Opens the database, or makes an empty one.
    ///
    /// # Errors
    /// In use, damaged, or not to be read.
    fn open(&self, builder: &Builder) -> Result<Database, Error>;

    /// Sets aside a file that cannot be opened, so that the next opening makes an empty one; returns its new
    /// path.
    ///
    /// # Errors
    /// When it can't.
    fn set_aside(&self) -> Result<PathBuf, Error>;

    /// Removes and returns the marker of the last clean stop, which no image of a disk has and no boot keeps.
    fn take_marker(&self) -> Option<CleanShutdownMarker>;

    /// Leaves a marker for the next opening, which may fail to find it.
    fn leave_marker(&self, marker: &CleanShutdownMarker);

    /// Removes and returns the journal that a killed server left.
    fn take_journal(&self) -> Option<RecoveredJournal>;

    /// Makes an empty journal with room for `words_max` words; `None` without such memory.
    fn new_journal(&self, words_max: usize) -> Option<Box<dyn Words>>;

    /// Removes the journal, as all is committed.
    fn remove_journal(&self);
}

/// Storage in a file on a disk, as servers use it.
#[derive(Debug)]
pub struct FileStorage {
    path: PathBuf,
    map: Option<MapWords>,
}

impl FileStorage {
    /// Makes storage in `index.redb` of the directory `state`.
    pub fn in_directory(state: &Path) -> Self {
        Self { path: state.join(FILE_NAME), map: None }
    }

    /// Adds a journal in memory that `map` maps: for a server that lets files be changed.
    #[must_use]
    pub fn with_journal(self, map: MapWords) -> Self {
        Self { map: Some(map), ..self }
    }

    /// Returns whether the file exists, or cannot be reached, in which case opening returns the error.
    pub fn exists(&self) -> bool {
        !matches!(self.path.try_exists(), Ok(false))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes an empty one, which has its name from when it is whole on.
    fn make(&self, builder: &Builder) -> Result<Database, Error> {
        let problem = |error: io::Error| Error::Storage(format!("{}: {error}", self.path.display()));
        let dir = File::open(self.path.parent().unwrap_or(Path::new("."))).map_err(problem)?;
        // One at a time, until the database holds its own lock.
        dir.lock().map_err(problem)?;
        if self.exists() {
            return Err(Error::InUse);
        }
        let unfinished = self.path.with_file_name(UNFINISHED_NAME);
        // One that is there is of a process that was killed here.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&unfinished)
            .map_err(problem)?;
        let database = builder.create_with_backend(FileBackend::new(file)?)?;
        std::fs::rename(&unfinished, &self.path).and_then(|()| dir.sync_all()).map_err(problem)?;
        Ok(database)
    }

    pub(crate) fn in_memory(&self) -> InMemory {
        InMemory::of_index(self.path.parent().unwrap_or(Path::new(".")))
    }
}

impl Storage for FileStorage {
    fn open(&self, builder: &Builder) -> Result<Database, Error> {
        let problem = |error: io::Error| Error::Storage(format!("{}: {error}", self.path.display()));
        let file = match OpenOptions::new().read(true).write(true).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.make(builder),
            Err(error) => return Err(problem(error)),
        };
        refuse_empty(&file.metadata().map_err(problem)?)?;
        sync_name(&self.path).map_err(problem)?;
        Ok(builder.create_with_backend(FileBackend::new(file)?)?)
    }

    fn set_aside(&self) -> Result<PathBuf, Error> {
        let mut aside = self.path.clone();
        for n in 1.. {
            aside.set_file_name(format!("{FILE_NAME}.replaced-{n}"));
            if !aside.exists() {
                break;
            }
        }
        let moved = std::fs::rename(&self.path, &aside).and_then(|()| sync_name(&aside));
        match moved {
            Ok(()) => Ok(aside),
            Err(error) => Err(Error::Aside { path: aside, error }),
        }
    }

    fn take_marker(&self) -> Option<CleanShutdownMarker> {
        self.in_memory().take_marker()
    }

    fn leave_marker(&self, marker: &CleanShutdownMarker) {
        self.in_memory().leave_marker(marker);
    }

    fn take_journal(&self) -> Option<RecoveredJournal> {
        self.in_memory().take_journal()
    }

    fn new_journal(&self, words_max: usize) -> Option<Box<dyn Words>> {
        let in_memory = self.in_memory();
        let map = self.map?;
        in_memory.sweep();
        in_memory.new_journal(map, words_max)
    }

    fn remove_journal(&self) {
        self.in_memory().remove_journal();
    }
}

/// Returns the id of the machine's boot. An unreadable id is like no other, so that nothing is believed after
/// it.
pub fn boot() -> [u8; 16] {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    u128::from_str_radix(&digits, 16).unwrap_or(since_1970).to_be_bytes()
}

/// Syncs the directory of a path, which makes a new name safe.
fn sync_name(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Refuses an index of no bytes, which the database would take for one that is to be made.
pub(crate) fn refuse_empty(found: &Metadata) -> Result<(), Error> {
    match found.len() {
        0 => Err(Error::Damaged("the file is empty".to_owned())),
        _ => Ok(()),
    }
}

/// Name of an index that is being made.
const UNFINISHED_NAME: &str = "index.redb.unfinished";
