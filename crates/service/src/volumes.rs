//! Volumes of a server for any service: known to the process by name and identity, opened once on each lane.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use identity::Writable;
use vfs::{Cache, Objects, Quota, SharedVolume, Volume, VolumeName, VolumeOptions, VolumeSpec};

use crate::config::{ConfigError, Document, Size};

/// Keys of a volume that concern every service: `name`, `path`, `symlinks`, `serve_dotfiles`, `writable`,
/// `quota`, `max_files`, `track_usage`, `posix_locks`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSection {
    /// Name of the volume in logs, metrics and all protocols.
    pub name: VolumeName,
    /// Path of the directory.
    pub path: PathBuf,
    /// True when symbolic links that stay inside the directory are followed. Links that lead out never are.
    pub symlinks: bool,
    /// True when names that begin with a dot are served and listed.
    pub serve_dotfiles: bool,
    /// Users that may change the volume.
    pub writable: Writable,
    /// True when a service wants the volume's files [shared](crate::Settings::needs_objects) by the lanes.
    pub objects: bool,
    /// Quota of the volume.
    pub quota: Quota,
    /// True when usage is counted, even without a limit.
    pub track_usage: bool,
    /// True when clients' locks and those of other programs on this machine bind each other.
    pub posix_locks: bool,
}

/// Identity of a directory, as a path led to it at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    dev: u64,
    ino: u64,
}

/// Volume that the server exports. Two entries with the same [`VolumeEntry::opening`] are the same volume,
/// opened on the same directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeEntry {
    /// Specification of what is exported.
    pub spec: VolumeSpec,
    /// Directory behind the path at the time of the entry; `None` where there was none.
    pub identity: Option<Identity>,
    opening: u64,
}

/// Volumes of a server, in the order of the configuration. It travels between threads.
#[derive(Clone, Debug, Default)]
pub struct VolumeTable {
    entries: Arc<[VolumeEntry]>,
    /// Last opening number given, shared with the tables that this one comes from or that have the same
    /// origin.
    ///
    /// A table that was prepared and never served must not share numbers with the one that is.
    openings: Arc<AtomicU64>,
    /// Objects that lanes share, once a volume has had objects.
    objects: Option<Objects>,
}

/// Error that keeps a volume from being opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the volume {name} at {}: {source}", path.display())]
pub struct VolumeError {
    /// Name of the volume.
    pub name: String,
    /// Path of the volume's directory.
    pub path: PathBuf,
    /// Error of the opening.
    pub source: vfs::Error,
}

/// Volumes that one lane has open.
#[derive(Clone)]
pub struct LaneVolumes {
    cache: Cache,
    open: Vec<(VolumeEntry, Volume)>,
}

impl VolumeSection {
    /// Reads the volumes of a configuration.
    ///
    /// # Errors
    /// [`ConfigError`], naming the key.
    pub fn all(document: &Document) -> Result<Vec<Self>, ConfigError> {
        #[derive(serde::Deserialize)]
        struct Section {
            name: String,
            path: PathBuf,
            #[serde(default = "yes")]
            symlinks: bool,
            #[serde(default)]
            serve_dotfiles: bool,
            writable: Option<String>,
            quota: Option<Size>,
            max_files: Option<u64>,
            #[serde(default)]
            track_usage: bool,
            #[serde(default = "yes")]
            posix_locks: bool,
        }
        if let Some(directory) = document.directory() {
            return Ok(vec![Self::new(VolumeName::of_directory(directory), directory.to_owned())]);
        }
        let mut all: Vec<Self> = Vec::new();
        for (index, section) in document.volumes::<Section>()?.into_iter().enumerate() {
            let key = format!("volume[{index}].name");
            let name: VolumeName =
                section.name.parse().map_err(|problem| ConfigError::invalid(&key, format!("{problem}")))?;
            if all.iter().any(|other| other.name == name) {
                return Err(ConfigError::invalid(key, format!("\"{name}\" is used twice")));
            }
            let writable = section.writable.as_deref().map_or(Ok(Writable::Nobody), str::parse);
            let writable = writable.map_err(|problem| {
                ConfigError::invalid(format!("volume[{index}].writable"), format!("{problem}"))
            })?;
            let quota = Quota { bytes: section.quota.map(|Size(bytes)| bytes), files: section.max_files };
            let Section { mut path, symlinks, serve_dotfiles, track_usage, posix_locks, .. } = section;
            document.resolve(&mut path);
            all.push(Self {
                symlinks,
                serve_dotfiles,
                writable,
                quota,
                track_usage,
                posix_locks,
                ..Self::new(name, path)
            });
        }
        all.iter().enumerate().try_for_each(|(index, section)| section.check_room(index))?;
        Ok(all)
    }

