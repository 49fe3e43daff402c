//! The volumes that AFS serves, as one lane has them: by number and by name.
//!
//! Three numbers in a row belong to a volume: the tree itself, its read-only copy and its backup. There are no copies here:
//! `NAME.readonly` and `NAME.backup`, and their numbers, lead to the same tree, of which nothing can be changed by
//! that way.

use std::collections::HashMap;
use std::rc::Rc;
use std::str::FromStr;

use identity::{Accounts, Principal};
use service::volumes::LaneVolumes;
use vfs::{Volume, VolumeName};

use crate::roots::{self, SyntheticVolumes};
pub use crate::served_volume::{ServedVolume, VolumeEntry, VolumeType};

/// A volume that the configuration attaches to AFS. Plain data that every lane makes its own of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Name of the volume.
    pub volume: VolumeName,
    /// The volume's name for AFS.
    pub name: AfsName,
    /// Type that clients see: [`VolumeType::ReadWrite`], or its read-only copy alone.
    pub kind: VolumeType,
}

/// The name of a volume for AFS: 1 to 22 bytes of those that [`VolumeName`] has. Stock tools keep 31, with `.readonly`
/// behind the name. What ends as the name of a copy is none, and neither is a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AfsName(String);

/// Reason why a text is no volume's name for AFS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is no name that AFS's tools know a volume by: 1 to 22 of A-Z a-z 0-9 . _ - $, no number, without .readonly or \
     .backup behind it"
)]
pub struct AfsNameError {
    name: String,
}

/// The volumes that one lane serves by AFS. Replaced whole at a reload; calls in progress keep what they began with.
#[derive(Debug, Default)]
pub struct AttachedVolumes {
    served: Vec<Rc<ServedVolume>>,
    left_out: Vec<(VolumeName, Box<str>)>,
    by_number: HashMap<u32, (usize, VolumeType)>,
    by_name: HashMap<Rc<str>, usize>,
    synthetic: SyntheticVolumes,
    /// Principal of unauthenticated clients, by the accounts of the server; `None` where there are none.
    anonymous: Option<Principal>,
}

/// A volume as a client asked for it.
#[derive(Clone, Debug)]
pub struct AttachedVolume {
    /// The tree.
    pub volume: Volume,
    /// Only [`VolumeType::ReadWrite`] can be changed.
    pub kind: VolumeType,
    /// The number that it was asked for by, or that its name has.
    pub id: u32,
    /// Entry that clients of all lanes get.
    pub served: Rc<ServedVolume>,
}

impl AttachedVolumes {
    /// Creates the volumes of these attachments, in their order.
    ///
    /// # Errors
    /// A volume that the lane has not open, or that has no number.
    pub fn new(attachments: &[Attachment], volumes: &LaneVolumes) -> Result<Self, String> {
        let found = attachments.iter().map(|attachment| {
            let volume = volumes.get(&attachment.volume).cloned();
            let volume = volume.ok_or_else(|| format!("the volume {} is not open", attachment.volume))?;
            Ok((attachment.clone(), volume))
        });
        Self::of(found.collect::<Result<Vec<_>, String>>()?)
    }

    /// Makes the table of these volumes, in this order, without those whose numbers do not last
    /// ([`AttachedVolumes::left_out`]).
    ///
    /// # Errors
    /// A volume that has no number.
    pub fn of(volumes: impl IntoIterator<Item = (Attachment, Volume)>) -> Result<Self, String> {
        let mut attached = Self::default();
        let mut systems = Vec::new();
        for (attachment, volume) in volumes {
            let shared =
                volume.shared().ok_or_else(|| format!("the volume {} has no number", volume.name()))?;
            if let Some(trouble) = shared.trouble() {
                attached.left_out.push((attachment.volume, trouble.into()));
                continue;
            }
            let (first, system) = (shared.id().0, shared.root().dev);
            let partition = systems.iter().position(|known| *known == system).unwrap_or_else(|| {
                systems.push(system);
                systems.len() - 1
            });
            // Tools know no more partitions: the rest is shown as one.
            let partition = u8::try_from(partition.min(PARTITIONS_MAX - 1)).expect("there are fewer");
            let (name, kind) = (Rc::<str>::from(attachment.name.as_str()), attachment.kind);
            attached.insert(ServedVolume { name, volume, kind, first, partition });
        }
        Ok(attached)
    }

