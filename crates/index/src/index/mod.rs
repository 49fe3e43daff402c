//! Index in memory, with its file and its begin and end.

mod commit;
mod hosts;
mod lists;
mod objects;
mod volumes;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock};
use std::time::{Duration, SystemTime};

use redb::{Builder, Database, ReadableDatabase, ReadableTable};

use crate::codec::Fields;
use crate::journal::{self, Journal};
use crate::pending::{Backlog, Pending};
use crate::range::Ranges;
use crate::run_state::RunState;
use crate::storage::Storage;
use crate::tables::{self, STATE, VOLUMES};
use crate::{CleanShutdownMarker, Error, Number, Version, VolumeId, VolumeRecord, clean_shutdown};

/// Index of a server's trees. Shared by all lanes; only [`Index::load`], [`Index::find`], [`Index::flush`]
/// and what says so waits for a disk, and is for threads that may.
pub struct Index {
    shared: Arc<IndexShared>,
}

/// Options for opening an index.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Id of the machine's boot ([`crate::boot`]).
    pub boot: [u8; 16],
    /// Most records that may wait to be committed; more than 0.
    pub pending_max: usize,
    /// Most files with uncommitted changes in the journal, 256 bytes each when used; beyond, a kill makes
    /// every volume begin a generation.
    pub journal_max: usize,
    /// Bytes of memory for pages of the file.
    pub cache_bytes: usize,
}

/// Manner in which the server before this one stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreviousShutdown {
    /// No server ran before: the index is new.
    First,
    /// The server stopped in order.
    Clean,
    /// The server was killed or crashed, and the machine went on.
    Crash,
    /// The machine lost power or crashed with the server.
    PowerLoss,
    /// The file could not be opened. It was put aside there as [`Index::replace`] was asked to, and the index
    /// begun anew.
    Replaced(PathBuf, String),
}

/// State of commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Commits succeed.
    Well,
    /// The last commit failed, with this reason and since this time; it is retried, and nothing is lost
    /// except in a crash.
    Failing(String, SystemTime),
    /// The commit that began at this time has not ended: the file system does not answer.
    Hangs(SystemTime),
}

pub(crate) struct IndexShared {
    storage: Box<dyn Storage>,
    options: Options,
    stop: PreviousShutdown,
    /// Set if the last server ended in this boot, clean or with a complete journal, and nothing was set
    /// back since: versions count on.
    is_unbroken: bool,
    /// Database; `None` after a failure, until it is opened again.
    database: RwLock<Option<Database>>,
    /// Lock of the committing task; a task that waits for it finds its own changes committed.
    committing: Mutex<()>,
    state: Mutex<IndexState>,
    /// Number of uncommitted object records.
    waiting: AtomicUsize,
    /// Number of records that are reserved.
    reserved: AtomicUsize,
    commits: AtomicU64,
    failures: AtomicU64,
    pub(crate) journal: Option<Arc<Journal>>,
    /// Condition that wakes the committer.
    pub(crate) bell: Condvar,
}

#[derive(Default)]
pub(crate) struct IndexState {
    pub(crate) pending: Pending,
    /// Changes that a commit under way writes.
    underway: Option<Arc<Pending>>,
    /// Numbers of files just made, by identity, until the index records them: a handful, so ordered and not
    /// hashed.
    begun: BTreeMap<VolumeId, BTreeMap<Box<[u8]>, Number>>,
    volumes: BTreeMap<VolumeId, VolumeRecord>,
    /// Volumes that are served.
    open: BTreeMap<VolumeId, OpenVolume>,
    next_volume: u32,
    journal: Option<Arc<Journal>>,
    /// Counter of the file's commits, for ever.
    commits: u64,
    /// Counter of changes, to compare with what is committed.
    told: u64,
    committed: u64,
    /// Counter of changes to directories with lists.
    lists_told: u64,
    /// Reason why commits fail, with the time of the first failure.
    failing: Option<(String, SystemTime)>,
    /// Time since which a commit has been under way.
    underway_since: Option<SystemTime>,
    pub(crate) ends: bool,
}

