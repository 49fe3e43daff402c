//! Findings about the served directories, and the state directory.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, accessat};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use super::{Area, Finding, Verdict};
use crate::fs::{Dir, FileHandle, changes_identities};
use crate::privileges;
use crate::runtime::{RuntimeOptions, run_here};

/// Checks whether the server may open files by their handles, and read them whatever user owns them.
pub(super) fn reads_everything(has: CapabilitySet) -> Finding {
    let holds = has.contains(CapabilitySet::DAC_READ_SEARCH);
    let found = if holds { "yes" } else { "no" };
    let advice = "without it a file that a client names by its number alone (AFS, durable opens) is found only where it was \
                  last seen, not where something beside the server moved it, and files that the server's user may not read \
                  are not served; AmbientCapabilities=CAP_DAC_READ_SEARCH in the service file, or";
    let command = "setcap cap_dac_read_search+ep \"$(command -v linerate)\"".to_owned();
    Finding::new(Area::Trees, "CAP_DAC_READ_SEARCH", found, "yes")
        .unless(holds, Verdict::Warn, advice)
        .with_commands(vec![command])
}

/// Returns the finding about the capabilities that a server run by this user keeps, and those given up at the
/// start.
pub(super) fn privileges(has: CapabilitySet) -> Finding {
    let [keeps, gives_up] = [privileges::kept_of(has), privileges::given_up_of(has)].map(privileges::names);
    let or_none = |names: String| if names.is_empty() { "nothing".to_owned() } else { names };
    let found = format!("keeps {}; gives up {} at a start", or_none(keeps), or_none(gives_up));
    Finding::new(Area::Trees, "capabilities", found, "what is needed")
}

/// Returns the findings about one directory.
pub(super) fn all(path: &Path, has: CapabilitySet) -> Vec<Finding> {
    let opened = std::fs::File::open(path).and_then(|dir| match dir.metadata()?.is_dir() {
        true => Ok(dir),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    match opened {
        Err(error) => {
            let advice =
                "give the directory that is to be served, and its server's user the right to read it";
            let finding =
                Finding::new(Area::Trees, path.display().to_string(), error.to_string(), "readable");
            vec![finding.unless(false, Verdict::Bad, advice)]
        }
        Ok(_) => {
            let found = handles(path, has).into_iter().chain([attributes(path, has)]);
            found.chain(layers(path)).collect()
        }
    }
}

/// Reason why files of a directory have no handles of the kernel, or cannot be found by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlesLack {
    /// A filter of system calls refuses name_to_handle_at(2), or the kernel has none.
    Refused(Errno),
    /// The file system gives no handles.
    NotGiven(Errno),
    /// Handles are given, and open_by_handle_at(2) is refused to a process that has CAP_DAC_READ_SEARCH.
    NotOpened(Errno),
}

impl HandlesLack {
    /// Returns the reason why files at `path` have no handles or are not found by them, if the process could be given
    /// what is missing. Blocks: for start-up and checks. Without a ring nothing can be tried, which is reported by
    /// itself.
    pub fn at(path: &Path) -> Option<Self> {
        let has = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
        run_here(RuntimeOptions::default(), tried_handle(path.to_owned())).ok()?.lack(has)
    }

    /// Returns the advice for this reason.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Refused(_) => "allow name_to_handle_at in the seccomp profile of the container or service",
            Self::NotGiven(_) => {
                "ext4, xfs, btrfs and tmpfs give handles, overlayfs with the mount options nfs_export=on,index=on"
            }
            Self::NotOpened(_) => {
                "run the server outside of a user namespace, with a seccomp profile that allows open_by_handle_at"
            }
        }
    }
}

impl fmt::Display for HandlesLack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "name_to_handle_at(2) is refused: {error}"),
            Self::NotGiven(error) => write!(f, "the file system gives none: {error}"),
            Self::NotOpened(error) => write!(f, "given, but open_by_handle_at(2) is refused: {error}"),
        }
    }
}

/// Checks whether files have handles, and are found by them where handles can be opened. Without a ring nothing can be
/// tried, which is reported by itself.
fn handles(path: &Path, has: CapabilitySet) -> Option<Finding> {
    let tried = run_here(RuntimeOptions::default(), tried_handle(path.to_owned())).ok()?;
    Some(judged(&format!("{} handles", path.display()), &tried, has))
}