    /// Adds the synthetic volumes. Their current state counts, also where it changes later.
    pub fn with_synthetic(self, synthetic: SyntheticVolumes) -> Self {
        Self { synthetic, ..self }
    }

    /// Sets the users and groups by which access lists are judged.
    pub fn with_accounts(self, accounts: &Accounts) -> Self {
        Self { anonymous: Some(accounts.anonymous()), ..self }
    }

    /// Returns the principal of unauthenticated clients: `system:anyuser`. It knows which names of a list are users and
    /// groups.
    pub(crate) fn anonymous(&self) -> Principal {
        self.anonymous.clone().unwrap_or_else(|| Accounts::none().anonymous())
    }

    /// Returns what is made up beside them.
    pub(crate) fn synthetic(&self) -> &SyntheticVolumes {
        &self.synthetic
    }

    fn insert(&mut self, served: ServedVolume) {
        let place = self.served.len();
        for kind in VolumeType::ALL {
            self.by_number.insert(served.first + kind.index(), (place, kind));
        }
        self.by_name.insert(Rc::clone(&served.name), place);
        self.served.push(Rc::new(served));
    }

    /// Returns the volume of this number.
    pub fn by_id(&self, id: u32) -> Option<AttachedVolume> {
        let (place, kind) = *self.by_number.get(&id)?;
        let volume = AttachedVolume::new(&self.served[place], kind);
        (kind != VolumeType::ReadWrite || volume.served.kind == kind).then_some(volume)
    }

    /// Returns what has this number, for questions to the location service. A tree of which clients see only a copy is
    /// found by its own number too, as tools have that from the volume's entry. The type is that of the number.
    pub fn located(&self, id: u32) -> Option<(VolumeEntry, VolumeType)> {
        if roots::has_number(id) {
            let known = self.synthetic.now().by_id(id)?.known();
            let kind = VolumeType::ALL.into_iter().find(|kind| known.first + kind.index() == id)?;
            return Some((known, kind));
        }
        let (place, kind) = *self.by_number.get(&id)?;
        Some((self.served[place].known(), kind))
    }

    /// Returns what has this name ([`by_name`](Self::by_name)).
    pub fn located_by_name(&self, name: &[u8]) -> Option<(VolumeEntry, VolumeType)> {
        let text = std::str::from_utf8(name).ok()?;
        if let Some(id) = number_of(text) {
            return self.located(id);
        }
        let (stem, kind) = VolumeType::of_name(text);
        match self.synthetic.now().by_name(stem) {
            Some(root) => Some((root.known(), kind)),
            None => self.by_name(name).map(|volume| (volume.served.known(), volume.kind)),
        }
    }

    /// Returns all volumes, in the order of the configuration, and what is made up beside them.
    pub fn known(&self) -> Vec<VolumeEntry> {
        let served = self.served.iter().map(|served| served.known());
        served.chain(self.synthetic.now().known()).collect()
    }

    /// Returns the volume of an entry, unless it is made up.
    pub fn served(&self, known: &VolumeEntry) -> Option<&Rc<ServedVolume>> {
        let (place, _) = self.by_number.get(&known.first)?;
        self.served.get(*place)
    }

    /// Returns the volume of this name: its own, with the suffix of a copy, or its number in digits. `root.afs` and
    /// `root.cell`, by which clients begin, are the first volume where none is called so; clients get that one's entry
    /// where none is made up ([`located_by_name`](Self::located_by_name)).
    pub fn by_name(&self, name: &[u8]) -> Option<AttachedVolume> {
        let name = std::str::from_utf8(name).ok()?;
        if let Some(id) = number_of(name) {
            return self.by_id(id);
        }
        let (stem, kind) = VolumeType::of_name(name);
        let first = || (!self.served.is_empty() && roots::NAMES.contains(&stem)).then_some(0);
        let served = &self.served[self.by_name.get(stem).copied().or_else(first)?];
        // Where clients see a copy alone, the name without a suffix is that copy's.
        let kind = if kind == VolumeType::ReadWrite { served.kind } else { kind };
        Some(AttachedVolume::new(served, kind))
    }