    /// Makes the section of a read-only volume.
    pub fn new(name: VolumeName, path: PathBuf) -> Self {
        let (writable, quota) = (Writable::Nobody, Quota::default());
        Self {
            name,
            path,
            symlinks: true,
            serve_dotfiles: false,
            writable,
            objects: false,
            quota,
            track_usage: false,
            posix_locks: true,
        }
    }

    /// Checks the keys of limits: they need a writable volume, and values from 1 to [`ROOM_MAX`].
    fn check_room(&self, index: usize) -> Result<(), ConfigError> {
        let keys = [
            ("quota", self.quota.bytes.is_some(), self.quota.bytes),
            ("max_files", self.quota.files.is_some(), self.quota.files),
            ("track_usage", self.track_usage, None),
        ];
        for (key, _, limit) in keys.into_iter().filter(|(_, is_given, _)| *is_given) {
            let key = format!("volume[{index}].{key}");
            if self.writable == Writable::Nobody {
                let problem = "nobody may change the volume, so nothing of it is counted: give it a writable";
                return Err(ConfigError::invalid(key, problem));
            }
            if limit == Some(0) {
                return Err(ConfigError::invalid(key, "with 0 nothing could be written: leave writable out"));
            }
            if limit.is_some_and(|limit| limit > ROOM_MAX) {
                return Err(ConfigError::invalid(key, format!("is more than {ROOM_MAX}")));
            }
        }
        Ok(())
    }

    /// Checks that the directory to export exists. `index` is the volume's in the configuration.
    ///
    /// # Errors
    /// [`ConfigError`], naming the key.
    pub fn check(&self, index: usize) -> Result<(), ConfigError> {
        let problem = match std::fs::metadata(&self.path) {
            Ok(meta) if meta.is_dir() => return Ok(()),
            Ok(_) => format!("{} is not a directory", self.path.display()),
            Err(error) => format!("{}: {error}", self.path.display()),
        };
        Err(ConfigError::invalid(format!("volume[{index}].path"), problem))
    }

    fn spec(&self) -> VolumeSpec {
        let options = VolumeOptions { follow_symlinks: self.symlinks, serve_hidden: self.serve_dotfiles };
        let spec = VolumeSpec::new(self.name.clone(), &self.path, options).writable_by(self.writable.clone());
        let spec = VolumeSpec {
            counted: self.track_usage,
            local_locks: self.posix_locks,
            ..spec.limited_to(self.quota)
        };
        if self.objects { spec.with_objects() } else { spec }
    }
}

/// Most bytes or files of a quota, so that sums do not overflow.
const ROOM_MAX: u64 = u64::MAX / 4;

fn yes() -> bool {
    true
}

impl Identity {
    /// Returns the directory that `path` leads to now.
    ///
    /// # Errors
    /// The system's; `NotADirectory` for anything else.
    pub fn at(path: &Path) -> std::io::Result<Self> {
        let found = std::fs::metadata(path)?;
        if found.is_dir() { Ok(Self::of(&found)) } else { Err(std::io::ErrorKind::NotADirectory.into()) }
    }

    /// Returns the identity of an open directory.
    pub fn of(metadata: &std::fs::Metadata) -> Self {
        Self { dev: metadata.dev(), ino: metadata.ino() }
    }
}

impl VolumeEntry {
    /// Returns the number of the directory's opening that the entry stands for.
    pub fn opening(&self) -> u64 {
        self.opening
    }
}

impl VolumeTable {
    /// Returns the table of a configuration that follows this one: volumes that are the same, on the same
    /// directory, keep their openings, with any new quota. `identity` returns what a path leads to now.
    #[must_use]
    pub fn followed_by(
        &self,
        sections: &[VolumeSection],
        identity: impl Fn(&VolumeSection) -> Option<Identity>,
    ) -> Self {
        let entries = sections.iter().map(|section| {
            let (spec, identity) = (section.spec(), identity(section));
            let same = |old: &&VolumeEntry| {
                old.spec.is_opened_as(&spec) && identity.is_some() && old.identity == identity
            };
            let opening = self.entries.iter().find(same).map(VolumeEntry::opening);
            VolumeEntry { spec, identity, opening: opening.unwrap_or_else(|| self.next_opening()) }
        });
        self.with(entries.collect())
    }

