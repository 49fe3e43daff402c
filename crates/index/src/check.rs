//! Check of the index's records against each other, and their repair.

use redb::{ReadTransaction, ReadableDatabase};

use crate::index::Index;
use crate::object::{ObjectEntry, check_lengths};
use crate::tables::{IDENTITIES, OBJECTS};
use crate::{Error, Known, Number, Place, VolumeId};

/// Defect of the index that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// No identity leads to the record, or the record cannot be read. Repaired by removing it.
    Stray {
        /// Vnode of the record.
        vnode: u32,
    },
    /// An identity leads to no record, or to another file's. Repaired by removing it.
    Dangling {
        /// Vnode that the identity leads to.
        vnode: u32,
    },
    /// A record has a number that was never reserved. Repaired by removing the record: the file gets another.
    Unreserved {
        /// Number of the record.
        number: Number,
    },
    /// The version or the record is of a generation that the volume has not reached. Repaired by removing the
    /// record: under its number the version may be given again.
    Ahead {
        /// Number of the record.
        number: Number,
        /// Later generation of the two.
        generation: u32,
    },
    /// The place of a file is a name in an unknown directory. Repaired by forgetting the place.
    NoParent {
        /// Number of the file.
        number: Number,
        /// Vnode of the directory.
        parent: u32,
    },
}

/// Result of [`Index::check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Number of records checked.
    pub objects: u64,
    /// List of the defects, at most [`Findings::MAX`].
    pub findings: Vec<Finding>,
    /// Number of all defects.
    pub count: u64,
}

impl Findings {
    /// Most defects that are listed.
    pub const MAX: usize = 1_000;

    fn add(&mut self, finding: Finding) {
        self.count += 1;
        if self.findings.len() < Self::MAX {
            self.findings.push(finding);
        }
    }
}

impl Index {
    /// Compares the volume's records with each other; `repair` corrects them. What the tree says is its
    /// caller's to compare ([`Index::objects`]). Nothing else may use the volume meanwhile. Waits for the
    /// disk.
    ///
    /// # Errors
    /// [`Error::NoVolume`], and what the storage says.
    pub fn check(&self, volume: VolumeId, repair: bool) -> Result<Findings, Error> {
        self.flush()?;
        let (reserved, generation) = (self.reserved(volume)?, self.generation(volume)?);
        let findings = self.shared().with_database(|database| {
            let read = database.begin_read()?;
            let mut look = VolumeWalk {
                volume: volume.0,
                reserved,
                generation,
                findings: Findings::default(),
                repairs: Vec::new(),
            };
            look.at_objects(&read)?;
            look.at_identities(&read)?;
            drop(read);
            if repair && !look.repairs.is_empty() {
                let write = database.begin_write()?;
                {
                    let mut objects = write.open_table(OBJECTS)?;
                    let mut identities = write.open_table(IDENTITIES)?;
                    for fix in &look.repairs {
                        match fix {
                            Repair::Object(vnode) => drop(objects.remove((volume.0, *vnode))?),
                            Repair::Identity(identity) => drop(identities.remove((volume.0, &**identity))?),
                            Repair::Rewrite(entry) => {
                                let key = (volume.0, entry.object.number.vnode);
                                objects.insert(key, &entry.encode()[..])?;
                            }
                        }
                    }
                }
                write.commit()?;
            }
            Ok(look.findings)
        })?;
        Ok(findings)
    }

    /// Sets the place of the file with this identity, if it has a record; all else in the record stays. May
    /// wait for the disk.
    ///
    /// # Errors
    /// [`Error::NoVolume`], [`Error::TooLong`]; what the storage says.
    pub fn set_place(&self, volume: VolumeId, identity: &[u8], place: Place) -> Result<(), Error> {
        check_lengths(identity, &place)?;
        if let Some(mut entry) = self.entry(volume, identity)? {
            entry.object.place = place;
            self.put_entry(volume, entry);
        }
        Ok(())
    }