    /// Returns all volumes, in the order of the configuration.
    pub fn all(&self) -> &[Rc<ServedVolume>] {
        &self.served
    }

    /// Volumes that are not attached, and why: their files have numbers in memory alone, which after the next start name other
    /// files, while clients have kept what they fetched by them.
    pub fn left_out(&self) -> &[(VolumeName, Box<str>)] {
        &self.left_out
    }

    /// Returns the first volume of each file system that they lie on, by the partitions' numbers from 0 on.
    pub fn partitions(&self) -> Vec<&Rc<ServedVolume>> {
        let mut found: Vec<&Rc<ServedVolume>> = Vec::new();
        for served in &self.served {
            if usize::from(served.partition) == found.len() {
                found.push(served);
            }
        }
        found
    }
}

impl AttachedVolume {
    fn new(served: &Rc<ServedVolume>, kind: VolumeType) -> Self {
        let (volume, id) = (served.volume.clone(), served.first + kind.index());
        Self { volume, kind, id, served: Rc::clone(served) }
    }
}

impl AfsName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AfsName {
    type Err = AfsNameError;

    fn from_str(name: &str) -> Result<Self, AfsNameError> {
        let is_plain = VolumeType::of_name(name).1 == VolumeType::ReadWrite && number_of(name).is_none();
        if name.len() <= NAME_MAX && is_plain && name.parse::<VolumeName>().is_ok() {
            return Ok(Self(name.to_owned()));
        }
        Err(AfsNameError { name: name.to_owned() })
    }
}

impl std::fmt::Display for AfsName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parses a name that is a number; leading zeros are taken, as tools write them.
fn number_of(name: &str) -> Option<u32> {
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| name.parse().unwrap_or(u32::MAX))
}

/// Bytes of the longest name.
const NAME_MAX: usize = 22;
/// `/vicepa` to `/vicepiu`.
const PARTITIONS_MAX: usize = 255;

#[cfg(test)]
pub(crate) mod tests {
    use identity::Writable;
    use lane::backend::sim::{Config, World};
    use vfs::{Cache, CacheOptions, Objects, ObjectsOptions, VolumeOptions, VolumeSpec};

    use super::*;

    /// Volumes of a simulated lane, attached as these kinds.
    pub(crate) fn attached(volumes: &[(&str, VolumeType)]) -> AttachedVolumes {
        let cache = Cache::sharing(CacheOptions::default(), &Objects::in_memory(ObjectsOptions::default()));
        let open = |&(name, kind): &(&str, VolumeType)| {
            let volume: VolumeName = name.parse().unwrap();
            let spec = VolumeSpec::new(volume.clone(), format!("/{name}"), VolumeOptions::default());
            let opened = Volume::open(&cache, &spec.writable_by(Writable::anyone())).unwrap();
            (Attachment { volume, name: name.parse().unwrap(), kind }, opened)
        };
        AttachedVolumes::of(volumes.iter().map(open)).unwrap()
    }

    impl AttachedVolumes {
        /// Returns the volumes without one.
        pub(crate) fn without(&self, name: &str) -> Self {
            let left = self.served.iter().filter(|served| *served.name != *name);
            let volumes = left.map(|served| {
                let attachment = Attachment {
                    volume: served.volume.name().clone(),
                    name: served.name.parse().unwrap(),
                    kind: served.kind,
                };
                (attachment, served.volume.clone())
            });
            Self::of(volumes).unwrap()
        }
    }

