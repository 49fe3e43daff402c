//! Index of a server that writes: one file in the state directory, held for as long as the process lives,
//! with a thread that commits.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use index::{
    Committer, Error, FileStorage, Health, Index, Options, PreviousShutdown, VolumeId, VolumeRecord, Words,
};
use lane::memory::WordFile;

use crate::health::utc;

lane::counter_block! {
    /// Counters of the index.
    pub struct IndexCounters {
        gauge waiting: "Records of files that are not committed yet.",
        gauge reserved: "Files in use that have changed: each is one record when it is let go of.",
        gauge room: "Records that may wait, both together; when there is no room changes wait for a commit.",
        gauge journaled: "Files whose changes a kill of the server would leave in memory: 256 bytes each.",
        gauge journal_lacking: "Files that found no room there: while there are any a kill has files have new versions.",
        count commits: "Commits that went through.",
        count commits_failed: "Commits that did not, and are tried again.",
    }
}

/// Index of a server, open.
pub(crate) struct IndexFile {
    index: Arc<Index>,
    state: PathBuf,
    /// Thread that commits for as long as this lives.
    _committer: Committer,
    counters: Arc<IndexCounters>,
}

impl IndexFile {
    /// Opens the index in this directory, or makes both.
    ///
    /// # Errors
    /// What is wrong, in words for the administrator.
    pub(crate) fn open(state: &Path) -> Result<Self, String> {
        let problem = |error: &dyn std::fmt::Display| format!("the index in {}: {error}", state.display());
        make_state_dir(state).map_err(|error| problem(&error))?;
        let options = Options { boot: index::boot(), ..Options::default() };
        let index = open(state, options).map_err(|error| problem(&told(&error)))?;
        let committer = Committer::start(&index, COMMIT_PERIOD).map_err(|error| problem(&error))?;
        Ok(Self {
            index: Arc::new(index),
            state: state.to_owned(),
            _committer: committer,
            counters: Arc::default(),
        })
    }

    pub(crate) fn index(&self) -> Arc<Index> {
        Arc::clone(&self.index)
    }

    pub(crate) fn counters(&self) -> &Arc<IndexCounters> {
        &self.counters
    }

    /// Returns messages for the administrator about the state in which the index was found.
    pub(crate) fn news(&self) -> Vec<String> {
        self.news_of_last_stop().into_iter().chain(self.news_of_journal()).collect()
    }

    fn news_of_journal(&self) -> Option<String> {
        //@ level: WARN
        //@ cause: The server could not make its journal in `/dev/shm`: that is no tmpfs or is full, or another user has put something in
        //@ its place.
        //@ remedy: Look for `linerate-UID-*.journal` there that is not the server's user's, and remove it; mount a tmpfs at `/dev/shm`.
        (!self.index.is_journaled()).then(|| {
            "index: no journal can be kept in /dev/shm; all works, but after a kill of the server files have new versions and clients \
             fetch them again [index-without-journal]"
                .to_owned()
        })
    }