async fn tried_handle(path: PathBuf) -> Tried {
    let (dir, handle) = match handle_of(&path).await {
        Ok(given) => given,
        Err(error) => return Tried::NotGiven(errno(&error)),
    };
    match dir.open_handle(&handle, false).await {
        Ok(_) => Tried::Opened,
        Err(error) => Tried::NotOpened(errno(&error)),
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

async fn handle_of(path: &Path) -> io::Result<(Dir, FileHandle)> {
    let dir = Dir::open_root(path)?;
    let handle = dir.as_file().handle().await?;
    Ok((dir, handle))
}

/// Outcome of opening a directory by a handle.
#[derive(Clone, Copy)]
enum Tried {
    Opened,
    NotOpened(Errno),
    NotGiven(Errno),
}

impl Tried {
    fn lack(self, has: CapabilitySet) -> Option<HandlesLack> {
        match self {
            // No file system answers so.
            Self::NotGiven(error @ (Errno::PERM | Errno::NOSYS | Errno::ACCESS)) => {
                Some(HandlesLack::Refused(error))
            }
            Self::NotGiven(error) => Some(HandlesLack::NotGiven(error)),
            // The capability has a finding of its own.
            Self::NotOpened(error) if has.contains(CapabilitySet::DAC_READ_SEARCH) => {
                Some(HandlesLack::NotOpened(error))
            }
            Self::Opened | Self::NotOpened(_) => None,
        }
    }
}

fn judged(name: &str, tried: &Tried, has: CapabilitySet) -> Finding {
    let Some(lack) = tried.lack(has) else {
        return match tried {
            Tried::Opened => Finding::new(Area::Trees, name, "given and opened", "given and opened"),
            _ => Finding::new(Area::Trees, name, "given; opened with CAP_DAC_READ_SEARCH", "given"),
        };
    };
    let known = match lack {
        HandlesLack::NotOpened(_) => "",
        _ => "files are known by inode number and time of birth; ",
    };
    let advice = format!(
        "{known}a file that a client names by its number alone is found only where it was last seen: {}",
        lack.advice()
    );
    Finding::new(Area::Trees, name, lack.to_string(), "given and opened").unless(false, Verdict::Warn, advice)
}

/// Returns a finding about a file system of layers; none about others.
fn layers(path: &Path) -> Option<Finding> {
    let advice = "overlayfs makes another file of one of a lower layer when it is first changed, so that clients that know files by \
                  number lose it: AFS serves the directory read-only. Mount it with nfs_export=on,index=on, or serve a directory of \
                  another file system";
    let name = format!("{} identities", path.display());
    let found =
        changes_identities(path).ok().filter(|changes| *changes).map(|_| "end at a file's first change");
    found.map(|found| Finding::new(Area::Trees, name, found, "last").unless(false, Verdict::Warn, advice))
}

/// Checks extended attributes, which hold the volume's mark and access lists. With CAP_SYS_ADMIN they are of
/// the class `trusted`, which no client and no user reaches, else of the class `user`.
fn attributes(path: &Path, has: CapabilitySet) -> Finding {
    let class = if has.contains(CapabilitySet::SYS_ADMIN) { "trusted" } else { "user" };
    let name = format!("{} attributes", path.display());
    let probed = rustix::fs::getxattr(path, format!("{class}.linerate.doctor"), &mut [0; 1][..]);
    let (found, holds) = match probed {
        Ok(_) | Err(Errno::NODATA | Errno::RANGE) => (format!("{class}.*"), true),
        Err(error) => (format!("no {class}.*: {error}"), false),
    };
    let advice = "without them the directory cannot bear its volume's mark, so that nobody can write to it and AFS does not attach \
                  it, and access lists cannot be kept: put the tree on ext4, xfs or btrfs, or on tmpfs of Linux 6.6 or later \
                  (its older ones have trusted.* alone, which takes CAP_SYS_ADMIN)";
    Finding::new(Area::Trees, name, found, format!("{class}.*")).unless(holds, Verdict::Warn, advice)
}

/// Checks the directory of the index, as the server has it.
pub(super) fn state(path: Option<&Path>) -> Finding {
    let advice = "without it there is no index, so that nobody can write to anything and AFS attaches nothing, and a self-signed \
                  certificate cannot be made: set server.state_dir, or make it the server's user's:";
    let Some(path) = path else {
        let finding = Finding::new(Area::Trees, "state directory", "none: no HOME", "writable");
        return finding.unless(false, Verdict::Warn, advice);
    };
    // The server makes what is missing.
    let there = path.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
    let is_writable =
        || accessat(rustix::fs::CWD, there, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS);
    let (found, holds) = match there.is_dir().then(is_writable) {
        Some(Ok(())) => (format!("{}, writable", path.display()), true),
        Some(Err(error)) => (format!("{}: {error}", there.display()), false),
        None => (format!("{} is no directory", there.display()), false),
    };
    let command = format!("install -d -m 0700 -o USER {}", path.display());
    Finding::new(Area::Trees, "state directory", found, "writable")
        .unless(holds, Verdict::Warn, advice)
        .with_commands(vec![command])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_capability_says_what_it_costs_and_how_it_is_given() {
        let without = reads_everything(CapabilitySet::empty());
        assert_eq!(without.verdict, Verdict::Warn);
        assert!(without.advice.unwrap().contains("by its number alone"));
        assert!(without.commands[0].starts_with("setcap cap_dac_read_search"));
        let with = reads_everything(CapabilitySet::DAC_READ_SEARCH);
        assert_eq!((with.verdict, with.commands.len()), (Verdict::Good, 0));
    }

    #[test]
    fn handles_are_judged_by_who_may_open_them() {
        let judged = |tried: Tried, may_open| {
            let has = if may_open { CapabilitySet::DAC_READ_SEARCH } else { CapabilitySet::empty() };
            judged("/srv handles", &tried, has)
        };
        assert_eq!(judged(Tried::Opened, true).verdict, Verdict::Good);
        assert_eq!(judged(Tried::NotOpened(Errno::PERM), false).verdict, Verdict::Good);
        for (tried, found, advice) in [
            (Tried::NotOpened(Errno::PERM), "given, but open_by_handle_at(2) is refused: ", "user namespace"),
            (Tried::NotGiven(Errno::PERM), "name_to_handle_at(2) is refused: ", "seccomp"),
            (Tried::NotGiven(Errno::NOSYS), "name_to_handle_at(2) is refused: ", "seccomp"),
            (Tried::NotGiven(Errno::OPNOTSUPP), "the file system gives none: ", "nfs_export=on"),
        ] {
            let finding = judged(tried, true);
            assert_eq!(finding.verdict, Verdict::Warn);
            assert!(finding.found.starts_with(found), "{finding:?}");
            assert!(finding.advice.as_ref().unwrap().contains(advice), "{finding:?}");
        }
    }

    #[test]
    fn directories_are_tried_and_what_is_none_is_bad() {
        let dir = tempfile::tempdir().unwrap();
        let has = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
        let findings = all(dir.path(), has);
        // Of a tree of layers there is another.
        assert!((2..=3).contains(&findings.len()), "{findings:?}");
        assert!(findings.iter().all(|finding| finding.verdict != Verdict::Bad), "{findings:?}");
        assert!(
            findings.iter().all(|finding| (finding.verdict == Verdict::Good) == finding.advice.is_none())
        );
        std::fs::write(dir.path().join("file"), "").unwrap();
        for none in ["file", "nothing"] {
            assert_eq!(all(&dir.path().join(none), has)[0].verdict, Verdict::Bad);
        }
    }

    #[test]
    fn a_state_directory_is_judged_by_where_it_would_be_made() {
        let dir = tempfile::tempdir().unwrap();
        let would_be = dir.path().join("a/b");
        assert_eq!(state(Some(&would_be)).verdict, Verdict::Good);
        assert!(!dir.path().join("a").exists(), "nothing is made");
        std::fs::write(dir.path().join("a"), "no directory").unwrap();
        let blocked = state(Some(&would_be));
        assert_eq!(blocked.verdict, Verdict::Warn);
        assert!(blocked.commands[0].ends_with("a/b"), "{blocked:?}");
        assert_eq!(state(None).verdict, Verdict::Warn);
    }
}
