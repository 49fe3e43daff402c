//! State that a server leaves in the machine's memory: a marker at a clean stop, a journal while it runs. By
//! them the next opening knows that nothing was set back in between. An image of a disk has no part of them,
//! so an index that was restored with its tree finds another, or none.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock, fstatfs};

use crate::boot_time::booted_ms_now;
use crate::journal::RecoveredJournal;
use crate::journal_layout::{BOOTED_AT, HEADER_LEN, PATH_AT, Words};
use crate::mark::checksum;
use crate::marker::CleanShutdownMarker;

pub(crate) fn draw() -> CleanShutdownMarker {
    let half = || RandomState::new().hash_one(0).to_le_bytes();
    let mut marker = [0; 16];
    marker[..8].copy_from_slice(&half());
    marker[8..].copy_from_slice(&half());
    marker
}

/// Files in memory, writable by this process's user alone, for the index of one directory.
#[derive(Debug)]
pub(crate) struct InMemory {
    state: PathBuf,
    marker: PathBuf,
    journal: PathBuf,
}

/// Function that maps a file of memory: the file, the most words, and the words that it has from the start.
/// The map lasts as long as the result.
pub type MapWords = fn(File, usize, usize) -> std::io::Result<Box<dyn Words>>;

impl InMemory {
    pub(crate) fn of_index(state: &Path) -> Self {
        let state = state.canonicalize().unwrap_or_else(|_| state.to_owned());
        let marker = Path::new(MEMORY).join(format!("{}{:016x}", prefix(), checksum(bytes_of(&state))));
        let mut journal = marker.clone().into_os_string();
        journal.push(JOURNAL);
        Self { state, marker, journal: journal.into() }
    }

    /// Removes the marker and returns it. Returns `None` unless it is certain that the last clean stop of this boot
    /// wrote it, and that it is removed. It also has to be certain that the machine's memory was not set back with the
    /// disk. Then the wall clock would have leapt against the clock that counts from the boot.
    pub(crate) fn take_marker(&self) -> Option<CleanShutdownMarker> {
        let marker = self.read_marker();
        remove(&self.marker).then_some(marker?)
    }

    /// Returns what [`take_marker`](Self::take_marker) would return, without removing it.
    pub(crate) fn read_marker(&self) -> Option<CleanShutdownMarker> {
        let bytes = read(&self.marker, MARKER_LEN + PATH_MAX)?;
        let (marker, rest) = bytes.split_first_chunk()?;
        let (booted_ms, _) = rest.split_first_chunk()?;
        is_of_this_boot(i64::from_le_bytes(*booted_ms)).then_some(*marker)
    }

    /// Writes the marker. After a failure the next opening finds none.
    pub(crate) fn leave_marker(&self, marker: &CleanShutdownMarker) {
        let Some(booted_ms) = booted_ms_now() else { return };
        if let Some(mut file) = make(&self.marker) {
            let mut bytes = marker.to_vec();
            bytes.extend(booted_ms.to_le_bytes());
            bytes.extend(self.path());
            // One that is torn is none.
            let _ = file.write_all(&bytes);
        }
    }

    /// Takes the journal that a server left when it was killed ([`take_marker`](Self::take_marker)).
    pub(crate) fn take_journal(&self) -> Option<RecoveredJournal> {
        let left = self.read_journal();
        remove(&self.journal).then_some(left?)
    }

    /// Reads the journal ([`read_marker`](Self::read_marker)).
    pub(crate) fn read_journal(&self) -> Option<RecoveredJournal> {
        let bytes = read(&self.journal, usize::MAX)?;
        let (words, _) = bytes.as_chunks();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let booted_ms = words.get(BOOTED_AT)?.cast_signed();
        is_of_this_boot(booted_ms).then(|| RecoveredJournal::of(words))
    }

    /// Makes an empty journal with room for `words_max` words, locked by this process. `None` after any
    /// failure.
    pub(crate) fn new_journal(&self, map: MapWords, words_max: usize) -> Option<Box<dyn Words>> {
        let mut file = make(&self.journal)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        let mut header = vec![0; HEADER_LEN * 8];
        let path = self.path();
        let [len, text] = [PATH_AT * 8, (PATH_AT + 1) * 8];
        header[len..text].copy_from_slice(&(path.len() as u64).to_le_bytes());
        header[text..text + path.len()].copy_from_slice(path);
        file.write_all(&header).ok()?;
        map(file, words_max, HEADER_LEN).ok()
    }

    pub(crate) fn remove_journal(&self) {
        let _ = std::fs::remove_file(&self.journal);
    }

    /// Removes files that were left long ago for indices that no longer exist.
    pub(crate) fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(MEMORY) else { return };
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            if name.as_bytes().starts_with(prefix().as_bytes()) && is_nobodys(&entry.path()) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Returns the path of the state directory, cut to what the header of a journal holds.
    fn path(&self) -> &[u8] {
        let path = bytes_of(&self.state);
        &path[..path.len().min(PATH_MAX)]
    }
}

/// Returns whether the file belongs to no server; false where that is uncertain. Where that cannot be told,
/// it stays.
fn is_nobodys(path: &Path) -> bool {
    let Some(mut file) = open(path) else { return false };
    let is_old = file
        .metadata()
        .and_then(|found| found.modified())
        .is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > STALE_AGE));
    // A server that lives holds the lock of its journal.
    if !is_old || flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
        return false;
    }
    let mut bytes = Vec::new();
    let limit = HEADER_LEN as u64 * 8;
    if std::io::Read::by_ref(&mut file).take(limit).read_to_end(&mut bytes).is_err() {
        return false;
    }
    let state = if path.as_os_str().as_bytes().ends_with(JOURNAL.as_bytes()) {
        let rest = bytes.get(PATH_AT * 8..).and_then(|rest| rest.split_first_chunk());
        rest.and_then(|(len, rest)| rest.get(..usize::try_from(u64::from_le_bytes(*len)).ok()?))
    } else {
        bytes.get(MARKER_LEN..)
    };
    // Those of earlier versions do not say whose they are.
    let state = state.filter(|state| !state.is_empty() && state.len() < PATH_MAX);
    state.is_some_and(|state| {
        matches!(Path::new(OsStr::from_bytes(state)).join(FILE_NAME).try_exists(), Ok(false))
    })
}