/// State of a volume that is served.
struct OpenVolume {
    ranges: Ranges,
    /// Least version that a change brings.
    first: Version,
    /// Set once the volume's mark is on the root.
    is_marked: bool,
}

impl Default for Options {
    fn default() -> Self {
        //@ limit: records of the index that are not committed
        //@ section: Writable volumes
        //@ unit: record of some 200 bytes
        //@ connection: what it changes
        //@ all: process: 262,144
        //@ empty: a change waits for eight commits at most, then it is refused as busy; others wait for a commit too
        //@ counter: index_waiting, index_reserved, index_journaled, index_commits
        //@ attack: afs-pools
        Self { boot: [0; 16], pending_max: 262_144, journal_max: 262_144, cache_bytes: 64 << 20 }
    }
}

impl Options {
    fn builder(&self) -> Builder {
        let mut builder = Database::builder();
        builder.set_cache_size(self.cache_bytes);
        builder
    }
}

impl PreviousShutdown {
    /// Returns whether the callbacks of all hosts were kept and all records can be trusted.
    pub fn is_clean(&self) -> bool {
        matches!(self, Self::First | Self::Clean)
    }
}

impl Index {
    /// Opens the index, and commits that it is in use: without [`Index::close`] the end of this process is no clean
    /// stop.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::Format`], [`Error::FileFormat`], [`Error::Damaged`], or what the storage says. The
    /// file stays then.
    pub fn open(storage: impl Storage, options: Options) -> Result<Self, Error> {
        let known = open_known(&storage, &options.builder(), options.boot)?;
        Self::begun(storage, options, known)
    }

    /// Sets an index aside that is damaged or of a later format, and begins a new one.
    ///
    /// # Errors
    /// [`Error::Sound`] for one that can be opened; as [`Index::open`].
    pub fn replace(storage: impl Storage, options: Options) -> Result<Self, Error> {
        let builder = options.builder();
        let why = match open_known(&storage, &builder, options.boot) {
            Ok(_) => return Err(Error::Sound),
            Err(why @ (Error::Damaged(_) | Error::Format { .. } | Error::FileFormat { .. })) => {
                why.to_string()
            }
            Err(other) => return Err(other),
        };
        let aside = storage.set_aside()?;
        let (database, _, found) = open_known(&storage, &builder, options.boot)?;
        Self::begun(storage, options, (database, PreviousShutdown::Replaced(aside, why), found))
    }

