//! Network namespaces without names, which end with their last socket, process and handle, however a run
//! ends.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace with its loopback up.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// Makes a network namespace. The calling thread is in it afterwards.
    ///
    /// # Errors
    /// Without the privilege to make namespaces, which root has.
    pub fn new() -> io::Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let namespace = Self::current()?;
        ip("link set lo up")?;
        Ok(namespace)
    }

    /// Makes a namespace ([`Namespace::new`]) for a test, which is skipped, with `None`, where namespaces may
    /// not be made.
    #[track_caller]
    pub fn new_or_skip() -> Option<Self> {
        match Self::new() {
            Ok(namespace) => Some(namespace),
            Err(error) => {
                crate::skip(format_args!("network namespaces need root ({error})"));
                None
            }
        }
    }

    /// Opens the calling thread's network namespace.
    ///
    /// # Errors
    /// Where /proc is not mounted.
    pub fn current() -> io::Result<Self> {
        Ok(Self { file: File::open("/proc/thread-self/ns/net")? })
    }

    /// Moves the calling thread into the namespace.
    ///
    /// # Errors
    /// The system's.
    pub fn enter(&self) -> io::Result<()> {
        Ok(setns(self.file.as_fd(), CloneFlags::CLONE_NEWNET)?)
    }

    /// Returns a name for `ip link … netns NAME`, valid as long as this value lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Runs `act` with the thread in this namespace, and moves the thread back.
    ///
    /// # Errors
    /// When the thread cannot be moved.
    pub fn within<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        let before = Self::current()?;
        self.enter()?;
        let result = act();
        before.enter()?;
        Ok(result)
    }
}

/// Runs `ip` with `words`, split at spaces, in the calling thread's namespace.
///
/// # Errors
/// What `ip` complains of.
pub fn ip(words: &str) -> io::Result<()> {
    let output = Command::new("ip").args(words.split_whitespace()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim())))
}