    fn news_of_last_stop(&self) -> Option<String> {
        match self.index.previous_shutdown() {
            //@ level: WARN
            //@ cause: The last server was killed or crashed. Its memory held what it had not written yet.
            //@ remedy: None is needed. If it was not killed on purpose, look for the reason in its log and in the kernel's (out of memory).
            PreviousShutdown::Crash if self.index.counts_on() => Some(
                "index: the last server was killed or crashed; nothing is lost, and clients keep what they have cached [index-after-kill]"
                    .to_owned(),
            ),
            //@ level: WARN
            //@ cause: The last server was killed or crashed, and what it had not written to the index yet is not known.
            //@ remedy: None is needed: clients fetch again what they have cached. If it was not killed on purpose, look for the reason in its log.
            PreviousShutdown::Crash => Some(
                "index: the last server was killed or crashed; no file is lost, but files have new versions and clients fetch them again \
                 [index-after-crash]"
                    .to_owned(),
            ),
            //@ level: WARN
            //@ cause: The machine lost power or crashed while the server ran.
            //@ remedy: Clients fetch again what they have cached. What was written last may be missing, as with any program.
            PreviousShutdown::PowerLoss => Some(
                "index: the machine went down while the last server ran; every file has a new version, and clients fetch them again \
                 [index-after-power-loss]"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Returns all volumes of the index, by number.
    pub(crate) fn volumes(&self) -> Vec<(VolumeId, VolumeRecord)> {
        self.index.volumes()
    }

    /// Updates the counters, and returns the reason why commits fail, if they do.
    pub(crate) fn look(&self) -> Option<String> {
        let (backlog, (commits, failures)) = (self.index.backlog(), self.index.commits());
        let counters = &self.counters;
        counters.waiting.set(backlog.objects as u64);
        counters.reserved.set(backlog.reserved as u64);
        counters.room.set(backlog.max as u64);
        counters.journaled.set(backlog.journaled as u64);
        counters.journal_lacking.set(backlog.lacking as u64);
        counters.commits.add(commits - counters.commits.get());
        counters.commits_failed.add(failures - counters.commits_failed.get());
        match self.index.health() {
            Health::Well => None,
            Health::Failing(why, since) => Some(format!(
                "{why}; the state directory {} cannot be written since {}; until it can, versions of what changes now are lost should \
                 the server be killed",
                self.state.display(),
                utc(since)
            )),
            Health::Hangs(since) => Some(format!(
                "the file system of the state directory {} has not answered since {}; until it does, versions of what changes now are \
                 lost should the server be killed",
                self.state.display(),
                utc(since)
            )),
        }
    }

    /// Returns the directory of the index.
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// Ends in order: syncs the volumes at paths, commits all, and marks a clean stop. With objects in use
    /// the stop counts as a crash, as their changes are missing. `leave` runs before another server can open
    /// the index.
    pub(crate) fn close<'a>(
        &self,
        objects_in_use: usize,
        paths: impl Iterator<Item = &'a Path>,
        leave: impl FnOnce(),
    ) {
        let mut is_safe = objects_in_use == 0;
        for path in paths {
            let synced = std::fs::File::open(path).and_then(|root| Ok(rustix::fs::syncfs(root)?));
            if let Err(error) = synced {
                //@ cause: At the server's end the volume's file system could not be opened or synced.
                //@ remedy: Look at the kernel's log and at the disk. Files written last may be incomplete after a power loss.
                tracing::error!(
                    "volume at {}: what was written last may not be on the disk yet: {error}; look at the disk [volume-not-synced]",
                    path.display()
                );
                is_safe = false;
            }
        }
        if is_safe {
            leave();
        }
        let closed = if is_safe { self.index.close() } else { self.index.flush() };
        closed.unwrap_or_else(|error| report_unwritten(&error));
    }

    /// Ends an opening without use, as in a start that was refused: the next one finds the stop of the last
    /// server.
    pub(crate) fn put_back(&self) {
        self.index.put_back().unwrap_or_else(|error| report_unwritten(&error));
    }
}

fn report_unwritten(error: &Error) {
    //@ cause: At the server's end the index in the state directory could not be written, as when the disk is full.
    //@ remedy: Make room on the disk of the state directory, or mend it. No file is lost.
    tracing::error!(
        "index: its last changes could not be written: {error}; files have new versions at the next start, and clients fetch them again; \
         look at the disk [index-not-closed]"
    );
}

impl std::fmt::Debug for IndexFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.index.fmt(f)
    }
}

/// Makes the state directory for this user alone, whatever the umask is.
pub(crate) fn make_state_dir(state: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(state)
}

/// Opens the index; waits for a command that holds it for a moment, such as `linerate volume list`.
fn open(state: &Path, options: Options) -> Result<Index, Error> {
    let until = Instant::now() + IN_USE_MAX;
    loop {
        match Index::open(FileStorage::in_directory(state).with_journal(map), options) {
            Err(Error::InUse) if Instant::now() < until => std::thread::sleep(ASK_AGAIN),
            opened => return opened,
        }
    }
}

/// Journal of uncommitted changes in a file that a kill leaves.
struct Journal(WordFile);

impl Words for Journal {
    fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }

    fn grow(&self, len: usize) -> bool {
        self.0.grow(len)
    }
}

fn map(file: File, words_max: usize, words: usize) -> std::io::Result<Box<dyn Words>> {
    Ok(Box::new(Journal(WordFile::map(file, words_max, words)?)))
}