    fn begun(
        storage: impl Storage,
        options: Options,
        (database, stop, found): (Database, PreviousShutdown, OpenedFile),
    ) -> Result<Self, Error> {
        // Taken whatever is found: they are of one stop alone.
        let (left_note, left_journal) = (storage.take_marker(), storage.take_journal());
        let noted =
            found.marker.filter(|_| matches!(stop, PreviousShutdown::Clean | PreviousShutdown::Crash));
        let taken_over = noted.filter(|_| stop == PreviousShutdown::Crash).zip(left_journal);
        let taken_over = taken_over.and_then(|(marker, recovered)| recovered.read(&marker, found.commits));
        let is_unbroken = noted.is_some() && noted == left_note || taken_over.is_some();
        let mut state = IndexState {
            volumes: found.volumes,
            next_volume: found.next_volume,
            commits: found.commits,
            ..IndexState::default()
        };
        if let Some(files) = taken_over {
            state.take_over(&database, files)?;
        }
        if !is_unbroken {
            for (&volume, record) in &mut state.volumes {
                record.counts_from = 0;
                record.distrust_all |= stop == PreviousShutdown::PowerLoss;
                state.pending.volumes.insert(volume, Some(record.clone()));
            }
        }
        let (marker, slots_max) = (clean_shutdown::draw(), options.journal_max);
        let journal = storage.new_journal(journal::words_max(slots_max));
        let journal = journal.and_then(|words| Journal::begin(words, &marker, found.commits, slots_max));
        let journal = journal.map(Arc::new);
        state.journal.clone_from(&journal);
        let run = RunState { is_over: false, marker: journal.is_some().then_some(marker) };
        let shared = IndexShared {
            storage: Box::new(storage),
            options,
            stop,
            is_unbroken,
            database: RwLock::new(Some(database)),
            committing: Mutex::default(),
            state: Mutex::new(state),
            waiting: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            commits: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            journal,
            bell: Condvar::new(),
        };
        shared.commit_run(run)?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns how the server before this one stopped.
    pub fn previous_shutdown(&self) -> &PreviousShutdown {
        &self.shared.stop
    }

    /// Returns whether uncommitted changes lie in memory that outlives this process; if not, versions begin
    /// anew after a kill.
    pub fn is_journaled(&self) -> bool {
        self.shared.journal.is_some()
    }

    /// Returns whether versions count on from the previous server's.
    pub fn counts_on(&self) -> bool {
        self.shared.is_unbroken
    }

    /// Returns whether commits succeed.
    pub fn health(&self) -> Health {
        let state = self.shared.state();
        let hangs = |since: &SystemTime| since.elapsed().is_ok_and(|elapsed| elapsed >= HANGS_AFTER);
        match (&state.failing, state.underway_since.filter(hangs)) {
            (_, Some(since)) => Health::Hangs(since),
            (Some((why, since)), None) => Health::Failing(why.clone(), *since),
            (None, None) => Health::Well,
        }
    }

    /// Returns how many records wait to be committed.
    pub fn backlog(&self) -> Backlog {
        self.shared.backlog()
    }

    /// Returns the numbers of successful and of failed commits since the index was opened.
    pub fn commits(&self) -> (u64, u64) {
        (self.shared.commits.load(Ordering::Relaxed), self.shared.failures.load(Ordering::Relaxed))
    }

    /// Commits all earlier changes and returns when they are safe. Waits for the disk.
    ///
    /// # Errors
    /// When it could not be written: it is kept, and tried again by the next flush.
    pub fn flush(&self) -> Result<(), Error> {
        self.shared.flush()
    }

    /// Ends in order: commits all changes, and that this is a clean stop. The caller has synced the volumes'
    /// file systems before, and [`SETTLES_IN`](crate::SETTLES_IN) has passed since its last change: a change
    /// by another program will have a later time.
    ///
    /// # Errors
    /// When it could not be written: the stop is then no clean one.
    pub fn close(&self) -> Result<(), Error> {
        self.shared.end_run(true, true)
    }

    /// Ends the use by a tool: commits its changes, and leaves the previous server's kind of stop for the
    /// next server.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn put_back(&self) -> Result<(), Error> {
        self.shared.end_run(self.shared.stop.is_clean(), self.shared.is_unbroken)
    }

    pub(crate) fn shared(&self) -> &Arc<IndexShared> {
        &self.shared
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index")
            .field("last_stop", &self.shared.stop)
            .field("backlog", &self.backlog())
            .finish()
    }
}

impl IndexShared {
    pub(crate) fn state(&self) -> MutexGuard<'_, IndexState> {
        self.state.lock().expect("nobody panics while holding it")
    }

    fn backlog(&self) -> Backlog {
        let (journaled, lacking) = self.journal.as_ref().map_or((0, 0), |journal| journal.in_use());
        let state = self.state();
        Backlog {
            objects: state.waiting(),
            reserved: self.reserved.load(Ordering::Relaxed),
            max: self.options.pending_max,
            journaled,
            lacking,
        }
    }

    /// Runs `run` on the database, which is opened again after a failure.
    pub(crate) fn with_database<T>(
        &self,
        run: impl FnOnce(&Database) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let result = {
            let mut database = self.database.read().expect("nobody panics while holding it");
            if database.is_none() {
                drop(database);
                self.reopen()?;
                database = self.database.read().expect("nobody panics while holding it");
            }
            run(database.as_ref().ok_or_else(|| Error::Storage("it is being opened again".into()))?)
        };
        if matches!(result, Err(Error::Storage(_) | Error::Damaged(_))) {
            // Redb refuses everything after a failure. What it committed is intact, and an opening finds it.
            self.database.write().expect("nobody panics while holding it").take();
        }
        result
    }

    fn reopen(&self) -> Result<(), Error> {
        let mut database = self.database.write().expect("nobody panics while holding it");
        if database.is_none() {
            *database = Some(self.storage.open(&self.options.builder())?);
        }
        Ok(())
    }
}