    /// Returns the table with one volume to be opened anew, on the directory that its path leads to now.
    #[must_use]
    pub fn reopening(&self, name: &str, identity: Option<Identity>) -> Self {
        let entries = self.entries.iter().map(|entry| match entry.spec.name.as_str() == name {
            true => VolumeEntry { spec: entry.spec.clone(), identity, opening: self.next_opening() },
            false => entry.clone(),
        });
        self.with(entries.collect())
    }

    /// Returns the table with `objects`, which lanes share that open volumes with objects. A process has one.
    #[must_use]
    pub fn sharing(self, objects: &Objects) -> Self {
        Self { objects: Some(objects.clone()), ..self }
    }

    /// Returns whether a volume that lanes have open for writing is in the table, on the same directory.
    pub fn writes_to(&self, open: &SharedVolume) -> bool {
        self.entry_of(open).is_some_and(|entry| entry.spec.is_writable())
    }

    /// Gives an open volume of the table `before` the name that its directory has in this one, before lanes open that. The same path has to
    /// lead there: where directories have changed places their names stay.
    pub fn rename(&self, open: &SharedVolume, before: &Self) {
        let Some(known) = before.entry_of(open).filter(|_| self.entry_of(open).is_none()) else { return };
        let is_it = |entry: &&VolumeEntry| entry.spec.is_numbered() && entry.spec.path == known.spec.path;
        if let Some(entry) = self.at_root_of(open).find(is_it) {
            open.rename(&entry.spec.name);
        }
    }

    /// Returns whether an open volume is in the table, on the same directory.
    pub fn serves(&self, open: &SharedVolume) -> bool {
        self.entry_of(open).is_some()
    }

    fn entry_of(&self, open: &SharedVolume) -> Option<&VolumeEntry> {
        let name = open.name();
        self.at_root_of(open).find(|entry| entry.spec.name == name)
    }

    fn at_root_of(&self, open: &SharedVolume) -> impl Iterator<Item = &VolumeEntry> {
        let root = Some(Identity { dev: open.root().dev, ino: open.root().ino });
        self.entries.iter().filter(move |entry| entry.identity == root)
    }

    /// Returns whether any volume's files have numbers and versions that last: some user may change them, or
    /// clients that cache are served.
    pub fn is_numbered(&self) -> bool {
        self.entries.iter().any(|entry| entry.spec.is_numbered())
    }

    /// Returns the entries in the order of the configuration.
    pub fn entries(&self) -> &[VolumeEntry] {
        &self.entries
    }

    /// Returns the table with other entries, and the same counter of openings.
    fn with(&self, entries: Arc<[VolumeEntry]>) -> Self {
        Self { entries, openings: Arc::clone(&self.openings), objects: self.objects.clone() }
    }

    fn next_opening(&self) -> u64 {
        self.openings.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl LaneVolumes {
    /// Makes an empty table; opened volumes are kept in `cache`.
    pub fn new(cache: Cache) -> Self {
        Self { cache, open: Vec::new() }
    }

    /// Returns the volumes of `table` on the current lane. Those that are open stay the same objects. Blocks:
    /// for start-up and reload.
    ///
    /// # Errors
    /// The first that cannot be opened.
    pub fn followed_by(&self, table: &VolumeTable) -> Result<Self, VolumeError> {
        if let Some(objects) = &table.objects {
            self.cache.join(objects);
        }
        let open = table.entries.iter().map(|entry| {
            let opened = match self.open.iter().find(|(old, _)| old.opening == entry.opening) {
                Some((_, volume)) => Ok(volume.clone()),
                // Rights count in every volume, whatever serves it.
                None if table.objects.is_some() => Volume::open(&self.cache, &entry.spec.clone().guarded()),
                None => Volume::open(&self.cache, &entry.spec),
            };
            let refused = |source| VolumeError {
                name: entry.spec.name.to_string(),
                path: entry.spec.path.clone(),
                source,
            };
            opened.map(|volume| (entry.clone(), volume)).map_err(refused)
        });
        Ok(Self { cache: self.cache.clone(), open: open.collect::<Result<_, _>>()? })
    }

    /// Closes the files and directories of all volumes that are not in use.
    pub fn close_unused(&self) {
        self.cache.close_unused();
    }

    /// Returns the volume of this name.
    pub fn get(&self, name: &VolumeName) -> Option<&Volume> {
        self.open.iter().find(|(entry, _)| entry.spec.name == *name).map(|(_, volume)| volume)
    }

    /// Returns tasks for the lane to run, which keep volumes' usage counted and limited where that is wanted.
    pub fn keep_counted(&self) -> Vec<impl Future<Output = ()> + 'static> {
        let writable = self.open.iter().filter(|(_, volume)| volume.is_writable());
        writable.map(|(entry, volume)| volume.keep_counted(&entry.spec)).collect()
    }

    /// Returns all volumes, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &Volume> {
        self.open.iter().map(|(_, volume)| volume)
    }
}

