//! `root.afs` and `root.cell`, made up where no volume is called so: directories of mount points, by which clients find every volume.
//!
//! ```text
//! /afs            root.afs     CELL   -> #root.cell.
//! /afs/CELL       root.cell    VOLUME -> #VOLUME.     one for each volume that is served
//! ```
//! They are the same for all lanes, nothing of them can be changed, and nothing of them is on disk. A mount point's number is made of that of
//! the volume it leads to, so it stays the same whatever comes and goes beside it; the version is the time at which they were made,
//! the same for as long as they say the same.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use afs_wire::directory::{Directory, Target};
use afs_wire::{FILE_TYPE_DIRECTORY, FILE_TYPE_SYMBOLIC_LINK, Status};
use identity::Rights;
use vfs::Number;

use crate::served_volume::{ServedVolume, VolumeEntry, VolumeType};

/// The synthetic `root.afs` and `root.cell` of all lanes. Clones are handles to the same.
#[derive(Clone, Debug, Default)]
pub struct SyntheticVolumes {
    state: Arc<Mutex<SyntheticState>>,
}

#[derive(Debug, Default)]
struct SyntheticState {
    roots: Arc<Roots>,
    /// Clients have not heard that they are others than before.
    is_unreported: bool,
}

/// The volumes that are made up, at one time.
#[derive(Debug, Default)]
pub struct Roots {
    roots: Vec<Root>,
    version: u64,
}

/// A synthetic root volume.
pub struct Root {
    plan: Plan,
    directory: Directory,
    version: u64,
    since: u32,
}

/// Content that a root is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plan {
    name: &'static str,
    first: u32,
    links: Vec<MountPoint>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct MountPoint {
    name: String,
    number: Number,
    target: String,
}

/// A file of a root.
#[derive(Clone, Copy)]
pub(crate) enum RootFile<'a> {
    /// The volume's own directory.
    Directory(&'a Directory),
    /// Text of a mount point in it.
    Link(&'a str),
}

impl SyntheticVolumes {
    /// Replaces the roots by those of a cell of this name, or by none without a name. Returns true if they changed.
    pub fn set(&self, cell: Option<&str>, served: &[Rc<ServedVolume>]) -> bool {
        let plans = cell.map_or_else(Vec::new, |cell| plans(cell, served));
        let mut state = self.lock();
        if plans.iter().eq(state.roots.roots.iter().map(|root| &root.plan)) {
            return false;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let version = u64::try_from(since.as_millis()).unwrap_or(u64::MAX).max(state.roots.version + 1);
        let since = u32::try_from(since.as_secs()).unwrap_or(u32::MAX);
        let roots = plans.into_iter().map(|plan| Root::new(plan, version, since)).collect();
        // No client can hold a callback of any before the first ones.
        state.is_unreported = state.roots.version > 0;
        state.roots = Arc::new(Roots { roots, version });
        true
    }

    /// Returns the roots as they are now.
    pub(crate) fn now(&self) -> Arc<Roots> {
        Arc::clone(&self.lock().roots)
    }

    /// Returns whether clients must be notified that the roots have changed: only the first caller gets true.
    pub(crate) fn take_unreported(&self) -> bool {
        std::mem::take(&mut self.lock().is_unreported)
    }

    fn lock(&self) -> MutexGuard<'_, SyntheticState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a volume's number is of one that may be made up: no volume has such a number.
pub(crate) fn has_number(volume: u32) -> bool {
    (ROOT_AFS..ROOT_CELL + NUMBERS).contains(&volume)
}

impl Roots {
    /// Returns the entries of all, for clients.
    pub(crate) fn known(&self) -> impl Iterator<Item = VolumeEntry> {
        self.roots.iter().map(Root::known)
    }

    /// Returns the root that a number is of.
    pub(crate) fn by_id(&self, id: u32) -> Option<&Root> {
        self.roots.iter().find(|root| (root.plan.first..root.plan.first + NUMBERS).contains(&id))
    }

    /// Returns the root of a name without a suffix.
    pub(crate) fn by_name(&self, stem: &str) -> Option<&Root> {
        self.roots.iter().find(|root| root.plan.name == stem)
    }
}

impl Root {
    fn new(plan: Plan, version: u64, since: u32) -> Self {
        let own = Target { vnode: Number::ROOT.vnode, uniquifier: Number::ROOT.uniquifier };
        let mut directory = Directory::new(own, own);
        for MountPoint { name, number, .. } in &plan.links {
            let target = Target { vnode: number.vnode, uniquifier: number.uniquifier };
            directory.add(name.as_bytes(), target).expect("there is room for so many names, each once");
        }
        Self { plan, directory, version, since }
    }

    /// Returns the entry that clients get.
    pub(crate) fn known(&self) -> VolumeEntry {
        VolumeEntry {
            name: self.plan.name.into(),
            first: self.plan.first,
            kind: VolumeType::ReadWrite,
            partition: 0,
        }
    }

    /// Returns when it was made, in seconds since 1970.
    pub(crate) fn since(&self) -> u32 {
        self.since
    }

    /// Returns the number of its files: the directory and the mount points.
    pub(crate) fn files(&self) -> usize {
        1 + self.plan.links.len()
    }

    /// Returns the number of bytes that a fetch of its directory gives.
    pub(crate) fn bytes(&self) -> usize {
        self.directory.size()
    }

    /// Returns a file of the root.
    pub(crate) fn file(&self, number: Number) -> Option<RootFile<'_>> {
        if number == Number::ROOT {
            return Some(RootFile::Directory(&self.directory));
        }
        let link = self.plan.links.iter().find(|link| link.number == number)?;
        Some(RootFile::Link(&link.target))
    }

    /// Returns the status of a file of it, the same for every client.
    pub(crate) fn status(&self, file: RootFile<'_>) -> Status {
        let (file_type, link_count, mode) = match file {
            RootFile::Directory(_) => (FILE_TYPE_DIRECTORY, 2, 0o755),
            // By their mode clients know mount points.
            RootFile::Link(_) => (FILE_TYPE_SYMBOLIC_LINK, 1, 0o644),
        };
        let rights = Rights::READER.bits();
        Status {
            interface_version: 1,
            file_type,
            link_count,
            length_low: file.size() as u32,
            data_version_low: self.version as u32,
            data_version_high: (self.version >> 32) as u32,
            caller_access: rights,
            anonymous_access: rights,
            unix_mode_bits: mode,
            parent_vnode: Number::ROOT.vnode,
            parent_uniquifier: Number::ROOT.uniquifier,
            residency_mask: 1,
            client_mod_time: self.since,
            server_mod_time: self.since,
            ..Status::default()
        }
    }
}

impl RootFile<'_> {
    /// Returns the number of bytes that a fetch gives.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Directory(directory) => directory.size() as u64,
            Self::Link(target) => target.len() as u64,
        }
    }
}

impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Root")
            .field("plan", &self.plan)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Returns what is to be made up beside these volumes: nothing where there is none, and no root where one is
/// called so.
fn plans(cell: &str, served: &[Rc<ServedVolume>]) -> Vec<Plan> {
    if served.is_empty() {
        return Vec::new();
    }
    let link = |name: &str, number, volume: &str| MountPoint {
        name: name.to_owned(),
        number,
        target: format!("#{volume}."),
    };
    let volumes = served.iter().take(MOUNT_POINTS_MAX);
    let volumes = volumes.map(|served| link(&served.name, number(served.first), &served.name)).collect();
    let to_cell = vec![link(cell, number(ROOT_CELL), NAMES[1])];
    let plans = [(NAMES[0], ROOT_AFS, to_cell), (NAMES[1], ROOT_CELL, volumes)];
    let is_missing = |name: &str| served.iter().all(|served| *served.name != *name);
    let plans = plans.into_iter().filter(|(name, ..)| is_missing(name));
    plans.map(|(name, first, links)| Plan { name, first, links }).collect()
}

/// Returns the number of the mount point of a volume; no other mount point has it.
fn number(first: u32) -> Number {
    // Even, as of all that is no directory.
    Number { vnode: (first & 0x3fff_ffff) << 1, uniquifier: first }
}

