//! Files that the server itself keeps and reads: its state, accounts, configuration, certificates, keys and
//! logs. None of these is served, wherever it lies.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use identity::AccountsStore;
use rustix::fs::{Mode, OFlags};
use service::volumes::VolumeSection;
use vfs::{FileId, NameFamily, Withheld};

use crate::config::{Config, default_accounts};
use crate::overlap::{MountedDirectories, or_here};

/// Files and directories of a configuration.
#[derive(Clone)]
pub(crate) struct OwnFiles(Vec<OwnFile>);

#[derive(Clone)]
struct OwnFile {
    path: PathBuf,
    /// Set if copies beside the file, with names that begin with its name, belong to it too: rotated logs,
    /// copies of accounts.
    has_kin: bool,
}

/// Thread that looks at the server's own files repeatedly, as files at their paths are replaced while the
/// server runs.
pub(crate) struct OwnFilesWatch {
    own: Arc<Mutex<OwnFiles>>,
    /// Sender whose drop ends the thread.
    _alive: Sender<()>,
}

impl OwnFiles {
    /// Returns the files that the configuration names, and those at default paths.
    pub(crate) fn of(config: &Config) -> Self {
        let accounts = config.identity.accounts.clone().or_else(default_accounts);
        let logs = config.log.access.iter().chain(&config.log.audit).filter(|path| **path != Path::new("-"));
        // Commands that change the accounts lock a file beside them: a client that took or removed it would keep them waiting or apart.
        let lock = accounts.as_ref().map(|path| AccountsStore::new(path).lock_file());
        let wanted = config.wishes.iter().filter_map(|wish| wish.settings.as_ref());
        let of_services = wanted.flat_map(|settings| settings.own_files());
        let state = config.server.state_dir().into_iter();
        let single = state.chain(lock).chain(config.file.clone()).chain(of_services).map(OwnFile::from);
        let kin = accounts.into_iter().chain(logs.cloned()).map(|path| OwnFile { path, has_kin: true });
        Self(single.chain(kin).collect())
    }

    /// Returns the files of `self` and of `others`.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Withholds all the files from all clients, by any name. Files that do not exist yet are known by their
    /// names.
    pub(crate) fn withhold(&self, withheld: &Withheld) {
        for OwnFile { path, has_kin } in &self.0 {
            for (above, name) in steps_to(path) {
                if let Ok(above) = id_of(&above) {
                    withheld.fix_name(above, name.as_bytes());
                }
            }
            // A symbolic link is withheld, and what it leads to.
            let real = path.canonicalize().ok();
            let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
            for (path, is_far) in [(Some(path.clone()), false), (real, is_link)] {
                let Some(path) = path else { continue };
                // Where directories on the way are not there yet the first of them is withheld.
                let names = path.ancestors().filter_map(|at| at.parent().zip(at.file_name()));
                let known = |(above, name)| id_of(or_here(above)).ok().map(|above| (above, name));
                let named: Option<(FileId, &OsStr)> = { names }.find_map(known);
                named.iter().for_each(|(above, name)| withheld.add_name(*above, name.as_bytes()));
                let family = |name: &OsStr| match is_far {
                    // Earlier and later versions lie beside what a link leads to, as certbot's keys.
                    true => NameFamily::numbered(name.as_bytes()),
                    false => has_kin.then(|| NameFamily::Beside(name.as_bytes().into())),
                };
                let above = path.parent().and_then(|above| id_of(or_here(above)).ok());
                if let Some((above, family)) = above.zip(path.file_name().and_then(family)) {
                    withheld.add_family(above, family);
                }
                // What lies in the state directory may have further names elsewhere.
                for path in std::iter::once(path.clone()).chain(files_in(&path)) {
                    // Open, so that no other file gets its number once it is replaced.
                    if let Ok(file) = open_path(&path) {
                        // What was there a moment ago can be looked at.
                        let _ = withheld.add_open(file);
                    }
                }
            }
        }
    }

    /// Makes lanes check each directory on the way to a name, as for clients that cache, in volumes that hold
    /// some of the files.
    pub(crate) fn guard(&self, volumes: &mut [VolumeSection]) {
        let places = MountedDirectories::now();
        for volume in volumes {
            let holds_some = self.in_volume(&places, volume).next().is_some();
            volume.objects |= holds_some;
        }
    }

    /// Returns warnings for the administrator: volumes with some of the files.
    pub(crate) fn warnings(&self, volumes: &[VolumeSection]) -> Vec<String> {
        let places = MountedDirectories::now();
        let of = |volume: &VolumeSection| {
            let mut held: Vec<_> =
                self.in_volume(&places, volume).map(|path| path.display().to_string()).collect();
            held.sort();
            held.dedup();
            let what = held.join(", ");
            (!held.is_empty()).then(|| {
                //@ level: WARN
                //@ cause: The state directory, a certificate, the configuration or another file of the server is in a served directory.
                //@ remedy: Move these files out of the volume, or serve another directory. No client can see them meanwhile.
                format!(
                    "volume {}: {} holds files of the server itself ({what}), which are served to nobody: move them, or serve \
                     another directory [volume-holds-own-files]",
                    volume.name,
                    volume.path.display()
                )
            })
        };
        volumes.iter().filter_map(of).collect()
    }

    fn in_volume<'a>(
        &'a self,
        places: &MountedDirectories,
        volume: &VolumeSection,
    ) -> impl Iterator<Item = &'a Path> {
        let paths = self.0.iter().map(|own| own.path.as_path());
        paths.filter(|path| places.holds(&volume.path, path) || places.holds(path, &volume.path))
    }
}

