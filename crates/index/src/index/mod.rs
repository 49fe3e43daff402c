//! The index: what is in memory of it, its file, and how it begins and ends.

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
use crate::storage::Storage;
use crate::tables::{self, STATE, VOLUMES};
use crate::{CleanShutdownMarker, Error, Number, Version, VolumeId, VolumeRecord, clean_shutdown};

/// Index of a server's trees. Shared by all lanes; only [`Index::load`], [`Index::find`], [`Index::flush`]
/// and what says so waits for a disk, and is for threads that may.
pub struct Index {
    shared: Arc<IndexShared>,
}

/// Options of opening an index.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Id of this boot of the machine ([`crate::boot`]).
    pub boot: [u8; 16],
    /// Records that may wait to be committed; more than 0.
    pub pending_max: usize,
    /// Files of which the journal takes up what is not committed, 256 bytes each as far as they are used; with more a kill has
    /// every volume begin a generation.
    pub journal_max: usize,
    /// Bytes of memory for pages of the file.
    pub cache_bytes: usize,
}

/// Way in which the server before this one stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreviousShutdown {
    /// No server ran before: the index is new.
    First,
    /// In order.
    Clean,
    /// The server was killed or crashed, and the machine went on.
    Crash,
    /// The machine went down with it.
    PowerLoss,
    /// The file could not be opened. It was put aside there as [`Index::replace`] was asked to, and the index begun anew.
    Replaced(PathBuf, String),
}

/// Whether commits go through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Commits go through.
    Well,
    /// The last did not, nor any since then; it is tried again, and until it goes through nothing is lost but in a crash.
    Failing(String, SystemTime),
    /// The one that began then has not come to its end: the file system does not answer.
    Hangs(SystemTime),
}

pub(crate) struct IndexShared {
    storage: Box<dyn Storage>,
    options: Options,
    stop: PreviousShutdown,
    /// The last server ended in this boot, in order or with all that it knew in its journal, and nothing was
    /// set back since: versions count on.
    is_unbroken: bool,
    /// `None` after a failure, until it is opened again.
    database: RwLock<Option<Database>>,
    /// Held by the one committing task; a task that waits finds its own changes committed by it.
    committing: Mutex<()>,
    state: Mutex<IndexState>,
    /// Records of objects that are not committed.
    waiting: AtomicUsize,
    /// Records that are to come.
    reserved: AtomicUsize,
    commits: AtomicU64,
    failures: AtomicU64,
    pub(crate) journal: Option<Arc<Journal>>,
    /// Rung when there is something for the committer.
    pub(crate) bell: Condvar,
}

#[derive(Default)]
pub(crate) struct IndexState {
    pub(crate) pending: Pending,
    /// Changes that a commit under way writes.
    underway: Option<Arc<Pending>>,
    /// Numbers of files that were just made, by what they are found by, until the index is told: a handful, so ordered and not hashed.
    begun: BTreeMap<VolumeId, BTreeMap<Box<[u8]>, Number>>,
    volumes: BTreeMap<VolumeId, VolumeRecord>,
    /// Volumes that are served.
    open: BTreeMap<VolumeId, OpenVolume>,
    next_volume: u32,
    journal: Option<Arc<Journal>>,
    /// Counts what the file has been through, for ever.
    commits: u64,
    /// Counts what is told and what is committed.
    told: u64,
    committed: u64,
    /// Counts what is told of directories that have lists.
    lists_told: u64,
    /// Reason why commits fail, and since when.
    failing: Option<(String, SystemTime)>,
    /// Since when a commit has been under way.
    underway_since: Option<SystemTime>,
    pub(crate) ends: bool,
}

/// State of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunState {
    /// The index has ended in order.
    pub(crate) is_over: bool,
    /// Marker of its journal, or the one that it leaves as it ends; `None` where versions do not count on
    /// from there.
    pub(crate) marker: Option<CleanShutdownMarker>,
}

/// A volume that is served.
struct OpenVolume {
    ranges: Ranges,
    /// The least version that a change brings.
    first: Version,
    /// The volume's mark is on the root.
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
    /// Returns whether callbacks of hosts were not forgotten, and no record needs doubt.
    pub fn is_clean(&self) -> bool {
        matches!(self, Self::First | Self::Clean)
    }
}

impl Index {
    /// Opens it, and notes that it is in use: whatever ends this process without [`Index::close`] is no clean stop.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::Format`], [`Error::FileFormat`], [`Error::Damaged`], or what the storage says. The file stays then.
    pub fn open(storage: impl Storage, options: Options) -> Result<Self, Error> {
        let known = open_known(&storage, &options.builder(), options.boot)?;
        Self::begun(storage, options, known)
    }

    /// Puts an index aside that cannot be opened, being damaged or of a later format, and begins it anew.
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

    /// Returns whether what is not committed lies in memory that outlives this process: if not, versions begin anew after a kill.
    pub fn is_journaled(&self) -> bool {
        self.shared.journal.is_some()
    }

    /// Returns whether versions count on from where that server had come to.
    pub fn counts_on(&self) -> bool {
        self.shared.is_unbroken
    }

    /// Returns whether commits go through.
    pub fn health(&self) -> Health {
        let state = self.shared.state();
        let hangs = |since: &SystemTime| since.elapsed().is_ok_and(|elapsed| elapsed >= HANGS_AFTER);
        match (&state.failing, state.underway_since.filter(hangs)) {
            (_, Some(since)) => Health::Hangs(since),
            (Some((why, since)), None) => Health::Failing(why.clone(), *since),
            (None, None) => Health::Well,
        }
    }

    /// Returns what waits to be committed.
    pub fn backlog(&self) -> Backlog {
        self.shared.backlog()
    }

    /// Commits that went through, and such as did not, since it was opened.
    pub fn commits(&self) -> (u64, u64) {
        (self.shared.commits.load(Ordering::Relaxed), self.shared.failures.load(Ordering::Relaxed))
    }

    /// Returns when all that was told before is safe. Waits for the disk.
    ///
    /// # Errors
    /// When it could not be written: it is kept, and tried again by the next flush.
    pub fn flush(&self) -> Result<(), Error> {
        self.shared.flush()
    }

    /// Ends in order: all is committed, and so is that this is a clean stop. The caller has synced the
    /// volumes' file systems before, and [`SETTLES_IN`](crate::SETTLES_IN) has gone by since its last change:
    /// one by another program will have a later time.
    ///
    /// # Errors
    /// When it could not be written: the stop is then no clean one.
    pub fn close(&self) -> Result<(), Error> {
        self.shared.end_run(true, true)
    }

    /// Ends the use by a tool: what it told is committed, and the next server finds that the last one stopped as it did.
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

    /// Runs `read` on the file, which is opened anew when it has failed.
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
    /// Something is told.
    pub(crate) fn tell(&mut self) {
        self.told += 1;
    }

    /// Records of objects that are not committed.
    fn waiting(&self) -> usize {
        self.pending.len() + self.underway.as_ref().map_or(0, |pending| pending.len())
    }
}

/// Part of an opened file that is kept in memory.
struct OpenedFile {
    /// Of its last run, in this boot.
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

/// A commit that takes longer is one that its file system does not answer.
const HANGS_AFTER: Duration = Duration::from_secs(5);
/// Number where AFS sites begin to count. Clients take smaller numbers for volumes of their own.
const FIRST_VOLUME: u32 = 0x2000_0001;
