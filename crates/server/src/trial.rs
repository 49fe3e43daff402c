//! The state directory of a check: another one, so that nothing is left where a start would keep something.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

/// A directory that is gone with this.
#[derive(Debug)]
pub(crate) struct TrialState(Option<PathBuf>);

impl TrialState {
    /// Makes a directory in place of `state`, in which a start could keep what it keeps there; none in place
    /// of none.
    ///
    /// # Errors
    /// What a start would find there, or the system's where there is no temporary directory.
    pub(crate) fn of(state: Option<&Path>) -> io::Result<Self> {
        let Some(state) = state else { return Ok(Self(None)) };
        let mut nearest = state;
        while let Err(error) = std::fs::metadata(nearest) {
            nearest = match nearest.parent() {
                Some(above) if error.kind() == io::ErrorKind::NotFound => above,
                _ => return Err(error),
            };
        }
        // Of the user that it runs as by now: what is there already is read and replaced as well.
        accessat(CWD, nearest, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?;
        if !std::fs::metadata(nearest)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        for number in 0..TRIES_MAX {
            let path = std::env::temp_dir().join(format!("linerate-check-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(Some(path))),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.0.as_deref()
    }
}

impl Drop for TrialState {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

const TRIES_MAX: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_made_where_a_start_would_keep_something_and_what_it_would_find_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("deep/state");
        let trial = TrialState::of(Some(&state)).unwrap();
        let path = trial.path().unwrap().to_owned();
        std::fs::write(path.join("self-signed.crt"), "x").unwrap();
        drop(trial);
        assert!(!path.exists() && !dir.path().join("deep").exists());
        std::fs::write(dir.path().join("file"), "x").unwrap();
        assert!(TrialState::of(Some(&dir.path().join("file/state"))).is_err());
        assert!(TrialState::of(Some(&dir.path().join("file"))).is_err());
        assert!(TrialState::of(None).unwrap().path().is_none());
    }
}