impl IndexState {
    /// Counts a change, to be committed.
    pub(crate) fn tell(&mut self) {
        self.told += 1;
    }

    /// Returns the number of uncommitted object records.
    fn waiting(&self) -> usize {
        self.pending.len() + self.underway.as_ref().map_or(0, |pending| pending.len())
    }
}

/// Contents of an opened file that are kept in memory.
struct OpenedFile {
    /// Marker of the file's last run, in this boot.
    marker: Option<CleanShutdownMarker>,
    commits: u64,
    volumes: BTreeMap<VolumeId, VolumeRecord>,
    next_volume: u32,
}

fn open_known(
    storage: &impl Storage,
    builder: &Builder,
    boot: [u8; 16],
) -> Result<(Database, PreviousShutdown, OpenedFile), Error> {
    let database = storage.open(builder)?;
    let read = database.begin_read()?;
    let mut found =
        OpenedFile { marker: None, commits: 0, volumes: BTreeMap::new(), next_volume: FIRST_VOLUME };
    let state = match read.open_table(STATE) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok((database, PreviousShutdown::First, found)),
        state => state?,
    };
    let mut format = tables::FORMAT;
    if let Some(found) = state.get(tables::FORMAT_KEY)? {
        format = Fields::of(found.value(), "the format").u32()?;
        if !tables::FORMATS.contains(&format) {
            return Err(Error::Format { found: format, known: tables::FORMAT });
        }
    }
    let stop = match state.get(tables::RUN_KEY)? {
        None => PreviousShutdown::First,
        Some(run) => {
            let mut fields = Fields::of(run.value(), "the last run");
            let (is_clean, is_this_boot) = (fields.u8()?, fields.array()? == boot);
            let stop = match (is_clean, is_this_boot) {
                (1, _) => PreviousShutdown::Clean,
                (_, true) => PreviousShutdown::Crash,
                (_, false) => PreviousShutdown::PowerLoss,
            };
            let marker = fields
                .array()
                .ok()
                .filter(|marker| is_this_boot && *marker != CleanShutdownMarker::default());
            found.marker = marker;
            stop
        }
    };
    if let Some(commits) = state.get(tables::COMMITS_KEY)? {
        found.commits = Fields::of(commits.value(), "the number of commits").u64()?;
    }
    if let Some(next) = state.get(tables::NEXT_VOLUME_KEY)? {
        found.next_volume = Fields::of(next.value(), "the next volume").u32()?;
    }
    let volumes = read.open_table(VOLUMES)?;
    for volume in volumes.iter()? {
        let (id, record) = volume?;
        found.volumes.insert(VolumeId(id.value()), VolumeRecord::decode(record.value(), format)?);
    }
    let names: HashSet<_> = found.volumes.values().map(|volume| &volume.name).collect();
    if names.len() != found.volumes.len() {
        return Err(Error::Damaged("two volumes have one name".into()));
    }
    drop((state, volumes, read));
    Ok((database, stop, found))
}

/// Time from which a commit counts as one that the file system does not answer.
const HANGS_AFTER: Duration = Duration::from_secs(5);
/// First number of a volume, where AFS sites begin. Clients take smaller numbers for volumes of their own.
const FIRST_VOLUME: u32 = 0x2000_0001;
