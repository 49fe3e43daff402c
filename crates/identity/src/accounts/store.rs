//! Accounts file on disk: read only if no other user can read it, changed by one process at a time, replaced
//! whole.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::edit::Edit;
use super::{Accounts, AccountsError};

/// Path of an accounts file, which is opened for each operation. It holds no file open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountsStore {
    path: PathBuf,
}

impl AccountsStore {
    /// Makes the store of the file at `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path of the accounts file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file exists, readable or not.
    pub fn exists(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// Reads and parses the accounts file. A reload keeps the snapshot before when this fails.
    ///
    /// # Errors
    /// What is wrong with its text, or [`AccountsError::Exposed`]: it must be a file of this process's user (or root),
    /// of mode 0600 or less.
    pub fn read(&self) -> Result<Arc<Accounts>, AccountsError> {
        let text = self.text()?;
        Accounts::parse(&text).map_err(|error| error.in_file(&self.path, &text))
    }

    /// Changes the accounts file by `edit`, whole or not at all. A process that changes it at the same time
    /// waits. A file that is not there yet is made, as is its directory, for this user alone; `edit` may be called
    /// twice then.
    ///
    /// # Errors
    /// What `edit` says, what its outcome would be refused for, and what the file system says. The file is as it was.
    pub fn change<T>(
        &self,
        edit: impl Fn(&mut Edit) -> Result<T, AccountsError>,
    ) -> Result<T, AccountsError> {
        if !self.exists() {
            // A mistake makes no directory and no file.
            edit(&mut Edit::new(Edit::EMPTY)?)?;
        }
        let path = self.target()?;
        let _lock = self.lock(&path)?;
        let (text, old) = match self.open() {
            Ok(file) => (read(&file, &path)?, Some(file)),
            Err(AccountsError::Io { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
                (Zeroizing::new(Edit::EMPTY.to_owned()), None)
            }
            Err(error) => return Err(error),
        };
        let mut editing = Edit::new(&text).map_err(|error| error.in_file(&path, &text))?;
        let done = edit(&mut editing)?;
        let changed = editing.finish()?;
        if *changed != *text || old.is_none() {
            replace(&path, changed.as_bytes(), old.as_ref())?;
        }
        Ok(done)
    }

    /// Returns what [`change`](Self::change) would return, without a change of the file.
    ///
    /// # Errors
    /// As there.
    pub fn rehearse<T>(
        &self,
        edit: impl Fn(&mut Edit) -> Result<T, AccountsError>,
    ) -> Result<T, AccountsError> {
        let text = if self.exists() { self.text()? } else { Zeroizing::new(Edit::EMPTY.to_owned()) };
        let mut editing = Edit::new(&text).map_err(|error| error.in_file(&self.path, &text))?;
        let done = edit(&mut editing)?;
        editing.finish()?;
        Ok(done)
    }

    fn text(&self) -> Result<Zeroizing<String>, AccountsError> {
        read(&self.open()?, &self.path)
    }

    /// Opens the accounts file; fails if other users can read or change it.
    fn open(&self) -> Result<File, AccountsError> {
        let tell = |cause| io_error("cannot open the accounts", &self.path, cause);
        // A FIFO in its place must not make a reload wait.
        let file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(&self.path).map_err(tell)?;
        let meta = file.metadata().map_err(tell)?;
        let exposed = |problem: String| AccountsError::Exposed { path: self.path.clone(), problem };
        if !meta.is_file() {
            return Err(exposed("is no file".to_owned()));
        }
        let (mode, shown) = (meta.mode() & 0o7777, self.path.display());
        if mode & 0o077 != 0 {
            return Err(exposed(format!(
                "others than its owner may read or change it (mode {mode:04o}): chmod 600 {shown}"
            )));
        }
        let me = own_uid().map_err(tell)?;
        if ![0, me].contains(&meta.uid()) {
            return Err(exposed(format!(
                "it belongs to the user {}, who could change it: chown {me} {shown}",
                meta.uid()
            )));
        }
        Ok(file)
    }

    /// Returns the path of the file itself where `path` is a symbolic link, so that the link stays.
    fn target(&self) -> Result<PathBuf, AccountsError> {
        match fs::canonicalize(&self.path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                let directory = directory(&self.path);
                let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
                made.map_err(|cause| io_error("cannot make the directory", directory, cause))?;
                Ok(self.path.clone())
            }
            found => found.map_err(|cause| io_error("cannot find the accounts", &self.path, cause)),
        }
    }

    /// Returns the path of the file that is locked while the accounts are changed, without creating it.
    pub fn lock_file(&self) -> PathBuf {
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        beside(&path, LOCK_ENDING)
    }

    /// Locks the accounts for a change, by a file beside them, as the accounts file itself is replaced.
    fn lock(&self, path: &Path) -> Result<File, AccountsError> {
        let path = beside(path, LOCK_ENDING);
        let tell = |cause| io_error("cannot lock", &path, cause);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(tell)?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_PATIENCE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(tell(io::Error::other(
                        "somebody else has been changing the accounts for 10 s",
                    )));
                }
                Err(TryLockError::Error(cause)) => return Err(tell(cause)),
            }
        }
    }
}

/// Replaces a file with one of `bytes` and the old one's owner. After any failure the file is either the old
/// or the new one.
fn replace(path: &Path, bytes: &[u8], old: Option<&File>) -> Result<(), AccountsError> {
    // One name, under the lock: what a crash leaves is overwritten next time.
    let new = beside(path, ".new");
    let written = write_new(&new, bytes, old)
        .and_then(|()| fs::rename(&new, path))
        .and_then(|()| File::open(directory(path))?.sync_all());
    written.map_err(|cause| {
        let _ = fs::remove_file(&new);
        io_error("cannot write the accounts", path, cause)
    })
}

fn write_new(path: &Path, bytes: &[u8], old: Option<&File>) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    if let Some(old) = old {
        let (old, new) = (old.metadata()?, file.metadata()?);
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
    }
    file.write_all(bytes)?;
    file.sync_all()
}

fn read(file: &File, path: &Path) -> Result<Zeroizing<String>, AccountsError> {
    let tell = |cause| io_error("cannot read the accounts", path, cause);
    let length = file.metadata().map_err(tell)?.len().min(Accounts::FILE_MAX as u64) as usize;
    // Large enough from the start: growing would leave copies behind.
    let mut text = Zeroizing::new(String::with_capacity(length + 1));
    file.take(Accounts::FILE_MAX as u64 + 1).read_to_string(&mut text).map_err(tell)?;
    Ok(text)
}

fn io_error(what: &str, path: &Path, cause: io::Error) -> AccountsError {
    AccountsError::Io { what: format!("{what} {}", path.display()), cause }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the effective user of this process.
fn own_uid() -> io::Result<u32> {
    Ok(rustix::process::geteuid().as_raw())
}

//@ limit: changes of the accounts file
//@ section: Users and access lists
//@ unit: change
//@ all: process: one at a time
//@ empty: the next waits {}, then fails and says so
//@ counter: none
//@ attack: none, an administrator makes them
//@ reach: server
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// Ending of the lock file's name.
const LOCK_ENDING: &str = ".lock";
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

#[cfg(test)]
mod tests;