impl From<PathBuf> for OwnFile {
    fn from(path: PathBuf) -> Self {
        Self { path, has_kin: false }
    }
}

impl OwnFilesWatch {
    /// Starts a thread of its own, which a file system may keep waiting, and which ends with the watch.
    ///
    /// # Errors
    /// The system's, when there is no thread to be had.
    pub(crate) fn start(own: OwnFiles, withheld: Arc<Withheld>) -> std::io::Result<Self> {
        let (alive, ended) = channel();
        let own = Arc::new(Mutex::new(own));
        let shared = Arc::clone(&own);
        let look = move || {
            while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                let own = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
                own.withhold(&withheld);
                withheld.forget_removed();
            }
        };
        std::thread::Builder::new().name("own files".to_owned()).spawn(look)?;
        Ok(Self { own, _alive: alive })
    }

    /// Sets the server's own files.
    pub(crate) fn set(&self, own: OwnFiles) {
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = own;
    }
}

/// Returns the files of a directory; none for anything else.
fn files_in(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let is_file = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    entries.filter(is_file).take(FILES_MAX).map(|entry| entry.path()).collect()
}

/// Returns each directory on the way to a path with the name that leads on, through symbolic links too.
fn steps_to(path: &Path) -> Vec<(PathBuf, OsString)> {
    let (mut steps, mut at, mut links) = (Vec::new(), PathBuf::from("."), 0);
    let parts = |path: &Path| path.iter().rev().map(OsStr::to_owned).collect::<Vec<_>>();
    let mut rest = parts(path);
    while let Some(name) = rest.pop() {
        let next = at.join(&name);
        match Path::new(&name).components().next() {
            Some(Component::Normal(_)) => steps.push((at.clone(), name)),
            _ => {
                at = next;
                continue;
            }
        }
        match std::fs::read_link(&next) {
            Ok(target) if links < LINKS_MAX => {
                links += 1;
                rest.extend(parts(&target));
            }
            _ => at = next,
        }
    }
    steps
}

/// Opens a path for its identity only: neither to read nor to write.
fn open_path(path: &Path) -> std::io::Result<std::fs::File> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?.into())
}

fn id_of(path: &Path) -> std::io::Result<FileId> {
    let found = std::fs::metadata(path)?;
    Ok(FileId { dev: found.dev(), ino: found.ino() })
}

/// Most symbolic links that are followed on one way, as in the kernel.
const LINKS_MAX: usize = 40;
/// Time between two looks at the paths of the server's own files.
const PERIOD: Duration = Duration::from_secs(1);
//@ limit: files of the state directory known by themselves
//@ section: Users and access lists
//@ unit: descriptor
//@ all: process: {}
//@ empty: further ones are known by their names alone
//@ counter: none
//@ attack: none, the server makes a handful
//@ reach: server
/// Most files of the state directory that are known by themselves. The server has a handful there, each of
/// which takes a descriptor.
const FILES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_path_has_each_directory_and_link_that_leads_there() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        let at = |name: &str| real.join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::create_dir_all(at("c/d")).unwrap();
        std::os::unix::fs::symlink("../c/./d", at("a/link")).unwrap();
        std::os::unix::fs::symlink(at("a/link"), at("first")).unwrap();
        let found = steps_to(&at("first/../d/key"));
        let found: Vec<_> = found
            .iter()
            .filter_map(|(above, name)| {
                let above = above.canonicalize().unwrap();
                Some(above.strip_prefix(&real).ok()?.join(name))
            })
            .collect();
        let wanted = ["first", "a", "a/link", "c", "c/d", "c/d", "c/d/key"].map(PathBuf::from);
        assert_eq!(found, wanted);
        std::os::unix::fs::symlink("circle", at("circle")).unwrap();
        assert!(steps_to(&at("circle/key")).len() > LINKS_MAX);
    }

    #[test]
    fn each_file_of_the_server_is_told_of_where_a_volume_holds_it_by_whatever_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(path("tree/state")).unwrap();
        std::fs::create_dir_all(path("other")).unwrap();
        std::fs::write(path("other/elsewhere.key"), "").unwrap();
        std::fs::write(path("tree/direct.key"), "").unwrap();
        // The link lies in one volume and what it leads to in the other.
        std::os::unix::fs::symlink(path("tree/direct.key"), path("other/linked.key")).unwrap();
        let volumes = ["tree", "other"].map(|name| VolumeSection::new(name.parse().unwrap(), path(name)));
        let told = |own: &str| OwnFiles(vec![path(own).into()]).warnings(&volumes);
        for (own, holders) in [
            ("tree/state", vec!["tree"]),
            ("tree/direct.key", vec!["tree"]),
            ("tree/not made yet", vec!["tree"]),
            ("other/elsewhere.key", vec!["other"]),
            ("other/linked.key", vec!["tree", "other"]),
            ("outside", vec![]),
            // All that is served is the server's.
            (".", vec!["tree", "other"]),
        ] {
            let told = told(own);
            assert_eq!(told.len(), holders.len(), "{own}: {told:?}");
            for (told, holder) in told.iter().zip(holders) {
                assert!(told.starts_with(&format!("volume {holder}: ")), "{told}");
            }
        }
        let mut guarded = volumes.clone();
        OwnFiles(vec![path("other/elsewhere.key").into()]).guard(&mut guarded);
        assert_eq!(guarded.map(|volume| volume.objects), [false, true]);
    }
}