    /// Returns up to `max` records with vnodes above `after`, in order, for comparison with the tree.
    /// Uncommitted records are left out, and unreadable ones ([`Finding::Stray`]). Waits for the disk.
    ///
    /// # Errors
    /// What the storage says.
    pub fn objects(&self, volume: VolumeId, after: u32, max: usize) -> Result<Vec<Known>, Error> {
        let Some(first) = after.checked_add(1) else { return Ok(Vec::new()) };
        self.shared().with_database(|database| {
            let read = database.begin_read()?;
            let objects = read.open_table(OBJECTS)?;
            let rows = objects.range((volume.0, first)..=(volume.0, u32::MAX))?;
            let readable = rows.filter_map(|row| {
                let known = row.map(|(key, record)| {
                    let entry = ObjectEntry::decode(key.value().1, record.value()).ok()?;
                    Some(Known { identity: entry.identity, object: entry.object })
                });
                known.transpose()
            });
            Ok(readable.take(max).collect::<Result<_, _>>()?)
        })
    }
}

/// Walk through a volume's records.
struct VolumeWalk {
    volume: u32,
    /// Counters of directories and of files below which numbers may have been given out.
    reserved: (u64, u64),
    /// Generation that the volume was last opened with.
    generation: u32,
    findings: Findings,
    repairs: Vec<Repair>,
}

enum Repair {
    Object(u32),
    Identity(Box<[u8]>),
    Rewrite(ObjectEntry),
}

impl VolumeWalk {
    fn at_objects(&mut self, read: &ReadTransaction) -> Result<(), Error> {
        let objects = read.open_table(OBJECTS)?;
        let identities = read.open_table(IDENTITIES)?;
        for row in objects.range((self.volume, 0)..=(self.volume, u32::MAX))? {
            let (key, record) = row?;
            let vnode = key.value().1;
            self.findings.objects += 1;
            let Ok(entry) = ObjectEntry::decode(vnode, record.value()) else {
                self.found(Finding::Stray { vnode }, [Repair::Object(vnode)]);
                continue;
            };
            let leads = identities.get((self.volume, &*entry.identity))?.map(|vnode| vnode.value());
            if leads != Some(vnode) {
                self.found(Finding::Stray { vnode }, [Repair::Object(vnode)]);
                continue;
            }
            let number = entry.object.number;
            if !self.is_reserved(number) {
                let repairs = [Repair::Object(vnode), Repair::Identity(entry.identity)];
                self.found(Finding::Unreserved { number }, repairs);
                continue;
            }
            let generation = entry.recorded.max(entry.object.version.generation);
            if generation > self.generation {
                let repairs = [Repair::Object(vnode), Repair::Identity(entry.identity)];
                self.found(Finding::Ahead { number, generation }, repairs);
                continue;
            }
            // Without a name it is a hint of where to look first, which may outlive the directory.
            let Place { parent, ref name } = entry.object.place;
            let needs_parent = parent != 0 && parent != Number::ROOT.vnode && !name.is_empty();
            if needs_parent && objects.get((self.volume, parent))?.is_none() {
                let mut homeless = entry;
                homeless.object.place = Place::default();
                self.found(Finding::NoParent { number, parent }, [Repair::Rewrite(homeless)]);
            }
        }
        Ok(())
    }

    fn at_identities(&mut self, read: &ReadTransaction) -> Result<(), Error> {
        let objects = read.open_table(OBJECTS)?;
        let identities = read.open_table(IDENTITIES)?;
        for row in identities.range((self.volume, &[][..])..)? {
            let (key, vnode) = row?;
            let ((volume, identity), vnode) = (key.value(), vnode.value());
            if volume != self.volume {
                break;
            }
            let record = objects.get((self.volume, vnode))?;
            let entry = record.and_then(|record| ObjectEntry::decode(vnode, record.value()).ok());
            let agrees = entry.is_some_and(|entry| &*entry.identity == identity);
            if !agrees {
                self.found(Finding::Dangling { vnode }, [Repair::Identity(identity.into())]);
            }
        }
        Ok(())
    }

    fn is_reserved(&self, number: Number) -> bool {
        let end = match number.kind() {
            crate::Kind::Root => return true,
            crate::Kind::Directory => self.reserved.0,
            crate::Kind::File => self.reserved.1,
        };
        number.counter().is_some_and(|counter| counter < end)
    }

    fn found(&mut self, finding: Finding, repairs: impl IntoIterator<Item = Repair>) {
        self.findings.add(finding);
        self.repairs.extend(repairs);
    }
}