    /// Runs `test` on a simulated lane that has these volumes' directories.
    pub(crate) fn with(
        volumes: &[(&'static str, VolumeType)],
        test: impl AsyncFnOnce(AttachedVolumes) + 'static,
    ) {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        volumes.iter().for_each(|(name, _)| host.fs().create_dir_all(&format!("/{name}")).unwrap());
        let volumes = volumes.to_vec();
        world.block_on(&host, async move { test(attached(&volumes)).await });
    }

    #[test]
    fn copies_lead_to_the_same_tree_by_name_and_by_number() {
        with(&[("files", VolumeType::ReadWrite), ("public", VolumeType::ReadWrite)], async |attached| {
            let files = attached.by_name(b"files").unwrap();
            assert_eq!((files.kind, attached.all()[0].id()), (VolumeType::ReadWrite, files.id));
            for kind in VolumeType::ALL {
                let name = format!("files{}", kind.suffix());
                let copy = attached.by_name(name.as_bytes()).unwrap();
                assert_eq!((copy.kind, copy.id), (kind, files.id + kind.index()));
                assert!(copy.volume.is_same(&files.volume));
                for found in [attached.by_id(copy.id), attached.by_name(copy.id.to_string().as_bytes())] {
                    let found = found.unwrap();
                    assert_eq!((found.kind, found.id), (kind, copy.id));
                }
            }
            let public = attached.by_name(b"public").unwrap();
            assert!(!public.volume.is_same(&files.volume) && public.id >= files.id + 3);
            for name in ["file", "files.", "files.readonly.readonly", ".readonly", "", "1", "99999999999"] {
                assert!(attached.by_name(name.as_bytes()).is_none(), "{name:?}");
            }
            assert!(attached.by_name(b"files\xff").is_none() && attached.by_id(0).is_none());
        });
    }

    #[test]
    fn of_a_volume_that_is_told_of_as_read_only_there_is_nothing_to_change() {
        with(&[("files", VolumeType::ReadOnly)], async |attached| {
            let served = &attached.all()[0];
            assert_eq!(served.id(), served.first + 1);
            assert!(attached.by_id(served.first).is_none());
            assert_eq!(attached.by_name(b"files").unwrap().kind, VolumeType::ReadOnly);
            assert_eq!(attached.by_name(b"files.backup").unwrap().kind, VolumeType::Backup);
        });
    }

    #[test]
    fn clients_begin_at_the_first_volume_unless_one_is_called_so() {
        let first = ("files", VolumeType::ReadWrite);
        with(&[first, ("music", VolumeType::ReadWrite)], async |attached| {
            for name in ["root.cell", "root.afs", "root.cell.readonly"] {
                assert_eq!(&*attached.by_name(name.as_bytes()).unwrap().served.name, "files");
            }
        });
        with(&[first, ("root.cell", VolumeType::ReadWrite)], async |attached| {
            assert_eq!(&*attached.by_name(b"root.cell").unwrap().served.name, "root.cell");
            assert_eq!(&*attached.by_name(b"root.afs").unwrap().served.name, "files");
        });
        with(&[], async |attached| assert!(attached.by_name(b"root.cell").is_none()));
    }

    #[test]
    fn a_volume_whose_numbers_do_not_last_is_left_out() {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        host.fs().create_dir_all("/files").unwrap();
        world.block_on(&host, async {
            let objects = Objects::without_index(ObjectsOptions::default(), "there is no room".to_owned());
            let cache = Cache::sharing(CacheOptions::default(), &objects);
            let name: VolumeName = "files".parse().unwrap();
            for writable in [Writable::anyone(), Writable::Nobody] {
                let spec = VolumeSpec::new(name.clone(), "/files", VolumeOptions::default());
                let volume = Volume::open(&cache, &spec.with_objects().writable_by(writable)).unwrap();
                let attachment = Attachment {
                    volume: name.clone(),
                    name: "files".parse().unwrap(),
                    kind: VolumeType::ReadWrite,
                };
                let attached = AttachedVolumes::of([(attachment, volume)]).unwrap();
                assert_eq!(attached.left_out(), [(name.clone(), "there is no room".into())]);
                assert!(attached.all().is_empty());
                assert!(attached.by_name(b"files").is_none() && attached.by_name(b"root.cell").is_none());
            }
        });
    }

    #[test]
    fn names_fit_stock_tools() {
        for name in ["root.cell", "a", "v-1_2$", &"v".repeat(22)] {
            assert_eq!(name.parse::<AfsName>().unwrap().as_str(), name);
        }
        for name in ["", ".a", "a b", "a.readonly", "a.backup", "536870912", &"v".repeat(23)] {
            assert!(name.parse::<AfsName>().is_err(), "{name}");
        }
    }
}