/// Words the error, with the remedy for an index that this program cannot read and so leaves as it is.
pub(crate) fn told(error: &Error) -> String {
    match error {
        Error::Format { .. } | Error::FileFormat { .. } => format!(
            "{error}, or give its numbers and versions up by `linerate volume check --replace-index`, which keeps it beside a new one"
        ),
        Error::Damaged(_) => format!(
            "{error}; look at the disk: `linerate volume check --replace-index` puts it aside and begins a new one, above all numbers \
             that were given out"
        ),
        _ => error.to_string(),
    }
}

/// Longest wait for a command that holds the index.
const IN_USE_MAX: Duration = Duration::from_secs(2);
/// Time between two attempts to open the index.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// Delay after which changes are safe; a crash before costs clients a fetch of what was changed.
const COMMIT_PERIOD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_a_command_has_for_a_moment_is_waited_for_and_a_servers_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let held = IndexFile::open(dir.path()).unwrap();
        let refused = IndexFile::open(dir.path()).unwrap_err();
        assert!(refused.contains("in use by another process"), "{refused}");
        let path = dir.path().to_owned();
        let waits = std::thread::spawn(move || IndexFile::open(&path).map(|_| ()));
        drop(held);
        assert_eq!(waits.join().unwrap(), Ok(()));
    }

    #[test]
    fn versions_count_on_after_a_server_that_did_not_close_the_index() {
        use index::{Changing, FileStamp, FirstUse, Kind, Tree};
        use std::time::{SystemTime, UNIX_EPOCH};

        let dir = tempfile::tempdir().unwrap();
        let mut mark = None;
        let mut open = |now| {
            let index = IndexFile::open(dir.path()).unwrap();
            let tree = Tree { name: "home", path: "/srv", mark: mark.as_deref(), uuid_if_new: [1; 16] };
            let opened = index.index().open_volume(tree, now).unwrap();
            index.index().marked(opened.volume, &opened.mark);
            mark = Some(opened.mark.encode().to_vec());
            (index, opened.volume)
        };
        let now = SystemTime::now() - Duration::from_secs(9);
        let since = now.duration_since(UNIX_EPOCH).unwrap();
        let changed =
            index::Timestamp { secs: since.as_secs().cast_signed(), nanos: since.subsec_nanos().max(1) };
        let load = |index: &IndexFile, volume| {
            let seen = FileStamp { changed, size: 1 };
            let of =
                FirstUse { identity: b"f", kind: Kind::File, seen, place: None, is_to_change: true, now };
            index.index().load(volume, of).unwrap().object
        };
        let (index, volume) = open(now);
        let object = load(&index, volume);
        let of = Changing { identity: b"f", number: object.number, version: object.version, place: None };
        let slot = index.index().reserve(volume, of);
        index.index().changing(slot, object.version.next(), now);
        index.index().changed(slot, now + Duration::from_millis(1));
        index.index().beat(SystemTime::now());
        drop(index);
        let (index, volume) = open(SystemTime::now());
        if !index.index().counts_on() {
            eprintln!("skipped: there is no /dev/shm to write to");
            return;
        }
        assert!(index.news()[0].contains("clients keep what they have"));
        assert_eq!(load(&index, volume).version, object.version.next());
        index.close(0, std::iter::empty(), || {});
    }

    #[test]
    fn a_journal_that_cannot_be_made_is_told_of() {
        let home = tempfile::tempdir().unwrap();
        let text = home.path().as_os_str().as_encoded_bytes();
        let is_its_journal = |path: &PathBuf| {
            path.extension().is_some_and(|end| end == "journal")
                && std::fs::read(path)
                    .is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text))
        };
        let index = IndexFile::open(home.path()).unwrap();
        let memory = std::fs::read_dir("/dev/shm").into_iter().flatten().filter_map(Result::ok);
        let Some(journal) = memory.map(|entry| entry.path()).find(is_its_journal) else {
            return testkit::skip("there is no /dev/shm to write to");
        };
        assert!(index.news().is_empty());
        index.close(0, std::iter::empty(), || {});
        drop(index);
        // As another user's file is, which this one may not remove.
        std::fs::create_dir(&journal).unwrap();
        let index = IndexFile::open(home.path()).unwrap();
        std::fs::remove_dir(&journal).unwrap();
        let news = index.news();
        assert!(news.len() == 1 && news[0].contains("[index-without-journal]"), "{news:?}");
        index.close(0, std::iter::empty(), || {});
    }
}