/// Names of the volumes that clients begin with: those without a root of their own, and those with one.
pub(crate) const NAMES: [&str; 2] = ["root.afs", "root.cell"];
/// Number of `root.afs`, below those that the index gives.
const ROOT_AFS: u32 = 0x1fff_fff0;
const ROOT_CELL: u32 = ROOT_AFS + NUMBERS;
/// Numbers of a volume: its own, and those of its copies.
const NUMBERS: u32 = VolumeType::ALL.len() as u32;
//@ limit: mount points of the `root.cell` that is made up
//@ section: AFS file server
//@ unit: mount point
//@ all: process: {}, of the first volumes
//@ empty: further volumes are found by name alone
//@ counter: none
//@ attack: none, the configuration has them
//@ reach: server
/// Volumes that there are mount points for: a directory has room for twice as many names of 22 bytes.
const MOUNT_POINTS_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use afs_wire::directory::Directory;

    use super::*;
    use crate::attached_volumes::tests::with;

    const FIRST: (&str, VolumeType) = ("files", VolumeType::ReadWrite);
    const CELL: Option<&str> = Some("test.example");

    fn names(root: &Root) -> Vec<String> {
        let names = root.directory.entries().map(|(name, _)| String::from_utf8_lossy(name).into_owned());
        names.filter(|name| !name.starts_with('.')).collect()
    }

    fn said(root: &Root, name: &str) -> String {
        let target = root.directory.lookup(name.as_bytes()).expect("the name is there");
        let number = Number { vnode: target.vnode, uniquifier: target.uniquifier };
        let Some(RootFile::Link(target)) = root.file(number) else { panic!("{name} is no mount point") };
        target.to_owned()
    }

    #[test]
    fn every_volume_has_a_mount_point_that_its_cell_leads_to() {
        with(&[FIRST, ("music", VolumeType::ReadOnly)], async |attached| {
            let synthetic = SyntheticVolumes::default();
            assert!(synthetic.set(CELL, attached.all()) && !synthetic.set(CELL, attached.all()));
            assert!(!synthetic.take_unreported(), "nobody knows of any");
            let roots = synthetic.now();
            let [afs, cell] = &roots.roots[..] else { panic!("{roots:?}") };
            assert_eq!(
                (names(afs), said(afs, "test.example")),
                (vec!["test.example".into()], "#root.cell.".into())
            );
            assert_eq!((said(cell, "files"), said(cell, "music")), ("#files.".into(), "#music.".into()));
            assert_eq!(names(cell).len(), 2);
            for root in [afs, cell] {
                let status = root.status(root.file(Number::ROOT).unwrap());
                assert_eq!((status.file_type, status.length_low), (FILE_TYPE_DIRECTORY, root.bytes() as u32));
                let mut pages = vec![0; root.bytes()];
                assert_eq!(root.directory.read_at(0, &mut pages), pages.len());
                assert!(Directory::parse(&pages).is_ok());
                for id in root.plan.first..root.plan.first + 3 {
                    assert!(has_number(id) && attached.by_id(id).is_none());
                    assert_eq!(roots.by_id(id).unwrap().plan, root.plan);
                }
            }
            let unknown = Number { vnode: 2, uniquifier: 9 };
            assert!(cell.file(unknown).is_none() && roots.by_id(0).is_none() && !has_number(0));
            assert!(!has_number(attached.all()[0].first));
        });
    }

    #[test]
    fn versions_grow_when_volumes_come_and_go_and_mount_points_keep_their_numbers() {
        with(&[FIRST, ("music", VolumeType::ReadWrite)], async |both| {
            let synthetic = SyntheticVolumes::default();
            let seen = |synthetic: &SyntheticVolumes| {
                let roots = synthetic.now();
                let cell = roots.by_name("root.cell").expect("it is made up");
                (cell.version, cell.directory.lookup(b"files"), cell.files())
            };
            synthetic.set(CELL, both.all());
            let (version, number, files) = seen(&synthetic);
            assert_eq!(files, 3);
            let one = both.without("music");
            assert!(synthetic.set(CELL, one.all()));
            assert!(synthetic.take_unreported() && !synthetic.take_unreported(), "one lane tells it");
            let (next, same, files) = seen(&synthetic);
            assert!(next > version);
            assert_eq!((same, files), (number, 2));
            assert!(synthetic.set(None, one.all()) && synthetic.now().by_id(ROOT_CELL).is_none());
            assert!(synthetic.set(CELL, one.all()) && seen(&synthetic).0 > next);
        });
    }

    #[test]
    fn what_a_volume_is_called_is_not_made_up() {
        with(&[FIRST, ("root.cell", VolumeType::ReadWrite)], async |attached| {
            let synthetic = SyntheticVolumes::default();
            synthetic.set(CELL, attached.all());
            let roots = synthetic.now();
            assert!(roots.by_name("root.cell").is_none());
            assert_eq!(said(roots.by_name("root.afs").unwrap(), "test.example"), "#root.cell.");
        });
        with(&[], async |attached| assert!(!SyntheticVolumes::default().set(CELL, attached.all())));
    }
}