/// Reads a file of at most `len_max` bytes.
fn read(path: &Path, len_max: usize) -> Option<Vec<u8>> {
    let mut file = open(path)?;
    let is_free = flock(&file, FlockOperation::NonBlockingLockShared).is_ok();
    let is_short = file.metadata().is_ok_and(|found| found.len() <= len_max as u64);
    let mut bytes = Vec::new();
    (is_free && is_short && file.read_to_end(&mut bytes).is_ok()).then_some(bytes)
}

/// Removes the file so that no later start finds it, and returns whether that is certain.
fn remove(path: &Path) -> bool {
    std::fs::remove_file(path).is_ok()
}

/// Makes a new file; `None` if another user's file is in the way.
fn make(path: &Path) -> Option<File> {
    let _ = std::fs::remove_file(path);
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    file.ok().filter(lies_in_memory)
}

/// Opens a file that only this user can have written.
fn open(path: &Path) -> Option<File> {
    // Neither led elsewhere nor kept waiting by what another user put there.
    let how = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(how).open(path).ok()?;
    let found = file.metadata().ok()?;
    let is_ours = found.is_file()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.mode() & 0o077 == 0
        && lies_in_memory(&file);
    is_ours.then_some(file)
}

fn prefix() -> String {
    format!("linerate-{}-", rustix::process::geteuid().as_raw())
}

fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn is_of_this_boot(booted_ms: i64) -> bool {
    booted_ms_now().is_some_and(|now| booted_ms.abs_diff(now) <= LEAP_MS_MAX)
}

fn lies_in_memory(file: &File) -> bool {
    fstatfs(file).is_ok_and(|of| of.f_type as u64 == TMPFS_MAGIC)
}

/// Name of the index's file in the state directory.
pub(crate) const FILE_NAME: &str = "index.redb";
/// Directory where every Linux has a file system of memory that any user may write to.
const MEMORY: &str = "/dev/shm";
/// Magic number of tmpfs in statfs(2).
const TMPFS_MAGIC: u64 = 0x0102_1994;
const MARKER_LEN: usize = 24;
/// Longest path that a journal's header has room for, in bytes.
const PATH_MAX: usize = (HEADER_LEN - PATH_AT - 1) * 8;
/// Ending of a journal's name, which is otherwise that of the marker.
const JOURNAL: &str = ".journal";
/// Age from which files of a missing index are removed, as its directory may be on a disk that is mounted
/// later.
const STALE_AGE: Duration = Duration::from_secs(86_400);
/// Most milliseconds by which two clocks of one machine diverge between a stop and the next start, while one
/// is adjusted.
const LEAP_MS_MAX: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_found_once_by_who_has_the_index_in_that_directory() {
        let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = InMemory::of_index(home.path());
        let marker = draw();
        assert_eq!(file.take_marker(), None);
        file.leave_marker(&draw());
        file.leave_marker(&marker);
        if !file.marker.exists() {
            eprintln!("skipped: there is no {MEMORY} to write to");
            return;
        }
        assert_eq!(InMemory::of_index(other.path()).take_marker(), None);
        assert_eq!(InMemory::of_index(home.path()).take_marker(), Some(marker));
        assert_eq!(InMemory::of_index(home.path()).take_marker(), None);
    }

    #[test]
    fn what_another_could_have_written_is_no_note() {
        let home = tempfile::tempdir().unwrap();
        let file = InMemory::of_index(home.path());
        let leave = || {
            file.leave_marker(&draw());
            OpenOptions::new().write(true).open(&file.marker)
        };
        let Ok(left) = leave() else {
            eprintln!("skipped: there is no {MEMORY} to write to");
            return;
        };
        left.set_len(MARKER_LEN as u64 - 1).unwrap();
        assert_eq!(file.take_marker(), None, "torn");
        leave().unwrap().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o620)).unwrap();
        assert_eq!(file.take_marker(), None, "another could write it");
        leave().unwrap();
        let to = home.path().join("elsewhere");
        std::fs::copy(&file.marker, &to).unwrap();
        std::fs::remove_file(&file.marker).unwrap();
        std::os::unix::fs::symlink(&to, &file.marker).unwrap();
        assert_eq!(file.take_marker(), None, "it lies elsewhere");
        assert_eq!(file.take_marker(), None);
    }

    #[test]
    fn what_is_old_and_whose_index_is_no_more_is_swept() {
        let (home, gone) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(home.path().join(FILE_NAME), "").unwrap();
        let files = [home.path(), gone.path()].map(InMemory::of_index);
        files.iter().for_each(|file| file.leave_marker(&draw()));
        if !files[0].marker.exists() {
            eprintln!("skipped: there is no {MEMORY} to write to");
            return;
        }
        files[0].sweep();
        assert!(files[1].marker.exists(), "it is not old");
        let long_ago = std::time::SystemTime::now() - STALE_AGE - Duration::from_secs(9);
        for file in &files {
            OpenOptions::new().write(true).open(&file.marker).unwrap().set_modified(long_ago).unwrap();
        }
        files[0].sweep();
        assert!(files[0].marker.exists() && !files[1].marker.exists());
        assert!(files[0].take_marker().is_some());
    }
}