#[cfg(test)]
mod tests {
    use lane::backend::sim::{Config, World};
    use vfs::CacheOptions;

    use super::*;

    fn section(name: &str, path: &str) -> VolumeSection {
        VolumeSection::new(name.parse().unwrap(), path.into())
    }

    fn at(ino: u64) -> Option<Identity> {
        Some(Identity { dev: 1, ino })
    }

    #[test]
    fn only_the_same_volume_on_the_same_directory_keeps_its_opening() {
        let first = [section("a", "/a"), section("b", "/b"), section("c", "/c"), section("d", "/d")];
        let old = VolumeTable::default().followed_by(&first, |s| at(s.path.as_os_str().len() as u64));
        let openings =
            |table: &VolumeTable| -> Vec<u64> { table.entries().iter().map(VolumeEntry::opening).collect() };
        assert_eq!(openings(&old), [1, 2, 3, 4]);
        // Kept; another path; other options; another directory behind the path.
        let hidden = VolumeSection { serve_dotfiles: true, ..section("c", "/c") };
        let second = [section("a", "/a"), section("b", "/bb"), hidden, section("d", "/d")];
        let same =
            |s: &VolumeSection| at(if s.name.as_str() == "d" { 99 } else { s.path.as_os_str().len() as u64 });
        let new = old.followed_by(&second, same);
        assert_eq!(openings(&new), [1, 5, 6, 7]);
        // What it may hold is changed in what is open.
        let count = VolumeSection { track_usage: true, ..section("a", "/a") };
        let counted = new.followed_by(&[count], |_| at(2));
        assert!(counted.entries()[0].spec.counted && counted.entries()[0].opening() == 1);
        // What was not there is tried anew each time.
        let gone = new.followed_by(&second, |_| None);
        assert_eq!(openings(&gone), [8, 9, 10, 11]);
        assert_eq!(openings(&new.reopening("b", at(5))), [1, 12, 6, 7], "no number of another table");
    }

    #[test]
    fn a_lane_opens_a_volume_once_whoever_asks_and_however_often_the_table_changes() {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        for dir in ["/a", "/b"] {
            host.fs().create_dir_all(dir).unwrap();
        }
        world.block_on(&host, async {
            let cache = Cache::new(CacheOptions::default());
            let table =
                VolumeTable::default().followed_by(&[section("a", "/a"), section("b", "/b")], |_| at(1));
            let open = LaneVolumes::new(cache).followed_by(&table).unwrap();
            let name = |name: &str| name.parse().unwrap();
            let [a, b] = ["a", "b"].map(|volume| open.get(&name(volume)).unwrap().clone());
            let after = open.followed_by(&table.reopening("b", at(2))).unwrap();
            assert!(after.get(&name("a")).unwrap().is_same(&a), "nothing happened to it");
            assert!(!after.get(&name("b")).unwrap().is_same(&b));
            assert!(open.get(&name("b")).unwrap().is_same(&b), "who serves the old ones still has them");
            let absent = table.followed_by(&[section("a", "/a"), section("x", "/x")], |_| at(1));
            let problem = after.followed_by(&absent).err().unwrap().to_string();
            assert!(problem.starts_with("cannot open the volume x at /x: "), "{problem}");
        });
    }
}
